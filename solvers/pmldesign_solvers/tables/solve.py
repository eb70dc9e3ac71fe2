"""gamma_(p) of tables that cross plain attributes with ordered ones: a strategy and both bounds.

The strategy with a free vector comes first, with the closed form of the lower bound; then the lower
bounds on more and more directions of the ordered attributes, as far as the gap and the time ask for
and the work allows. The bounds do not meet in general.

At p > 2 both are for the problem at p = 2 whose queries have dual weights (`query_weights`). At
p = inf a strategy whose largest variances are even is better (`even_weights`), and so it is under
replace, with a public total (`apart`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.bounds_loop import Stages
from pmldesign_solvers.norm.solution import Outcome, SolverOptions, Step
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables import apart, even_weights, free_vector, sectors
from pmldesign_solvers.tables.frames import asked_by_few
from pmldesign_solvers.tables.free_vector import Coordinates, FreeVector
from pmldesign_solvers.tables.lower import DualPoint, SectorBound
from pmldesign_solvers.tables.problem import Attributes, Tables
from pmldesign_solvers.tables.query_weights import Question, weighted
from pmldesign_solvers.tables.upper_bound import upper_bound
from pmldesign_solvers.tables.variances import Asked, asked_plain
from pmldesign_solvers.tables.variances import asked as asked_ordered


class Candidates:
    """Strategies that measure the same of each attribute, with their certified values.

    Args:
        question: the workload.
        problem: that of p = 2 with the weights of the queries.
        p: in [2, inf].
        start: the measured rows of each attribute.
        proceed: asked after every step of a search; False ends with the best so far.
    """

    def __init__(
        self,
        question: Question,
        problem: Tables,
        p: float,
        start: FreeVector,
        proceed: Callable[[], bool],
    ) -> None:
        self._question, self.problem, self.p = question, problem, p
        self.start, self._proceed = start, proceed

    def first(self) -> tuple[float, Coordinates]:
        """The strategy of the fixed point."""
        strategy = free_vector.coordinates(self.problem, self.start)
        return self._value(strategy, self._asked(strategy)), strategy

    def even(self, strategy: Coordinates) -> tuple[float, Coordinates]:
        """The best weights of sets where p is inf."""
        asked = self._asked(strategy)
        rows = self._rows(asked, strategy.sets)
        shares = even_weights.even_weights(rows, proceed=self._proceed)
        strategy = replace(strategy, precisions=shares)
        return self._value(strategy, asked), strategy

    def public_total(self, strategy: Coordinates, *, search: bool) -> Coordinates:
        """A strategy without the total, with the best weights of sets under replace.

        Args:
            strategy: its rows for each attribute.
            search: whether to look for something better to measure.
        """
        sets = tuple(s for s in self.problem.spaces.residuals if s)
        attributes, squares = strategy.attributes, self.start.value.roots[-len(sets) :] ** 2
        if attributes and search:
            attributes, squares = apart.best(self.problem, attributes, proceed=self._proceed)
            strategy = replace(strategy, attributes=attributes)
        rows = scipy.sparse.csr_matrix(squares)
        if math.isinf(self.p):
            rows = self._rows(self._asked(strategy), sets)
        lengths = even_weights.length_rows(self._least(strategy), sets)
        shares = even_weights.even_weights(rows, lengths, proceed=self._proceed)
        return replace(strategy, sets=sets, precisions=shares)

    def _rows(self, asked: list[Asked], sets: Sequence[Attributes]) -> scipy.sparse.csr_matrix:
        """The variances of extreme queries, a column for each set."""
        return even_weights.variance_rows(
            [even_weights.extreme_queries(queries.pairs) for queries in asked],
            self._question.attribute,
            self._question.tables,
            self._question.scales,
            {s: place for place, s in enumerate(sets)},
        )

    def _least(self, strategy: Coordinates) -> dict[int, float]:
        """The least entry of X0_i of each attribute."""
        least = {i: -1 / (n - 1) for i, n in enumerate(self.problem.sizes) if n > 1}
        for i, measured in strategy.attributes.items():
            least[i] = float((measured.rows.T @ measured.rows).min())
        return {i: least[i] for i in self.problem.factors if i in least}

    def _asked(self, strategy: Coordinates) -> list[Asked]:
        """The numbers of all factors' queries."""
        return [
            asked_ordered(i, operator, strategy.attributes[i])
            if i in strategy.attributes and operator is not None
            else asked_plain(i, self._question.sizes[i], operator)
            for i, operator in zip(self._question.attribute, self._question.factors, strict=True)
        ]

    def _value(self, strategy: Coordinates, asked: list[Asked]) -> float:
        """Certified upper bound on the norm."""
        return upper_bound(strategy, asked, self._question, self.p)


