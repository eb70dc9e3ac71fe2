r"""Lower bounds on gamma_(p) for pairs of very many cells, from weights of cells and of queries.

Pairs weigh w_i w_j, w of sum 1 (`certificate.pairs`). With c = (1 - sum_i w_i^2) / 2 and

    M = diag(u)^(1/2) (A - A w 1^T) diag(w)^(1/2),      gamma_(p)(A) >= nuclear_norm(M) / c^(1/2),

as (1 - w 1^T) diag(w) (1 - 1 w^T) = diag(w) - w w^T, the Laplacian of the pairs times c. Of a Gram
matrix of M of few rows the eigenvalues are computed. Of more, with its trace T and the sum S of the
squares of its entries, by Hoelder's inequality for singular values

    nuclear_norm(M) >= T^(3/2) / S^(1/2),

which is exact where all singular values are equal; and nuclear_norm(M) >= T^(1/2).

Rounding. With T_0 = tr diag(u) A diag(w) A^T, or the same of columns less the first one, T and
every eigenvalue are off by 4 (m + n + 16) eps T_0 at most, and S by as much of T_0^2, eight times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from pmldesign_solvers.certificate.pairs import share_of_pairs
from pmldesign_solvers.operators.operator import EPS, Array, dual_norm, sum_of_roots

FEW_ROWS = 2048
"""A Gram matrix of so many has its eigenvalues in 2 s."""


def lower_bound_of_cells(
    queries: Any, u: Array, w: Array, p: float, *, gram: bool = False
) -> float:
    """Certified lower bound where neighbours differ in two cells; 0 if all weight is on one cell.

    Args:
        queries: A, shape (m, n), dense or sparse in rows; or A^T diag(u) A, shape (n, n).
        u: weights of the queries, shape (m,), non-negative, not all zero.
        w: weights of the cells, shape (n,), non-negative, not all zero.
        p: in [2, inf].
        gram: whether the Gram matrix is given.
    """
    w = w / w.sum()
    pairs = share_of_pairs(w)
    if pairs <= 0:
        return 0.0
    rounding = 4 * (u.size + w.size + 16) * EPS
    if gram:
        nuclear = _of_gram(*_centred_gram(queries, w), rounding)
    elif isinstance(queries, np.ndarray):
        nuclear = _of_gram(*_dense_gram(queries, u, w), rounding)
    else:
        nuclear = _by_moments(*_sparse_moments(queries, u, w), rounding)
    return nuclear * math.sqrt(2 / (pairs * dual_norm(u, p))) * (1 - rounding)


def _dense_gram(matrix: Array, u: Array, w: Array) -> tuple[Array, float]:
    """The smaller Gram matrix of M, and T_0."""
    relative = matrix - matrix[:, :1]  # so that nothing which all columns share is rounded
    size = float(u @ np.einsum("ij,ij,j->i", relative, relative, w))
    relative -= (relative @ w)[:, None]
    relative *= np.sqrt(u)[:, None]
    relative *= np.sqrt(w)
    few = len(relative) <= relative.shape[1]
    return (relative @ relative.T if few else relative.T @ relative), size


def _centred_gram(gram: Array, w: Array) -> tuple[Array, float]:
    """M^T M, and T_0, from A^T diag(u) A."""
    root, size = np.sqrt(w), float(gram.diagonal() @ w)
    image = gram @ w
    centred = gram - image - image[:, None] + float(image @ w)
    return root[:, None] * centred * root, size


def _of_gram(gram: Array, size: float, rounding: float) -> float:
    """At most the nuclear norm of M."""
    if len(gram) <= FEW_ROWS:
        return sum_of_roots(np.asarray(scipy.linalg.eigvalsh(gram)), size, rounding)
    return _by_moments(float(np.trace(gram)), float(np.vdot(gram, gram)), size, rounding)


def _sparse_moments(matrix: Any, u: Array, w: Array) -> tuple[float, float, float]:
    """T, S and T_0 from products of sparse matrices."""
    root = np.sqrt(w)
    half = matrix.multiply(np.sqrt(u)[:, None]).multiply(root).tocsr()
    image = half @ root
    taken, size = float(image @ image), float(half.data @ half.data)
    by_rows, by_columns = np.diff(half.indptr), np.bincount(half.indices)
    wide = float(by_rows @ by_rows.astype(float)) > float(by_columns @ by_columns.astype(float))
    gram = half @ half.T if wide else half.T @ half
    back = half.T @ image
    square = float(gram.data @ gram.data) - 2 * float(back @ back) + taken**2
    return size - taken, square, size


def _by_moments(trace: float, square: float, size: float, rounding: float) -> float:
    """The larger of T^(3/2) / S^(1/2) and T^(1/2), T lowered and S raised by their rounding."""
    lowered = max(trace - rounding * size, 0.0)
    raised = max(square, 0.0) + 8 * rounding * size**2
    if lowered == 0:
        return 0.0
    return math.sqrt(lowered) * max(1.0, lowered / math.sqrt(raised))
