"""What a search for bounds on the norm of a union has found so far, and when it stops."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.norm import fixed_point
from pmldesign_solvers.norm.bounds_loop import BoundsLoop, LimitReachedError, Stages
from pmldesign_solvers.norm.options import SolverOptions
from pmldesign_solvers.norm.solution import Solution, Status
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.block_dual import BlockPoint, BlockProblem
from pmldesign_solvers.unions.cell_blocks import solve_in_time
from pmldesign_solvers.unions.product_basis import BasisPoint, BasisProblem, ProductDesign

FACTOR_GAP = 1e-3
"""Of the designs for single attributes, which are only a start."""
WEIGHTS_GAP, WEIGHTS_STEPS = 1e-4, 150
"""Of the weights in a product basis."""
CERTIFIED = 0.1
"""The bounds of blocks are certified again when their gap is this part of what it was."""
ROUNDING_PART = 0.01
"""Part of the gap asked for at which bounds that do not meet it are kept apart by rounding."""


@dataclass(slots=True)
class UnionSearch(Stages[ProductDesign | BlockDesign]):
    """The best of either side so far; steps are those of the fixed points.

    Attributes:
        eigendecompositions: of designs for single attributes so far.
        problem, point, reached: the best strategy in a product basis, and its upper bound.
        duals: the weights u and w of the best lower bound.
    """

    eigendecompositions: int = 0
    problem: BasisProblem | None = None
    point: BasisPoint | None = None
    reached: float = math.inf
    duals: tuple[Array, Array] = (np.ones(1), np.ones(1))

    def in_time(self) -> bool:
        """Report the bounds; whether there is anything left to be spent."""
        self.report()
        return self.limit() is None

    def step(self, seconds: float = 0.0) -> None:
        """Count a step that took so long; stop if there is nothing left to be spent on the next."""
        self.steps += 1
        self.report()
        limit = self.limit()
        if limit is None and self.options.over(self.seconds, seconds):
            limit = Status.TIME_LIMIT
        if limit is not None:
            raise LimitReachedError(limit)

    def factor(self, operator: Operator, p: float, relation: Relation = "add-remove") -> Solution:
        """The design for one attribute of one part, or of all of them."""
        limit = self.options.time_limit
        solution = solve_in_time(
            operator,
            p,
            relation=relation,
            options=SolverOptions(
                rel_gap=FACTOR_GAP,
                max_steps=self.options.max_steps,
                time_limit=None if limit is None else max(limit - self.seconds, 0.0),
            ),
        )
        self.eigendecompositions += solution.eigendecompositions
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return solution

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
        rel_gap, certified = self.options.rel_gap, math.inf
        enough = rel_gap * (ROUNDING_PART if problem.exact else 1)
        before = self.seconds
        search = BoundsLoop(fixed_point.points(problem))
        try:
            for gap in search.gaps():
                self.eigendecompositions += len(problem.counts)
                if gap <= CERTIFIED * certified or gap <= rel_gap < certified:
                    certified = gap
                    self._certify(problem, search.lower, search.upper)
                self.step(self.seconds - before)
                before = self.seconds
                if self.done:
                    return
                if gap <= enough:
                    break
        finally:
            if not self.done:
                self._certify(problem, search.lower, search.upper)
        if problem.exact:
            raise LimitReachedError(Status.STALLED)

    def _certify(self, problem: BlockProblem, low: BlockPoint, high: BlockPoint) -> None:
        design = problem.design(high)
        self.above(design.upper_bound(problem.parts, problem.p), design)
        self.below(problem.lower_bound(low.u, low.w), *problem.expand(low.u, low.w))

    def below(self, value: float, u: Array, w: Array) -> None:
        """A certified lower bound with its dual weights."""
        if value > self.lower:
            self.lower, self.duals = value, (u, w)
