"""Baselines of a workload by name: each is built and evaluated once, or is missing for its size.

The work of the row of a strategy of r measurements on n cells, in multiplications:

    trees, Haar, identity            n^2, or r n under PML for each cell: all distances of cells
    ranges themselves                n^3: the Gram matrix and its inverse
    other queries, add-remove        r n min(r, n): the pseudo-inverse
    under replace                    r n^2: the distances of cells, or fewer bounds on them
    identity of very many cells      n

Unless a caller asks for it by name, a baseline of more work than MOST_WORK is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from pmldesign.designs.rows import DESIGN, LEAST_NORM
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer
from pmldesign.privacy.columns import MOST_PAIRED
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import BASELINES, Strategy, baseline
from pmldesign.strategies.baselines.queries import large_union
from pmldesign.strategies.baselines.registry import SHARES, long_baseline, nested_baseline
from pmldesign.strategies.participation.schema import AnyParticipation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign.workloads.display import count_text
from pmldesign.workloads.terms.over import attribute_queries
from pmldesign_solvers.limits import MAX_ENTRIES, WRITTEN_CELLS

MOST_WORK = WRITTEN_CELLS**3
"""Multiplications of a row that is shown unasked: an inverse for WRITTEN_CELLS cells."""
WRITTEN_QUERIES = 2**24
"""Entries of a matrix of queries that is a candidate of a search (a second)."""
USUAL = ("identity", "workload", "tree", "haar", "weighted-tree")
"""Baselines that searches look at beyond few cells: those that `optimize` shows, and the best
binary tree; a search over all trees takes 3 s on 1024 cells."""
FROM_CELLS = ("tree", "haar", "identity")
"""Baselines whose distances follow from the number of cells."""


class Baselines:
    """The strategies of one workload, evaluated for one relation and one participation.

    Args:
        workload: A, given the invariants.
        relation: of neighbours.
        participation: how often a person takes part; None for once.
        answered: the workload that the strategies answer, if it is not the one that they are built
            for: the same queries with weights.
    """

    def __init__(
        self,
        workload: Workload,
        relation: Neighbours,
        participation: AnyParticipation | None = None,
        *,
        answered: Workload | None = None,
    ) -> None:
        self._workload, self._relation, self._participation = workload, relation, participation
        self._answered = workload if answered is None else answered
        self._strategies: dict[str, Strategy] = {}
        self._known: dict[str, Factorization | InvalidInputError] = {}
        self._of: dict[Strategy, Factorization] = {}

    def small(self, guarantee: Guarantee | None, *, all_up_to: int) -> Iterator[str]:
        """Names of baselines that are small enough to be evaluated unasked.

        Args:
            guarantee: the guarantee that the noise has to satisfy.
            all_up_to: cells of an attribute beyond which only those of USUAL are listed.
        """
        queries, cells = self._workload.shape
        few = max(part.shape[1] for part in attribute_queries(self._workload)) <= all_up_to
        written = cells <= WRITTEN_CELLS or not self._workload.domain
        for name in [entry.name for entry in BASELINES] if few else USUAL:
            if name == "workload" and written and queries * cells > WRITTEN_QUERIES:
                continue
            with suppress(InvalidInputError):
                self.require_small(name, guarantee)
                self.strategy(name)
                yield name

    def strategy(self, name: str) -> Strategy:
        """The baseline as it is, for one participation.

        Raises:
            InvalidInputError: the name is unknown, or the strategy is too large to be materialized.
        """
        if name not in self._strategies:
            others = DESIGN, LEAST_NORM
            self._strategies[name] = baseline(name, self._workload, others=others)
        return self._strategies[name]

    def factorization(self, name: str) -> Factorization:
        """The baseline on the workload.

        Raises:
            InvalidInputError: as `strategy`, or it cannot answer the workload.
        """
        if name not in self._known:
            try:
                self._known[name] = self.of(self.strategy(name))
            except InvalidInputError as error:
                self._known[name] = error
        known = self._known[name]
        if isinstance(known, InvalidInputError):
            raise known
        return known

    def of(self, strategy: Strategy) -> Factorization:
        """Any strategy on the workload, for the participation that is asked for; made once.

        Raises:
            InvalidInputError: it cannot answer the workload.
        """
        if strategy not in self._of:
            measured = strategy
            if self._participation is not None:
                measured = with_participation(strategy, self._participation)
            self._of[strategy] = answer(measured, self._answered, self._relation)
        return self._of[strategy]

    def clear(self) -> None:
        """Forget all strategies, which may be large."""
        self._strategies.clear()
        self._known.clear()
        self._of.clear()

    def require_small(self, name: str, guarantee: Guarantee | None) -> None:
        """Refuse a baseline whose row takes more than MOST_WORK.

        Raises:
            InvalidInputError: it does.
        """
        for rows, n, work in _work(name, self._workload, guarantee, self._relation):
            large = work > MOST_WORK and (n > WRITTEN_CELLS or name == "workload")
            if large and rows * n <= MAX_ENTRIES:  # beyond, the strategy itself is refused
                raise InvalidInputError(
                    f"strategy {name!r} is a matrix of {count_text(rows)} x {count_text(n)}, too"
                    " large for a row that is not asked for; name it in `pmldesign compare"
                    " --strategies`"
                )


def _work(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> Iterator[tuple[int, int, int]]:
    """Measurements, cells and multiplications of the row, for every attribute."""
    if long_baseline(name, workload) is not None and relation is Neighbours.ADD_REMOVE:
        return
    if name in SHARES or nested_baseline(name, workload) is not None:
        return
    if name == "workload" and large_union(workload) is not None:
        return
    parts = attribute_queries(workload) if name != "workload" else workload.factors
    for part in parts:
        m, n = part.shape
        rows = m if name == "workload" else n
        work = rows * n * (n if relation is Neighbours.REPLACE else min(rows, n))
        if n > WRITTEN_CELLS and name == "identity":
            work = n
        elif n > WRITTEN_CELLS and name == "workload":
            work = max(min(work, MOST_PAIRED[1]), rows * n * min(rows, n))
        if n <= WRITTEN_CELLS and not (guarantee is not None and guarantee.pml):
            if name in FROM_CELLS:
                work = n**2
            elif name == "workload" and part.binary and m >= n:
                work = n**3
        yield rows, n, work
