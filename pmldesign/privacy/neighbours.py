"""Neighbouring relations, and the sensitivity of a strategy under each.

The strategy R is r x k; its column R e_j is the contribution of a record in cell j. Neighbouring
data differ in the histogram x by

    add-remove:  x' = x + t e_j, |t| <= 1          sensitivity max_j ||R e_j||
    replace:     x' = x + e_i - e_j                sensitivity max_ij ||R e_i - R e_j||

in the l2 norm for Gaussian noise, l1 for Laplace and l_inf for cube noise. Under replace the number
of records is fixed and public.

Whatever is returned is at least what exact arithmetic gives for the entries of R as they are
(`privacy.outward`): whole numbers, and those times a power of two, without any rounding, other
entries raised by about r 2^-53. R is divided by a power of two first, so that no square leaves the
range of float64.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, eq. (4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix, member
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.columns import (
    DIAMETERS,
    column_labels,
    longest_column,
    require_norm,
    scaled_rows,
)
from pmldesign.privacy.columns import Norm as Norm
from pmldesign.privacy.columns import distance_blocks as distance_blocks
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import UNIT, factor_above, is_whole, raised, unscaled
from pmldesign.workloads.public import NOTHING, Public, beside_records
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Indices

if TYPE_CHECKING:
    from pmldesign.privacy.sampled_steps import Sampling

VANISHING = 2.0**-500
"""Distances of different columns, relative to the largest, are raised to this: below it the squares
of their entries leave the range of float64."""


class Neighbours(StrEnum):
    """How two neighbouring data sets differ; `Neighbours("replace")` is `Neighbours.REPLACE`."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def _missing_(cls, value: object) -> Neighbours:
        raise InvalidInputError(f"neighbours must be 'add-remove' or 'replace', got {value!r}")

    def __repr__(self) -> str:
        return repr(self.value)


NeighboursLike: TypeAlias = Neighbours | Literal["add-remove", "replace"]
"""A relation, or its name."""


@dataclass(frozen=True, slots=True, eq=False)
class DistanceProfile:
    """Upper bounds on the distances of all columns from each, if they are too many to list.

    Attributes:
        distances: shape (g,), positive if there are others; the other columns, by increasing
            distance, are at most these distances away, in increasing order.
        counts: shape (g,), how many different columns there are at each distance.
        copies: how many cells have the same column; of every column as many.
        columns: number of different columns.
    """

    distances: Array
    counts: Array
    copies: float
    columns: float

    @classmethod
    def all_at(cls, distance: float, columns: float, copies: float = 1.0) -> DistanceProfile:
        """All other columns as far away as the farthest two can be; 0 of a single one."""
        distance = distance if columns > 1 else 0.0
        return cls(np.array([distance]), np.array([float(columns - 1)]), copies, float(columns))

    def row(self, alpha: float) -> tuple[Array, Array]:
        """Distances from a column, its own first, and the least probability at each.

        Args:
            alpha: least probability of a cell.

        Returns:
            Shapes (1, g + 1) and (g + 1,); the sums of alpha are rounded downwards.
        """
        least = alpha * self.copies * np.append(1.0, self.counts)
        return np.append(0.0, self.distances)[None, :], np.asarray(least * (1 - 1e-12))


