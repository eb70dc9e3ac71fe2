"""Weights that level a strategy of K nodes.

With b = diag(r(T)) and a = diag(g(B^T B)), g(x) = 1/(x r(x)), the best weights satisfy

    w = b / sum b,      u = (a / sum a)^(1/q):

the columns of X then have equal norms b_i / w_i, and Hölder's inequality for the variances
a_i / u_i is an equation. That is the strategy of these nodes with level columns, whose loss is of
second order in the error of r. Steps go along the logarithms,

    log w <- log w + STRIDE log(b / (w sum b)),      u in the same way,

extrapolated from the last few of them (Anderson). A workload with smooth weights starts from that
of every fourth cell: logarithms are interpolated over i/n, and the layers at both ends, which have
the same shape in cells, are copied cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pmldesign_solvers.norm.fixed_point import Anderson
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.operator import Array, dual_exponent, dual_norm, power_mean
from pmldesign_solvers.streams.chain import DualProblem
from pmldesign_solvers.streams.nodes import Nodes, zolotarev

STRIDE = {True: 2.0, False: 1.5}
"""At p = 2, and for larger p: running sums of 10^5 cells then take 6 and 12 steps."""
MEMORY = 5
"""Steps to extrapolate from; 10 gain nothing on running sums with and without random weights."""
COARSE_CELLS = 256
"""Cells from which on a coarser workload saves more steps than it costs."""
LEAST_WEIGHT = 1e-13
"""Weights are at least this part of their mean; so much is lost of the lower bound at most."""
COARSE_STEPS = 30
"""Of the coarser fixed point, at most. Chosen, not measured."""
CUTOFF = 1e-8
"""Of `Anderson`: moves are accurate to so much, relatively, as r is not an exact root."""
UNASKED = 1e-9
"""Instead of 0, by which cells lose weight at an uncovered step."""
GROWTH = 3.0
"""What led to moves so many times the smallest one is forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One step: weights, the nodes, and the value of the resulting strategy.

    Attributes:
        u: weights of queries, norm(u)_q = 1.
        w: weights of cells, sum 1.
        nodes: r.
        value: of the strategy, without rounding.
        level: value of a strategy of the same traces with level columns: at least f(u, w).
    """

    u: Array
    w: Array
    nodes: Nodes
    value: float
    level: float

    @property
    def slope(self) -> float:
        """By how much the value exceeds that of level columns, relatively."""
        return self.value / self.level - 1.0


def fit(
    problem: DualProblem, p: float, buffers: int, cut: float, u: Array, w: Array
) -> Iterator[Level]:
    """Steps towards level columns; the nodes are those for the spectrum below cut times its bound.

    Args:
        problem: the workload.
        p: in [2, inf].
        buffers: number of nodes, at least 2.
        cut: at most 1.
        u: weights to start from, as `Level.u`, not normalised.
        w: weights to start from, as `Level.w`, not normalised.
    """
    anderson, least = Anderson(MEMORY, CUTOFF), math.inf
    exponent, stride = dual_exponent(p), STRIDE[p == 2]
    while True:
        w = _floored(w / w.sum())
        u = u / dual_norm(u, p)
        if p > 2:
            u = _floored(u)
        smallest, largest = problem.spectrum(u, w)
        nodes = zolotarev(smallest, max(2.0 * smallest, cut * largest), buffers)
        level, b, a = _level(problem, p, nodes, u, w)
        yield level
        x, move = np.log(w), np.log(np.maximum(b / (w * b.sum()), UNASKED))
        weights = np.sqrt(w)
        if p > 2:
            x = np.concatenate([x, np.log(u)])
            move = np.concatenate([move, np.log((a / a.sum()) ** exponent / u)])
            weights = np.concatenate([weights, u ** (0.5 / exponent)])
        size = float(np.linalg.norm(weights * move))
        if size > GROWTH * least:
            anderson.forget()
            least = size
        least = min(least, size)
        x = anderson.propose(x, stride * move, weights)
        w = np.exp(x[: w.size] - x[: w.size].max())
        if p > 2:
            u = np.exp(x[w.size :] - x[w.size :].max())


def _level(
    problem: DualProblem, p: float, nodes: Nodes, u: Array, w: Array
) -> tuple[Level, Array, Array]:
    """The step at these weights, and the diagonals b and a."""
    b = problem.measured(u, w, nodes)
    a = problem.spread(u, w, nodes.reciprocal())
    size = float(a.sum()) if p == 2 else power_mean(a / u, p / 2)
    value = math.sqrt(float((b / w).max()) * size)
    level = math.sqrt(float(b.sum()) * float(a.sum()))
    return Level(u, w, nodes, value, level), b, a


def start(
    problem: DualProblem, p: float, buffers: int, close: float, deadline: Deadline
) -> tuple[Array, Array]:
    """Weights u and w to start from, of coarser workloads if possible."""
    if problem.cells < COARSE_CELLS or not problem.smooth:
        return problem.even(p)
    coarse = problem.coarser()
    u, w = start(coarse, p, buffers, close, deadline)
    steps = 0 if deadline.over() else COARSE_STEPS
    with deadline.catching():
        for level in islice(fit(coarse, p, buffers, 1.0, u, w), steps):
            u, w = level.u, level.w
            if level.slope <= close or deadline.over():
                break
    return refined(u, problem.cells), refined(w, problem.cells)


def refined(weights: Array, cells: int) -> Array:
    """Weights of four times as many cells."""
    coarse, layer = np.log(weights), len(weights) // 8
    x = (np.arange(cells) + 0.5) / cells
    fine = np.interp(x, (np.arange(len(coarse)) + 0.5) / len(coarse), coarse)
    fine[:layer] = coarse[:layer] + (fine[layer] - coarse[layer])
    fine[-layer:] = coarse[-layer:] + (fine[-layer - 1] - coarse[-layer - 1])
    return np.exp(fine)


def _floored(weights: Array) -> Array:
    return np.asarray(np.maximum(weights, LEAST_WEIGHT * float(weights.mean())))
