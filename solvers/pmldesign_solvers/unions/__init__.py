"""Factorization norms of unions of products, too large for one matrix."""
