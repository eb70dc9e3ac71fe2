"""Neighbouring relations, and the sensitivity of a strategy under each.

The strategy R is r x k; its column R e_j is what one record in cell j contributes. Neighbouring
data differ in the histogram x by

    add-remove:  x' = x + t e_j, |t| <= 1          sensitivity max_j ||R e_j||
    replace:     x' = x + e_i - e_j                sensitivity max_ij ||R e_i - R e_j||

in the l2 norm for Gaussian noise and the l1 norm for Laplace noise. Under replace the number of
records is fixed and public.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, eq. (4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from pmldesign._arguments import finite_matrix
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators import BLOCK_BYTES, Array

Norm = Literal["l1", "l2"]


class Neighbours(StrEnum):
    """How two neighbouring data sets differ; `Neighbours("replace")` is `Neighbours.REPLACE`."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def _missing_(cls, value: object) -> Neighbours:
        raise InvalidInputError(f"neighbours must be 'add-remove' or 'replace', got {value!r}")


@dataclass(frozen=True, slots=True, eq=False)
class DistanceProfile:
    """How far the columns of R lie from any one of them, at most, where they are too many to list.

    Attributes:
        distances: shape (g,), positive; the columns other than a given one, taken by increasing
            distance, are no farther from it than these in increasing order.
        counts: shape (g,), how many different columns there are at each distance.
        copies: how many cells have the same column; of every column as many.
        columns: number of different columns.
    """

    distances: Array
    counts: Array
    copies: float
    columns: float

    def row(self, alpha: float) -> tuple[Array, Array]:
        """Distances from a column, its own first, and the least probability of what is there.

        Args:
            alpha: least probability of a cell.

        Returns:
            Shapes (1, g + 1) and (g + 1,); the sums of alpha are rounded downwards.
        """
        least = alpha * self.copies * np.append(1.0, self.counts)
        return np.append(0.0, self.distances)[None, :], np.asarray(least * (1 - 1e-12))


def l1_sensitivity(strategy_matrix: ArrayLike, neighbours: Neighbours | str) -> float:
    """Largest l1 distance between neighbours, for R of shape (r, k)."""
    return _sensitivity(strategy_matrix, Neighbours(neighbours), "l1")


def l2_sensitivity(strategy_matrix: ArrayLike, neighbours: Neighbours | str) -> float:
    """Largest l2 distance between neighbours, for R of shape (r, k)."""
    return _sensitivity(strategy_matrix, Neighbours(neighbours), "l2")


def pairwise_distances(strategy_matrix: ArrayLike, *, norm: Norm) -> Array:
    """Distances between the columns of R, shape (k, k), symmetric with a zero diagonal.

    Raises:
        InvalidInputError: too many columns.
    """
    columns = _columns(strategy_matrix)
    check_entries(
        "the distances of all pairs of cells",
        (len(columns), len(columns)),
        remedy="take fewer cells, or `calibrate`, which bounds them for products and marginals",
    )
    distances = np.zeros((len(columns), len(columns)))
    for start, stop, block in distance_blocks(strategy_matrix, norm=norm):
        distances[start:stop, start:] = block
        distances[start:, start:stop] = block.T
    return distances


def distance_blocks(strategy_matrix: ArrayLike, *, norm: Norm) -> Iterator[tuple[int, int, Array]]:
    """The upper triangle of the pairwise distances, some rows at a time.

    Yields:
        start, stop and the distances of columns start .. stop - 1 to columns start .. k - 1.
    """
    metric: Literal["cityblock", "euclidean"] = "cityblock" if norm == "l1" else "euclidean"
    columns = _columns(strategy_matrix)
    step = max(1, BLOCK_BYTES // (8 * len(columns)))
    for start in range(0, len(columns), step):
        stop = min(start + step, len(columns))
        # differences are formed entry by entry: no cancellation, unlike a Gram matrix
        yield start, stop, cdist(columns[start:stop], columns[start:], metric)


def _sensitivity(strategy_matrix: ArrayLike, neighbours: Neighbours, norm: Norm) -> float:
    columns = _columns(strategy_matrix)
    if neighbours is Neighbours.ADD_REMOVE:
        return float(np.linalg.norm(columns, ord=1 if norm == "l1" else 2, axis=1).max())
    if norm == "l2":
        return _diameter(columns)
    return max(float(block.max()) for _, _, block in distance_blocks(strategy_matrix, norm=norm))


def _diameter(points: Array) -> float:
    """Largest l2 distance between two points, through products of blocks of their Gram matrix.

    From the first point all others lie within the diameter, so squared distances formed from
    inner products about it are accurate relative to the largest; that one is then recomputed.
    """
    centred = points - points[0]
    squares = np.einsum("ij,ij->i", centred, centred)
    step = max(1, BLOCK_BYTES // (8 * len(points)))
    best = 0.0
    for start in range(0, len(points), step):
        block = centred[start : start + step]
        distances = squares[start : start + step, None] + squares - 2 * (block @ centred.T)
        row, column = np.unravel_index(np.argmax(distances), distances.shape)
        best = max(best, float(np.linalg.norm(points[start + row] - points[column])))
    return best


def _columns(strategy_matrix: ArrayLike) -> Array:
    return np.ascontiguousarray(finite_matrix("strategy_matrix", strategy_matrix).T)
