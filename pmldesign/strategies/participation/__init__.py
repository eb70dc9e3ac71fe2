"""Strategies for data in which one person may take part in several steps."""
