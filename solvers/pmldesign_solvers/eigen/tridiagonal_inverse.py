"""Gram matrices with a tridiagonal inverse: the eigendecomposition at a quarter of the cost.

The Gram matrix K of running sums, also discounted ones, is that of a Markov chain: K_ij = f_i g_j
for i <= j, or K_ij K_jj = K_i,j-1 K_j-1,j. Regression of every cell on the next one,

    b_j = K_j,j+1 / K_j+1,j+1,      v_j = K_jj - b_j K_j,j+1,      b_n = 0,

gives K^-1 = C^T diag(1/v) C, where C has 1 on its diagonal and -b_j next to it: tridiagonal. So is
the inverse of diag(s) K diag(s), whose eigenvectors LAPACK finds without reducing it first.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import Array

SAME = 1e-11
"""Relative difference of products that are equal but for rounding."""


def decompose(gram: Array, scale: Array) -> tuple[Array, Array] | None:
    """Eigenvalues, ascending, and eigenvectors of diag(scale) K diag(scale).

    Args:
        gram: K, symmetric and positive semidefinite, shape (n, n), n >= 2.
        scale: positive, shape (n,).

    Returns:
        None unless K has an inverse that is tridiagonal, to working precision.
    """
    if not (_is_markov(gram[:1], gram) and _is_markov(gram, gram)):
        return None
    diagonal, next_to_it = gram.diagonal(), gram.diagonal(1)
    regression = next_to_it / diagonal[1:]
    variances = diagonal.copy()
    variances[:-1] -= regression * next_to_it
    if not (variances > SAME * diagonal).all():
        return None
    inverse = 1.0 / variances
    inverse[1:] += regression**2 / variances[:-1]
    from scipy.linalg import eigh_tridiagonal

    beside = -regression / variances[:-1] / (scale[:-1] * scale[1:])
    values, vectors = eigh_tridiagonal(inverse / scale**2, beside)
    if not values[0] > 0.0:
        return None
    return np.asarray(1.0 / values[::-1]), np.asarray(vectors[:, ::-1])


def _is_markov(rows: Array, gram: Array) -> bool:
    """Whether K_ij K_j-1,j-1 = K_i,j-1 K_j-1,j in the first rows i <= j - 1."""
    left = np.triu(rows[:, 1:] * gram.diagonal()[:-1])
    right = np.triu(rows[:, :-1] * gram.diagonal(1))
    return bool((np.abs(left - right) <= SAME * np.abs(left)).all())