EVALUATED = 3e10
"""Most work, in cubes of sizes, of one bound."""
MOVED = 2e7
"""Most cubes of sizes for moving coordinates, a few hundred steps of a hundredth of a second."""
WAYS_KEPT = (256, 128, 64, 32)
"""Columns of all that some ways ask about an attribute, in turn until they can be afforded."""
MOST_ROWS = 2000
"""Of a matrix of that bound, which `verify` decomposes too."""
DIRECTIONS = (4, 6)
"""Of each ordered attribute that the lower bound keeps, in turn."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TablesSolution(Outcome):
    """A strategy of sensitivity 1, with its certificate.

    The weights u are those of the tables and of the queries on each attribute (`query_weights`); w
    those of the values of each ordered attribute, one attribute after the other, a single 1
    without any.

    Attributes:
        strategy: the measured rows.
        problem: that of p = 2 with the weights of the queries.
        cell_weights: w_i of each ordered attribute.
        public: the strategy where the total is public, if one was asked for, of any sensitivity.
    """

    strategy: Coordinates
    public: Coordinates | None
    problem: Tables
    cell_weights: dict[int, Array]


@dataclass(slots=True)
class _Best(Stages[Coordinates]):
    """The best of either side so far."""

    public: Coordinates | None = None

    def search(self, point: FreeVector) -> bool:
        """Count a step of the first search and show its value; whether to go on."""
        goes_on = self.proceed()
        if self.options.callback is not None:
            self.options.callback(Step(self.steps, 0.0, point.value.total, self.seconds))
        return goes_on


def solve(
    question: Question,
    p: float,
    *,
    total: bool = True,
    options: SolverOptions | None = None,
) -> TablesSolution:
    """Compute bounds on gamma_(p), and a strategy that attains the upper one.

    Args:
        question: the workload.
        p: in [2, inf].
        total: whether the total is protected; if not, the strategy is followed by one for replaced
            records, whose total is public, and by the weights for lower bounds on that.
        options: when to stop; the steps are those of all searches together. A first strategy is
            always found; the callback is called with the bounds so far, in
            the first search with the value of its strategy.

    Raises:
        ValueError: too many sets of attributes.
    """
    options = options or SolverOptions()
    best, deadline = _Best(options), options.deadline
    problem, query_weights = deadline.completed(
        lambda: weighted(question, p, watch=best.search, options=options)
    )
    point = free_vector.best(problem, total=total, watch=best.search, deadline=deadline)
    candidates = Candidates(question, problem, p, point, best.proceed)
    strategy, status = best.run(lambda: _stages(best, candidates, total=total))
    return TablesSolution(
        strategy=strategy,
        public=best.public,
        problem=problem,
        cell_weights=point.cells,
        dual_u=query_weights,
        dual_w=np.concatenate([*point.cells.values()] or [np.ones(1)]),
        certificate=Certificate(best.lower, best.upper),
        status=status,
        steps=best.steps,
        seconds=best.seconds,
    )


def _stages(best: _Best, candidates: Candidates, *, total: bool) -> Iterator[None]:
    """Better and better bounds, the cheap ones first."""
    problem, cells = candidates.problem, candidates.start.cells
    value, strategy = candidates.first()
    best.above(value, strategy)
    point = DualPoint.of(problem, cells)
    best.lower = _lower(problem, point, 0)
    if not total:
        if any(problem.spaces.residuals):
            cubes = sum(problem.sizes[i] ** 3 * len(problem.factors[i]) for i in problem.ordered)
            best.public = candidates.public_total(strategy, search=cubes <= MOVED)
        yield
        return
    if math.isinf(candidates.p):
        best.above(*candidates.even(strategy))
    yield
    for directions in DIRECTIONS if cells else ():
        best.lower = max(best.lower, _lower(problem, point, directions, best.ask))
        yield
        if directions == DIRECTIONS[0]:
            best.lower = max(best.lower, _lower_of_ways(problem, point, directions, best.ask))
            yield


def _lower(
    problem: Tables,
    point: DualPoint,
    directions: int,
    ask: Callable[[], None] = lambda: None,
) -> float:
    """The bound that keeps so many directions and the total, or the affordable number."""
    kept = sectors.affordable(problem, directions, EVALUATED)
    return SectorBound(problem, {i: count + 1 for i, count in kept.items()}, ask).certified(point)


def _lower_of_ways(
    problem: Tables, point: DualPoint, directions: int, ask: Callable[[], None]
) -> float:
    """The bound that keeps what some ways in which an attribute is asked are about.

    As far as affordable; 0 if no attribute has such query sets, or none is affordable.
    """
    for most in WAYS_KEPT:
        few = {i: asked_by_few(point.roots[i], r, most) for i, r in point.r.items()}
        kept = {i: columns for i, columns in few.items() if columns is not None}
        dims = {i: 1 + min(directions, len(r) - 1) for i, r in point.r.items()}
        dims |= {i: 1 + columns.shape[1] for i, columns in kept.items()}
        if kept and sectors.work(problem, dims) <= EVALUATED:
            bound = SectorBound(problem, dims, ask, kept)
            if bound.largest <= MOST_ROWS:
                return bound.certified(point)
    return 0.0
