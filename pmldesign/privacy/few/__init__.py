"""Leakage of strategies with few different columns, closer than in general."""
