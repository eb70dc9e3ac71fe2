r"""Both bounds on gamma_(p) where neighbours differ by e_i - e_j: a cell loses what another gains.

Upper bound. R counts by the largest distance of two columns, and A on vectors that sum to zero
only: as differences of its columns to the last one, so that nothing which they have in common is
rounded. L and E of `cells` are made of these and of the first n - 1 rows of B. Where i and j are
of one group of cells, all of this is said of each group, and no weight is between groups.

Lower bound. Every pair has a weight, and their graph Laplacian takes the place of diag(w).

With F F^T = W = sum_{i<j} w_ij (e_i - e_j)(e_i - e_j)^T, the graph Laplacian of the weights,

    gamma_(p)(A) >= nuclear_norm( diag(u)^(1/2) A F ).

F comes from Gaussian elimination, a cell at a time: with d = sum_j w_1j its first column is
d^(1/2) e_1 - sum_j w_1j d^(-1/2) e_j, and what is left is the Laplacian of the weights
w_ij + w_1i w_1j / d. Nothing is ever subtracted:

* The weights that are left are off by at most (n + 4) eps, each relative to itself, and so is their
  Laplacian in the order of Loewner. After n cells W lies between two multiples of F F^T, n (n + 4)
  eps apart; roots of matrices, hence nuclear norms, keep that order.
* Entries of F, columns a_j of A and the products of both are off by relative amounts: A F by at
  most 4 (m + n) eps sum_j norm(a_j) norm(f_j), with the rows f_j of F, norm(f_j)^2 = W_jj. That
  does not shrink where nearly equal columns make A F small; each singular value is lowered by it.
  Columns count both relative to the first one, where they are rounded, and to their mean.

Beside known answers that neighbours do not have in common: with P the projection onto what the
known answers leave open, and N an orthonormal basis of its range, any L with L R N = A N serves:
answers may use the known ones. For weights of pairs, sum 1, with the Laplacian W, tr(R W R^T) <= 1
for every R of sensitivity 1. Where N S N^T <= W,

    norm(diag(u)^(1/2) L)_F >= norm(diag(u)^(1/2) L)_F norm(R N S^(1/2))_F
                            >= nuclear_norm(diag(u)^(1/2) A N S^(1/2)).

The largest such S is the Schur complement (N^T W^+ N)^(-1). W gets a little of equal weights for
all pairs, so that it is definite on vectors that sum to zero, and S is lowered until the
eigenvalues of W - N S N^T are at least 0 with their rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from pmldesign_solvers.certificate.factors import factor_sizes
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import diameter, members_of
from pmldesign_solvers.operators.norms import dual_norm, power_mean
from pmldesign_solvers.operators.operator import EPS, TINY, Array, Indices, Operator

EVEN = 3e-7
"""Part of the weights that is the same for all pairs."""
LOWERED = (3e-8, 1e-6, 3e-5, 1e-3)
"""Parts by which S is lowered, one after the other."""


def lower_bound_of_pairs(matrix: Array, u: Array, w: Array) -> float:
    """Nuclear norm of diag(u)^(1/2) A times a root of the Laplacian W."""
    weighted = np.flatnonzero(w.any(axis=1))  # of cells that are alike only one may be
    if len(weighted) == 0:
        return 0.0
    matrix, w = matrix[:, weighted], w[np.ix_(weighted, weighted)]
    m, n = matrix.shape
    # differences first: what all columns have in common is not to be rounded
    scaled = np.sqrt(u)[:, None] * (matrix - matrix[:, :1])
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(scaled, axis=0) + np.linalg.norm(centred, axis=0)
    if m > n:
        centred = np.linalg.qr(centred, mode="r")
    weights = w / (w.sum() / 2)
    values = np.linalg.svd(centred @ laplacian_root(weights), compute_uv=False)
    rounding = 4 * (m + n) * EPS * float(sizes @ np.sqrt(weights.sum(axis=1)))
    lowered = np.maximum(values - rounding, 0.0)
    return float(lowered.sum() * (1.0 - (m + (n + 3) ** 2) * EPS))


def laplacian_root(weights: Array) -> Array:
    """F, shape (n, n - 1), with F F^T the Laplacian of symmetric weights."""
    left = weights.copy()
    root = np.zeros((len(left), len(left) - 1))
    for cell in range(len(left) - 1):
        below = left[cell + 1 :, cell]
        degree = float(below.sum())
        if degree > 0.0:
            root[cell, cell] = np.sqrt(degree)
            root[cell + 1 :, cell] = below / -root[cell, cell]
            left[cell + 1 :, cell + 1 :] += below[:, None] * (below / degree)
    return root


def upper_bound_of_pairs(
    operator: Operator,
    strategy: Array,
    right_inverse: Array,
    p: float,
    groups: Indices | None = None,
) -> float:
    """Certified upper bound from any factorization, as `cells.upper_bound` has it."""
    m, n = operator.shape
    members = [np.arange(n)] if groups is None else members_of(groups)
    sensitivity = max(diameter(strategy[:, cells]) for cells in members) + float(np.sqrt(TINY))
    if groups is None:
        relative, kept = operator.relative(idle=False)
    else:
        relative, kept = DenseOperator(_relative(operator.to_dense(), members)), np.arange(m)
    inverse = right_inverse[np.concatenate([cells[:-1] for cells in members])]
    value, rest = factor_sizes(relative, _relative(strategy, members), inverse, p)
    if len(kept) < m:
        moves = np.vstack([np.eye(n - 1), -np.ones(n - 1)])
        left_out = np.delete(operator.row_norms(moves), kept)
        rest += float(np.sqrt(power_mean(left_out + TINY, p / 2)))
    # measuring every cell but one of each group has the sensitivity sqrt 2
    return float((value * sensitivity + rest * np.sqrt(2.0)) * (1.0 + (m + n) * EPS))


def _relative(matrix: Array, members: Sequence[Indices]) -> Array:
    """Columns less the last one of their group, which is left out."""
    return np.hstack([matrix[:, cells[:-1]] - matrix[:, cells[-1:]] for cells in members])


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
