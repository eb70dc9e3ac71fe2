r"""gamma_(p) of tables that cross plain attributes with ordered ones: a strategy and both bounds.

The strategy with a free vector comes first, with the closed form of the lower bound; then couplings
and sectors in turn, with more and more features and directions, as far as the gap and the time ask
for and the work allows. The bounds do not meet in general.

At p > 2 both speak of the problem at p = 2 whose queries have dual weights (`query_weights`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Callback, Status, Step
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables import couplings, free_vector, sectors, variances
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.lower import dual_weights
from pmldesign_solvers.tables.problem import Tables
from pmldesign_solvers.tables.query_weights import Question, weighted
from pmldesign_solvers.tables.upper import upper_bound

SEARCHED, EVALUATED = 4e9, 3e10
"""Most work, in cubes of sizes, of one step of a search (about a second) and of one bound."""
BOUND_STEPS, COUPLING_STEPS = 25, 400
"""Of L-BFGS. More steps of the bound gain 1e-5."""
STAGES = ((1, 2, 4), (2, 3, 6))
"""Features, directions searched with, and directions of the certified bound, in turn.

Three features take 15 s more on the tables of fourteen attributes and gain 2e-5.
"""


@dataclass(frozen=True, slots=True, eq=False)
class TablesSolution:
    """A strategy of sensitivity 1, with its certificate.

    Attributes:
        strategy: what is measured.
        problem: that of p = 2 with the weights of the queries.
        table_weights: u_T of the lower bound.
        cell_weights: w_i of each ordered attribute in it.
        certificate: both bounds on gamma_(p).
        status: why the solver stopped.
        steps: of the fixed point and of the searches.
        seconds: wall-clock time.
    """

    strategy: Coupled
    problem: Tables
    table_weights: Array
    cell_weights: dict[int, Array]
    certificate: Certificate
    status: Status
    steps: int
    seconds: float


@dataclass(slots=True)
class _Best:
    """The best of either side so far, and when to stop."""

    rel_gap: float
    max_steps: int
    time_limit: float | None
    callback: Callback | None
    start: float = field(default_factory=time.perf_counter)
    lower: float = 0.0
    upper: float = math.inf
    strategy: Coupled | None = None
    cells: dict[int, Array] = field(default_factory=dict)
    steps: int = 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    @property
    def done(self) -> bool:
        return self.upper <= self.lower * (1 + self.rel_gap)

    def above(self, value: float, strategy: Coupled) -> None:
        if value < self.upper:
            self.upper, self.strategy = value, strategy

    def below(self, value: float, cells: dict[int, Array]) -> None:
        if value > self.lower:
            self.lower, self.cells = value, cells

    def proceed(self) -> bool:
        """Count a step of a search; whether there is anything left for the next."""
        self.steps += 1
        return self.limit() is None

    def limit(self) -> Status | None:
        """What has been used up."""
        if self.steps >= self.max_steps:
            return Status.ITERATION_LIMIT
        late = self.time_limit is not None and self.seconds >= self.time_limit
        return Status.TIME_LIMIT if late else None

    def report(self) -> None:
        if self.callback is not None:
            self.callback(Step(self.steps, self.lower, self.upper, self.seconds))


def solve(
    question: Question,
    p: float,
    *,
    coupled: bool = True,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> TablesSolution:
    """Compute bounds on gamma_(p), and a strategy that attains the upper one.

    Args:
        question: what is asked.
        p: in [2, inf].
        coupled: whether the strategy may have couplings.
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: of all searches together.
        time_limit: in seconds; None for none. A first strategy is always found.
        callback: called with the bounds so far. Ctrl-C from the first call on returns the best
            strategy so far.

    Raises:
        ValueError: too many sets of attributes.
    """
    best = _Best(rel_gap, max_steps, time_limit, callback)
    work = _Work(question, p, total=coupled)
    status = _search(best, work, coupled=coupled)
    if best.strategy is None:
        raise KeyboardInterrupt
    return TablesSolution(
        strategy=best.strategy,
        problem=work.problem,
        table_weights=work.table_weights,
        cell_weights=best.cells,
        certificate=Certificate(best.lower, best.upper),
        status=Status.OPTIMAL if best.done else status,
        steps=best.steps,
        seconds=best.seconds,
    )


def _search(best: _Best, work: _Work, *, coupled: bool) -> Status:
    """All stages, as far as the gap and the limits ask for; why they ended."""
    try:
        for _ in _stages(best, work, coupled=coupled):
            best.report()
            limit = best.limit()
            if best.done or limit is not None:
                return limit or Status.STRUCTURED
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    return Status.STRUCTURED


def _stages(best: _Best, work: _Work, *, coupled: bool) -> Iterator[None]:
    """Better and better bounds, the cheap ones first."""
    point = work.point
    cells = point.cells
    best.above(*work.coupled(dict.fromkeys(cells, 0), best))
    bound = work.bound(0)
    best.below(work.certified(bound, cells), cells)
    yield
    if not cells:
        return
    cells = dual_weights.improve(bound, cells, steps=BOUND_STEPS, proceed=best.proceed)
    best.below(work.certified(bound, cells), cells)
    yield
    last: dict[int, int] = {}
    for features, searched, certified in STAGES:
        count = work.affordable(features, SEARCHED)
        if coupled and any(count.values()) and count != last:
            last = count
            best.above(*work.coupled(count, best))
            yield
        searching = work.affordable(searched, SEARCHED)
        if any(searching.values()):
            bound = work.bound(searching)
            cells = dual_weights.improve(bound, cells, steps=BOUND_STEPS, proceed=best.proceed)
            for number in range(searched, certified + 1):
                final = work.affordable(number, EVALUATED)
                best.below(work.certified(work.bound(final), cells), cells)
                yield


class _Work:
    """The problem with weights of queries, and its parts that are computed once."""

    def __init__(self, question: Question, p: float, *, total: bool) -> None:
        self.question, self.p = question, p
        self.problem, self.table_weights = weighted(question, p)
        self.point = free_vector.best(self.problem)
        self.start = self.point if total else free_vector.best(self.problem, total=False)
        self._batches = sectors.batches(self.problem, *self.problem.plain_numbers())

    def affordable(self, wanted: int, limit: float) -> dict[int, int]:
        """Up to so many directions of each attribute, as many as the work allows."""
        for count in range(wanted, 0, -1):
            found = {i: min(count, self.problem.sizes[i] - 1) for i in self.problem.ordered}
            dims = {i: own + 1 for i, own in found.items()}
            if sectors.work(self.problem, dims, self._batches) <= limit:
                return found
        return dict.fromkeys(self.problem.ordered, 0)

    def bound(self, directions: Mapping[int, int] | int) -> dual_weights.SectorBound:
        """The lower bound that keeps so many directions beside the total."""
        if isinstance(directions, int):
            directions = dict.fromkeys(self.problem.ordered, directions)
        dims = {i: count + 1 for i, count in directions.items()}
        return dual_weights.SectorBound(self.problem, dims)

    def certified(self, bound: dual_weights.SectorBound, cells: Mapping[int, Array]) -> float:
        """The lower bound, rounded down."""
        return bound.certified(cells)

    def coupled(self, features: dict[int, int], best: _Best) -> tuple[float, Coupled]:
        """The best strategy with these features, and its certified value."""
        found = couplings.solve(
            self.problem, self.start, features, steps=COUPLING_STEPS, proceed=best.proceed
        )
        asked, norms = [], []
        for k, i in enumerate(self.question.attribute):
            operator = self.question.factors[k]
            n = self.question.sizes[i]
            if i in found.attributes:
                assert operator is not None
                asked.append(variances.asked(i, operator, found.attributes[i], features[i]))
                squares = operator.row_norms(np.eye(n))
            else:
                squares = np.ones(n) if operator is None else operator.row_norms(np.eye(n))
                asked.append(variances.asked_plain(i, n, operator))
            norms.append(math.sqrt(float(squares.sum()) * (1 + (len(squares) + 8) * EPS)))
        value = upper_bound(found, asked, norms, self.question.tables, self.question.scales, self.p)
        return value, found
