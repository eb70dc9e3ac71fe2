r"""Lower bound for tables over single attributes under replace, from weights of pairs of values.

Pairs of cells differ in every attribute, in each one by its own weights of pairs and in either
direction alike. With W_i their Laplacian for attribute i, weights of sum 1, blocks between two
attributes vanish, and at p = 2

    gamma >= sum_i c_i (sum of the singular values of A_i W_i^(1/2));

at p > 2 of U_i^(1/2) A_i W_i^(1/2), over norm(u)_q^(1/2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.verify.queries import Queries, Table


def is_separate(queries: Queries) -> bool:
    """Whether each table is about one attribute, another one for each."""
    used = _used(queries)
    return all(len(table.factors) <= 1 for table in queries.tables) and len(set(used)) == len(used)


def _used(queries: Queries) -> list[int]:
    """The attribute of each table that has more than one value."""
    return [i for table in queries.tables for i in table.factors if queries.sizes[i] > 1]


def of_queries(queries: Queries, u: Any, q: float) -> tuple[Queries, float] | None:
    """Tables with weights of their single queries, and norm(u)_q."""
    members = [list(table.factors.items()) for table in queries.tables]
    matrices = [
        table.factor(part[0][0], queries.sizes[part[0][0]]) if part else np.ones((1, 1))
        for table, part in zip(queries.tables, members, strict=True)
    ]
    ends = np.cumsum([len(A) for A in matrices])
    if u.shape != (ends[-1],) or u.min() < 0:
        return None
    weighed = [
        np.sqrt(part)[:, None] * A for part, A in zip(np.split(u, ends[:-1]), matrices, strict=True)
    ]
    tables = [
        Table(table.weight, {part[0][0]: A} if part else {})
        for table, part, A in zip(queries.tables, members, weighed, strict=True)
    ]
    return replace(queries, tables=tables), float((u**q).sum()) ** (1 / q)


def separate_bound(queries: Queries, weights: Any) -> float | None:
    """The bound of weights of pairs, n x n for each attribute; None where there are no such."""
    members = [list(table.factors.items()) for table in queries.tables]
    counts = [queries.sizes[i] ** 2 for i in _used(queries)]
    if weights.size != sum(counts):
        return None
    parts = iter(np.split(weights.ravel(), np.cumsum(counts)[:-1]))
    total = 0.0
    for table, part in zip(queries.tables, members, strict=True):
        if not part or queries.sizes[part[0][0]] == 1:
            continue
        n = queries.sizes[part[0][0]]
        W = next(parts).reshape(n, n)
        if W.min() < 0 or not np.array_equal(W, W.T) or W.sum() <= 0:
            return None
        W = W / (W.sum() / 2)
        values, vectors = np.linalg.eigh(np.diag(W.sum(axis=1)) - W)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        image = table.factor(part[0][0], n) @ root
        total += table.weight * float(np.linalg.svd(image, compute_uv=False).sum())
    return total
