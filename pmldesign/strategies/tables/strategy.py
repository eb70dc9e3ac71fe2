r"""Strategies for tables that cross plain attributes with ordered ones, over a domain of any size.

In the coordinates of each attribute (`coordinates`) the Gram matrix is a sum over sectors,

    R^T R = sum_{Q,Sp} (x)_{i in Q} Y_i^T Y_i  (x)_{i in Sp} Z_i^T Z_i  x  E_{Q,Sp},

Q of plain attributes, Sp of ordered ones, Z_i those rows of Y_i that are no features, E on the
products of 1 and features of all others (`pmldesign_solvers.tables.couplings`). With E = C C^T a
sector measures C^T times these coordinates, which need the tables over a few attributes alone. As
all coordinates are independent, answers are what the estimated coordinates make of them, their
variances are sums over the sectors (`pmldesign_solvers.tables.variances`), and nothing of
the size of the domain is formed.

Where the total is public, the coordinate of the empty set is known and not measured, and tables are
measured without what the total tells of them, N / (their cells).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.strategies.arguments import (
    ADD_TABLE,
    nothing_but,
    require_measurements,
)
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.sensitivity import product_labels
from pmldesign.strategies.structured import CountsStrategy, without_mean
from pmldesign.strategies.tables.coordinates import Coordinates, SectorMap, mixing
from pmldesign.strategies.tables.distances import TableDistances, check_sectors, without_empty_set
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign.workloads.tables.base import ask, asks_counts
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign.workloads.tables.same import Table, as_tables_over
from pmldesign_solvers.operators.operator import Array, Indices, power_mean
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.sectors import Sector
from pmldesign_solvers.tables.variances import Asked, Variances, asked, asked_plain

if TYPE_CHECKING:
    from pmldesign.strategies.whole.lattice import Lattice


class TablesStrategy(CountsStrategy):
    """Measures combinations of the coordinates of tables.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        ordered: Y_i and its inverse for attributes that are not plain.
        features: the number of features of each of these.
        sectors: E for each Q and Sp. If none holds the empty set, the total is public.

    Attributes:
        measured_sets: the sets of attributes of the tables that are measured.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        ordered: Mapping[int, Measured],
        features: Mapping[int, int],
        sectors: Iterable[Sector],
    ) -> None:
        self.name = name
        self.sizes = tuple(sizes)
        self.ordered, self.features = dict(ordered), dict(features)
        self.sectors = tuple(sectors)
        check_sectors(name, self.sizes, self.ordered, self.features, self.sectors)
        self._coordinates = Coordinates(self.sizes, self.ordered)
        self._measured = SectorMap(self.sizes, self.features, self.sectors)
        self.measured_sets = tuple(self._measured.sets)
        self.public = NOTHING if () in self.measured_sets else RECORDS
        self.shape = self._measured.rows, math.prod(self.sizes)
        self.columns = math.prod(self.sizes[i] for i in set().union(*self.measured_sets))

    def _beside(self, public: Public) -> Strategy:
        """Without the coordinate of the empty set where the number of records is public."""
        if public.kind != "records":
            return super()._beside(public)
        sectors = without_empty_set(self.sectors)
        if not sectors:
            raise nothing_but(public, self.name)
        return TablesStrategy(self.name, self.sizes, self.ordered, self.features, sectors)

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm.

        Beyond WRITTEN_CELLS cells it may be a bound above it: in l1, under replace with coupled
        features or many attributes (`distances`), under add-remove where the total is public.
        """
        single = neighbours == Neighbours.ADD_REMOVE and not self.public
        if self.few and not (single and norm == "l2"):
            return super().sensitivity_under(neighbours, norm)
        if neighbours == Neighbours.REPLACE and norm == "l2":
            return self._distances.farthest
        longest = self._distances.longest(norm)
        return longest if single else 2 * longest

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by, relative to its columns."""
        return self._distances.entry_units(self.matrix)

    def column_labels(self) -> Indices:
        """Columns are equal where the coordinates of all measured attributes are."""
        seen = set().union(*self.measured_sets)
        parts = [
            (self.ordered[i].rows if i in self.ordered else np.eye(size))
            if i in seen
            else np.ones((1, size))
            for i, size in enumerate(self.sizes)
        ]
        return product_labels(parts)

    @cached_property
    def counts(self) -> MarginalsWorkload:
        """The tables that are measured."""
        return MarginalsWorkload(self.sizes, self.measured_sets)

    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x, shape (r,) or (r, c), from the tables of `counts`, each of shape (m,) or (m, c)."""
        parts, columns = {}, ()
        for subset, table in zip(self.measured_sets, tables, strict=True):
            cells, columns = table.reshape(len(table), -1), table.shape[1:]
            kept = without_mean(cells) if self.public else cells
            parts[subset] = self._coordinates.of_table(subset, kept)
        return self._measured.measure(parts).reshape(-1, *columns)

    def parts(self) -> tuple[dict[int, Array], list[Array]]:
        """Y_i of the attributes that are measured, and C^T of the sectors."""
        used = sorted(set().union(*self.measured_sets))
        rows = {i: self._coordinates.rows(i) for i in used}
        return rows, [mixing(sector) for sector in self.sectors]

    def through(
        self,
        tables: Sequence[Array],
        turns: Mapping[int, kronecker.Map],
        scales: Mapping[tuple[int, ...], int],
        mixers: Sequence[kronecker.Map],
    ) -> Array:
        """What other maps make of the measured tables, in whole numbers of any size.

        Args:
            tables: of `measured_sets`, in this order.
            turns: in the place of Y_i.
            scales: what the coordinates of a set are multiplied by.
            mixers: in the place of C^T.
        """
        coordinates = {
            subset: self._coordinates.of_table(subset, table, turns).astype(object) * scales[subset]
            for subset, table in zip(self.measured_sets, tables, strict=True)
        }
        return self._measured.measure(coordinates, mixers).ravel()

    def table_lattice(self, bits: int) -> Lattice | None:
        """Beyond WRITTEN_CELLS cells coordinates and mixings in whole numbers."""
        from pmldesign.strategies.whole.structures import tables_lattice

        return None if self.few else tables_lattice(self, bits)

    def estimate(self, measurements: Array) -> Array:
        """A histogram with the coordinates that were measured, shape (n,) or (n, c).

        Up to WRITTEN_CELLS cells, and for several measurements at once, it is the one of least
        norm, R^+ y.
        """
        if self.few or measurements.ndim > 1:
            return super().estimate(measurements)
        check_entries(f"the histogram of strategy {self.name!r}", (self.cells, 1))
        require_measurements(self.name, self.shape[0], measurements)
        parts = self._measured.estimate(measurements)
        return self._coordinates.table(tuple(range(len(self.sizes))), parts, 1).ravel()

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,).

        The answers agree with each other: sums over an attribute are the same in all tables.
        """
        tables = as_tables_over(workload, self.sizes)
        if tables is None:
            return super().answer(workload, measurements)
        self.require_answers(workload)
        require_measurements(self.name, self.shape[0], measurements)
        parts = self._measured.estimate(measurements)
        answers = []
        for scale, queries in tables:
            cells = self._coordinates.table(tuple(queries), parts, 1)
            answers.append(scale * ask([*queries.values()], cells).ravel())
        return np.concatenate(answers)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        tables = as_tables_over(workload, self.sizes)
        if tables is None:
            super().require_answers(workload)
            return
        centred = bool(workload.public)
        public = self.public and not centred
        told = set[tuple[int, ...]]() if public else {*self.measured_sets, *[()] * centred}
        for subset in {tuple(queries) for _, queries in tables}:
            if tuple(i for i in subset if self.sizes[i] > 1) not in told:
                remedy = "take neighbours 'replace'" if public else ADD_TABLE
                raise InvalidInputError(
                    f"strategy {self.name!r} cannot answer {workload.name!r}: it does not measure "
                    f"the table over attributes {subset}; {remedy}"
                )

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        tables = as_tables_over(workload, self.sizes)
        if tables is None:
            return super().variances(workload)
        self.require_answers(workload)
        check_entries(f"the variances of {workload.name}", (workload.shape[0], 1))
        spread = self._spread(workload)
        asked, numbers = self._asked(tables)
        values = [
            scale**2 * spread.of_table([asked[k] for k in factors])
            for (scale, _), factors in zip(tables, numbers, strict=True)
        ]
        return np.maximum(np.concatenate(values), 0.0)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of tables, one after the other."""
        tables = as_tables_over(workload, self.sizes)
        if tables is None:
            return None
        self.require_answers(workload)
        spread = self._spread(workload)
        norms = spread.norms(*self._asked(tables), power)
        scales = np.array([scale for scale, _ in tables])
        return power_mean(np.maximum(scales**2 * norms, 0.0), power)

    def scaled(self, factor: float) -> TablesStrategy:
        """The same strategy, every measurement times a factor."""
        sectors = [
            Sector(sector.plain, sector.spectators, sector.sets, sector.matrix * factor**2)
            for sector in self.sectors
        ]
        return TablesStrategy(self.name, self.sizes, self.ordered, self.features, sectors)

    @cached_property
    def _distances(self) -> TableDistances:
        return TableDistances(self.sizes, self.ordered, self.features, self.sectors)

    def _spread(self, workload: Workload) -> Variances:
        sectors = without_empty_set(self.sectors) if workload.public else self.sectors
        return Variances(sectors, self.features)

    @cached_property
    def _asked(self) -> QueryNumbers:
        return QueryNumbers(self.sizes, self.ordered, self.features)


class QueryNumbers:
    """The numbers of queries that their variances depend on, each computed once.

    Args:
        sizes: number of values of each attribute.
        ordered: what is measured of those that are not plain.
        features: the number of features of each of these.
    """

    def __init__(
        self, sizes: Sequence[int], ordered: Mapping[int, Measured], features: Mapping[int, int]
    ) -> None:
        self._sizes, self._ordered, self._features = sizes, ordered, features
        self._asked: list[Asked] = []
        # the queries are kept so that their ids stay theirs
        self._numbers: dict[tuple[int, int], tuple[Workload, int]] = {}

    def __call__(self, tables: Sequence[Table]) -> tuple[list[Asked], list[tuple[int, ...]]]:
        """The factors of tables, and the numbers of those of each table."""
        numbers = [
            tuple([self._number(i, factor) for i, factor in queries.items()])
            for _, queries in tables
        ]
        return self._asked, numbers

    def _number(self, attribute: int, queries: Workload) -> int:
        key = (attribute, id(queries))
        if key not in self._numbers:
            if attribute in self._ordered:
                basis, features = self._ordered[attribute], self._features[attribute]
                numbers = asked(attribute, queries, basis, features)
            else:
                counts = None if asks_counts(queries) else queries
                numbers = asked_plain(attribute, self._sizes[attribute], counts)
            self._numbers[key] = (queries, len(self._asked))
            self._asked.append(numbers)
        return self._numbers[key][1]
