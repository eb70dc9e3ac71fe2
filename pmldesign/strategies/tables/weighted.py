r"""Strategies that measure tables, each with a weight, over a domain of any size.

R stacks theta_S D_S M_S, M_S the table by the attributes S and D_S a product of one matrix for each
of them (`products`). R^T R is that of a strategy of independent residuals, which knows what can be
answered, and how precisely.

Tables themselves, D_S = 1: a cell counts once in every table, so that the l1 norm of every column
is sum_S theta_S, which is what Laplace noise wants. (The residuals of `marginals` are orthogonal,
which suits Gaussian noise.) With m_S cells of the table by S, N of the domain and P_T the
projection on the residual space of T,

    R^T R = N sum_T lambda_T P_T,      lambda_T = sum of theta_S^2 / m_S over S containing T:

the Gram matrix of a `MarginalsStrategy` of precisions lambda_T, which knows the variances. From
measurements y_S the contrasts of the residual T are estimated by the weighted mean

    sum over S containing T of theta_S / m_S (contrasts of T from y_S) / lambda_T.

Columns that differ in the attributes D are 2 sum of theta_S apart in the l1 norm, and
(2 sum of theta_S^2)^(1/2) in the l2 norm, over the S that meet D.

(`pmldesign_solvers.search.supports` chooses the weights.)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.privacy.outward import factor_above, float_above, raised, size, unscaled
from pmldesign.strategies.arguments import nothing_but, require_measurements
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.marginals import MarginalsStrategy
from pmldesign.strategies.residuals import residual_contrasts
from pmldesign.strategies.structured import CountsStrategy, without_mean
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign.workloads.tables.base import attribute_sets, attribute_sizes, positive_weights
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.subsets import residual_spaces

if TYPE_CHECKING:
    from pmldesign.strategies.row_kinds import RowKinds
    from pmldesign.strategies.whole.lattice import Lattice

LISTED = 16
"""With more attributes in use, their 2^d sets are not listed: all cells count as the farthest."""
Subsets = Sequence[tuple[int, ...]]


class WeightedStrategy(CountsStrategy):
    """Measures some tables, each with a weight of its own.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        subsets: the attributes of each table, in any order; () is the total.
        weights: theta_S > 0 for each of them.
        public: the number of records, where what the measurements say about it is taken out.

    Raises:
        InvalidInputError: sizes, sets or weights that are none.
    """

    residual: MarginalsStrategy | TablesStrategy
    """The strategy of the same Gram matrix."""

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike,
        *,
        public: Public,
    ) -> None:
        self.name, self.public = name, public
        self.sizes = attribute_sizes(sizes)
        self.subsets = attribute_sets("table", subsets, len(self.sizes))
        self.weights = positive_weights("table", weights, len(self.subsets))

    @cached_property
    def counts(self) -> MarginalsWorkload:
        """The tables by each S."""
        return MarginalsWorkload(self.sizes, self.subsets)

    @abstractmethod
    def rows_of_table(self, subset: tuple[int, ...], table: Array) -> Array:
        """D_S times the table by S, of shape (m,) or (m, c)."""

    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x, shape (r,) or (r, c), from the tables by each S, of shape (m,) or (m, c)."""
        measured = []
        for subset, weight, table in zip(self.subsets, self.weights, tables, strict=True):
            kept = without_mean(table) if self.public else table
            measured.append(weight * self.rows_of_table(subset, kept))
        return np.concatenate(measured)

    @abstractmethod
    def _as_residual(self, measurements: Array) -> Array:
        """What `residual` would have measured, by least squares."""

    @abstractmethod
    def _of_tables(self, subsets: Sequence[tuple[int, ...]], weights: Array) -> Self:
        """The strategy of some tables, without what they say about the number of records."""

    def _beside(self, public: Public) -> Strategy:
        if public.kind != "records":
            return super()._beside(public)
        wide = [any(self.sizes[i] > 1 for i in subset) for subset in self.subsets]
        if not any(wide):
            raise nothing_but(public, self.name)
        return self._of_tables([*compress(self.subsets, wide)], self.weights[wide])

    def estimate(self, measurements: Array) -> Array:
        """A histogram as that of `residual`, shape (n,) or (n, c); refused if too large."""
        return self.residual.estimate(self._as_residual(measurements))

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,)."""
        self.require_answers(workload)
        return self.residual.answer(workload, self._as_residual(measurements))

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        self.residual.require_answers(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        return self.residual.variances(workload)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm`, table by table."""
        return self.residual.norm_by_structure(workload, power)


