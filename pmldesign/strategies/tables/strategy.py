r"""Strategies that measure independent coordinates of tables, over a domain of any size.

The table by a set T of attributes adds to the tables by fewer of them the coordinates
(x)_{i in T} Y_i x, Y_i of n_i - 1 rows that complement the sum (`strategies.residuals`): contrasts
(n_i/(n_i - 1))^(1/2) H_i for a categorical attribute, whose columns have length 1, and any others
for an ordinal one, whose queries ask for more than counts. Each set is measured with a precision of
its own,

    R_T = s_T^(1/2) (x)_{i in T} Y_i  (x)_{i not in T} 1^T,

which needs only the table by T. A column has the squared l2 norm sum_T s_T if all columns of
the Y_i have length 1 (`distances`). As all coordinates are independent, answers are computed from
the estimated coordinates, their variances are sums over the sets within a table
(`pmldesign_solvers.tables.variances`), and nothing of the size of the domain is formed. Without
ordered attributes R_T R_T^T = s_T prod_{i in T} n_i / (n_i - 1) prod_{i not in T} n_i, and R R^T is
diagonal.

Given public tables, the coordinates of T within one of them are known and not measured. Given only
the number of records, these are the coordinates of the empty set; tables of ordinal attributes are
then measured without the part that the total determines, N / (their cells). Given a single table,
of the attributes C, two neighbours agree in C, and have the distance of two cells of the other,
open attributes O, for the precisions

    s'_T = sum of s_T' over the T' with T' in O equal to T.

References:
    Xiao, He, Zhang and Kifer, An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions (ResidualPlanner), NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.strategies.arguments import (
    ADD_TABLE,
    no_form,
    nothing_but,
    read_only,
    require_measurements,
)
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.residuals import (
    Contrasts,
    coordinates_of_tables,
    tables_of_coordinates,
)
from pmldesign.strategies.sensitivity import product_labels
from pmldesign.strategies.structured import CountsStrategy, Term, without_mean
from pmldesign.strategies.tables.distances import Columns, TableDistances
from pmldesign.strategies.total import tells_total
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import NOTHING, Public
from pmldesign.workloads.ranges import asks_counts
from pmldesign.workloads.terms.attributes import attribute_sets, attribute_sizes, positive_weights
from pmldesign.workloads.terms.constructors import TablesWorkload
from pmldesign.workloads.terms.over import crossed_over
from pmldesign.workloads.terms.term import Term as Asks
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign_solvers.operators.operator import Array, Indices, power_mean
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.cell_pairs import OpenParts
from pmldesign_solvers.structure.subsets import residual_spaces
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.variances import Asked, Variances, asked, asked_plain

WEIGHT_UNITS = 4.0
"""Units of 2^-53 that s_T^(1/2) and its product with a row are off by."""


class TablesStrategy(CountsStrategy):
    """Measures coordinates of some sets of attributes, each set with a precision of its own.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        residuals: the sets T, in any order; () is the total. An attribute with one value has no
            coordinates.
        precisions: s_T > 0 for each of them.
        ordered: Y_i, and the inverse of 1^T above it, for attributes that are not categorical.
        public: the number of records or tables, which determine no measured coordinate.

    Raises:
        InvalidInputError: invalid sizes, sets, precisions or coordinates, or a set without
            coordinates.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        residuals: Iterable[Iterable[int]],
        precisions: ArrayLike,
        ordered: Mapping[int, Measured] = MappingProxyType({}),
        *,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.public = name, public
        self.sizes = attribute_sizes(sizes)
        self.residuals = attribute_sets("residual", residuals, len(self.sizes))
        self.precisions = positive_weights("residual", precisions, len(self.residuals))
        self.ordered = dict(ordered)
        _require_coordinates(name, self.sizes, self.ordered)
        for residual in self.residuals:
            if any(self.sizes[i] == 1 for i in residual):
                raise InvalidInputError(
                    f"residual {residual} of strategy {name!r} has an attribute with one value, "
                    "which has no residual; leave it out"
                )
        self._precision = dict(zip(self.residuals, self.precisions.tolist(), strict=True))
        self._rows = [math.prod(self.sizes[i] - 1 for i in T) for T in self.residuals]
        self.shape = sum(self._rows), math.prod(self.sizes)
        self.columns = math.prod(self.sizes[i] for i in set().union(*self.residuals))

    def _beside(self, public: Public) -> Strategy:
        """Without the coordinates that the number of records or tables determine."""
        if public.known_tables is None or (self.ordered and public.kind != "records"):
            return super()._beside(public)
        if public.sizes and public.sizes != self.sizes:
            raise no_form(public, self.name)
        kept = [not public.tells(residual) for residual in self.residuals]
        if not any(kept):
            raise nothing_but(public, self.name)
        residuals = compress(self.residuals, kept)
        return TablesStrategy(
            self.name, self.sizes, residuals, self.precisions[kept], self.ordered, public=public
        )

    def scaled(self, factor: float) -> TablesStrategy:
        """The same strategy, every measurement times a factor."""
        precisions = self.precisions * factor**2
        return TablesStrategy(
            self.name, self.sizes, self.residuals, precisions, self.ordered, public=self.public
        )

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up.

        Beyond WRITTEN_CELLS cells it may be a bound above it: with ordered attributes, and in the
        l1 norm under replace.
        """
        if neighbours == Neighbours.REPLACE or not self.centred:
            return super().sensitivity_under(neighbours, norm)
        if self.few:
            return Strategy.sensitivity_under(self, neighbours, norm)
        return 2 * self._distances.longest(norm)

    def _matrix_tells(self, norm: Norm) -> bool:
        """Structure gives exact l2 distances of contrasts, and of open attributes."""
        one_table = bool(self.public.name) and not self.public.several
        return self.few and not one_table and (norm == "l1" or bool(self.ordered))

    def _longest(self, norm: Norm) -> float:
        if norm == "l1" and self.few and self.ordered:
            return super()._longest(norm)
        return self._distances.longest(norm)

    def _farthest(self, norm: Norm) -> float:
        """Given a table: of records that agree on its attributes."""
        return (self._distances if norm == "l1" else self._within).farthest(norm)

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """Beyond WRITTEN_CELLS: by the attributes in which two cells differ, in the l2 norm."""
        if self.public.name:
            return None
        if self.few:
            return Strategy.distance_profile(self, norm)
        return self._distances.profile(norm)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most, four for a contrast.

        Sums over the values of ordered attributes are off by that many units of their sums
        without signs, at most three times the l1 norm (of a table and its mean).
        """
        if not self.ordered:
            return 4.0 * len(self.sizes) + 4
        units = 3.0 * (sum(self.sizes) + 12 * len(self.sizes) + 40)
        longest = float(np.sqrt((self.matrix**2).sum(axis=0).max(initial=0.0)))
        return units * self._distances.longest("l1") / longest if longest > 0 else 0.0

    def column_labels(self) -> Indices:
        """Columns are equal if the coordinates of all measured attributes are."""
        used = set().union(*self.residuals)
        parts = [
            (self.ordered[i].rows if i in self.ordered else np.eye(size))
            if i in used
            else np.ones((1, size))
            for i, size in enumerate(self.sizes)
        ]
        return product_labels(parts)

    @cached_property
    def terms(self) -> list[Term]:  # type: ignore[override]
        """The coordinates of each T."""
        used = set().union(*self.residuals)
        plain = {i: Contrasts(self.sizes[i]) for i in used if i not in self.ordered}
        rows: dict[int, Array | Contrasts] = {i: part.rows for i, part in self.ordered.items()}
        rows |= plain
        units = {i: np.ones(self.sizes[i] - 1) for i in self.ordered}
        units |= {i: math.sqrt(own.values) / own.lengths for i, own in plain.items()}
        terms = []
        for T, root in zip(self.residuals, self._roots.tolist(), strict=True):
            weights = root * kronecker.outer([units[i] for i in T])
            axes = tuple(self.sizes[i] for i in T)
            terms.append(Term(T, axes, tuple(rows[i] for i in T), weights))
        return terms

    @cached_property
    def counts(self) -> TermsWorkload:
        """The tables by each T."""
        return TablesWorkload(self.sizes, self.residuals)

    @property
    def centred(self) -> bool:  # type: ignore[override]
        """Contrasts contain nothing about the total."""
        return bool(self.ordered and self.public)

    @cached_property
    def _roots(self) -> Array:
        """The factors of the contrasts n^(1/2) H and ordered coordinates of each T."""
        plain = [
            math.prod(float(self.sizes[i] - 1) for i in T if i not in self.ordered)
            for T in self.residuals
        ]
        return np.sqrt(self.precisions / plain)

    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x, shape (r,) or (r, c), from the tables by each T, shape (m_T,) or (m_T, c)."""
        kept = map(without_mean, tables) if self.centred else tables
        rows = {i: part.rows for i, part in self.ordered.items()}
        parts = coordinates_of_tables(self.sizes, self.residuals, kept, rows)
        return np.concatenate([r * part for r, part in zip(self._roots, parts, strict=True)])

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        if self.ordered:
            return super()._inverse_and_rank
        # the rows are orthogonal, and all of one T of the same length
        widths = [math.prod(self.sizes[i] / (self.sizes[i] - 1) for i in T) for T in self.residuals]
        others = [
            math.prod(n for i, n in enumerate(self.sizes) if i not in T) for T in self.residuals
        ]
        squares = np.repeat(self.precisions * widths * others, self._rows)
        return read_only(self.matrix.T / squares), self.shape[0]

    def estimate(self, measurements: Array) -> Array:
        """A histogram with the coordinates that were measured, shape (n,) or (n, c).

        Of these it is the one of least norm, R^+ y; of ordered coordinates up to WRITTEN_CELLS
        cells, and for several measurements at once.
        """
        if self.ordered and (self.few or measurements.ndim > 1):
            return super().estimate(measurements)
        check_entries(f"the histogram of strategy {self.name!r}", (self.cells, 1))
        return self._tables([tuple(range(len(self.sizes)))], measurements)[0]

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,).

        The answers agree with each other: sums over an attribute are the same in all tables.
        """
        terms = crossed_over(workload.inner, self.sizes)
        if terms is None:
            return super().answer(workload, measurements)
        self.require_answers(workload)
        subsets = [term.attributes for term in terms]
        counts = self._tables(subsets, measurements, workload.public)
        answers = [term.answer(table) for term, table in zip(terms, counts, strict=True)]
        return np.concatenate(answers)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        terms = crossed_over(workload.inner, self.sizes)
        if terms is None:
            super().require_answers(workload)
            return
        try:
            spaces = residual_spaces(self.sizes, [term.attributes for term in terms])
        except ValueError as error:
            raise InvalidInputError(f"workload {workload.name!r}: {error}") from None
        unmeasured = (T for T in spaces.residuals if T not in self._precision)
        missing = next((T for T in unmeasured if not workload.public.tells(T)), None)
        if missing is None:
            return
        remedy = ADD_TABLE
        if not missing:
            remedy = (
                "use `neighbours='replace'`, for which the total is public, or add a query for the "
                "total"
            )
        raise InvalidInputError(
            f"strategy {self.name!r} cannot answer {workload.name!r}: it does not measure the "
            f"residual {missing}; {remedy}"
        )

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        terms = crossed_over(workload.inner, self.sizes)
        if terms is None:
            return super().variances(workload)
        self.require_answers(workload)
        check_entries(f"the variances of {workload.name}", (workload.shape[0], 1))
        squares = np.array([term.weight for term in terms]) ** 2
        return self._spread(workload).of_queries(*self._asked(terms), squares)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of tables, one after the other."""
        terms = crossed_over(workload.inner, self.sizes)
        if terms is None:
            return None
        self.require_answers(workload)
        norms = self._spread(workload).norms(*self._asked(terms), power)
        scales = np.array([term.weight for term in terms])
        return power_mean(scales**2 * norms, power)

    @cached_property
    def _distances(self) -> TableDistances:
        return self._distances_of(self.residuals, self.precisions)

    @cached_property
    def _within(self) -> TableDistances:
        """The distances by open attributes only, for the precisions s'."""
        if not self.public.name or self.public.several:
            return self._distances
        (counted,) = self.public.tables
        parts = OpenParts(self.residuals, counted)
        return self._distances_of(parts.sets, parts.totals(self.precisions))

    def _distances_of(self, sets: Sequence[tuple[int, ...]], precisions: Array) -> TableDistances:
        columns = {
            i: Columns.of(self.ordered[i].rows)
            if i in self.ordered
            else Columns.contrasts(self.sizes[i])
            for i in set().union(*sets)
        }
        roots = np.sqrt(precisions)
        return TableDistances(self.sizes, columns, sets, roots, units=WEIGHT_UNITS)

    def _tables(
        self, subsets: Sequence[tuple[int, ...]], measurements: Array, public: Public = NOTHING
    ) -> list[Array]:
        """The table by each S, shape (m_S,) or (m_S, c); unmeasured coordinates count as 0.

        So do public coordinates.
        """
        require_measurements(self.name, self.shape[0], measurements)
        scaled = (measurements.T / np.repeat(self._roots, self._rows)).T
        parts = np.split(scaled, np.cumsum(self._rows)[:-1])
        open_parts = {
            T: part for T, part in zip(self.residuals, parts, strict=True) if not public.tells(T)
        }
        inverses = {i: part.inverse for i, part in self.ordered.items()}
        return tables_of_coordinates(self.sizes, subsets, open_parts, inverses)

    def _spread(self, workload: Workload) -> Variances:
        return Variances(self.sizes, self._precision, workload.public.tells)

    @cached_property
    def _asked(self) -> QueryPairs:
        return QueryPairs(self.sizes, self.ordered)


