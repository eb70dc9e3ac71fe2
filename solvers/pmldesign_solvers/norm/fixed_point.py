"""A fixed point on the dual weights, accelerated and safeguarded.

Every step decomposes one symmetric matrix and yields a feasible dual point (lower bound) and a
feasible factorization (upper bound); `dense_dual` has the formulas. The logarithms of the
weights move by Anderson acceleration. A step that loses more than half of the gap is taken back,
and the memory with it.

Acceleration of x <- g(x). With residuals f_k = g(x_k) - x_k of the last steps, the next point is
    x + f - (dX + dF) c,     c = argmin norm(D^(1/2) (f - dF c)),
where the columns of dX and dF are the differences of consecutive points and residuals and D are
weights that say which coordinates matter.

References:
    Walker and Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49, 2011.
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Lemma 2.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from pmldesign_solvers.norm.solution import Bounds
from pmldesign_solvers.operators.merge import FLOOR
from pmldesign_solvers.operators.operator import Array

MEMORY = 10
"""Steps remembered: 688 eigendecompositions; 719, 713, 713 with 3, 5, 20
(benchmarks/constants.py)."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightsPoint(Bounds):
    """Weights, their bounds, and the weights that the fixed point moves to.

    Attributes:
        lower: the value at u and w, up to rounding.
        upper: at least the largest value.
        u, w: weights of queries and cells, normalised.
        next_u, next_w: the next weights, not normalised.
    """

    u: Array
    w: Array
    next_u: Array
    next_w: Array


PointT = TypeVar("PointT", bound=WeightsPoint)
PointT_co = TypeVar("PointT_co", bound=WeightsPoint, covariant=True)


class DualProblem(Protocol[PointT_co]):
    """A concave function of weights u and w whose maximum is a fixed point."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of weights u and w."""

    def normalise(self, u: Array, w: Array) -> tuple[Array, Array]:
        """The weights scaled to norm 1."""

    def evaluate(self, u: Array, w: Array) -> PointT_co:
        """Both bounds and the next weights at normalised weights."""


def points(
    problem: DualProblem[PointT], start: tuple[Array, Array] | None = None
) -> Iterator[PointT]:
    """The points of the iteration, without end, from given weights u and w or from equal ones."""
    m, n = problem.shape
    u, w = (np.ones(m), np.ones(n)) if start is None else start
    anderson = Anderson(MEMORY)
    point = best = problem.evaluate(*problem.normalise(u, w))
    upper = np.inf
    while True:
        upper = min(upper, point.upper)
        yield point
        if point.lower >= best.lower:
            best = point
        if point.lower >= best.lower - 0.5 * (upper - best.lower):
            u, w = _accelerated(point, anderson)
        else:
            anderson.forget()
            u, w = _positive(best.next_u), _positive(best.next_w)
        point = problem.evaluate(*problem.normalise(u, w))


def _accelerated(point: WeightsPoint, anderson: Anderson) -> tuple[Array, Array]:
    x = np.log(np.concatenate([point.w, point.u]))
    masses = np.concatenate([point.next_w, point.next_u])
    goal = np.log(np.maximum(masses, np.finfo(float).tiny))
    x = anderson.propose(x, goal - x, np.sqrt(masses), first_step=2.0)
    w, u = np.split(x, [len(point.w)])
    return _from_logarithm(u), _from_logarithm(w)


def _positive(weights: Array) -> Array:
    """Without zeros, the limits of the weights of uncovered cells."""
    return np.asarray(np.maximum(weights, FLOOR * weights.max()))


def _from_logarithm(x: Array) -> Array:
    return np.asarray(np.maximum(np.exp(x - x.max()), FLOOR))


class Anderson:
    """Remembers the last steps of a fixed-point iteration and proposes the next point.

    Args:
        memory: how many steps.
        cutoff: singular values of D^(1/2) dF below this part of the largest count as zero.
    """

    def __init__(self, memory: int, cutoff: float = 1e-10) -> None:
        self._memory, self._cutoff = memory, cutoff
        self._points: list[Array] = []
        self._residuals: list[Array] = []

    def forget(self) -> None:
        """Start again, for example after a step that made things worse."""
        self._points.clear()
        self._residuals.clear()

    def propose(
        self, point: Array, residual: Array, roots: Array, first_step: float = 1.0
    ) -> Array:
        """The next point of the accelerated iteration.

        Args:
            point: x, shape (d,).
            residual: g(x) - x, shape (d,).
            roots: D^(1/2), shape (d,), non-negative.
            first_step: length of the step, in residuals, while nothing is remembered.
        """
        self._points.append(point)
        self._residuals.append(residual)
        if len(self._points) == 1:
            return point + first_step * residual
        del self._points[: -self._memory - 1], self._residuals[: -self._memory - 1]
        moves = np.diff(np.array(self._points), axis=0).T
        changes = np.diff(np.array(self._residuals), axis=0).T
        weighted = roots[:, None] * changes
        mixing = np.linalg.lstsq(weighted, roots * residual, rcond=self._cutoff)[0]
        following: Array = point + residual - (moves + changes) @ mixing
        return following
