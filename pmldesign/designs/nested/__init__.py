"""Designs for counts and tables of regions that nest."""
