"""Strategies that measure regions that nest: counts, and tables of other attributes."""
