"""Strategies: what a matrix mechanism measures, and the baselines that designs are compared to."""
