"""Counts of places that nest, and the table that says how."""
