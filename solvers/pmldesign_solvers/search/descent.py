"""The descent from a start: L-BFGS on the logarithm of the error, smoothed less and less.

After every stage the exact error of the strategy reached decides whether it is kept. A descent that
is worse than the best by more than smoothing explains is given up, and so is one behind the best
where the search no longer pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import scipy

from pmldesign_solvers.operators.deadline import Work
from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.laplace_noise import ScaleRule
from pmldesign_solvers.search.objectives import Objective, Smoothing, Stacked
from pmldesign_solvers.search.problem import SearchProblem
from pmldesign_solvers.search.solution import Start

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

WIDTHS = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
"""Smoothing of the stages of a descent."""
STAGE_STEPS = 200
"""L-BFGS steps of one stage."""
CORRECTIONS = 10
"""Pairs of steps and slopes; with 20 the same errors to 1e-8, prefix:64 in 6.7 s instead of 5.0."""
SETTLED_WIDTH, SLOW, DOUBT = 0.01, 1e-4, 0.2
"""From this width mu on, a descent rarely leaves its valley: a stage ends where a step gains less
than SLOW mu of the error, and a descent that will not end ahead of the best is given up. Its error
falls linearly with mu, to the limit within DOUBT of the last step between widths: on running sums,
ranges, products and random workloads 0.1 of it in 19 of 20 descents. Without stages that end early
the best is at most 0.1% better, and takes twice as long."""
LEAST_WORK = 150_000
"""Steps times cells before a search may be found not to pay; prefix:64 at p = inf
gains 0.5% between 60,000 and 120,000."""
WORTHWHILE = 0.1
"""What a descent must promise to gain, as a part of the least gain that a search goes on for."""
LEVEL_TOLERANCES = (1e-7, 1e-6, 1e-5, 1e-4)
"""Values this close, relative to the row that varies most, may be meant to be equal."""


@contextmanager
def single_thread() -> Iterator[None]:
    """A context, or a decorator of functions, in which linear algebra has one thread.

    A search is thousands of small products. NumPy and SciPy bring a library of their own each, and
    the idle threads of the one wait busily while the other one works: on two cores a search took
    seven times as long as with one thread.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of linear algebra, both loaded; to look for them takes a millisecond or two."""
    from threadpoolctl import ThreadpoolController

    scipy.linalg.get_blas_funcs("dot")  # now that of SciPy is loaded too
    return ThreadpoolController()


class Descent:
    """The best strategy so far, and the descent from a start."""

    def __init__(
        self, problem: SearchProblem, rule: ScaleRule, work: Work, least_gain: float = 0.0
    ) -> None:
        self.problem, self.rule, self.work = problem, rule, work
        self._least_gain, self._moved = least_gain, 0
        self._gains: list[tuple[int, float]] = []
        self.best: tuple[float, Array] = (math.inf, np.zeros((0, problem.cells)))
        self.best_form: tuple[Objective, Stacked] | None = None
        self.table: list[Start] = []

    def offer(self, strategy: Array) -> float:
        """The exact error of a strategy, which is kept if it is the best."""
        self.work.spend(self.problem.error_work(len(strategy)))
        scale = self.rule.scale(strategy)
        if not scale > 0:
            return math.inf
        error = scale * self.problem.unit_error(strategy)
        if error < self.best[0]:
            self.best, self.best_form = (error, strategy), None
            self._gains.append((self._moved, error))
        return error

    def pays(self) -> bool:
        """Whether the later half of the steps so far has gained enough to go on."""
        if self._least_gain == 0 or self._moved < LEAST_WORK:
            return True
        before = [error for moved, error in self._gains if moved <= self._moved / 2]
        return not before or before[-1] > self.best[0] * (1 + self._least_gain)

    def _proceed(self, units: float) -> bool:
        """Count a step of a descent; False when the work is spent."""
        self._moved += self.problem.cells
        return self.work.step(units)

    def follow(
        self, name: str, objective: Objective, start: Stacked, stages: list[Smoothing]
    ) -> float:
        """Descend from a start while that may lead ahead; returns the best error on the way."""
        ahead = self.best[0] * (1 - WORTHWHILE * self._least_gain)
        x, settled = objective.variables(start), False
        before = after = error = self.offer_point(objective, x)
        if math.isinf(before):
            stages = []  # the start does not determine the workload: nowhere to begin
        widths = (math.inf, math.inf)
        try:
            for stage in stages:
                units = objective.work(x.size, smoothing=stage)
                slow = SLOW * stage.width if stage.width <= SETTLED_WIDTH else 0.0
                descended = descend(
                    partial(objective.evaluate, smoothing=stage),
                    objective.variables(objective.form(x)),
                    proceed=partial(self._proceed, units),
                    bounds=objective.bounds(x.size),
                    maxiter=STAGE_STEPS,
                    maxcor=CORRECTIONS,
                    ftol=max(1e-12, slow),
                    gtol=1e-9,
                )
                x, earlier = descended.point, error
                error, widths = self.offer_point(objective, x), (widths[1], stage.width)
                after = min(after, error)
                descended.unless_stopped()
                judged = stage.width <= SETTLED_WIDTH or not self.pays()
                if judged and _limit(earlier, error, *widths) >= ahead:
                    break
            else:
                settled = bool(stages) and descended.settled
        finally:
            self.table.append(Start(name, before, after, settled))
        return after

    def level(self) -> None:
        """Offer the best with values of a row that smoothing kept apart made equal."""
        best = self.best[1]
        span = float(np.ptp(best, axis=1).max())
        for tolerance in LEVEL_TOLERANCES:
            rows = np.array([_levelled(row, tolerance * span) for row in best])
            self.offer(rows[np.ptp(rows, axis=1) > 0])

    def offer_point(self, objective: Objective, x: Array) -> float:
        """The exact error at variables of an objective; kept, with its form, if it is the best."""
        best = self.best[0]
        error = self.offer(objective.strategy(x))
        if error < best:
            self.best_form = (objective, objective.form(x))
        return error


def _limit(earlier: float, error: float, wider: float, width: float) -> float:
    """The least that a descent may end with, by its errors at two widths."""
    drop = max(earlier - error, 0.0)
    rest = width / (wider - width) + DOUBT if wider > width else 1.0
    return error - rest * drop


def _levelled(row: Array, tolerance: float) -> Array:
    """The row with every run of values less than `tolerance` apart replaced by its mean."""
    order = np.argsort(row, kind="stable")
    cuts = np.flatnonzero(np.diff(row[order]) > tolerance) + 1
    levelled = np.empty_like(row)
    for run in np.split(order, cuts):
        levelled[run] = row[run].mean()
    return levelled
