"""Lengths and distances of the columns of a strategy of residuals of marginals.

The letters are those of `marginals`. In the l2 norm the distance of two cells depends on the set of
attributes in which they differ (`pmldesign_solvers.structure.cell_pairs`), and all cells are alike.
In the l1 norm two columns are at most twice the longest one apart, not counting the total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pmldesign.privacy.neighbours import DistanceProfile, Norm
from pmldesign.privacy.outward import UNIT, factor_above, raised, size, unscaled
from pmldesign.strategies.marginals.residuals import largest_column
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.structure.cell_pairs import DifferingSets, differing_sets

COLUMN_ROUNDING = 2e-14
"""Relative error of `largest_column` at most."""


class MarginalDistances:
    """Those of R^T R = n sum_T theta_T P_T with the blocks R_T of `marginals`.

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
