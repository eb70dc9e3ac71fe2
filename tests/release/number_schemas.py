"""Schemas with numbers of people."""

from pmldesign.releases import as_schema

KEYS = {"name": "sex", "keys": ["F", "M"]}
PLAIN = {"name": "income", "low": 0, "high": 3, "unit": 1}
WIDE = {"name": "income", "low": 0, "high": 1000, "unit": 1}


def schema_of(*attributes, **more):
    return as_schema({"attributes": list(attributes), **more})
