"""Strategies that measure residuals of marginals, over a domain of any size.

The residual of a set T of attributes is what the table by T tells beyond the tables by fewer of
them (`pmldesign_solvers.structure.subsets`). It is measured in an orthonormal basis of its space,

    R_T = theta_T^(1/2) (x)_i (n_i^(1/2) H_i if i in T, else 1^T),

H_i as in `residuals`, so that R^T R = n sum_T theta_T P_T. The measurements of T need the
table by T alone. In every cell

    l2 norm^2 = sum_T theta_T d_T,      l1 norm = sum_T theta_T^(1/2) prod_{i in T} n_i^(1/2) l_i,

l_i the l1 norm of a column of H_i, largest for the first value of each attribute at once. The table
by S is put together from the residuals within S: the sum and the contrasts along each axis,

    A_S R_T^+ = c_S theta_T^(-1/2) (x)_{i in S} (H_i^T / n_i^(1/2) if i in T, else 1 / n_i),

and its cells have the variance c_S^2 / m_S^2 sum_{T in S} d_T / theta_T. None of this mentions n.

Beside public tables the residuals of T within one of them are known and not measured. Beside a
single one, of the attributes C, the others measure what two records with the same values of C
differ by: with O the open attributes,

    norm(R (e_x - e_y))^2 = 2 sum_{T in O} theta'_T (d_T - n_O (P_T)_xy),
    theta'_T = sum over the T' that have T in O of theta_T' d_(T' in C),

the distance of two cells of the open attributes alone, for the precisions theta'.

Lengths and distances of columns. In the l2 norm the distance of two cells depends on the set of
attributes in which they differ (`pmldesign_solvers.structure.cell_pairs`), and all cells are alike.
In the l1 norm two columns are at most twice the longest one apart, not counting the total.

References:
    Xiao, He, Zhang and Kifer, An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions (ResidualPlanner), NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import DistanceProfile, Norm
from pmldesign.privacy.outward import UNIT, factor_above, raised, size, unscaled
from pmldesign.strategies.arguments import (
    ADD_TABLE,
    no_form,
    nothing_but,
    read_only,
    require_measurements,
)
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.residuals import (
    largest_column,
    residual_contrasts,
    tables_of_residuals,
)
from pmldesign.strategies.structured import CountsStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import NOTHING, Public
from pmldesign.workloads.tables.base import attribute_sets, attribute_sizes, positive_weights
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign.workloads.union import counts_asked
from pmldesign_solvers.operators.operator import Array, Indices, power_mean
from pmldesign_solvers.structure.cell_pairs import DifferingSets, OpenParts, differing_sets
from pmldesign_solvers.structure.subsets import residual_spaces

if TYPE_CHECKING:
    from pmldesign.strategies.whole.lattice import Lattice


COLUMN_ROUNDING = 2e-14
"""Relative error of `largest_column` at most."""


class MarginalDistances:
    """Distances for R^T R = n sum_T theta_T P_T with the blocks R_T of the module.

    Args:
        sizes: number of values of each attribute.
        residuals: the sets T.
        precisions: theta_T, shape (T,).
    """

    def __init__(
        self, sizes: tuple[int, ...], residuals: Sequence[tuple[int, ...]], precisions: Array
    ) -> None:
        self._sizes, self._residuals = sizes, residuals
        # over a power of four, so that no product of them leaves the range of float64
        self._exponent = size(float(precisions.max())) // 2
        self._precisions = np.ldexp(precisions, -2 * self._exponent)
        self._dimensions = np.array(
            [math.prod(sizes[i] - 1 for i in T) for T in residuals], dtype=np.float64
        )

    def longest(self, norm: Norm) -> float:
        """Largest norm of a column."""
        if norm == "l2":
            value = raised(math.sqrt(float(self._precisions @ self._dimensions)), self._terms)
        else:
            value = raised(float(self._l1_columns.sum()), self._terms)
        return unscaled("the sensitivity", value, self._exponent)

    def farthest(self, norm: Norm) -> float:
        """Largest distance of two columns, or a bound above it.

        It is exact in the l2 norm for up to MAX_TYPES types of sets of attributes.
        """
        if norm == "l1":
            half = float(self._l1_columns.sum(where=[bool(T) for T in self._residuals]))
            return unscaled("the sensitivity", raised(2 * half, self._terms), self._exponent)
        value = raised(math.sqrt(self._largest_square), 4)
        return unscaled("the sensitivity", value, self._exponent)

    def profile(self, norm: Norm) -> DistanceProfile:
        """Distances from any column to the others: those of all sets of attributes, in l2.

        In the l1 norm, or if there are too many types of sets, all columns are as far away as the
        farthest two can be.
        """
        sets, types, type_of = self._differing
        used = math.prod(self._sizes[i] for members in sets.classes for i in members)
        if norm == "l1" or not sets.listed:
            distances, counts = np.array([self.farthest(norm)]), np.array([float(used - 1)])
        else:
            squares = sets.distances(types, type_of, self._precisions).ravel()[1:]
            roots = np.ldexp(np.sqrt(squares), self._exponent) * factor_above(4)
            distances, place = np.unique(roots, return_inverse=True)
            counts = np.bincount(place, weights=sets.counts().ravel()[1:]).astype(np.float64)
        copies = math.prod(self._sizes) // used
        return DistanceProfile(distances, counts, float(copies), float(used))

    @property
    def _terms(self) -> float:
        """Roundings of a norm at most; the sums of a contrast are known to COLUMN_ROUNDING."""
        each = 8 + COLUMN_ROUNDING / UNIT
        return len(self._residuals) + each * len(self._sizes) + 8

    @cached_property
    def _l1_columns(self) -> Array:
        """The largest l1 norm of a column of each block, attained by the first cell."""
        largest = {size: math.sqrt(size) * largest_column(size) for size in set(self._sizes)}
        products = [math.prod(largest[self._sizes[i]] for i in T) for T in self._residuals]
        return np.asarray(np.sqrt(self._precisions) * products)

    @cached_property
    def _differing(self) -> tuple[DifferingSets, Indices, Indices]:
        """Types of sets of attributes, those of the residuals, and which one each residual has."""
        values = dict(zip(self._residuals, self._precisions.tolist(), strict=True))
        sets = differing_sets(self._sizes, values)
        types, type_of = np.unique(sets.types_of(self._residuals), axis=0, return_inverse=True)
        return sets, types, type_of.ravel()

    @cached_property
    def _largest_square(self) -> float:
        sets, types, type_of = self._differing
        return sets.largest_distance(types, type_of, self._precisions, self._dimensions)


class MarginalsStrategy(CountsStrategy):
    """Measures the residuals of some sets of attributes, each with a precision of its own.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        residuals: the sets T, in any order; () is the total. An attribute with one value has no
            residual.
        precisions: theta_T > 0 for each of them; n theta_T are eigenvalues of R^T R.
        public: the number of records or tables, which tell none of the residuals.

    Raises:
        InvalidInputError: sizes, sets or precisions that are none, or a set without a residual.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        residuals: Iterable[Iterable[int]],
        precisions: ArrayLike,
        *,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.public = name, public
        self.sizes = attribute_sizes(sizes)
        self.residuals = attribute_sets("residual", residuals, len(self.sizes))
        self.precisions = positive_weights("residual", precisions, len(self.residuals))
        for residual in self.residuals:
            if any(self.sizes[i] == 1 for i in residual):
                raise InvalidInputError(
                    f"residual {residual} of strategy {name!r} has an attribute with one value, "
                    "which has no residual; leave it out"
                )
        self._number = {residual: number for number, residual in enumerate(self.residuals)}
        self._dimensions = [
            math.prod(self.sizes[i] - 1 for i in residual) for residual in self.residuals
        ]
        self.shape = sum(self._dimensions), math.prod(self.sizes)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        # the rows of R_T are orthogonal, of squared norm n theta_T
        squares = self.cells * np.repeat(self.precisions, self._dimensions)
        return read_only(self.matrix.T / squares), self.shape[0]

    def _beside(self, public: Public) -> Strategy:
        """Without the residuals that the number of records or tables tell."""
        if public.known_tables is None:
            return super()._beside(public)
        if public.sizes and public.sizes != self.sizes:
            raise no_form(public, self.name)
        kept = [not public.tells(residual) for residual in self.residuals]
        if not any(kept):
            raise nothing_but(public, self.name)
        residuals = [*compress(self.residuals, kept)]
        return MarginalsStrategy(
            self.name, self.sizes, residuals, self.precisions[kept], public=public
        )

    def scaled(self, factor: float) -> MarginalsStrategy:
        """R times a positive number."""
        precisions = self.precisions * factor**2
        return MarginalsStrategy(
            self.name, self.sizes, self.residuals, precisions, public=self.public
        )

    def _matrix_tells(self, norm: Norm) -> bool:
        return norm == "l1" and self.few and (not self.public.name or self.public.several)

    def _longest(self, norm: Norm) -> float:
        return self._distances.longest(norm)

    def _farthest(self, norm: Norm) -> float:
        """Beside a table: of records with the same values of what it counts."""
        return (self._distances if norm == "l1" else self._within).farthest(norm)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by, four for a contrast."""
        return 4.0 * len(self.sizes) + 4

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """Beyond WRITTEN_CELLS: by the attributes in which two cells differ, in the l2 norm."""
        return None if self.few or self.public.name else self._distances.profile(norm)

    def table_lattice(self, bits: int) -> Lattice:
        """Contrasts of tables, each times a whole number."""
        from pmldesign.strategies.whole.tables import residual_lattice

        return residual_lattice(self, bits)

    @cached_property
    def _distances(self) -> MarginalDistances:
        return MarginalDistances(self.sizes, self.residuals, self.precisions)

    @cached_property
    def _within(self) -> MarginalDistances:
        """The distances by open attributes alone, for the precisions theta' of `OpenParts`."""
        if not self.public.name or self.public.several:
            return self._distances
        (counted,) = self.public.tables
        parts = OpenParts(self.sizes, self.residuals, counted)
        return MarginalDistances(self.sizes, parts.sets, parts.totals(self.precisions))

    @cached_property
    def counts(self) -> MarginalsWorkload:
        """The tables by each T."""
        return MarginalsWorkload(self.sizes, self.residuals)

    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x, shape (r,) or (r, c), from the tables by each T, shape (m_T,) or (m_T, c)."""
        parts = residual_contrasts(self.sizes, self.residuals, tables)
        roots = np.sqrt(self.precisions)
        return np.concatenate([root * part for root, part in zip(roots, parts, strict=True)])

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for y of shape (r,) or (r, c); refused if too large."""
        check_entries(f"the histogram of strategy {self.name!r}", (self.cells, 1))
        return self._tables([tuple(range(len(self.sizes)))], measurements)[0]

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,).

        The answers agree with each other: a table by fewer attributes has the sums of one by more.
        """
        self.require_answers(workload)
        marginals, public = self._known(workload)
        if marginals is None:
            return workload.matvec(self.estimate(measurements))
        tables = self._tables(marginals.subsets, measurements, public)
        return np.concatenate([c * t for c, t in zip(marginals.weights, tables, strict=True)])

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        marginals, public = self._known(workload)
        if marginals is None:
            super().require_answers(workload)
        else:
            self._marginal_variances(marginals, public)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        marginals, public = self._known(workload)
        if marginals is None:
            return super().variances(workload)
        check_entries(f"the variances of {workload.name}", (workload.shape[0], 1))
        values, _ = self._marginal_variances(marginals, public)
        return np.repeat(values, marginals.table_queries)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of marginals, of which all answers of one have the same variance."""
        marginals, public = self._known(workload)
        if marginals is None:
            return None
        values, counts = self._marginal_variances(marginals, public)
        return power_mean(values, power, counts)

    def _marginal_variances(
        self, workload: MarginalsWorkload, public: Public
    ) -> tuple[Array, Array]:
        """The variance of the answers of each marginal and their number, both of shape (K,).

        What is public adds nothing to it.
        """
        try:
            spaces = residual_spaces(self.sizes, workload.subsets)
        except ValueError as error:
            raise InvalidInputError(f"workload {workload.name!r}: {error}") from None
        kept = [k for k, T in enumerate(spaces.residuals) if not public.tells(T)]
        needed = [spaces.residuals[k] for k in kept]
        missing = next((T for T in needed if T not in self._number), None)
        if missing is not None:
            remedy = ADD_TABLE
            if not missing:
                remedy = (
                    "take neighbours 'replace', for which the total is public, or add a query for "
                    "the total"
                )
            raise InvalidInputError(
                f"strategy {self.name!r} cannot answer {workload.name!r}: it does not measure the "
                f"residual {missing}; {remedy}"
            )
        precisions = self.precisions[[self._number[T] for T in needed]]
        sums = spaces.incidence[kept].T @ (spaces.dimensions[kept] / precisions)
        return (workload.weights / spaces.cells) ** 2 * sums, spaces.cells

    def _known(self, workload: Workload) -> tuple[MarginalsWorkload | None, Public]:
        """The marginals that are asked for, if it is such, and what of them is public."""
        counts = counts_asked(workload.inner)
        if counts is not None and counts.sizes != self.sizes:
            counts = None
        return counts, workload.public

    def _tables(
        self, subsets: Sequence[tuple[int, ...]], measurements: Array, public: Public = NOTHING
    ) -> list[Array]:
        """The table by each S, shape (m_S,) or (m_S, c); what is not measured counts as 0.

        So does what is public.
        """
        require_measurements(self.name, self.shape[0], measurements)
        scaled = (measurements.T / np.repeat(np.sqrt(self.precisions), self._dimensions)).T
        parts = np.split(scaled, np.cumsum(self._dimensions)[:-1])
        residual_parts = {
            T: part for T, part in zip(self.residuals, parts, strict=True) if not public.tells(T)
        }
        return tables_of_residuals(self.sizes, subsets, residual_parts)
