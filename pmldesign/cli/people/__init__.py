"""Commands around a release from people: plans, schemas, and what comes afterwards."""
