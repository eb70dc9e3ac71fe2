"""Designs for cube noise."""
