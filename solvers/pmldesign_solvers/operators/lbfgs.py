"""Descent by limited-memory BFGS (scipy); the best point is kept, whatever ends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import scipy

from pmldesign_solvers.operators.operator import Array

CORRECTIONS = 50
"""Pairs of steps and slopes (`best_point`); 10 took twice as many steps on couplings of tables."""

Value = Callable[[Array], tuple[float, Array]]
"""The value at a point, and its gradient."""


class StoppedError(Exception):
    """The deadline passed during a descent, or its work is spent."""


class Gains:
    """Ends the descent of a logarithm once its gains are too small: a `report` of `descend`.

    Args:
        patience: evaluations.
        least: the relative gain required of so many evaluations.

    Attributes:
        ended: whether it has ended the descent.
    """

    def __init__(self, patience: int, least: float) -> None:
        self._patience, self._least = patience, least
        self._values: list[float] = []
        self.ended = False

    def __call__(self, value: float) -> bool:
        """Whether the last evaluations have gained too little."""
        self._values.append(value)
        if len(self._values) > self._patience:
            self.ended = self._values[-1 - self._patience] - value < self._least
        return self.ended


@dataclass(frozen=True, slots=True, eq=False)
class Descended:
    """Where a descent ended.

    Attributes:
        point, value: the best that was evaluated; the start and infinity before the first.
        settled: whether the descent ended by itself, and not by a limit.
        stopped: the StoppedError or KeyboardInterrupt that ended it from outside; or None.
    """

    point: Array
    value: float
    settled: bool
    stopped: BaseException | None

    def unless_stopped(self) -> Array:
        """The point; raises the error that ended the descent from outside, if any."""
        if self.stopped is not None:
            raise self.stopped
        return self.point

    def unless_interrupted(self) -> Array:
        """The point, also if it was stopped; raises KeyboardInterrupt."""
        return self.point if isinstance(self.stopped, StoppedError) else self.unless_stopped()


def descend(
    objective: Value,
    start: Array,
    *,
    proceed: Callable[[], bool] = lambda: True,
    report: Callable[[float], bool] = lambda _: False,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    **options: Any,
) -> Descended:
    """Descend from a start.

    Args:
        objective: to be minimized.
        start: where to begin.
        proceed: asked before every evaluation; False ends the descent.
        report: called with the best value after every evaluation; True ends the descent.
        bounds: of every entry.
        options: of scipy's L-BFGS-B: maxiter, maxfun, maxcor, ftol, gtol.
    """
    point, value = start, math.inf
    settled, stopped, over = False, None, False

    def watched(x: Array) -> tuple[float, Array]:
        nonlocal point, value, over
        if over or not proceed():
            raise StoppedError
        result, gradient = objective(x)
        if result < value:
            point, value = x.copy(), result
        over = report(value)
        return result, gradient

    try:
        limits: Any = options
        minimum = scipy.optimize.minimize(
            watched, start, jac=True, method="L-BFGS-B", bounds=bounds, options=limits
        )
        settled = minimum.status == 0
    except (StoppedError, KeyboardInterrupt) as reason:
        stopped = reason
    return Descended(point, value, settled, stopped)


def best_point(objective: Value, start: Array, *, steps: int, proceed: Callable[[], bool]) -> Array:
    """The best point of at most so many steps, also where `proceed` ends the descent."""
    return descend(
        objective,
        start,
        proceed=proceed,
        maxiter=steps,
        maxfun=3 * steps,
        maxcor=CORRECTIONS,
        ftol=1e-12,
    ).unless_interrupted()
