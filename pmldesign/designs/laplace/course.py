"""The course of a search for Laplace noise: candidates, then a descent if it is affordable.

Candidates are strategies as they are, each with its exactly calibrated noise (`laplace_candidates`,
`weighted_tables`, `tents_design`, and products of the designs for the factors). Where all entries
of a strategy can be searched, a descent begins there as well (`laplace`). The best of all
is kept, so that the design is never worse than any of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np

from pmldesign.designs.baselines import Baselines
from pmldesign.designs.laplace.candidates import (
    ALL_BASELINES,
    has_order,
    promising,
    scale_rule,
    tents_design,
    trees,
    with_noise,
)
from pmldesign.designs.laplace.tables import weighted_products, weighted_tables
from pmldesign.designs.results import Searched
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import public_for
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.guarantees import Guarantee, PureDP
from pmldesign.privacy.neighbours import Neighbours, distinct_columns
from pmldesign.strategies import Strategy, product_strategy
from pmldesign.strategies.baselines.nested import OrbitCounts, known_places, nested_of, of_weights
from pmldesign.strategies.identity_and_rows import IdentityAndRows, outweigh
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.base import different_cells
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.terms.over import as_terms
from pmldesign_solvers.limits import (
    MAX_ENTRIES,
    SEARCHED_CELLS,
    SEARCHED_TABLES,
    WRITTEN_CELLS,
)
from pmldesign_solvers.norm.bounds_loop import stopped
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import CALL, DECOMPOSED, ENTRY, Work
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
PAIRED = 75.0
"""Units of `Work` for each triple of cells, of the scales and errors of a few strategies where all
pairs of cells count, and elsewhere of finding an order of many cells."""
SUMMED = 5e4
"""Units of `Work` for each entry of L in the error of Laplace noise at a p that is not even."""
IDENTITY = "identity"


@dataclass(slots=True, eq=False)
class LaplaceSearch:
    """One search: its question and its results so far.

    Attributes:
        work: when it stops.
        baselines: of the workload.
        mechanisms: candidates with their noise, whose errors are exact.
        table: starts and what became of them.
        designs: the designs found for the queries of single attributes.
    """

    workload: Workload
    guarantee: Guarantee
    p: float
    work: Work
    seed: int
    least_gain: float
    callback: Callable[[SearchStep], None] | None
    baselines: Baselines
    mechanisms: list[Mechanism] = field(default_factory=list)
    table: list[Start] = field(default_factory=list)
    designs: dict[Workload, Array] = field(default_factory=dict)

    def run(self, starts: list[Strategy]) -> Searched:
        """Candidates, then a descent if it is affordable; the best of all."""
        begin, guarantee = time.perf_counter(), self.guarantee
        structured = list(self._structured())

        def candidates() -> Iterator[Strategy]:
            return self._some(chain(structured, starts, self._known(self.baselines, guarantee)))

        status, searched = Status.UNSEARCHED, _is_searched(self.workload) and self._affords_pairs()
        if has_order(self.workload):
            status = self._tents(candidates())
            others_gain = self._best() is not self.mechanisms[0]
            searched = searched and others_gain and status is Status.COMPLETED
        elif not searched:
            if self.workload.public:
                status = Status.COMPLETED
            self._compare(candidates())
            self._compare_trees()
        if searched:
            if structured:  # their errors have closed forms
                self._compare(structured)
            if starts[1:]:  # the caller's own, whatever work is left for the descent
                self._compare(starts[1:])
            named = list(candidates())
            status = self._descend(named)
            # the descent goes by standard deviations, not by err_p
            exact = self.p in (2, math.inf) or is_exact(self.p)
            self._compare(() if exact else self._some(named))
            self._compare_trees()
        return Searched(
            mechanism=self._best(),
            status=stopped(self.work.deadline) or status,
            starts=tuple(self.table),
            seconds=time.perf_counter() - begin,
        )

    def _known(self, baselines: Baselines, guarantee: Guarantee) -> Iterator[Strategy]:
        """The baselines to begin from."""
        for name in baselines.small(guarantee, all_up_to=ALL_BASELINES):
            yield baselines.strategy(name)

    @property
    def _few(self) -> bool:
        """Whether cells are so few that all candidates are looked at, whatever work is left."""
        return self.workload.shape[1] <= ALL_BASELINES

    def _over(self) -> bool:
        """Whether no more candidates are looked at."""
        return self.work.deadline.over() if self._few else self.work.over()

    def _some(self, candidates: Iterable[Strategy]) -> Iterator[Strategy]:
        """Candidates while there is work left; at least the first, and the identity."""
        seen = set()
        for candidate in candidates:
            yield candidate
            seen.add(candidate.name)
            if self._over():
                break
        else:
            return
        if IDENTITY not in seen:
            yield self.baselines.strategy(IDENTITY)

    def _affords_pairs(self) -> bool:
        """Whether there is work left for all pairs of cells, and for the order of many cells."""
        public = self.guarantee.neighbours is Neighbours.REPLACE
        if not (public or not self._few):
            return True
        cells = self.workload.shape[1]
        if self.workload.running_sums is None:
            cells = different_cells(self.workload)
        few = cells <= WRITTEN_CELLS and PAIRED * cells**3 <= self.work.left
        return few and (self._few or not self.work.over())

    def _compare_trees(self) -> None:
        """Put noise on trees of every usual branching, if they can be better."""
        if not self.work.over():
            few = trees(self.workload, self.guarantee, self.baselines)
            self._compare(self._some(promising(few, self._best(), self.p)))

    def _best(self) -> Mechanism:
        return min(self.mechanisms, key=lambda candidate: candidate.error(self.p))

    def _tents(self, candidates: Iterable[Strategy]) -> Status:
        """The identity with tents first, then the candidates that may be better."""
        noisy, start, status = tents_design(
            self.workload, self.guarantee, self.p, self.work, self.callback
        )
        self.mechanisms.append(noisy)
        self.table.append(start)
        if status is Status.COMPLETED:
            self._compare(promising(candidates, noisy, self.p))
        return status

    def _structured(self) -> Iterator[Strategy]:
        """Weighted tables, the product of designs for the factors, and weighted products."""
        nested = nested_of(self.workload)
        if nested is not None:
            yield self._regions(nested)
            return
        part = self.work.part(1 / 4)
        tables = weighted_tables(self.workload, self.guarantee, self.p, work=part)
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
            work=self.work.part(1 / 4),
        )
        if products is not None:
            yield products
        if public and self.workload.ends is not None:
            yield from self._public_tents()

    def _regions(self, workload: NestedWorkload) -> Strategy:
        """Counts or tables of regions, with weights that add up to 1 on every path."""
        known = known_places(workload, public_for(self.workload, self.guarantee.neighbours))
        counts = OrbitCounts(workload, known)
        search, part = counts.shares(self.p, power=2), self.work.part(1 / 2)
        proceed = partial(part.step, search.work)
        shares = self.work.deadline.completed(lambda: search.best(proceed))
        strategy = of_weights("regions", workload, counts.weights(shares, power=2))
        return strategy.scaled(1.0 / strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l1"))

    def _public_tents(self) -> Iterator[Strategy]:
        """Tents as a start if the total is public; fewer cells have better ones from ramps."""
        if SMALL < self.workload.shape[1] <= FOLLOWED:
            part = self.work.part(1 / 4)
            noisy, _, _ = tents_design(self.workload, self.guarantee, self.p, part)
            yield Strategy("tents", noisy.strategy.matrix)

    def _compare(self, candidates: Iterable[Strategy]) -> None:
        """Put noise on candidates as they are, while there is work left.

        Raises:
            InvalidInputError: no candidate has an error that can be computed.
        """
        reason: InvalidInputError | None = None
        for candidate in candidates:
            if self.mechanisms and self._over():
                break
            noisy = with_noise(candidate, self.workload, self.guarantee, self.p)
            self.work.spend(self._noise_work(candidate))
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

    def _noise_work(self, candidate: Strategy) -> float:
        """Units of `Work` of the noise and the error of a candidate, as a matrix."""
        (m, n), r = self.workload.shape, candidate.shape[0]
        if n > WRITTEN_CELLS:  # by structure, or refused
            return CALL
        pairs = self.guarantee.pml or self.guarantee.neighbours is Neighbours.REPLACE
        units = DECOMPOSED * r * n * min(r, n) + (ENTRY * r * n**2 if pairs else 0.0)
        sums = 0.0 if self.p in (2, math.inf) else ENTRY if is_exact(self.p) else SUMMED
        return units + sums * m * r

    def _descend(self, starts: list[Strategy]) -> Status:
        """The search over matrices, from all starts that fit in memory; others as they are."""
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
            self.work,
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
        work: Work,
        *,
        dp_restarts: int | None = None,
        workload: Workload | None = None,
    ) -> SearchSolution:
        asked = self.workload if workload is None else workload
        restarts = RESTARTS_ON_TABLES if as_terms(asked).counts else RESTARTS
        if not isinstance(rule, AddRemoveL1):
            asked = asked.without_offsets()[0]
            many = asked.shape[1] ** 2 > MAX_ENTRIES  # the search is about those that differ
            cell_of = distinct_columns(asked.to_dense())[1] if many else None
            if cell_of is not None:
                first = np.unique(cell_of, return_index=True)[1]
                solution = self._solve(
                    rule.on_cells(cell_of),
                    {name: matrix[:, first] for name, matrix in named.items()},
                    work,
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
                work=work,
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
            part = self.work.part(1 / share)
            few = self._known(Baselines(queries, Neighbours.ADD_REMOVE), PureDP(1.0))
            named = {start.name: start.matrix for start in few}
            solution = self._solve(AddRemoveL1(1.0), named, part, workload=queries)
            self.designs[queries] = solution.strategy
        return self.designs[queries]


def _strategy(matrix: Array) -> Strategy:
    """The design, with its structure if it is the identity with rows."""
    n = matrix.shape[1]
    top, rows = matrix[:n], matrix[n:]
    if len(rows) and np.count_nonzero(top) == n and outweigh(top.diagonal(), rows):
        return IdentityAndRows("design", top.diagonal(), rows)
    return Strategy("design", matrix)


def _is_searched(workload: Workload) -> bool:
    """Whether all entries of a strategy are searched for."""
    cells = workload.shape[1]
    if workload.public:  # the descent only has distances of all pairs
        return False
    if workload.domain and as_terms(workload).counts:
        return cells <= SEARCHED_TABLES
    if cells <= SEARCHED_CELLS:
        return True
    return not (workload.domain or nested_of(workload) or has_order(workload))
