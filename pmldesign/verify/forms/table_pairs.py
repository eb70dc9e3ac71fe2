r"""Lower bounds for tables under replace, from products of weights of pairs.

Pairs of cells have the weights rho = (x)_i rho_i >= 0, rho_i = W^(1/2) C_i W^(1/2), C_i r = r,
r = w^(1/2), so that each cell has the weight w in sum. Pairs of equal cells are left out of the sum
m = 1 - prod tr rho_i, and

    gamma >= (2/m)^(1/2) norm(A W^(1/2) (1 - (x) C_i)^(1/2))_*.

A plain attribute has C = -theta/(n - 1) on vectors orthogonal to r, an ordered one -lambda on y,
which is constant times r on either of two halves of its cells, and 0 beyond. In frames that begin
with r, y the matrix K_Sp of `table_blocks` becomes D^(1/2) K_Sp D^(1/2) where no attribute of Sp is
ordered, D = 1 - prod C_i, and stays what it is elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
