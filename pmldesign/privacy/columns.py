r"""Norms and distances of the columns of a matrix, never below those of exact arithmetic.

The matrix R, r x k, is divided by a power of two first (`scaled_rows`), so that its largest norm,
or under replace its largest distance, is between 1/2 and 2 r: no square of it overflows, and what
underflows is far below the rounding of the sum. That rounding is bounded by the number of terms
(`outward`); whole multiples of a power of two have none.

Of very many columns x_j the largest distance is bounded from above, by any centre c as well as by
what two columns without a negative entry can be apart at most:

    norm(x_i - x_j) <= norm(x_i - c) + norm(x_j - c),
    norm(x_i - x_j)_1 <= norm(x_i)_1 + norm(x_j)_1,
    norm(x_i - x_j)_2^2 <= norm(x_i)_2^2 + norm(x_j)_2^2    where x_i, x_j >= 0.

Inner products about the mean are formed in float32 before that is done, where v = 2^-24: with
norm(x_i - c) <= q each is off by (e^((r + 4) v) - 1) q^2 at most, however many rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from pmldesign.arguments import shown
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import is_whole, raised, root_above, size, times_power_of_two
from pmldesign_solvers.operators.dense import distinct_rows
from pmldesign_solvers.operators.operator import (
    BLOCK_BYTES,
    TINY,
    Array,
    Indices,
    column_blocks,
)

Norm = Literal["l1", "l2", "linf"]


def require_norm(norm: Norm) -> None:
    """Refuse an unknown norm, which would count as l2.

    Raises:
        InvalidInputError: with the valid norms.
    """
    if norm not in get_args(Norm):
        raise InvalidInputError(f"norm must be 'l1', 'l2' or 'linf', got {shown(norm)}")


Ones = NDArray[np.float32]
SMALLEST_ENTRY = math.ulp(0.0)
COUNTED, SEVERAL = 2**24, 8
"""Most rows of zeros and ones whose sums float32 holds; so many take longer one by one."""
FEW_COLUMNS, FAR_STEPS, NEARLY = 256, 4, 1e-9
"""Of more columns than this the outer ones are looked for: from one to the farthest, so many times,
with a margin that is far above rounding."""
MOST_PAIRED = {1: 2**30, 2: 2**34}
"""By the order of the norm, the largest r k^2 of k columns of r entries for which all distances are
computed, in 1 and 4 s; beyond it the largest one is bounded."""
MOST_SINGLE = 2**37
"""The same for l2 distances from inner products in float32, 5 s."""
SINGLE_UNIT = 2.0**-24
RAISED_ENTRY = 2.0**-1000
"""Entries below 2^-1022 of the largest are raised to this part of it."""


def scaled_rows(matrix: Array, *, differences: bool) -> tuple[Array, int]:
    """R over 2^e, which makes its largest entry about 1, and e.

    Args:
        matrix: R, shape (r, k), finite.
        differences: the largest difference within a row becomes about 1 instead; rows that are
            constant count as 0, so that other entries are at most 2^54.
    """
    high, low = matrix.max(axis=1), matrix.min(axis=1)
    if differences:
        matrix = np.where((high > low)[:, None], matrix, 0.0)
        half = float((high / 2 - low / 2).max())
        # half of the smallest number is 0
        exponent = size(max(half, SMALLEST_ENTRY)) + 1 if (high > low).any() else 0
    else:
        exponent = size(float(max(high.max(), -low.min())))
    scaled = times_power_of_two(matrix, -exponent)
    for rows in column_blocks(matrix.shape[1], len(matrix)):
        given, part = matrix[rows], scaled[rows]
        lost = (np.abs(part) < TINY) & (given != 0)
        if lost.any():
            part[lost] = np.copysign(RAISED_ENTRY, given[lost])
    return scaled, exponent


def column_labels(matrix: Array) -> Indices:
    """Numbers from 0 for the columns, the same for equal ones."""
    kept, labels = distinct_rows(matrix.T)
    return np.where(labels < 0, kept.size, labels)


def longest_column(scaled: Array, norm: Norm) -> float:
    """Largest norm of a column, rounded upwards; entries of size up to 2^53."""
    rows = len(scaled)
    if norm == "linf":
        return float(np.abs(scaled).max())
    if norm == "l1":
        value = float(np.abs(scaled).sum(axis=0).max())
        return value if is_whole(scaled, raised(value, rows)) else raised(value, rows)
    square = float(np.einsum("ij,ij->j", scaled, scaled).max())
    if is_whole(scaled, raised(square, rows), squared=True):
        return root_above(square)
    return raised(math.sqrt(square), rows / 2 + 2)


def l2_diameter(scaled: Array) -> float:
    """Largest l2 distance of two columns, rounded upwards, through blocks of their Gram matrix.

    From the first column all others lie within the diameter D, so squared distances formed from
    inner products about it are off by at most (4 r + 24) u D^2: that of the pair chosen is below
    the largest by twice that.
    """
    outer = _outer_columns(scaled, 2)
    if _many(outer, 2):
        return _apart_at_most(outer, 2)
    rows, points = len(scaled), np.ascontiguousarray(outer.T)
    centred = points - points[0]
    squares = np.einsum("ij,ij->i", centred, centred)
    step = max(1, BLOCK_BYTES // (8 * len(points)))
    best = 0.0
    for start in range(0, len(points), step):
        block = centred[start : start + step]
        distances = squares[start : start + step, None] + squares - 2 * (block @ centred.T)
        row, column = np.unravel_index(np.argmax(distances), distances.shape)
        difference = points[start + row] - points[column]
        best = max(best, float(difference @ difference))
    # sums of squares about the first column, and twice an inner product, are at most 4 D^2
    if is_whole(scaled, 4 * raised(best, 8 * rows + 64), squared=True):
        return root_above(best)
    return raised(math.sqrt(best), 4 * rows + 32)


def l1_diameter(scaled: Array) -> float:
    """Largest l1 distance of two columns, rounded upwards."""
    rows, kept = len(scaled), _outer_columns(scaled, 1)
    if _many(kept, 1):
        return _apart_at_most(kept, 1)
    value = max(float(block.max()) for _, _, block in distance_blocks(kept, norm="l1"))
    return value if is_whole(scaled, raised(value, rows + 1)) else raised(value, rows + 1)


def _outer_columns(scaled: Array, order: int) -> Array:
    """Different columns, among them two of the largest distance, in the l1 or l2 norm.

    Two columns are no farther apart than the sum of their distances from the mean: pairs for
    which this is below a computed distance are left out.
    """
    if scaled.shape[1] <= FEW_COLUMNS:
        return scaled
    points = np.ascontiguousarray(scaled.T)
    radii = farther = np.linalg.norm(points - points.mean(axis=0), order, axis=1)
    known, reach = 0.0, float(radii.max())
    for _ in range(FAR_STEPS):
        farther = np.linalg.norm(points - points[farther.argmax()], order, axis=1)
        known = max(known, float(farther.max()))
    kept = points[radii >= known - reach - NEARLY * reach]
    return np.asarray(kept[np.unique(column_labels(kept.T), return_index=True)[1]].T)


def _many(columns: Array, order: int) -> bool:
    """Whether the distances of all pairs of columns take too long."""
    rows, count = columns.shape
    return bool(rows * count**2 > MOST_PAIRED[order])


def _apart_at_most(columns: Array, order: int) -> float:
    """A bound on the largest distance of two columns, in the l1 or l2 norm, rounded upwards."""
    rows = len(columns)
    centre = columns.mean(axis=1, keepdims=True)
    radii = np.sort(np.linalg.norm(columns - centre, order, axis=0))
    apart = float(radii[-1] + radii[-2])
    if order == 2 and rows * columns.shape[1] ** 2 <= MOST_SINGLE:
        apart = min(apart, _apart_in_single(np.ascontiguousarray((columns - centre).T)))
    if columns.min() >= 0:
        sizes = np.sort(np.linalg.norm(columns, order, axis=0))[-2:]
        apart = min(apart, float(np.linalg.norm(sizes, order)))
    return raised(apart, 2 * rows + 16)


def _apart_in_single(points: Array) -> float:
    """The largest l2 distance of two rows, raised by what inner products in float32 are off by."""
    squares, single = np.einsum("ij,ij->i", points, points), points.astype(np.float32)
    step, largest = max(1, BLOCK_BYTES // (8 * len(points))), 0.0
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        apart = single[rows] @ (-2 * single[start:].T) + squares[start:].astype(np.float32)
        largest = max(largest, float((apart.max(axis=1) + squares[rows]).max()))
    off = math.expm1((2 * points.shape[1] + 16) * SINGLE_UNIT) * float(squares.max())
    return math.sqrt(largest + off)


def linf_diameter(scaled: Array) -> float:
    """Largest difference of two entries of a row, rounded upwards."""
    value = float((scaled.max(axis=1) - scaled.min(axis=1)).max())
    return value if is_whole(scaled, raised(value, 1)) else raised(value, 1)


DIAMETERS = {"l1": l1_diameter, "l2": l2_diameter, "linf": linf_diameter}
"""Largest distance of two columns in every norm."""


def distance_blocks(matrix: Array, *, norm: Norm) -> Iterator[tuple[int, int, Array]]:
    """The upper triangle of the pairwise distances, some rows at a time; rounded to nearest.

    Rows of R with two values count the pairs of columns that differ, those a gap apart together.

    Yields:
        start, stop and the distances of columns start .. stop - 1 to columns start .. k - 1.
    """
    gaps, others = ([], np.arange(len(matrix))) if norm == "linf" else _counted(matrix)
    metric: Any = {"l1": "cityblock", "l2": "sqeuclidean", "linf": "chebyshev"}[norm]
    columns = np.ascontiguousarray(matrix[others].T)
    step = max(1, BLOCK_BYTES // (8 * len(columns)))
    for start in range(0, len(columns), step):
        stop = min(start + step, len(columns))
        apart = np.zeros((stop - start, len(columns) - start))
        if len(others):
            # differences are formed entry by entry: no cancellation, unlike a Gram matrix
            apart = scipy.spatial.distance.cdist(columns[start:stop], columns[start:], metric)
        for gap, ones in gaps:
            size = gap if norm == "l1" else gap**2
            apart += size * _differing(ones[start:stop], ones[start:])
        yield start, stop, np.sqrt(apart) if norm == "l2" else apart


def _counted(matrix: Array) -> tuple[list[tuple[float, Ones]], Indices]:
    """Rows with two values by their gap, as columns of zeros and ones; the numbers of all others.

    A product of matrices counts the rows in which columns differ, in a tenth of the time of
    differences entry by entry if there are several. Constant rows are left out.
    """
    low, high = matrix.min(axis=1), matrix.max(axis=1)
    top = matrix == high[:, None]
    two = (top | (matrix == low[:, None])).all(axis=1) & (low < high)
    sizes, number = np.unique((high - low)[two], return_counts=True)
    often = sizes[(number >= SEVERAL) & (number <= COUNTED)]
    gaps, others = [], low < high
    for gap in often.tolist():
        rows = two & (high - low == gap)
        gaps.append((gap, np.ascontiguousarray(top[rows].T, dtype=np.float32)))
        others &= ~rows
    return gaps, np.flatnonzero(others)


def _differing(first: Ones, second: Ones) -> Array:
    """In how many places rows of zeros and ones differ, exactly, by the ones that they share."""
    counts = [rows.sum(axis=1, dtype=np.float64) for rows in (first, second)]
    return np.asarray(counts[0][:, None] + counts[1] - 2 * (first @ second.T).astype(np.float64))
