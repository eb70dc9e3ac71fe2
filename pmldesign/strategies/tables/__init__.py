"""Strategies that measure tables: coordinates of crossed attributes, and weighted tables."""
