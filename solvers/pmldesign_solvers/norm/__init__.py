"""Factorization norms: dual problems, the methods that solve them, and the loop around them."""
