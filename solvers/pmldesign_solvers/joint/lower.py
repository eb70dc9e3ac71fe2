r"""Lower bounds for tables from products of weights of the values of attributes.

For weights w = (x)_i w_i of the cells, sum 1, and u of the queries the norm is at least the nuclear
norm of U^(1/2) A W^(1/2) over norm(u)_q^(1/2), q = p/(p - 2). With an orthogonal matrix whose first
column is w_i^(1/2) for each attribute, table T sees the products of these on its own attributes
alone, B_T = U^(1/2) A_T (x) W_i^(1/2) (w_i^(1/2), Q_i): coordinates as those of `spaces`. The
nuclear norm is that of all B_T one below the other, exactly, from A W A^T or from the coordinates,
whichever is smaller. Where both are large, B_T becomes N_T = (B_T^T B_T)^(1/2), which turns its
rows, and is cut by orthogonal projectors on both sides into what T shares with other tables and
what is its own, which loses little:

    gamma >= tr (sum_T J_T^T (N_T)_cc^2 J_T)^(1/2) + sum_T tr (N_T)_ll.

Where records are replaced, pairs of cells with the weights w w^T have a Laplacian that leaves the
total out, W^(1/2) (1 - r r^T) W^(1/2), r = w^(1/2). With equal cells not counted the bound is
(2/m)^(1/2) times the same without the coordinate of the empty set, m = 1 - prod_i sum w_i^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from pmldesign_solvers.joint.spaces import Spaces, frame
from pmldesign_solvers.operators.norms import dual_norm
from pmldesign_solvers.operators.operator import EPS, Array

MOST_ROWS = 2500
"""Of a matrix that is decomposed, a few seconds."""


def lower_bound(
    spaces: Spaces, asked: Sequence[Array], cells: Sequence[Array], u: Array, p: float
) -> float:
    """The certified bound of these weights, for replaced records where `spaces` has no total.

    Args:
        spaces: the tables.
        asked: the queries of each, shape (m_T, n_T).
        cells: w_i > 0 of each attribute, sum 1.
        u: of the queries, positive.
        p: in [2, inf].
    """
    roots = [np.sqrt(w) / math.sqrt(float(w.sum())) for w in cells]
    bases = spaces.bases([r[:, None] * frame(r) for r in roots])
    parts = np.split(np.sqrt(u), np.cumsum([len(A) for A in asked])[:-1])
    blocks = [scale[:, None] * (A @ V) for scale, A, V in zip(parts, asked, bases, strict=True)]
    own = sum(B.shape[1] - len(places) for B, places in zip(blocks, spaces.places, strict=True))
    small = min(sum(map(len, blocks)), spaces.shared + own) <= MOST_ROWS
    value = _whole(spaces, blocks) if small else _in_parts(spaces, blocks)
    norm = 1.0 if p == 2 else math.sqrt(dual_norm(u, p))
    rounding = 1 - 1e-12 - (len(u) + 40) * EPS
    return value / norm * rounding * _of_pairs(spaces, roots)


def _of_pairs(spaces: Spaces, roots: Sequence[Array]) -> float:
    """(2/m)^(1/2) where the total is left out, 1 elsewhere."""
    if spaces.has_total:
        return 1.0
    used = set().union(*spaces.tables)
    equal = math.prod(float((roots[i] ** 4).sum()) for i in used)
    return math.sqrt(2 / (1 - equal * (1 - 1e-12))) if equal < 1 else 0.0


def _whole(spaces: Spaces, blocks: Sequence[Array]) -> float:
    """The nuclear norm of all blocks."""
    first, stacked = spaces.shared, []
    for B, places in zip(blocks, spaces.places, strict=True):
        own = B.shape[1] - len(places)
        columns = np.concatenate([places, first + np.arange(own)])
        rows = np.repeat(np.arange(len(B)), len(columns))
        entries = B.ravel(), (rows, np.tile(columns, len(B)))
        stacked.append((entries, len(B)))
        first += own
    matrix = scipy.sparse.vstack(
        [scipy.sparse.csr_array(entries, shape=(count, first)) for entries, count in stacked]
    ).tocsr()
    smaller = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    return _trace_of_root((smaller @ smaller.T).toarray())


def _in_parts(spaces: Spaces, blocks: Sequence[Array]) -> float:
    """The sum of the nuclear norms of what tables share and of what is their own."""
    core, total = np.zeros((spaces.shared, spaces.shared)), 0.0
    for B, places in zip(blocks, spaces.places, strict=True):
        _, values, vectors = np.linalg.svd(B, full_matrices=False)
        N, c = (vectors.T * values) @ vectors, len(places)
        core[np.ix_(places, places)] += N[:c, :c] @ N[:c, :c]
        total += float(np.trace(N[c:, c:])) - 32 * len(N) ** 1.5 * EPS * float(values[0])
    return total + _trace_of_root(core)


def _trace_of_root(matrix: Array) -> float:
    """Tr K^(1/2), rounded down."""
    if not matrix.size:
        return 0.0
    values = np.linalg.eigvalsh(matrix)
    off = 8 * len(matrix) * EPS * float(values[-1])
    return math.fsum(np.sqrt(np.maximum(values - off, 0.0)))
