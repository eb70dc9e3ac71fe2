"""Streams of vectors in floating point, for training.

correlated  the noise alone: rows of C^-1 z
vectors     running sums of vectors with it
"""
