"""Strategies for cube noise."""
