"""Eigendecompositions of matrices with structure, at a part of the cost."""