class WeightedTablesStrategy(WeightedStrategy):
    """Measures the tables themselves.

    Attributes:
        residual_precisions: lambda_T of every residual T that the tables tell.

    Raises:
        InvalidInputError: as `WeightedStrategy`, too many subsets, or a public total where nothing
            else is measured.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike,
        *,
        public: Public = NOTHING,
    ) -> None:
        super().__init__(name, sizes, subsets, weights, public=public)
        self.shape = self.counts.shape
        try:
            spaces = residual_spaces(self.sizes, self.subsets)
        except ValueError as error:
            raise InvalidInputError(f"strategy {name!r}: {error}") from None
        kept = slice(1 if public else 0, None)  # the first residual is that of the total
        residuals, self._incidence = spaces.residuals[kept], spaces.incidence[kept]
        if not residuals:
            raise nothing_but(public, name)
        self._shares = self.weights / spaces.cells
        precisions = self._incidence @ (self.weights**2 / spaces.cells)
        self.residual = MarginalsStrategy(name, self.sizes, residuals, precisions, public=public)
        self.residual_precisions = dict(zip(residuals, precisions.tolist(), strict=True))

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most: 1/m, a difference, a product.

        1 - 1/m is at least 1/2, so that the rounding of 1/m does not grow.
        """
        return 4.0 if self.public else 0.0

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up."""
        if neighbours == Neighbours.ADD_REMOVE:
            if self.public:
                return super().sensitivity_under(neighbours, norm)
            return _length(self.weights, 1, norm)
        return _farthest(self.sizes, self.subsets, self.weights, norm)

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """Beyond WRITTEN_CELLS: by the attributes in which two cells differ."""
        if self.few:
            return None
        return _profile(self.sizes, self.subsets, self.weights, norm)

    def rows_of_table(self, subset: tuple[int, ...], table: Array) -> Array:  # noqa: ARG002
        """The table by S itself: D_S = I."""
        return table

    def row_kinds(self, workload: Workload, most: int) -> Sequence[RowKinds] | None:  # noqa: ARG002
        """The rows of L by kinds, table by table."""
        from pmldesign.strategies.row_kinds import kinds_of_tables

        return kinds_of_tables(self, workload)

    def table_lattice(self, bits: int) -> Lattice:
        """Tables, each times a whole number."""
        from pmldesign.strategies.whole.tables import weighted_lattice

        return weighted_lattice(self, bits)

    def _of_tables(self, subsets: Sequence[tuple[int, ...]], weights: Array) -> Self:
        return type(self)(self.name, self.sizes, subsets, weights, public=RECORDS)

    def _as_residual(self, measurements: Array) -> Array:
        """The weighted means of what the tables say, over the roots of the precisions."""
        require_measurements(self.name, self.shape[0], measurements)
        measured = self.counts.split(measurements)
        sums: list[Array] = []
        for row, T in enumerate(self.residual_precisions):
            tables = self._incidence.indices[slice(*self._incidence.indptr[row : row + 2])]
            told = sum(self._shares[k] * self._margin(k, T, measured[k]) for k in tables)
            sums.append(np.asarray(told))
        contrasts = residual_contrasts(self.sizes, tuple(self.residual_precisions), sums)
        roots = map(math.sqrt, self.residual_precisions.values())
        return np.concatenate([part / root for part, root in zip(contrasts, roots, strict=True)])

    def _margin(self, number: int, kept: tuple[int, ...], table: Array) -> Array:
        """The table over the attributes kept, summed from one over more."""
        subset = self.subsets[number]
        shaped = table.reshape([*(self.sizes[i] for i in subset), *table.shape[1:]])
        left_out = tuple(axis for axis, i in enumerate(subset) if i not in kept)
        return np.asarray(shaped.sum(axis=left_out).reshape(-1, *table.shape[1:]))


def _length(weights: Array, factor: int, norm: Norm) -> float:
    """The l1 norm of factor times the weights, or the l2 norm of each taken `factor` times."""
    if not weights.size:
        return 0.0
    if norm == "l1":
        return float_above(
            "the sensitivity", factor * sum(map(Fraction, weights.tolist()), Fraction(0))
        )
    exponent = size(float(weights.max()))
    square = factor * math.fsum(np.ldexp(weights, -exponent) ** 2)
    return unscaled("the sensitivity", raised(math.sqrt(square), 4), exponent)


def _farthest(sizes: Sequence[int], subsets: Subsets, weights: Array, norm: Norm) -> float:
    """The largest distance of two columns, rounded up: they differ in all attributes."""
    wide = [any(sizes[i] > 1 for i in subset) for subset in subsets]
    return _length(weights[wide], 2, norm)


def _profile(sizes: Sequence[int], subsets: Subsets, weights: Array, norm: Norm) -> DistanceProfile:
    """Distances by the attributes in which two cells differ, rounded up."""
    used = sorted({i for subset in subsets for i in subset if sizes[i] > 1})
    seen = math.prod(sizes[i] for i in used)
    copies = float(math.prod(sizes) // seen)
    if len(used) > LISTED:
        return DistanceProfile.all_at(_farthest(sizes, subsets, weights, norm), seen, copies)
    bits = {i: 1 << place for place, i in enumerate(used)}
    differing = np.arange(1, 1 << len(used))
    squares, counts = np.zeros(len(differing)), np.ones(len(differing))
    exponent = size(float(weights.max()))  # so that no square leaves the range of float64
    scaled = np.ldexp(weights, -exponent)
    for subset, weight in zip(subsets, scaled, strict=True):
        meets = (differing & sum(bits.get(i, 0) for i in subset)) > 0
        squares += 2 * np.where(meets, weight if norm == "l1" else weight**2, 0.0)
    for i, bit in bits.items():
        counts *= np.where(differing & bit, sizes[i] - 1.0, 1.0)
    distances = squares if norm == "l1" else np.sqrt(squares)
    rounding = factor_above(len(subsets) + 4)
    return DistanceProfile(np.ldexp(distances * rounding, exponent), counts, copies, float(seen))
