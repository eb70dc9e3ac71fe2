"""From people to published numbers: exact noise, intervals, tables, manifest and ledger."""
