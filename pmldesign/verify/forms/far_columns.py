r"""How far the columns of a product are apart at most, from its factors.

Of two columns of R = (x) R_i let a, b be the squared lengths of their factors and c the inner
products of these: the columns are (prod a + prod b - 2 prod c)^(1/2) apart. In the l1 norm, with
norms a, b, m = sum min(|x|, |y|) over the entries and s the same sum with the sign of x y, they are

    at most    prod a + prod b - prod m - prod s

apart, as |x - y| = |x| + |y| - (1 + sign(x y)) min(|x|, |y|) and products of minima are at most the
minima of products; m = s where no entry is negative. The sum is linear in the numbers of a single
factor, so that only corners of the convex hull of its points (a, b, ...) have to be tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import cdist

MOST_PAIRS, MOST_CHOICES = 2**22, 2**23
"""Of columns of a factor, and of corners of all factors but one."""
GRID = 1e-13
"""Part of the largest number to which numbers of a factor are rounded."""
OUTSIDE = 1e-12
"""How far points may lie outside of what is taken for their hull, relative to their spread."""
ROUNDING = 4e-11
"""Added for both, relative to both lengths."""


def farthest(factors: Sequence[Any], norm: str) -> float | None:
    """The largest distance, or a bound above it; None where choices are too many."""
    if max(R.shape[1] for R in factors) ** 2 > MOST_PAIRS:
        return None
    points = [_points(np.ascontiguousarray(R.T), norm) for R in factors]
    size = math.prod(float(part[:, 0].max()) for part in points)
    *others, last = sorted(map(_corners, points), key=len)
    if math.prod(map(len, others)) * len(last) > MOST_CHOICES:
        return None
    total = np.array([[1.0, 1.0, -2.0]] if norm == "l2" else [[1.0, 1.0, -1.0, -1.0]])
    for part in others:
        total = (total[:, None] * part).reshape(-1, part.shape[1])
    largest = max(float((total @ last.T).max()), 0.0) + ROUNDING * size
    return math.sqrt(largest) if norm == "l2" else min(largest, 2 * size)


def _points(columns: Any, norm: str) -> Any:
    """a, b and what comes off, for all pairs of columns."""
    if norm == "l2":
        inner = columns @ columns.T
        lengths, off = inner.diagonal(), [inner]
    else:
        lengths, sums = np.abs(columns).sum(axis=1), cdist(columns, -columns, "cityblock")
        signed = (sums - cdist(columns, columns, "cityblock")) / 2
        apart = cdist(np.abs(columns), np.abs(columns), "cityblock")
        off = [(lengths[:, None] + lengths - apart) / 2, signed]
    both = np.broadcast_arrays(lengths[:, None], lengths, *off)
    unit = GRID * float(lengths.max()) or 1.0
    return (
        np.unique(np.rint(np.stack([part.ravel() for part in both], axis=1) / unit), axis=0) * unit
    )


def _corners(points: Any) -> Any:
    """The corners of the convex hull of points, or all of them."""
    centred = points - points.mean(axis=0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    spread = np.abs(along).max(axis=0)
    kept = spread > 4 * GRID * float(np.abs(points).max())
    along = along[:, kept] / spread[kept]
    if along.shape[1] == 0:
        return points[:1]
    if along.shape[1] == 1:
        return points[[int(along.argmin()), int(along.argmax())]]
    try:
        hull = ConvexHull(along)
    except QhullError:
        return points
    inside = along @ hull.equations[:, :-1].T <= OUTSIDE - hull.equations[:, -1]
    return points[hull.vertices] if inside.all() else points
