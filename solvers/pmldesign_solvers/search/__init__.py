"""Descents on strategies whose error is not convex: Laplace noise, and PML."""