def _require_coordinates(name: str, sizes: Sequence[int], ordered: Mapping[int, Measured]) -> None:
    """Refuse coordinates that do not fit the attributes.

    Raises:
        InvalidInputError: an attribute that does not exist, another shape, or entries not finite.
    """
    for i, part in ordered.items():
        shapes = part.rows.shape, part.inverse.shape
        fits = 0 <= i < len(sizes) and shapes == ((sizes[i] - 1, sizes[i]), (sizes[i], sizes[i]))
        if not fits or not (np.isfinite(part.rows).all() and np.isfinite(part.inverse).all()):
            raise InvalidInputError(
                f"strategy {name!r}: the coordinates of attribute {i} do not fit its number of "
                "values; write the file again"
            )


class QueryPairs:
    """The pairs of numbers of queries that their variances depend on, each computed once.

    Args:
        sizes: number of values of each attribute.
        ordered: the coordinates measured of those that are not categorical.
    """

    def __init__(self, sizes: Sequence[int], ordered: Mapping[int, Measured]) -> None:
        self._sizes, self._ordered = sizes, ordered
        self._asked: list[Asked] = []
        # the queries are kept so that their ids stay theirs
        self._numbers: dict[tuple[int, int], tuple[Workload, int]] = {}

    def __call__(self, terms: Sequence[Asks]) -> tuple[list[Asked], list[tuple[int, ...]]]:
        """The factors of tables, and the numbers of those of each table."""
        numbers = [
            tuple([self._number(i, factor) for i, factor in term.of_attributes.items()])
            for term in terms
        ]
        return self._asked, numbers

    def _number(self, attribute: int, queries: Workload) -> int:
        key = (attribute, id(queries))
        if key not in self._numbers:
            if attribute in self._ordered:
                pairs = asked(attribute, queries, self._ordered[attribute])
            else:
                counts = None if asks_counts(queries) else queries
                pairs = asked_plain(attribute, self._sizes[attribute], counts)
            self._numbers[key] = (queries, len(self._asked))
            self._asked.append(pairs)
        return self._numbers[key][1]


@tells_total.register
def _(strategy: TablesStrategy) -> bool:
    """Whether R determines the total of its cells."""
    return () in strategy._precision
