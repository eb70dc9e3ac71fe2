"""The course of a search for Laplace noise: candidates, then a descent where that is affordable.

Candidates are strategies as they are, each with its exactly calibrated noise (`laplace_candidates`,
`weighted_tables`, `tents_design`, and products of the designs for the factors). Where all entries
of a strategy can be searched, a descent begins there as well (`laplace`). The best of all
is kept, so that the design is never worse than any of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from pmldesign.designs.laplace.candidates import (
    ALL_BASELINES,
    baselines,
    has_order,
    promising,
    scale_rule,
    tents_design,
    trees,
    with_noise,
)
from pmldesign.designs.laplace.tables import weighted_products, weighted_tables
from pmldesign.designs.options import SEARCHED_CELLS
from pmldesign.designs.results import Searched
from pmldesign.designs.rivals import mechanism_seconds, row_seconds
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import public_for
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.guarantees import Guarantee, PureDP
from pmldesign.privacy.neighbours import Neighbours, distinct_columns
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy, baseline, product_strategy
from pmldesign.strategies.baselines.nested import OrbitCounts, known_places, nested_of, of_weights
from pmldesign.strategies.identity_and_rows import IdentityAndRows, outweigh
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.union import tables_asked
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.norm.solution import BEYOND, Status
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search import laplace as l1_strategies
from pmldesign_solvers.search.laplace import SearchOptions
from pmldesign_solvers.search.laplace_noise import AddRemoveL1, Leakage, ScaleRule, is_exact
from pmldesign_solvers.search.plan import FOLLOWED
from pmldesign_solvers.search.problem import SMALL
from pmldesign_solvers.search.solution import SearchSolution, SearchStep, Start

DP_RESTARTS = 4
"""Random starts of the search under DP that a search under PML begins from."""
RESTARTS, RESTARTS_ON_TABLES = 12, 2
"""Random starts, and perturbations of the best; few on tables, where none has gained on weighted
tables."""
SEARCHED_TABLES = 128
"""Largest number of cells of tables for a search over all entries of a strategy: weighted tables
are far ahead of anything that it has found. Of others `SEARCHED_CELLS`."""
ORDERED = 3e8
"""Cubes of numbers of cells a second, of which an order is found."""
PAIRED = 5e-9
"""Seconds for each triple of cells that the scales and errors of a few strategies take where all
pairs of cells count, and elsewhere for many cells: 4 s for 931 at p = 4, half of it once the
descents have ended."""
IDENTITY = "identity"
SHORT = 0.1
"""Seconds in which a search compares its starts, and little more."""


@dataclass(slots=True, eq=False)
class LaplaceSearch:
    """One search: what it is about, and what has come of it.

    Attributes:
        mechanisms: candidates with their noise, whose errors are exact.
        table: starts and what became of them.
        interrupted: whether Ctrl-C came.
        designs: what was found for the queries of single attributes.
    """

    workload: Workload
    guarantee: Guarantee
    p: float
    deadline: float
    seed: int
    least_gain: float
    callback: Callable[[SearchStep], None] | None
    mechanisms: list[Mechanism] = field(default_factory=list)
    table: list[Start] = field(default_factory=list)
    interrupted: bool = False
    designs: dict[Workload, Array] = field(default_factory=dict)

    def run(self, starts: list[Strategy], begin: float) -> Searched:
        """Candidates, then a descent where that is affordable; the best of all."""
        workload, guarantee = self.workload, self.guarantee
        structured = list(self._structured())

        def candidates() -> Iterator[Strategy]:
            return self._in_time(chain(structured, starts, baselines(workload, guarantee)))

        status, searched = Status.UNSEARCHED, _is_searched(workload) and self._has_time()
        if has_order(workload):
            status = self._tents(candidates())
            others_gain = self._best() is not self.mechanisms[0]
            searched = searched and others_gain and status is Status.COMPLETED
        elif not searched:
            if workload.public:
                status = Status.COMPLETED
            self._compare(candidates(), starts)
            self._compare_trees()
        if searched:
            if structured:  # their errors have closed forms, which take no time
                self._compare(structured)
            if starts[1:]:  # the caller's own, whatever time is left for the descent
                self._compare(starts[1:])
            named = list(candidates())
            status = self._descend(named)
            # the descent goes by standard deviations, not by err_p
            exact = self.p in (2, math.inf) or is_exact(self.p)
            self._compare(() if exact else self._in_time(named))
            self._compare_trees()
        return Searched(
            mechanism=self._best(),
            status=Status.INTERRUPTED if self.interrupted else status,
            starts=tuple(self.table),
            seconds=time.perf_counter() - begin,
        )

    def _in_time(self, candidates: Iterable[Strategy]) -> Iterator[Strategy]:
        """All of few cells; of more those that the time is enough for.

        At least the first, and the identity unless that takes long as well.
        """
        few = self.workload.shape[1] <= ALL_BASELINES
        seen = set()
        for candidate in candidates:
            yield candidate
            seen.add(candidate.name)
            if not few and time.perf_counter() > self.deadline:
                break
        else:
            return
        relation = self.guarantee.neighbours
        seconds = row_seconds(IDENTITY, self.workload, self.guarantee, relation, p=self.p)
        if IDENTITY not in seen and seconds <= BEYOND:
            yield baseline(IDENTITY, self.workload)

    def _has_time(self) -> bool:
        """Whether there is time for the order of very many cells, and for all pairs of cells.

        Once time is over a descent from many cells finds no more than its starts.
        """
        left, cells = self._left(1), self.workload.shape[1]
        if cells > ALL_BASELINES and left <= SHORT:
            return False
        if cells > SEARCHED_CELLS and self._different_cells() ** 3 > ORDERED * left:
            return False
        return self._paired_seconds() <= left + BEYOND

    def _different_cells(self) -> int:
        if self.workload.running_sums is not None:
            return self.workload.shape[1]
        return self.workload.different_cells

    def _paired_seconds(self) -> float:
        """What a search takes before and after its descents, if the total is public or in any case.

        Of few cells that is little, unless all pairs count.
        """
        public = self.guarantee.neighbours is Neighbours.REPLACE
        many = public or self.workload.shape[1] > ALL_BASELINES
        return PAIRED * self._different_cells() ** 3 if many else 0.0

    def _compare_trees(self) -> None:
        """Put noise on trees of every branching that is usual, where they can be better."""
        if time.perf_counter() < self.deadline:
            few = trees(self.workload, self.guarantee)
            self._compare(self._in_time(promising(few, self._best(), self.p)))

    def _best(self) -> Mechanism:
        return min(self.mechanisms, key=lambda candidate: candidate.error(self.p))

    def _tents(self, candidates: Iterable[Strategy]) -> Status:
        """The identity with tents first, then the candidates that may be better."""
        noisy, start, status = tents_design(
            self.workload, self.guarantee, self.p, self.deadline, self.callback
        )
        self.mechanisms.append(noisy)
        self.table.append(start)
        if status is Status.COMPLETED:
            self._compare(promising(candidates, noisy, self.p))
        return status

    def _structured(self) -> Iterator[Strategy]:
        """Weighted tables, the product of designs for the factors, and weighted products."""
        middle = time.perf_counter() + self._left(4)
        try:
            nested = nested_of(self.workload)
            if nested is not None:
                yield self._regions(nested)
                return
            tables = weighted_tables(self.workload, self.guarantee, self.p, deadline=middle)
            if tables is not None:
                yield tables
            public = self.guarantee.neighbours is Neighbours.REPLACE
            if len(self.workload.factors) > 1 and not public:
                yield self._product(self.workload)
            products = weighted_products(
                self.workload,
                self.p,
                self._attribute_design,
                public_total=public,
                deadline=time.perf_counter() + self._left(4),
            )
            if products is not None:
                yield products
            if public and self.workload.ends is not None:
                yield from self._public_tents()
        except KeyboardInterrupt:
            self.interrupted = True

    def _regions(self, workload: NestedWorkload) -> Strategy:
        """Counts or tables of regions, of which the weights on every path add up to 1."""
        end = time.perf_counter() + self._left(2)
        known = known_places(workload, public_for(self.workload, self.guarantee.neighbours))
        counts = OrbitCounts(workload, known)
        shares = counts.shares(self.p, power=2).best(lambda: time.perf_counter() < end)
        strategy = of_weights("regions", workload, counts.weights(shares, power=2))
        return strategy.scaled(1.0 / strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l1"))

    def _public_tents(self) -> Iterator[Strategy]:
        """Tents as a start where the total is public; fewer cells have better ones from ramps."""
        if SMALL < self.workload.shape[1] <= FOLLOWED:
            end = time.perf_counter() + self._left(4)
            noisy, _, status = tents_design(self.workload, self.guarantee, self.p, end)
            self.interrupted = status is Status.INTERRUPTED
            yield Strategy("tents", noisy.strategy.matrix)

    def _compare(self, candidates: Iterable[Strategy], others: Sequence[Strategy] = ()) -> None:
        """Put noise on candidates as they are, for which there is time.

        If there is for none, on the quickest one of these and others.

        Raises:
            InvalidInputError: none of them has an error that can be computed.
        """
        reason: InvalidInputError | None = None
        slow: list[Strategy] = []

        def quick() -> Iterator[Strategy]:
            for candidate in candidates:
                left = max(self.deadline - time.perf_counter(), BEYOND)
                if self._seconds(candidate) <= left:
                    yield candidate
                else:
                    slow.append(candidate)
            for candidate in sorted([*slow, *others], key=self._seconds):
                if self.mechanisms:
                    break
                yield candidate

        for candidate in quick():
            noisy = with_noise(candidate, self.workload, self.guarantee, self.p)
            if isinstance(noisy, InvalidInputError):
                reason = reason or noisy
                continue
            error = noisy.error(self.p)
            self.mechanisms.append(noisy)
            self.table.append(Start(candidate.name, error, error))
        if not self.mechanisms:
            raise reason or InvalidInputError(
                f"workload {self.workload.name!r} has no strategy to start from"
            )

    def _seconds(self, candidate: Strategy) -> float:
        """About how long the noise and the error of a strategy take."""
        asked = self.workload, self.guarantee, Noise.LAPLACE, self.p
        return mechanism_seconds(candidate, *asked)

    def _descend(self, starts: list[Strategy]) -> Status:
        """The search over matrices, from all starts that can be written out; others as they are."""
        named: dict[str, Array] = {}
        large: list[Strategy] = []
        for number, start in enumerate(starts):
            name = f"{start.name} ({number})" if start.name in named else start.name
            if math.prod(start.shape) > MAX_ENTRIES:
                large.append(start)
            else:
                named[name] = start.matrix
        rule = scale_rule(self.guarantee, self.workload.shape[1])
        solution = self._solve(
            rule,
            named,
            max(self._left(1) - self._paired_seconds() / 2, SHORT),
            dp_restarts=DP_RESTARTS if isinstance(rule, Leakage) else None,
        )
        # the exact calibration decides, also where two strategies differ by its rounding only
        self._compare([_strategy(solution.strategy)])
        self.table = list(solution.starts)
        self._compare(large)
        return solution.status

    def _solve(
        self,
        rule: ScaleRule,
        named: dict[str, Array],
        limit: float,
        *,
        dp_restarts: int | None = None,
        workload: Workload | None = None,
    ) -> SearchSolution:
        asked = self.workload if workload is None else workload
        restarts = RESTARTS if tables_asked(asked) is None else RESTARTS_ON_TABLES
        if not isinstance(rule, AddRemoveL1):
            asked = asked.without_offsets()[0]
            many = asked.shape[1] ** 2 > MAX_ENTRIES  # the search is about those that differ
            cell_of = distinct_columns(asked.to_dense())[1] if many else None
            if cell_of is not None:
                first = np.unique(cell_of, return_index=True)[1]
                solution = self._solve(
                    rule.on_cells(cell_of),
                    {name: matrix[:, first] for name, matrix in named.items()},
                    limit,
                    dp_restarts=dp_restarts,
                    workload=DenseWorkload(asked.to_dense()[:, first]),
                )
                return replace(solution, strategy=solution.strategy[:, cell_of])
        return l1_strategies.solve(
            asked,
            self.p,
            scale=rule,
            starts=named,
            ordered=asked.ends is not None,
            options=SearchOptions(
                restarts=restarts,
                dp_restarts=dp_restarts,
                seed=self.seed,
                time_limit=SHORT if self.interrupted else None if math.isinf(limit) else limit,
                least_gain=self.least_gain,
                callback=self.callback,
            ),
        )

    def _product(self, workload: Workload) -> Strategy:
        """The product of the strategies found for the factors."""
        return product_strategy(
            [Strategy("product", self._attribute_design(factor)) for factor in workload.factors]
        )

    def _attribute_design(self, queries: Workload) -> Array:
        """The strategy found for the queries of an attribute, whose longest column has length 1."""
        if queries not in self.designs:
            share = 8 if _is_searched(self.workload) else 4
            limit = self._left(share)
            named = {start.name: start.matrix for start in baselines(queries, PureDP(1.0))}
            solution = self._solve(AddRemoveL1(1.0), named, limit, workload=queries)
            self.interrupted = self.interrupted or solution.status is Status.INTERRUPTED
            self.designs[queries] = solution.strategy
        return self.designs[queries]

    def _left(self, parts: int) -> float:
        """A part of the time that is left, a little at least."""
        if self.interrupted:
            return SHORT
        return max((self.deadline - time.perf_counter()) / parts, SHORT)


def _strategy(matrix: Array) -> Strategy:
    """The design; with its structure where it is the identity with rows."""
    n = matrix.shape[1]
    top, rows = matrix[:n], matrix[n:]
    if len(rows) and np.count_nonzero(top) == n and outweigh(top.diagonal(), rows):
        return IdentityAndRows("design", top.diagonal(), rows)
    return Strategy("design", matrix)


def _is_searched(workload: Workload) -> bool:
    """Whether all entries of a strategy are searched for."""
    cells = workload.shape[1]
    if workload.public:  # the descent knows distances of all pairs alone
        return False
    if workload.domain and tables_asked(workload) is not None:
        return cells <= SEARCHED_TABLES
    if cells <= SEARCHED_CELLS:
        return True
    return not (workload.domain or nested_of(workload) or has_order(workload))
