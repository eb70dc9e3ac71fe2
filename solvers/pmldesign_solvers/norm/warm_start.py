"""A start for the fixed point: weights extrapolated from coarser workloads.

Every other row and column of a square workload whose neighbouring rows and columns are nearly
alike, such as running sums, make one of the same kind whose steps cost an eighth. Let y_n(j) be the
logarithm of the best weight of cell (or query) j out of n. For such families it is close to

    a smooth function of the position x = (j + 1/2)/n  in the middle,
    a function of j  near the first cell,  and of n - 1 - j near the last one,

and drifts slowly with n. Going on as from n/4 to n/2 cancels most of that drift:

    middle      y_n(x) = y_{n/2}(x) + (y_{n/2}(x) - y_{n/4}(x)),
    corner      y_n(j) = y_{n/2}(j) + (y_{n/2}(i) - y_{n/4}(i)),   i = j/2 the same x at half size.

The two are blended around x = 1/8 and 7/8. It is no more than a guess: a poor one costs a few
steps, and all bounds are those of the workload itself.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.norm import fixed_point
from pmldesign_solvers.norm.bounds_loop import best_lower
from pmldesign_solvers.norm.dense_dual import ScalingProblem
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import Array

COARSEST_CELLS = 32
"""Cells of the coarsest workload, at least. Chosen, not measured."""
WORTHWHILE = 256
"""Cells from which on a coarser workload costs less than the steps that it saves: prefix:512 at p =
4 takes 4 eigendecompositions and 0.19 s instead of 12 and 0.47 s (benchmarks/step_cost.py)."""
LOOSE = 5e-3
"""Relative gap that equal weights come to about as soon."""
SMOOTH = 0.1
"""Neighbouring rows differ by at most this: the sum of squares, relative to that of all entries."""
COARSE_GAP = 1e-7
"""Relative gap at which a coarse workload is done, at the latest."""
COARSE_STEPS = 30
"""After so many steps it is done in any case. Chosen, not measured."""
CORNER = (1 / 16, 3 / 16)
"""Positions between which the formula for corners gives way to that for the middle."""


def start(
    problem: ScalingProblem, rel_gap: float, deadline: Deadline
) -> tuple[Array, Array] | None:
    """Weights u and w to start from, not normalised; None if no good ones can be expected.

    The coarse workloads are solved to a tenth of the requested gap; all steps except the
    first one of each stop at the deadline, and the result is then None.
    """
    m, n = problem.shape
    if (rel_gap > LOOSE and problem.row_p == 2) or m != n or n < WORTHWHILE or not problem.plain:
        return None
    matrix = problem.operator.to_dense()
    if not (_alike(matrix) and _alike(matrix.T)):
        return None
    close = max(0.1 * rel_gap, COARSE_GAP)
    levels = int(np.log2(n // COARSEST_CELLS))
    weights: list[tuple[Array, Array]] = []
    for level in range(levels, 0, -1):
        stride = 2**level
        sampled = MergedWorkload(DenseOperator(np.ascontiguousarray(matrix[::stride, ::stride])))
        coarse = ScalingProblem(sampled, problem.row_p)
        cells = -(-n // stride)
        if coarse.shape != (cells, cells) or not coarse.plain:
            return None
        points = fixed_point.points(coarse, _guess(weights, cells))
        ahead = (point.looking_ahead(close) for point in points)
        best = best_lower(ahead, close, COARSE_STEPS, deadline)
        if deadline.over():
            return None
        weights.append((np.log(best.u), np.log(best.w)))
    return _guess(weights, n)


def _alike(matrix: Array) -> bool:
    changes = np.diff(matrix, axis=0)
    return float(np.vdot(changes, changes)) <= SMOOTH * float(np.vdot(matrix, matrix))


def _guess(weights: list[tuple[Array, Array]], cells: int) -> tuple[Array, Array] | None:
    """Weights from those of the last two sizes."""
    if len(weights) < 2:
        return None
    (u_before, w_before), (u_last, w_last) = weights[-2:]
    return (
        np.exp(extrapolated(u_before, u_last, cells)),
        np.exp(extrapolated(w_before, w_last, cells)),
    )


def extrapolated(before: Array, last: Array, cells: int) -> Array:
    """y_n for n cells from y_{n/4} and y_{n/2}, up to a constant."""
    x = _positions(cells)
    drift = last - _interpolated(before, _positions(last.size))
    middle = _interpolated(last + drift, x)
    steps = np.clip((x - CORNER[0]) / (CORNER[1] - CORNER[0]), 0.0, 1.0)
    share = 1.0 - steps**2 * (3.0 - 2.0 * steps)
    blended = (share > 0.0) & (share < 1.0)
    first = _corner(before, last, cells) - middle
    final = _corner(before[::-1], last[::-1], cells) - middle[::-1]
    first, final = (share * (corner - corner[blended].mean()) for corner in (first, final))
    return np.asarray(middle + first + final[::-1])


def _corner(before: Array, last: Array, cells: int) -> Array:
    """y_n(j) for the first quarter of the cells, by the formula for corners; 0 elsewhere."""
    near, ahead = last.size // 2, before.size // 2
    x = _positions(cells)[:near] * last.size / ahead
    drift = _interpolated(last[:ahead] - before[:ahead], x)
    return np.concatenate([last[:near] + drift, np.zeros(cells - near)])


def _positions(cells: int) -> Array:
    """The middles of the cells in [0, 1]."""
    return (np.arange(cells) + 0.5) / cells


def _interpolated(values: Array, x: Array) -> Array:
    """A smooth function with these values at the middles of as many cells of [0, 1]."""
    return np.interp(x, _positions(values.size), values)
