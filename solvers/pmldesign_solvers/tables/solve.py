r"""gamma_(p) of tables that cross plain attributes with ordered ones: a strategy and both bounds.

The strategy with a free vector comes first, with the closed form of the lower bound; then couplings
and sectors in turn, with more and more features and directions, as far as the gap and the time ask
for and the work allows. The bounds do not meet in general.

At p > 2 both speak of the problem at p = 2 whose queries have dual weights (`query_weights`); at
p = inf a strategy whose largest variances are even is better (`even_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.bounds_loop import Stages
from pmldesign_solvers.norm.options import DEFAULTS, SolverOptions
from pmldesign_solvers.norm.solution import Outcome, Status, Step
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables import free_vector, sectors
from pmldesign_solvers.tables.candidates import Candidates
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.free_vector import FreeVector, Watch
from pmldesign_solvers.tables.lower import dual_weights
from pmldesign_solvers.tables.problem import Tables
from pmldesign_solvers.tables.query_weights import Question, weighted

SEARCHED, EVALUATED = 4e9, 3e10
"""Most work, in cubes of sizes, of one step of a search (about a second) and of one bound."""
MOVED = 2e7
"""Most cubes of sizes for moving coordinates, a few hundred steps of a hundredth of a second."""
BOUND_STEPS = 25
"""Of L-BFGS; more gain 1e-5."""
STAGES = ((1, 2, 4), (2, 3, 6))
"""Features, directions searched with, and directions of the certified bound, in turn.

Three features take 15 s more on the tables of fourteen attributes and gain 2e-5.
"""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TablesSolution(Outcome):
    """A strategy of sensitivity 1, with its certificate.

    The weights u are those of the tables and of the queries on each attribute (`query_weights`); w
    those of the values of each ordered attribute, one attribute after the other, a single 1 where
    there is none.

    Attributes:
        strategy: what is measured.
        problem: that of p = 2 with the weights of the queries.
        cell_weights: w_i of each ordered attribute.
        public: the strategy where the total is public, if one was asked for, of any sensitivity.
    """

    strategy: Coupled
    public: Coupled | None
    problem: Tables
    cell_weights: dict[int, Array]


@dataclass(slots=True)
class _Best(Stages[Coupled], Watch):
    """The best of either side so far, and the weights of the lower bound."""

    cells: dict[int, Array] = field(default_factory=dict)
    public: Coupled | None = None
    stopped: bool = False

    def below(self, value: float, cells: dict[int, Array]) -> None:
        """A lower bound and its weights."""
        if value > self.lower:
            self.lower, self.cells = value, cells

    def search(self, point: FreeVector) -> bool:
        """Count a step of the first search and show its value; whether to go on."""
        goes_on = self.proceed()
        if self.options.callback is not None:
            self.options.callback(Step(self.steps, 0.0, point.value.total, self.seconds))
        return goes_on

    def interrupted(self) -> None:
        """Ctrl-C in the first search: the strategy that it has reached is the last."""
        self.stopped = True

    def limit(self) -> Status | None:
        """What has been used up, or Ctrl-C."""
        return Status.INTERRUPTED if self.stopped else Stages.limit(self)


def solve(
    question: Question,
    p: float,
    *,
    coupled: bool = True,
    options: SolverOptions = DEFAULTS,
) -> TablesSolution:
    """Compute bounds on gamma_(p), and a strategy that attains the upper one.

    Args:
        question: what is asked.
        p: in [2, inf].
        coupled: whether the strategy may have couplings; if not, it is followed by one for replaced
            records, whose total is public, and by the weights for lower bounds on that.
        options: when to stop; the steps are those of all searches together. A first strategy is
            always found; the callback is called with the bounds so far, in
            the first search with the value of its strategy.

    Raises:
        ValueError: too many sets of attributes.
    """
    best = _Best(options)
    work = _Work(question, p, best, total=coupled)
    strategy, status = best.run(_stages(best, work, coupled=coupled))
    weights = [best.cells[i] for i in sorted(best.cells)]
    return TablesSolution(
        strategy=strategy,
        public=best.public,
        problem=work.problem,
        cell_weights=best.cells,
        dual_u=work.query_weights,
        dual_w=np.concatenate(weights) if weights else np.ones(1),
        certificate=Certificate(best.lower, best.upper),
        status=status,
        steps=best.steps,
        seconds=best.seconds,
    )


def _stages(best: _Best, work: _Work, *, coupled: bool) -> Iterator[None]:
    """Better and better bounds, the cheap ones first."""
    cells, candidates = work.point.cells, work.candidates
    value, strategy = candidates.coupled(dict.fromkeys(cells, 0))
    best.above(value, strategy)
    point = work.weights(cells)
    bound = work.bound(0)
    best.below(bound.certified(point), cells)
    if not coupled:
        if any(work.problem.spaces.residuals):
            best.public = candidates.public_total(strategy, search=work.cubes <= MOVED)
        yield
        return
    if math.isinf(work.p):
        best.above(*candidates.even(strategy))
    yield
    if not cells:
        return
    if work.small:
        point = work.improved(bound, point, best)
        best.below(bound.certified(point), point.cells)
        yield
    last: dict[int, int] = {}
    for features, searched, certified in STAGES:
        directions = sectors.affordable(work.problem, searched, SEARCHED)
        bound = work.bound(directions)
        best.below(bound.certified(point), point.cells)
        yield
        count = sectors.affordable(work.problem, features, SEARCHED)
        if any(count.values()) and count != last:
            last = count
            best.above(*candidates.coupled(count))
            yield
        if work.small and any(directions.values()):
            point = work.improved(bound, point, best)
            best.below(bound.certified(point), point.cells)
            yield
        for number in range(searched + 1, certified + 1):
            more = sectors.affordable(work.problem, number, EVALUATED)
            if more != directions:
                directions = more
                best.below(work.bound(directions).certified(point), point.cells)
                yield


class _Work:
    """The problem with weights of queries, its strategies and bounds."""

    def __init__(self, question: Question, p: float, best: _Best, *, total: bool) -> None:
        self.p = p
        self.problem, self.query_weights = weighted(question, p, watch=best)
        self.point = free_vector.best(self.problem, total=total, watch=best)
        self.candidates = Candidates(question, self.problem, p, self.point, best.proceed)

    @property
    def small(self) -> bool:
        """Whether the weights of cells can be searched over, an eigh of each factor a step."""
        return self.cubes <= SEARCHED

    @property
    def cubes(self) -> float:
        """Sum of the cubes of the sizes of ordered attributes, for each of their factors."""
        factors = self.problem.factors
        return float(
            sum(self.problem.sizes[i] ** 3 * len(factors[i]) for i in self.problem.ordered)
        )

    def bound(self, directions: Mapping[int, int] | int) -> dual_weights.SectorBound:
        """The lower bound that keeps so many directions beside the total."""
        if isinstance(directions, int):
            directions = dict.fromkeys(self.problem.ordered, directions)
        dims = {i: count + 1 for i, count in directions.items()}
        return dual_weights.SectorBound(self.problem, dims)

    def weights(self, cells: dict[int, Array]) -> dual_weights.Point:
        """Weights of the cells, with what their lower bounds need."""
        return dual_weights.Point.of(self.problem, cells)

    def improved(
        self, bound: dual_weights.SectorBound, point: dual_weights.Point, best: _Best
    ) -> dual_weights.Point:
        """Weights of cells with a better lower bound, searched from a point on."""
        cells = dual_weights.improve(bound, point, steps=BOUND_STEPS, proceed=best.proceed)
        return self.weights(cells)