class Measurable(ABC):
    """What guarantees ask of a strategy R: how far its columns are apart.

    Values that do not follow from the structure follow from the matrix.

    Attributes:
        shape: number of measurements r and of cells k, as large as they may be.
        public: the invariants, if R is without them.
        all_pairs: whether the distances of all pairs of columns count, however many there are.
        columns: number of different columns, each of as many cells, if structure bounds
            distances.
    """

    shape: tuple[int, int]
    public: Public = NOTHING
    all_pairs: bool = False
    columns: int | None = None

    @property
    @abstractmethod
    def matrix(self) -> Array:
        """R, shape (r, k), float64, read-only."""

    @property
    def cells(self) -> int:
        """Number of cells k."""
        return self.shape[1]

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that the entries of `matrix` are off by at most, relative to each."""
        return 0.0

    @property
    def sampling(self) -> Sampling | None:
        """How records are drawn for the steps; None without sampling."""
        return None

    @cached_property
    def sensitivity(self) -> float:
        """Largest l2 norm of a column of R: the add-remove sensitivity of R x."""
        return self.sensitivity_under(Neighbours.ADD_REMOVE, "l2")

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, or a bound above it, rounded up.

        Raises:
            InvalidInputError: named invariants with add-remove neighbours, which change them.
        """
        self._require_same_answers(neighbours)
        require_norm(norm)
        asked = neighbours, norm
        if asked not in self._written_distances:
            self._written_distances[asked] = self._of_matrix(neighbours, norm)
        return self._written_distances[asked]

    def sensitivity_for(self, neighbours: Neighbours, noise: Noise) -> float:
        """The same in the norm of a noise; for the cube by the matrix itself."""
        self._require_same_answers(neighbours)
        noise = member("noise", noise, Noise)
        if noise is Noise.CUBE:
            return Measurable.sensitivity_under(self, neighbours, noise.norm)
        return self.sensitivity_under(neighbours, noise.norm)

    def _require_same_answers(self, neighbours: Neighbours) -> None:
        if (
            member("neighbours", neighbours, Neighbours) is not Neighbours.REPLACE
            and self.public.name
        ):
            raise beside_records(self.public.name)

    @cached_property
    def _written_distances(self) -> dict[tuple[Neighbours, Norm], float]:
        return {}

    def _of_matrix(self, neighbours: Neighbours, norm: Norm) -> float:
        pairs = norm == "l1" and neighbours == Neighbours.REPLACE and self.cells <= WRITTEN_CELLS
        if pairs and self.public.kind != "groups":  # kept: a guarantee may ask for all of them
            distances, _, exponent = self.pair_distances(norm)
            return unscaled("the l1 sensitivity", float(distances.max()), exponent)
        if self.public.kind != "groups":
            return sensitivity_above(self.matrix, neighbours, norm, entry_units=self.entry_units)
        parts = [self.matrix[:, cells] for cells in self.public.members]
        return max(sensitivity_above(part, neighbours, norm) for part in parts if part.size)

    def column_labels(self) -> Indices | None:
        """A number for each cell, equal for equal columns; None if they follow from `matrix`."""
        return None

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """Distances of the columns if they follow from the structure, else None.

        Of more than WRITTEN_CELLS different columns all are as far apart as the farthest two.
        """
        if self.all_pairs or not self._many_columns:
            return None
        return DistanceProfile.all_at(
            self.sensitivity_under(Neighbours.REPLACE, norm), float(self.cells)
        )

    @cached_property
    def _many_columns(self) -> bool:
        """Whether the different columns are too many for the distances of all pairs."""
        if self.cells <= WRITTEN_CELLS:
            return False
        labels = self.column_labels()
        return np.unique(column_labels(self.matrix) if labels is None else labels).size > (
            WRITTEN_CELLS
        )

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Distances of all pairs of columns, as `distances_between`; refused if too many."""
        return distances_of(self, norm)


def sensitivity_above(
    strategy_matrix: ArrayLike, neighbours: Neighbours, norm: Norm, *, entry_units: float = 0.0
) -> float:
    """Largest distance between neighbours, at least the one of exact arithmetic.

    Args:
        strategy_matrix: R, shape (r, k).
        neighbours: the relation.
        norm: "l1", "l2" or "linf".
        entry_units: how many units of 2^-53 the entries themselves may be off, relative to each.

    Raises:
        InvalidInputError: no finite matrix, or a distance that is out of the range of float64.
    """
    matrix = finite_matrix("strategy_matrix", strategy_matrix)
    replace = neighbours == Neighbours.REPLACE
    scaled, exponent = scaled_rows(matrix, differences=replace)
    value = DIAMETERS[norm](scaled) if replace else longest_column(scaled, norm)
    value = unscaled(f"the {norm} sensitivity", value, exponent)
    if entry_units:  # every entry of two columns may be off by this part of its size
        columns = 2 if replace else 1
        longest = sensitivity_above(matrix, Neighbours.ADD_REMOVE, norm)
        value = raised(value + columns * factor_above(0) * entry_units * UNIT * longest, 2)
    return value


def pairwise_distances(strategy_matrix: ArrayLike, *, norm: Norm) -> Array:
    """Distances between the columns of R, shape (k, k), rounded upwards, with a zero diagonal.

    Raises:
        InvalidInputError: too many columns, or a distance that is out of the range of float64.
    """
    distances, exponent = scaled_distances(strategy_matrix, norm=norm)
    unscaled(f"the largest {norm} distance", float(distances.max()), exponent)
    restored = np.ldexp(distances, exponent)
    return np.where(distances > 0, np.maximum(restored, np.finfo(np.float64).tiny), 0.0)


def scaled_distances(
    strategy_matrix: ArrayLike,
    *,
    norm: Norm,
    entry_units: float = 0.0,
    labels: Indices | None = None,
) -> tuple[Array, int]:
    """Distances between the columns of R over 2^e, which makes the largest one about 1, and e.

    They are rounded upwards and 0 for equal columns only: those with equal labels, where entries
    may be off by some units, so that rounding may have made other columns equal.

    Raises:
        InvalidInputError: no finite matrix, or too many columns.
    """
    from pmldesign.workloads.base import check_entries

    matrix = finite_matrix("strategy_matrix", strategy_matrix)
    cells = matrix.shape[1]
    check_entries(
        "the distances of all pairs of cells",
        (cells, cells),
        remedy="take fewer cells, or `calibrate`, which bounds them for products and marginals",
    )
    scaled, exponent = scaled_rows(matrix, differences=True)
    distances = np.zeros((cells, cells))
    for start, stop, block in distance_blocks(scaled, norm=norm):
        distances[start:stop, start:] = block
        distances[start:, start:stop] = block.T
    if norm == "l2" or not is_whole(scaled, raised(float(distances.max()), len(scaled))):
        distances *= factor_above(len(scaled) + 3)
    if entry_units:
        longest = sensitivity_above(np.ldexp(matrix, -exponent), Neighbours.ADD_REMOVE, norm)
        distances += 2 * factor_above(4) * entry_units * UNIT * longest
        distances *= factor_above(2)
    if entry_units or np.count_nonzero(distances) < cells * (cells - 1):
        labels = column_labels(matrix) if labels is None else labels
        differ = labels[:, None] != labels
        distances = np.where(differ, np.maximum(distances, VANISHING), 0.0)
    return distances, exponent


def distinct_columns(matrix: Array, labels: Indices | None = None) -> tuple[Array, Indices | None]:
    """The columns of R without repetitions, and which of them each cell has.

    Args:
        matrix: R, shape (r, k).
        labels: the same for equal columns, shape (k,); None compares them.

    Returns:
        Shapes (r, k') and (k,); R itself and None where all columns differ.
    """
    labels = column_labels(matrix) if labels is None else labels
    _, first, cell_of = np.unique(labels, return_index=True, return_inverse=True)
    if len(first) == matrix.shape[1]:
        return matrix, None
    return np.ascontiguousarray(matrix[:, first]), cell_of


@lru_cache(maxsize=2)  # the same strategies are asked several times, and take long
def distances_of(strategy: Measurable, norm: Norm) -> tuple[Array, Indices | None, int]:
    """`distances_between` the columns of a strategy that is written out."""
    labels = strategy.column_labels()
    return distances_between(strategy.matrix, norm, strategy.entry_units, labels)


def distances_between(
    matrix: Array, norm: Norm, entry_units: float = 0.0, labels: Indices | None = None
) -> tuple[Array, Indices | None, int]:
    """Distances of the columns over 2^e, which column each cell has if some are equal, and e."""
    distinct, cell_of = distinct_columns(matrix, labels)
    labels = np.arange(distinct.shape[1])
    distances, exponent = scaled_distances(
        distinct, norm=norm, entry_units=entry_units, labels=labels
    )
    return distances, cell_of, exponent
