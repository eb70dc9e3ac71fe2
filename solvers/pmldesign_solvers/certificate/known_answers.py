r"""A lower bound on the norm of queries beside known answers that neighbours do not have in common.

With P the projection onto what the known answers leave open, and N an orthonormal basis of its
range, any L with L R N = A N serves: answers may use the known ones. For weights of pairs, sum 1,
with the Laplacian W, tr(R W R^T) <= 1 for every R of sensitivity 1. Where N S N^T <= W,

    norm(diag(u)^(1/2) L)_F >= norm(diag(u)^(1/2) L)_F norm(R N S^(1/2))_F
                            >= nuclear_norm(diag(u)^(1/2) A N S^(1/2)).

The largest such S is the Schur complement (N^T W^+ N)^(-1). W gets a little of equal weights for
all pairs, so that it is definite on vectors that sum to zero, and S is lowered until the
eigenvalues of W - N S N^T are at least 0 with their rounding.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign_solvers.operators.norms import dual_norm
from pmldesign_solvers.operators.operator import EPS, Array

EVEN = 3e-7
"""Part of the weights that is the same for all pairs."""
LOWERED = (3e-8, 1e-6, 3e-5, 1e-3)
"""Parts by which S is lowered, one after the other."""


def lower_bound(matrix: Array, basis: Array, u: Array, w: Array, p: float) -> float:
    """Certified lower bound from any dual weights; 0 where rounding leaves none.

    Args:
        matrix: A, shape (m, n).
        basis: N, shape (n, k), of vectors that sum to zero.
        u: shape (m,), non-negative, not all zero.
        w: symmetric, non-negative, not all zero, zeros on the diagonal; shape (n, n).
        p: in [2, inf].
    """
    n, k = basis.shape
    pairs = n * (n - 1) / 2
    weights = (1 - EVEN) * w / (w.sum() / 2) + EVEN / pairs * (1 - np.eye(n))
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.inv(laplacian + np.ones((n, n)) / n)
    schur = np.linalg.inv(basis.T @ inverse @ basis)
    root = scipy.linalg.cholesky((schur + schur.T) / 2, lower=True)
    half = basis @ root
    rounding = 8 * (n + k) * EPS * float(np.trace(laplacian))
    for lowered in LOWERED:
        left = laplacian - (1 - lowered) * half @ half.T + np.ones((n, n)) / n
        if np.linalg.eigvalsh(left)[0] >= rounding:
            break
    else:
        return 0.0
    rows = np.sqrt(u / dual_norm(u, p))[:, None] * (matrix @ half)
    values = np.linalg.svd(rows, compute_uv=False)
    off = (len(rows) + n + k) * EPS * float(np.linalg.norm(rows))
    nuclear = float(np.maximum(values - off, 0.0).sum())
    return float(nuclear * math.sqrt(1 - lowered) * (1 - (len(rows) + n + 8) * EPS))
