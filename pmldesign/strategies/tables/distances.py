r"""Lengths and distances of the columns of strategies that measure products on tables.

Let R stack w_T (x)_{i in T} M_i (x) 1^T over sets T of attributes, M_i of n_i columns. With l_i the
longest column of M_i and s_T = w_T^2 prod_{i in T} |l_i|^2, a column is at most

    l2:  (sum_T s_T)^(1/2),        l1:  sum_T w_T prod_{i in T} |l_i|_1        long,

and the squared l2 distance of two that differ in the attributes U at most

    D_U = 2 sum_T s_T (1 - prod_{i in T and U} r_i),    r_i the least entry of M_i^T M_i / |l_i|^2

(`pmldesign_solvers.structure.cell_pairs`): a shorter column counts as if it had one more entry, of
its own. An attribute that is in no T but its own counts with the largest distance of its columns.
In the l1 norm two columns are at most twice the longest one apart, not counting the total.

All of this is exact if the columns of each M_i are equivalent: contrasts (n/(n - 1))^(1/2) H, with
r = -1/(n - 1), and the counts M_i = 1, with r = 0, whose l1 distances are D_U with w_T in the place
of s_T. Then D_U of all sets U are the distances of a cell to all others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm, sensitivity_above
from pmldesign.privacy.outward import factor_above, float_above, raised, size, unscaled
from pmldesign.strategies.residuals import largest_column
from pmldesign_solvers.operators.operator import EPS, Array, Indices
from pmldesign_solvers.structure.cell_pairs import DifferingSets, differing_sets

COLUMN_UNITS = 200.0
"""Units of 2^-53 that `largest_column` is off by at most."""


@dataclass(frozen=True)
class Columns:
    """The columns of the matrix M of an attribute.

    Attributes:
        length: largest l2 norm, rounded up.
        absolute: largest l1 norm, rounded up.
        least: r, the least entry of M^T M over the square of `length`, rounded down.
        alone: 1 - d^2/2 for the largest l2 distance d of two columns, over `length`, rounded down.
        alike: whether all columns have these lengths, and all pairs these inner products; in the
            l1 norm only those of counts.
    """

    length: float
    absolute: float
    least: float
    alone: float
    alike: bool = False

    @classmethod
    def contrasts(cls, n: int) -> Columns:
        """Of (n/(n - 1))^(1/2) H, n at least 2."""
        ratio = -1.0 / (n - 1)
        absolute = raised(math.sqrt(n / (n - 1)) * largest_column(n), COLUMN_UNITS)
        return cls(1.0, absolute, ratio, ratio, alike=True)

    @classmethod
    def of(cls, matrix: Array) -> Columns:
        """Of any matrix."""
        length = sensitivity_above(matrix, Neighbours.ADD_REMOVE, "l2")
        scaled = matrix / length
        gram, rounding = scaled.T @ scaled, 2 * (sum(matrix.shape) + 4) * EPS
        lengths = gram.diagonal()
        square = float((lengths[:, None] + lengths - 2 * gram).max())
        return cls(
            length,
            sensitivity_above(matrix, Neighbours.ADD_REMOVE, "l1"),
            max(float(gram.min()) - rounding, -1.0),
            max(1 - square / 2 - 2 * rounding, -1.0),
        )


COUNTS = Columns(1.0, 1.0, 0.0, 0.0, alike=True)
"""Of the identity."""


class TableDistances:
    """Lengths and distances for products on tables.

    Args:
        sizes: number of values of each attribute.
        columns: of each attribute in some T, if it has more than one value.
        sets: T.
        weights: w_T > 0, shape (sets,).
        units: units of 2^-53 that the weights are off by at most.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        columns: Mapping[int, Columns],
        sets: Sequence[tuple[int, ...]],
        weights: Array,
        *,
        units: float = 0.0,
    ) -> None:
        self._sizes, self._columns, self._units = sizes, columns, units
        self._sets = [tuple(i for i in T if sizes[i] > 1) for T in sets]
        # over a power of two, so that no square leaves the range of float64
        longest = {i: own.length for i, own in columns.items() if own.length != 1}
        lengths = np.array([math.prod(longest[i] for i in T if i in longest) for T in self._sets])
        self._exponent = size(float((weights * lengths).max()))
        self._weights = weights
        self._roots = np.ldexp(weights * lengths, -self._exponent)  # s_T^(1/2)

    def longest(self, norm: Norm) -> float:
        """Largest norm of a column, rounded up."""
        if norm == "l1":
            return self._absolute(1, self._sets, self._weights)
        value = math.sqrt(math.fsum(self._roots**2))
        return unscaled("the sensitivity", raised(value, self._rounding), self._exponent)

    def farthest(self, norm: Norm) -> float:
        """Largest distance of two columns, or a bound above it, rounded up."""
        if norm == "l1":
            wide = [bool(T) for T in self._sets]
            return self._absolute(2, [T for T in self._sets if T], self._weights[wide])
        value = raised(math.sqrt(self._differing.largest(self._roots**2)), self._rounding)
        return unscaled("the sensitivity", value, self._exponent)

    def profile(self, norm: Norm) -> DistanceProfile:
        """Distances from any column to the others: all at the largest unless equivalent."""
        used = math.prod(self._sizes[i] for i in set().union(*self._sets))
        copies = float(math.prod(self._sizes) // used)
        columns = [self._columns[i] for i in set().union(*self._sets)]
        alike = all(own.alike and (norm == "l2" or own is COUNTS) for own in columns)
        if not alike or not self._differing.sets.listed:
            return DistanceProfile.all_at(self.farthest(norm), float(used), copies)
        shares = self._roots if norm == "l1" else self._roots**2
        sums = self._differing.distances(shares).ravel()[1:]
        values = np.maximum(sums if norm == "l1" else np.sqrt(sums), 0.0)
        distances, place = np.unique(values, return_inverse=True)
        counts = np.bincount(place.ravel(), weights=self._differing.sets.counts().ravel()[1:])
        distances = np.ldexp(distances * factor_above(self._rounding), self._exponent)
        return DistanceProfile(distances, counts.astype(np.float64), copies, float(used))

    @property
    def _rounding(self) -> float:
        return 2 * len(self._sets) + 4 * len(self._columns) + self._units + 8

    def _absolute(self, times: int, sets: Sequence[tuple[int, ...]], weights: Array) -> float:
        """Sum of w_T prod |l_i|_1, some times, rounded once if the weights are exact."""
        if self._units:
            own = {i: columns.absolute for i, columns in self._columns.items()}
            products = [math.prod(own[i] for i in T) for T in sets]
            total = times * math.fsum(np.ldexp(weights, -self._exponent) * products)
            return unscaled("the sensitivity", raised(total, self._rounding), self._exponent)
        exact = {i: Fraction(columns.absolute) for i, columns in self._columns.items()}
        lengths = (
            math.prod((exact[i] for i in T), start=Fraction(weight))
            for T, weight in zip(sets, weights.tolist(), strict=True)
        )
        return float_above("the sensitivity", times * sum(lengths, Fraction(0)))

    @cached_property
    def _differing(self) -> _Differing:
        return _Differing(self._sizes, self._columns, self._sets, self._roots**2)


class _Differing:
    """The sets U of attributes in which two cells may differ."""

    def __init__(
        self,
        sizes: Sequence[int],
        columns: Mapping[int, Columns],
        sets: Sequence[tuple[int, ...]],
        shares: Array,
    ) -> None:
        number = {T: k for k, T in enumerate(dict.fromkeys(sets))}
        self._place: Indices = np.array([number[T] for T in sets], dtype=np.intp)
        self._sizes, self._distinct, self._shares = sizes, tuple(number), shares
        occurrences = Counter(i for T in number for i in T)
        self._ratios = [0.0] * len(sizes)
        for i, count in occurrences.items():
            alone = count == 1 and (i,) in number
            self._ratios[i] = columns[i].alone if alone else columns[i].least

    @cached_property
    def sets(self) -> DifferingSets:
        """The types of U."""
        values = dict(zip(self._distinct, self._totals(self._shares).tolist(), strict=True))
        return differing_sets(self._sizes, values, self._ratios)

    def distances(self, shares: Array) -> Array:
        """D_U for every type of U, rounded up, for s_T of each set."""
        return self.sets.distances(*self._types, self._totals(shares))

    def largest(self, shares: Array) -> float:
        """The largest D_U, rounded up, or a bound above it."""
        if min(self._ratios) < 0:
            return self.sets.largest_distance(*self._types, self._totals(shares))
        # the more attributes differ, the farther
        rest = [1 - math.prod(self._ratios[i] for i in T) for T in self._distinct]
        total = 2 * math.fsum(self._totals(shares) * rest)
        return raised(total, 4 * len(self._sizes) + 8)

    @cached_property
    def _types(self) -> tuple[Indices, Indices]:
        """The types of T, and that of each T."""
        types, type_of = np.unique(self.sets.types_of(self._distinct), axis=0, return_inverse=True)
        return types, type_of.ravel()

    def _totals(self, shares: Array) -> Array:
        return np.bincount(self._place, weights=shares).astype(np.float64)
