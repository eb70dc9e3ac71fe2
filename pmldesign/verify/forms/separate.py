r"""Lower bound for tables over single attributes under replace, from weights of pairs of values.

Pairs of cells differ in every attribute, in each one by its own weights of pairs and in either
direction alike. With W_i their Laplacian for attribute i, weights of sum 1, blocks between two
attributes vanish, and at p = 2

    gamma >= sum_i c_i (sum of the singular values of A_i W_i^(1/2)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.verify.queries import Queries


def separate_bound(queries: Queries, weights: Any) -> float | None:
    """The bound of weights of pairs, n x n for each attribute; None where there are no such."""
    members = [list(table.factors.items()) for table in queries.tables]
    used = [part[0][0] for part in members if part and queries.sizes[part[0][0]] > 1]
    counts = [queries.sizes[i] ** 2 for i in used]
    if max(map(len, members)) > 1 or len(set(used)) < len(used) or weights.size != sum(counts):
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
