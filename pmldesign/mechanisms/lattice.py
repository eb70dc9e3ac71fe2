r"""A strategy of integers: measurements are exact, so that the noise can be exact too.

A strategy R becomes  R' = diag(u) Z  with Z an integer matrix and units u > 0, all nearly equal.
The release is y = Z x + eta with whole numbers eta, and everything after it is a function of y.
Row i of R' x is estimated by u_i y_i. `release.lattices` has Z for every strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pmldesign.mechanisms.integers import (
    EXACT_FLOAT,
    Image,
    Integers,
    largest_absolute_column,
    largest_square_column,
)
from pmldesign.privacy.neighbours import Neighbours, pairwise_distances
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.person_distances import person_sensitivity
from pmldesign.strategies.participation.persons import ANY, PersonRows
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array

SENSITIVITY_ROUNDING = 2.0**-40
"""Relative allowance for sensitivities that are evaluated in floating point: the sums have fewer
than 2^12 roundings of 2^-53 each. It also covers kappa < 1e-20 of the discrete Gaussian."""


@dataclass(frozen=True, eq=False)
class TableCounts:
    """The tables of people, where the histogram would be too large.

    Attributes:
        tables: for each set of attributes the counts, the last attribute fastest.
        total: of each of them: the number of records, times D where counts are parts of 1/D.
    """

    tables: list[Integers]
    total: int


class TableImage(NamedTuple):
    """Z x from tables.

    Attributes:
        sizes: number of values of each attribute.
        subsets: the attributes of each table.
        of_tables: Z x from these tables.
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]
    of_tables: Callable[[Sequence[Integers]], Integers]


@dataclass(frozen=True, eq=False)
class Lattice:
    """A strategy as a matrix of whole numbers, on which noise is drawn exactly.

    Attributes:
        measured: R' = diag(units) Z, for sensitivities and calibration; without its total under
            replace. Sensitivities may be those of a strategy within `distortion`.
        estimator: whose L makes answers of diag(units) y; R' itself unless there is a bias.
        units: u, shape (r,).
        image: x -> Z x.
        matrix: Z if it is dense.
        slack: by how many units an entry of the difference of two images may be more than that
            of `measured`.
        distortion: by what part the sensitivities of `measured` may be too small.
        bias: largest entry of R' - R if `estimator` is R, else 0.
        tables: those from which Z x is computed; None if Z x needs the histogram.
        lengths: sensitivities that are known exactly.
        rows: of one person, who are neighbours with and without all of them; None for one row.
    """

    measured: Strategy
    estimator: Strategy
    units: Array
    image: Image
    matrix: Integers | None = None
    slack: float = 0.0
    distortion: float = 0.0
    bias: float = 0.0
    tables: TableImage | None = None
    lengths: Mapping[tuple[Neighbours, Noise], int] = field(default_factory=dict)
    rows: PersonRows | None = None

    def sensitivity(self, neighbours: Neighbours, noise: Noise) -> tuple[int, bool]:
        """Largest l1, l_inf (cube) or squared l2 distance (Gaussian) of Z x of neighbours.

        Returns:
            A whole number, and whether it is exact or rounded upwards.
        """
        value, exact = self._of_one_row(neighbours, noise)
        if self.rows is None:
            return value, exact
        count = self.rows.reach(self.measured.cells)
        value *= count**2 if noise is Noise.GAUSSIAN else count
        if count == 1 or self.rows.one_per == ANY:
            return value, exact
        apart = person_sensitivity(self.measured, self.rows, neighbours, noise.norm)
        return min(value, self._rounded_up(apart, neighbours, noise, count)), False

    def _of_one_row(self, neighbours: Neighbours, noise: Noise) -> tuple[int, bool]:
        if (neighbours, noise) in self.lengths:
            return self.lengths[neighbours, noise], True
        if noise is Noise.CUBE:
            return self._largest_entry(neighbours)
        if self.matrix is not None and neighbours is Neighbours.ADD_REMOVE:
            laplace = noise is Noise.LAPLACE
            norm_of = largest_absolute_column if laplace else largest_square_column
            return norm_of(self.matrix), True
        if (
            self.matrix is not None
            and noise is Noise.LAPLACE
            and self.measured.cells <= WRITTEN_CELLS
            and 2 * largest_absolute_column(self.matrix) < EXACT_FLOAT
        ):
            whole = self.matrix.astype(np.float64)
            parts = [whole[:, cells] for cells in self.measured.public.members] or [whole]
            return max(int(pairwise_distances(part, norm="l1").max()) for part in parts), True
        value = self.measured.sensitivity_for(neighbours, noise)
        return self._rounded_up(value, neighbours, noise), False

    def _rounded_up(
        self, distance: float, neighbours: Neighbours, noise: Noise, rows: int = 1
    ) -> int:
        """A distance of `measured` for `rows` records as one of Z x, squared for Gaussian noise."""
        moved = rows * self.distortion * self.measured.sensitivity_for(neighbours, noise)
        value = (distance + moved) * (1 + SENSITIVITY_ROUNDING) / float(self.units.min())
        slack = rows * self.slack
        if noise is Noise.CUBE:
            return math.ceil(value + slack)
        if noise is Noise.LAPLACE:
            return math.ceil(value + slack * self.units.size)
        value += slack * math.sqrt(self.units.size)
        return math.ceil(value**2 * (1 + SENSITIVITY_ROUNDING))

    def _largest_entry(self, neighbours: Neighbours) -> tuple[int, bool]:
        """Largest l_inf distance of Z x of neighbours."""
        if self.matrix is None:
            value = self.measured.sensitivity_for(neighbours, Noise.CUBE)
            return self._rounded_up(value, neighbours, Noise.CUBE), False
        if neighbours is Neighbours.ADD_REMOVE:
            return int(np.abs(self.matrix).max()), True
        parts = [self.matrix[:, cells] for cells in self.measured.public.members] or [self.matrix]
        return max(int((part.max(axis=1) - part.min(axis=1)).max()) for part in parts), True
