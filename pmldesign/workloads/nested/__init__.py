"""Hierarchical counts of places, and the table of their hierarchy."""
