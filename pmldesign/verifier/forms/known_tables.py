r"""A matrix given several public tables: the vectors they leave open, and a lower bound on these.

A vector is left open if its sums by the attributes of every table are 0. The products of e_v - e_0
over attributes that no table counts together, and e_0 over the others, span these vectors.

Weights of pairs, sum 1, have a Laplacian W with tr(R W R^T) <= 1 if neighbours are at most 1 apart.
With N an orthonormal basis of the vectors left open and N S N^T <= W,

    lower bound    nuclear_norm(diag(u)^(1/2) A N S^(1/2)) / norm(u)_q^(1/2).

S is the Schur complement of W, here with 2^-23 of equal weights added, multiplied by a factor
slightly below 1, so that the difference has no negative eigenvalue.
"""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier import rounding
from pmldesign.verifier.balls import dual_norm, root

EVEN, LOWERED = 2.0**-23, (2.0**-34, 2.0**-26, 2.0**-20, 2.0**-15, 2.0**-10)


def left_open(counted: Any, sizes: Any) -> Any:
    """N, shape (n, k), for the attributes of each table, a row of 0 and 1 for each."""
    tables = [set(np.flatnonzero(row).tolist()) for row in np.atleast_2d(counted)]
    wide = [i for i, size in enumerate(sizes) if size > 1]
    sets = chain.from_iterable(combinations(wide, k) for k in range(len(wide) + 1))
    blocks = []
    for T in sets:
        if any(table.issuperset(T) for table in tables):
            continue
        columns: Any = np.ones((1, 1))
        for i, size in enumerate(sizes):
            unit = np.eye(size)
            columns = np.kron(columns, unit[:, 1:] - unit[:, :1] if i in T else unit[:, :1])
        blocks.append(columns)
    if not blocks:
        return np.zeros((math.prod(sizes), 0))
    return np.linalg.qr(np.hstack(blocks))[0]


def shared_sets(counted: Any) -> list[set[int]]:
    """The attributes that tables have in common, larger sets first, but those that count 0 times.

    A set counts 1 less how often larger ones over it count.
    """
    tables = [frozenset(np.flatnonzero(row).tolist()) for row in np.atleast_2d(counted)]
    every = {
        frozenset.intersection(*some)
        for k in range(1, len(tables) + 1)
        for some in combinations(tables, k)
    }
    times: dict[frozenset[int], int] = {}
    for members in sorted(every, key=lambda members: (-len(members), sorted(members))):
        times[members] = 1 - sum(c for other, c in times.items() if other > members)
    return [set(members) for members, c in times.items() if c]


def lower_bound(queries: Any, left: Any, u: Any, w: Any, p: float) -> Any:
    """The bound by dual weights for queries on the vectors left open, (m, k); 0 without one."""
    n = len(left)
    w = (1 - EVEN) * w / (w.sum() / 2) + EVEN * (1 - np.eye(n)) / (n * (n - 1) / 2)
    laplacian = np.diag(w.sum(axis=1)) - w
    solved = scipy.linalg.solve(laplacian + 1 / n, left, assume_a="pos")
    inner = np.linalg.inv(left.T @ solved)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    below = (left @ half) @ (left @ half).T
    off = 16 * n * rounding.UNIT * float(np.trace(laplacian))
    tried = (
        c for c in LOWERED if np.linalg.eigvalsh(laplacian + 1 / n - (1 - c) * below)[0] >= off
    )
    kept = 1 - next(tried, 1.0)
    rows = math.sqrt(kept) * np.sqrt(u)[:, None] * (queries @ half)
    singular = np.linalg.svd(rows, compute_uv=False)
    singular = singular - 4 * sum(rows.shape) * rounding.UNIT * np.linalg.norm(rows)
    return arb(float(np.maximum(singular, 0.0).sum())) / root(dual_norm(u.tolist(), p))
