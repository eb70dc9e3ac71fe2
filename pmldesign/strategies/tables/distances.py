r"""Lengths and distances of the columns of a strategy for tables.

Without couplings the Gram matrix is sum_S s_S (x)_{i in S} X0_i (x) 1 1^T, X0_i of diagonal 1. Two
cells that differ in the attributes U have the squared distance

    2 sum_S s_S (1 - prod_{i in S and U} X0_i[x_i, y_i]),

linear in each entry, so that it is largest where every attribute in U takes its least entry: all
sets U are tried for up to MAX_ATTRIBUTES attributes. Columns that are shorter count as if they were
of length 1; but an attribute that is in no S but its own counts with the largest distance of its
columns, whatever the others do. For more attributes every S counts with the least that its product
can be; with couplings, two columns are at most twice the longest one apart.

Lengths and distances (`pmldesign_solvers.tables.upper_bound` has those of coupled ones) are those
of coordinates Y_i of which no column is longer than 1. Of others let rho_i be the largest squared
norm of a column: Y_i / rho_i^(1/2) with

    rho_i E for sectors with the spectator i,
    rho_i^(1/2) for rows and columns of E with its features

measures the same. Designs have rho_i = 1 but for rounding, which counts all the same.

The rows that are measured are C^T times products of coordinates, where a rounded E = C C^T is off
by (k + 1) u |C| |C|^T at most for E of order k, so that no squared length is off by more than
k (k + 1) u tr E times the lengths of the spectators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import pairwise

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.residuals import largest_column as longest_contrasts
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.problem import Attributes
from pmldesign_solvers.tables.sectors import Sector
from pmldesign_solvers.tables.upper_bound import largest_column, summed

MAX_ATTRIBUTES = 14
"""Their 2^14 sets times some hundreds of tables take a second."""


def squared_lengths(ordered: Mapping[int, Measured]) -> dict[int, float]:
    """rho_i of each attribute, rounded up."""
    squares = {i: float((measured.rows**2).sum(axis=0).max()) for i, measured in ordered.items()}
    return {i: raised(square, len(ordered[i].rows) + 2) for i, square in squares.items()}


def unit_sector(sector: Sector, features: Mapping[int, int], rho: Mapping[int, float]) -> Sector:
    """The sector that measures the same of coordinates of length 1, rounded up."""
    roots = np.concatenate(
        [
            np.full(math.prod(features[i] for i in s), math.sqrt(math.prod(rho[i] for i in s)))
            for s in sector.sets
        ]
    )
    outer = math.prod(rho[i] for i in sector.spectators)
    matrix = sector.matrix * np.multiply.outer(roots, roots) * outer
    k = len(matrix)
    allowance = (k * (k + 1) + 8 * len(rho) + 8) * UNIT * float(matrix.trace())
    matrix[np.diag_indices(k)] += allowance
    return Sector(sector.plain, sector.spectators, sector.sets, matrix)


def check_sectors(
    name: str,
    sizes: Sequence[int],
    ordered: Mapping[int, Measured],
    features: Mapping[int, int],
    sectors: Sequence[Sector],
) -> None:
    """Refuse sectors that are no partition of what is measured.

    Raises:
        InvalidInputError: attributes out of range, of the wrong kind or in two places, a pair of
            sets that comes twice, coordinates or an E of another shape or not finite.
    """
    fits = set(ordered) == set(features) and all(
        _coordinates_fit(sizes, i, entry, features[i]) for i, entry in ordered.items()
    )
    plain = {*range(len(sizes))} - features.keys()
    forms = {(entry.spectators, entry.sets, entry.matrix.shape) for entry in sectors}
    pairs = {(entry.plain, entry.spectators) for entry in sectors}
    if (
        not fits
        or not sectors
        or len(pairs) < len(sectors)
        or not all(_increasing(members, plain) for members in {s.plain for s in sectors})
        or not all(_fits(features, *form) for form in forms)
    ):
        raise InvalidInputError(
            f"strategy {name!r}: its sectors do not fit its attributes; write the file again"
        )


def _coordinates_fit(sizes: Sequence[int], i: int, measured: Measured, count: int) -> bool:
    return (
        0 <= i < len(sizes)
        and measured.rows.shape == (sizes[i] - 1, sizes[i])
        and 0 <= count < sizes[i]
        and bool(np.isfinite(measured.rows).all() and np.isfinite(measured.inverse).all())
    )


def _fits(
    features: Mapping[int, int],
    spectators: Attributes,
    sets: tuple[Attributes, ...],
    shape: tuple[int, ...],
) -> bool:
    """Whether spectators, sets and the shape of E go together."""
    coupled = {i for i, count in features.items() if count > 0} - {*spectators}
    return (
        _increasing(spectators, features.keys())
        and all(_increasing(s, coupled) for s in sets)
        and list(sets) == sorted(set(sets), key=lambda s: (len(s), s))
        and (size := sum(math.prod(features[i] for i in s) for s in sets)) > 0
        and shape == (size, size)
    )


def _increasing(members: Attributes, allowed: Set[int]) -> bool:
    """Whether these are some of the attributes that are allowed, in order."""
    return allowed >= {*members} and all(a < b for a, b in pairwise(members))


class TableDistances:
    """Lengths and distances for some sectors.

    Args:
        sizes: number of values of each attribute.
        ordered: Y_i and its inverse for attributes that are not plain.
        features: the number of features of each of these.
        sectors: E for each Q and Sp.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        ordered: Mapping[int, Measured],
        features: Mapping[int, int],
        sectors: Sequence[Sector],
    ) -> None:
        self._sizes, self._ordered, self._features = sizes, ordered, features
        self._sectors = sectors

    def longest(self, norm: Norm) -> float:
        """Largest norm of a column, or a bound above it, rounded up."""
        if norm == "l1":
            return self._longest_l1
        rho = squared_lengths(self._ordered)
        sectors = [unit_sector(sector, self._features, rho) for sector in summed(self._sectors)]
        return raised(math.sqrt(largest_column(sectors, self._features)), 4)

    @cached_property
    def farthest(self) -> float:
        """Largest l2 distance of two columns, or a bound above it, rounded up."""
        rho = squared_lengths(self._ordered)
        sectors = [unit_sector(sector, self._features, rho) for sector in self._sectors]
        kept = without_empty_set(sectors)
        if any(self._features.values()):
            return 2 * math.sqrt(largest_column(kept, self._features))
        weights = {sector.plain + sector.spectators: float(sector.matrix[0, 0]) for sector in kept}
        used = sorted(set().union(*weights))
        least = np.array([self._least(i, rho) for i in used])
        s = np.array(list(weights.values()))
        inside = np.array([[i in members for i in used] for members in weights])
        values = np.where(inside, least, 1.0)
        for place, i in enumerate(used):
            (rows,) = np.nonzero(inside[:, place])
            if i in self._ordered and inside[rows].sum() == 1:  # {i}, and no other S with i
                values[rows, place] = max(least[place], _half_distance(self._ordered[i], rho[i]))
        if len(used) > MAX_ATTRIBUTES:
            entries = (row[members] for row, members in zip(values, inside, strict=True))
            smallest = np.array([min(float(row.min()), float(row.prod())) for row in entries])
            square = 2 * float(s @ (1 - smallest))
        else:
            products = np.ones((len(s), 1))
            for column in values.T:
                products = np.hstack([products, products * column[:, None]])
            square = 2 * float((s.sum() - s @ products).max())
        # the difference may be small, and the sums large: their rounding is added
        square += (len(s) + len(used) + 20) * EPS * float(s.sum())
        longest = 1 + sum(self._sizes[i] for i in used) * EPS
        return math.sqrt(max(square, 0.0) * longest) * (1 + (len(s) + 100) * EPS)

    def entry_units(self, matrix: Array) -> float:
        """Units of 2^-53 that entries of the written R are off by, relative to its l2 columns.

        Sums over the values of attributes and the rows of E are off by that many units of what they
        would be without signs, at most three times the l1 norm (of a table and its mean).
        """
        order = max(len(sector.matrix) for sector in self._sectors)
        units = 3.0 * (sum(self._sizes) + 12 * len(self._sizes) + (order + 2) * (order + 2) + 20)
        longest = float(np.sqrt((matrix**2).sum(axis=0).max(initial=0.0)))
        return units * self._longest_l1 / longest if longest > 0 else 0.0

    @cached_property
    def _longest_l1(self) -> float:
        total = 0.0
        for sector in self._sectors:
            mixing = np.abs(np.linalg.cholesky(sector.matrix)).sum(axis=1)
            tops = [_tops(self._ordered, self._features, s) for s in sector.sets]
            rows = [self._ordered[i].rows[self._features[i] :] for i in sector.spectators]
            rest = math.prod(float(np.abs(row).sum(axis=0).max()) for row in rows)
            plain = math.prod(_longest_plain(self._sizes[i]) for i in sector.plain)
            total += float(mixing @ np.concatenate(tops)) * rest * plain
        order = max(len(sector.matrix) for sector in self._sectors)
        rounding = len(self._sectors) + sum(self._sizes) + (order + 2) ** 2 + 200
        return total * (1 + rounding * EPS)

    def _least(self, i: int, rho: Mapping[int, float]) -> float:
        """The least entry of X0 of an attribute, rounded down."""
        size = self._sizes[i]
        if i not in self._ordered:
            return -1.0 / (size - 1) * (1 + EPS)
        gram = self._ordered[i].rows.T @ self._ordered[i].rows
        return float(gram.min()) / rho[i] - 2 * (size + 2) * EPS


def without_empty_set(sectors: Sequence[Sector]) -> list[Sector]:
    """The sectors without the coordinate of the empty set."""
    kept = []
    for sector in sectors:
        if sector.plain or sector.spectators or () not in sector.sets:
            kept.append(sector)
        elif len(sector.sets) > 1:
            kept.append(Sector((), (), sector.sets[1:], sector.matrix[1:, 1:]))
    return kept


def _tops(ordered: Mapping[int, Measured], features: Mapping[int, int], s: Sequence[int]) -> Array:
    """The largest size of each product of features of a set."""
    tops = np.ones(1)
    for i in s:
        largest = np.abs(ordered[i].rows[: features[i]]).max(axis=1)
        tops = np.multiply.outer(tops, largest).ravel()
    return tops


def _longest_plain(size: int) -> float:
    return math.sqrt(size / (size - 1)) * longest_contrasts(size)


def _half_distance(ordered: Measured, rho: float) -> float:
    """1 - d^2 / 2 for the largest distance d of two columns, rounded down."""
    gram = ordered.rows.T @ ordered.rows
    lengths = gram.diagonal()
    square = float((lengths[:, None] + lengths - 2 * gram).max()) / rho
    return 1 - square / 2 - 4 * (len(gram) + 2) * EPS
