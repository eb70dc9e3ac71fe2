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
from pmldesign.strategies.arguments import (
    nothing_but,
    read_only,
    require_measurements,
)
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.marginals.distances import MarginalDistances
from pmldesign.strategies.marginals.residuals import (
    residual_contrasts,
    tables_of_residuals,
)
from pmldesign.strategies.structured import CountsStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import NOTHING, Public
from pmldesign.workloads.tables.base import attribute_sets, attribute_sizes, positive_weights
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign.workloads.union import counts_asked
from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.cell_pairs import OpenParts
from pmldesign_solvers.structure.subsets import residual_spaces

if TYPE_CHECKING:
    from pmldesign.strategies.whole.lattice import Lattice


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
            raise self._no_form(public)
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
        """Those of the open attributes alone, for the precisions theta' of `OpenParts`."""
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
            remedy = "add it"
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
