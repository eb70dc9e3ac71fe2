"""What a search for bounds on the norm of a union has found so far, and when it stops."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from pmldesign_solvers.norm import fixed_point as diagonal_scaling
from pmldesign_solvers.norm import solve as gamma
from pmldesign_solvers.norm.bounds_loop import PATIENCE
from pmldesign_solvers.norm.options import SolverOptions
from pmldesign_solvers.norm.solution import Callback, Solution, Status, Step
from pmldesign_solvers.operators.differences import Kind
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.block_dual import BlockPoint, BlockProblem
from pmldesign_solvers.unions.product_basis import BasisPoint, BasisProblem, ProductDesign

FACTOR_GAP = 1e-3
"""Of the designs for single attributes, which are only a start."""
WEIGHTS_GAP, WEIGHTS_STEPS = 1e-4, 150
"""Of the weights in a product basis."""
CERTIFIED = 0.1
"""The bounds of blocks are certified again when their gap is this part of what it was."""
ROUNDED = 0.01
"""Part of the gap asked for at which bounds that do not meet it are kept apart by rounding."""
VISIBLE = 0.99
"""A gap that is no smaller than this part of what it was is the same to the eye."""


class LimitReachedError(Exception):
    """The time or the steps are used up, or nothing is left to be tried."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


@dataclass(slots=True)
class UnionSearch:
    """The best of either side so far, and when to stop.

    Attributes:
        rel_gap, max_steps, time_limit, callback: as in `unions.solve`.
        start: of the clock.
        lower, upper: the best certified bounds.
        steps: of the fixed points so far.
        eigendecompositions: of designs for single attributes so far.
        strategy: that of the upper bound; None before the first.
        problem, point, reached: the best strategy in a product basis, and its upper bound.
        duals: the best lower bound that has dual weights, u and w.
    """

    rel_gap: float
    max_steps: int
    time_limit: float | None
    callback: Callback | None
    start: float = field(default_factory=time.perf_counter)
    lower: float = 0.0
    upper: float = math.inf
    steps: int = 0
    eigendecompositions: int = 0
    strategy: ProductDesign | BlockDesign | None = None
    problem: BasisProblem | None = None
    point: BasisPoint | None = None
    reached: float = math.inf
    duals: tuple[float, Array, Array] = (-1.0, np.ones(1), np.ones(1))

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.start

    @property
    def done(self) -> bool:
        """Whether the bounds are close enough."""
        return self.upper <= self.lower * (1 + self.rel_gap)

    def proceed(self) -> bool:
        """Report the bounds; whether there is time left."""
        if self.callback is not None and self.strategy is not None:
            self.callback(Step(self.steps, self.lower, self.upper, self.seconds))
        return self.time_limit is None or self.seconds < self.time_limit

    def step(self) -> None:
        """Count a step; stop if there is nothing left to be spent on the next."""
        self.steps += 1
        if not self.proceed():
            raise LimitReachedError(Status.TIME_LIMIT)
        if self.steps >= self.max_steps:
            raise LimitReachedError(Status.ITERATION_LIMIT)

    def factor(self, operator: Operator, p: float, kind: Kind = "cells") -> Solution:
        """The design for one attribute of one part, or of all of them."""
        limit = self.time_limit
        found = gamma.solve_norm(
            operator,
            p,
            kind=kind,
            options=SolverOptions(
                rel_gap=FACTOR_GAP,
                max_steps=self.max_steps,
                time_limit=None if limit is None or self.strategy is None else limit - self.seconds,
            ),
        )
        self.eigendecompositions += found.eigendecompositions
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found

    def weigh(self, problem: BasisProblem) -> float:
        """The best weights for these bases; what they reach."""
        best: BasisPoint | None = None
        try:
            for point in problem.points(WEIGHTS_GAP, WEIGHTS_STEPS):
                if best is None or point.upper < best.upper:
                    best = point
                self.step()
        finally:
            if best is not None and best.upper < self.reached:
                upper = problem.upper_bound(best.weights)
                if upper < self.reached:
                    self.reached, self.problem, self.point = upper, problem, best
                self.above(upper, problem.design(best.weights))
        return math.inf if best is None else best.upper

    def attain(self, problem: BlockProblem) -> None:
        """The best strategy of blocks: both bounds, certified whenever the gap is much smaller.

        Raises:
            LimitReachedError: it has to be better than any other, and got no closer for long.
        """
        low: BlockPoint | None = None
        high: BlockPoint | None = None
        certified = visible = math.inf
        last, enough = 0, self.rel_gap * (ROUNDED if problem.exact else 1)
        try:
            for number, point in enumerate(diagonal_scaling.points(problem)):
                self.eigendecompositions += len(problem.counts)
                low = point if low is None or point.lower > low.lower else low
                high = point if high is None or point.upper < high.upper else high
                gap = high.upper / low.lower - 1
                if gap <= CERTIFIED * certified or gap <= self.rel_gap < certified:
                    certified = gap
                    self._certify(problem, low, high)
                self.step()
                if self.done:
                    return
                if gap < VISIBLE * visible:
                    visible, last = gap, number
                if number - last >= PATIENCE or gap <= enough:
                    break
        finally:
            if low is not None and high is not None and not self.done:
                self._certify(problem, low, high)
        if problem.exact:
            raise LimitReachedError(Status.STALLED)

    def _certify(self, problem: BlockProblem, low: BlockPoint, high: BlockPoint) -> None:
        found = problem.design(high)
        self.above(found.upper_bound(problem.parts, problem.p), found)
        self.below(problem.lower_bound(low.u, low.w), *problem.expand(low.u, low.w))

    def above(self, value: float, strategy: ProductDesign | BlockDesign) -> None:
        """A certified upper bound with its strategy."""
        if value < self.upper:
            self.upper, self.strategy = value, strategy

    def below(self, value: float, u: Array, w: Array) -> None:
        """A certified lower bound with its dual weights."""
        self.lower = max(self.lower, value)
        if value > self.duals[0]:
            self.duals = (value, u, w)
