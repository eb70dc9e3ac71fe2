r"""Lower bounds for tables under replace, from products of weights of pairs.

Pairs of cells have the weights rho = (x)_i rho_i >= 0, rho_i = W^(1/2) C_i W^(1/2), C_i r = r,
r = w^(1/2), so that each cell has the weight w in sum. Pairs of equal cells are left out of the sum
m = 1 - prod tr rho_i, and

    gamma >= (2/m)^(1/2) norm(A W^(1/2) (1 - (x) C_i)^(1/2))_*.

A plain attribute has C = -theta/(n - 1) on vectors orthogonal to r, an ordered one -lambda on y,
which is constant times r on either of two halves of its cells, and 0 beyond. In frames that begin
with r, y the matrix K_Sp of `blocks` becomes D^(1/2) K_Sp D^(1/2) where no attribute of Sp is
ordered, D = 1 - prod C_i, and stays what it is elsewhere.

Of tables over single attributes pairs of cells differ in every attribute, in each one by its own
weights of pairs and in either direction alike. With W_i their Laplacian for attribute i, weights of
sum 1, blocks between two attributes vanish, and at p = 2

    gamma >= sum_i c_i (sum of the singular values of A_i W_i^(1/2));

at p > 2 of U_i^(1/2) A_i W_i^(1/2), over norm(u)_q^(1/2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.verify.queries import Queries, Table

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of theta, and of the largest lambda."""

Name = tuple[tuple[int, int], ...]
"""Attributes and the numbers of their directions, without those of r."""


def halves(w: Any) -> tuple[Any, float]:
    """Y for weights w of sum 1, and the largest lambda for which rho_i >= 0."""
    if len(w) < 2:
        return np.zeros(len(w)), 0.0
    sums = np.cumsum(w)[:-1]
    last = int(np.argmin(np.abs(sums - 0.5)))
    share = float(np.clip(sums[last], 1e-12, 1 - 1e-12))
    signs = np.where(np.arange(len(w)) <= last, 1 - share, -share)
    y = np.sqrt(w) * signs / math.sqrt(share * (1 - share))
    return y, min(share, 1 - share) / max(share, 1 - share)


def of_pairs(
    blocks: Sequence[tuple[tuple[int, ...], Any, Sequence[Name]]],
    cells: Mapping[int, Any],
    ordered: Mapping[int, tuple[Any, float]],
) -> float:
    """The best bound among some theta and lambda.

    Args:
        blocks: Sp, K_Sp and the names of its rows.
        cells: w of every attribute that is asked about.
        ordered: y and the largest lambda of the ordered ones, 0 where y is in no frame.
    """
    fixed, free = 0.0, []
    for Sp, K, names in blocks:
        if any(i in ordered for i in Sp):
            fixed += trace_of_root(K)
        else:
            free.append((Sp, K, names))
    best = 0.0
    for share, theta in itertools.product(SHARES, SHARES):
        equal, slopes = 1.0, {}
        for i, w in cells.items():
            if i in ordered:
                y, largest = ordered[i]
                slopes[i] = -share * largest
                equal *= float(w @ w) + slopes[i] * float(w @ y**2)
            else:
                slopes[i] = -theta / max(len(w) - 1, 1)
                equal *= (1 - theta) / len(w) if len(w) > 1 else 1.0
        total = fixed
        for Sp, K, names in free:
            sign = math.prod(slopes[i] for i in Sp)
            products = [math.prod(slopes[i] if k == 1 else 0.0 for i, k in name) for name in names]
            root = np.sqrt(np.maximum(1 - sign * np.array(products), 0.0))
            total += trace_of_root(root[:, None] * K * root)
        if equal < 1:
            best = max(best, total * math.sqrt(2 / (1 - equal)))
    return best


def trace_of_root(K: Any) -> float:
    """Tr K^(1/2)."""
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(K), 0.0)).sum())


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
