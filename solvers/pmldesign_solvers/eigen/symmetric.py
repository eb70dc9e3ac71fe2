"""The eigendecomposition of diag(r) K diag(r), by what structure the Gram matrix K has."""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.eigen import tridiagonal_inverse
from pmldesign_solvers.operators.operator import Array

STRUCTURED_CELLS = 128
"""From so many cells on it pays to look for structure (chosen; prefix:512 at p = 2 takes 0.09 s
instead of 0.14 s by it, prefix:64 the same with and without)."""


def decompose(gram: Array, root: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, shape (n,), and eigenvectors, shape (n, n), of diag(r) K diag(r).

    By the inverse where that is tridiagonal.
    """
    result = None
    if len(root) >= STRUCTURED_CELLS:
        result = tridiagonal_inverse.decompose(gram, root)
    return np.linalg.eigh(root[:, None] * gram * root) if result is None else result
