r"""How long the columns of a product are, and how far apart at most, from its factors.

With weights v of rows, R = diag(v)^(1/2) (x) R_i, the squared lengths are sums of v along the
squares of R_i, those in l1 sums of v^(1/2); squared distances are X_xx + X_yy - 2 X_xy, X = R^T R,
or where cells are too many at most twice the length of what varies.

Without weights, of two columns of R = (x) R_i let a, b be the squared lengths of their factors and
c the inner products of these: the columns are (prod a + prod b - 2 prod c)^(1/2) apart. In the l1
norm, with norms a, b, m = sum min(|x|, |y|) over the entries and s the same sum with the sign of
x y, they are

    at most    prod a + prod b - prod m - prod s

apart, as |x - y| = |x| + |y| - (1 + sign(x y)) min(|x|, |y|) and products of minima are at most the
minima of products; m = s where no entry is negative. The sum is linear in the numbers of a single
factor, so that only corners of the convex hull of its points (a, b, ...) have to be tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import scipy

MOST_PAIRS, MOST_CHOICES = 2**22, 2**23
"""Of columns of a factor, and of corners of all factors but one."""
MOST_ENTRIES = 2**26
"""Entries of X for the distances of all cells, of which those of one value are made at a time."""
FACTOR_GRID = 1e-13
"""Part of the largest number to which numbers of a factor are rounded."""
OUTSIDE = 1e-12
"""How far points may lie outside of what is taken for their hull, relative to their spread."""
LENGTH_ROUNDING = 4e-11
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
    largest = max(float((total @ last.T).max()), 0.0) + LENGTH_ROUNDING * size
    return math.sqrt(largest) if norm == "l2" else min(largest, 2 * size)


def _points(columns: Any, norm: str) -> Any:
    """a, b and what comes off, for all pairs of columns."""
    if norm == "l2":
        inner = columns @ columns.T
        lengths, off = inner.diagonal(), [inner]
    else:
        lengths, sums = (
            np.abs(columns).sum(axis=1),
            scipy.spatial.distance.cdist(columns, -columns, "cityblock"),
        )
        signed = (sums - scipy.spatial.distance.cdist(columns, columns, "cityblock")) / 2
        apart = scipy.spatial.distance.cdist(np.abs(columns), np.abs(columns), "cityblock")
        off = [(lengths[:, None] + lengths - apart) / 2, signed]
    both = np.broadcast_arrays(lengths[:, None], lengths, *off)
    unit = FACTOR_GRID * float(lengths.max()) or 1.0
    return (
        np.unique(np.rint(np.stack([part.ravel() for part in both], axis=1) / unit), axis=0) * unit
    )


def _corners(points: Any) -> Any:
    """The corners of the convex hull of points, or all of them."""
    centred = points - points.mean(axis=0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    spread = np.abs(along).max(axis=0)
    kept = spread > 4 * FACTOR_GRID * float(np.abs(points).max())
    along = along[:, kept] / spread[kept]
    if along.shape[1] == 0:
        return points[:1]
    if along.shape[1] == 1:
        return points[[int(along.argmin()), int(along.argmax())]]
    try:
        hull = scipy.spatial.ConvexHull(along)
    except scipy.spatial.QhullError:
        return points
    inside = along @ hull.equations[:, :-1].T <= OUTSIDE - hull.equations[:, -1]
    return points[hull.vertices] if inside.all() else points


def along(cube: Any, matrices: Sequence[Any]) -> Any:
    """A matrix along each axis of a cube."""
    for matrix in matrices:  # the axis in front goes to the end, so that all take their turn
        cube = np.moveaxis(np.tensordot(matrix, cube, axes=(1, 0)), 0, -1)
    return cube


def lengths(R: Sequence[Any], v: Any) -> dict[str, float]:
    """The largest lengths of columns."""
    l1 = along(np.sqrt(v), [np.abs(part).T for part in R]).max()
    return {"l1": float(l1), "l2": math.sqrt(float(along(v, [part.T**2 for part in R]).max()))}


def distances(R: Sequence[Any], v: Any) -> dict[str, float]:
    """The largest distances of two columns, or bounds above them; without weights v is None."""
    if v is None:
        known = {norm: farthest(R, norm) for norm in ("l1", "l2")}
        return {norm: value for norm, value in known.items() if value is not None}
    l1 = 2 * lengths(R, v)["l1"]
    if math.prod(part.shape[1] for part in R) ** 2 > MOST_ENTRIES:
        constant = reduce(np.multiply.outer, [np.ptp(part, axis=1) == 0 for part in R])
        return {"l1": l1, "l2": 2 * lengths(R, np.where(constant, 0.0, v))["l2"]}
    squares, largest = along(v, [part.T**2 for part in R]).ravel(), 0.0
    first, *others = R
    pairs = [(B[:, :, None] * B[:, None, :]).reshape(len(B), -1).T for B in others]
    sizes = [B.shape[1] for B in others]
    for x, own in zip(first.T, squares.reshape(first.shape[1], -1), strict=True):
        cube = along(v, [first.T * x, *pairs])
        cube = cube.reshape([len(first.T), *(n for size in sizes for n in (size, size))])
        order = [*range(1, cube.ndim, 2), 0, *range(2, cube.ndim, 2)]
        inner = cube.transpose(order).reshape(own.size, -1)
        largest = max(largest, float((own[:, None] + squares - 2 * inner).max()))
    return {"l1": l1, "l2": math.sqrt(largest)}
