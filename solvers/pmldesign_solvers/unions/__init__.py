"""Factorization norms of what is too large for one matrix: unions of products, blocks of cells."""
