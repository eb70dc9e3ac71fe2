"""Counts of places that nest, by sweeps up and down a tree."""
