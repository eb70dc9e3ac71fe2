"""How neighbouring histograms differ, in the coordinates that a strategy is designed in.

The sensitivity of a strategy with Gram matrix G is max_k v_k^T G v_k over the difference vectors.

    cells   v_j = e_j                            one record added or removed
    pairs   v_0j = e_j, v_ij = e_i - e_j         one record replaced

For pairs the vectors that sum to zero are written in n - 1 coordinates: the last cell of the
workload is the reference, its column is subtracted from every other one and left out, and e_j
stands for the difference to it. Weights on differences form W = sum_k w_k v_k v_k^T, a diagonal
matrix for cells and a grounded graph Laplacian for pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import BLOCK_BYTES, EPS, Array, Indices

Relation = Literal["add-remove", "replace"]
"""What neighbouring histograms differ by: one cell (add-remove), or two (replace)."""

ONLY_THE_TOTAL = (
    "it asks for nothing but the total, which is public under replace; take add-remove neighbours"
    " to protect the total"
)
ONLY_THE_KNOWN = "the known answers tell all that it asks for: no query is left to be measured"
MOST_TIES = 64
"""Pairs for each column that may be the farthest, with all differences computed."""
COMPARED = 512
"""So many columns are not compared with each other before."""
BLOCK_ENTRIES = 2**15
"""Differences that are formed at a time: few enough to stay in a cache."""


class Differences(ABC):
    """Difference vectors v_1 ... v_N in k coordinates.

    Attributes:
        count: number of difference vectors, N.
    """

    count: int

    @abstractmethod
    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R W R^T = sum_k w_k (R v_k) (R v_k)^T, shape (r, r), for R of shape (r, k)."""

    @abstractmethod
    def root(self, weights: Array) -> Array:
        """C, shape (k, k), with C C^T = W, for positive weights."""

    @abstractmethod
    def products(self, strategy: Array, image: Array) -> Array:
        """v_k^T R^T X R v_k, shape (N,), for R and X R of shape (r, k) with X symmetric."""

    def squared_norms(self, strategy: Array) -> Array:
        """norm(R v_k)^2, shape (N,)."""
        return self.products(strategy, strategy)

    @abstractmethod
    def vectors(self) -> Array:
        """The v_k as rows, shape (N, k)."""


class Cells(Differences):
    """The unit vectors of k cells."""

    def __init__(self, cells: int) -> None:
        self.count = cells

    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R diag(w) R^T."""
        return np.asarray((strategy * weights) @ strategy.T)

    def root(self, weights: Array) -> Array:
        """diag(w)^(1/2)."""
        return np.diag(np.sqrt(weights))

    def products(self, strategy: Array, image: Array) -> Array:
        """The diagonal of R^T X R."""
        return np.asarray(np.einsum("ij,ij->j", image, strategy))

    def vectors(self) -> Array:
        """The identity."""
        return np.eye(self.count)


class Pairs(Differences):
    """The differences of k cells to the reference, then those of pairs i < j among them.

    Args:
        sizes: k, or the numbers of cells of several groups, each relative to a reference of its
            own: cells of two groups make no pair. The coordinates of groups follow each other.

    Attributes:
        groups: the coordinates of each group.
    """

    def __init__(self, *sizes: int) -> None:
        ends = np.cumsum([0, *sizes])
        self.groups = [slice(start, stop) for start, stop in pairwise(ends.tolist())]
        triangles = [np.triu_indices(size, 1) for size in sizes]
        inside = [np.add(t, start) for t, start in zip(triangles, ends[:-1], strict=True)]
        self._first, self._second = np.hstack(inside)
        self._cells = cells = int(ends[-1])
        self.count = cells + len(self._first)
        # the place of a pair in a flat matrix, and of the weight of an entry in a flat vector,
        # whose last one is that of the cells of two groups
        self._upper = self._first * cells + self._second
        self._weight = np.full((cells, cells), self.count)
        np.fill_diagonal(self._weight, np.arange(cells))
        self._weight[self._first, self._second] = np.arange(cells, self.count)
        self._weight[self._second, self._first] = np.arange(cells, self.count)

    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R L R^T with the grounded Laplacian L."""
        laplacian = self._laplacian(weights)
        total = np.zeros((len(strategy), len(strategy)))
        for group in self.groups:
            part, inside = strategy[:, group], laplacian[group, group]
            total += part @ inside @ part.T
        return total

    def _laplacian(self, weights: Array) -> Array:
        matrix = np.append(weights, 0.0).take(self._weight)
        sums = matrix.sum(axis=1)
        np.negative(matrix, out=matrix)
        matrix.ravel()[:: self._cells + 1] = sums
        return matrix

    def root(self, weights: Array) -> Array:
        """The Cholesky factor of the grounded Laplacian."""
        return np.asarray(np.linalg.cholesky(self._laplacian(weights)))

    def products(self, strategy: Array, image: Array) -> Array:
        """y_jj, then y_ii + y_jj - 2 y_ij, of Y = R^T X R."""
        parts = [strategy[:, group].T @ image[:, group] for group in self.groups]
        matrix = scipy.linalg.block_diag(*parts)
        diagonal = matrix.diagonal()
        mixed = matrix.take(self._upper)
        pairs = diagonal.take(self._first) + diagonal.take(self._second) - 2 * mixed
        return np.concatenate([diagonal, pairs])

    def vectors(self) -> Array:
        """e_j, then e_i - e_j."""
        unit = np.eye(self._cells)
        return np.vstack([unit, unit[self._first] - unit[self._second]])

    def to_matrices(self, weights: Array) -> list[Array]:
        """Weights as a symmetric matrix over the cells of each group, its reference last."""
        matrix = np.append(weights, 0.0).take(self._weight)
        np.fill_diagonal(matrix, 0.0)
        matrices = []
        for group in self.groups:
            single = weights[group]
            border = np.append(single, 0.0)
            matrices.append(np.vstack([np.column_stack([matrix[group, group], single]), border]))
        return matrices

    def diameter(self, strategy: Array) -> float:
        """Largest distance of two columns of one group, for R in these coordinates."""
        reference = np.zeros((len(strategy), 1))
        return max(diameter(np.hstack([strategy[:, group], reference])) for group in self.groups)


def members_of(groups: Indices) -> list[Indices]:
    """The cells of each group, given the number of the group of each cell."""
    return [np.flatnonzero(groups == number) for number in np.unique(groups)]


def diameter(strategy: Array) -> float:
    """Largest distance between two columns of R, from their differences.

    The Gram matrix, a block at a time, shows which pairs may be the farthest; if these are too
    many, it bounds them.
    """
    columns = _distinct(np.ascontiguousarray(strategy.T))
    centred = columns - columns.mean(axis=0)
    sizes = np.einsum("ij,ij->i", centred, centred)
    rounding = 4 * sum(strategy.shape) * EPS * float(sizes.max())
    top, limit = 0.0, MOST_TIES * len(sizes)
    found: list[tuple[Array, Indices, Indices]] = []
    step = max(1, BLOCK_BYTES // (8 * len(sizes)))
    for start in range(0, len(sizes), step):
        block = slice(start, start + step)
        squares = sizes[block, None] + sizes[start:] - 2 * (centred[block] @ centred[start:].T)
        largest = float(squares.max())
        if not np.isfinite(largest):
            return float("inf")
        top = max(top, largest)
        first, second = np.nonzero(np.triu(squares >= top - 2 * rounding, 1))
        first, second = first[: limit + 1], second[: limit + 1]
        found.append((squares[first, second], first + start, second + start))
    values, first, second = map(np.concatenate, zip(*found, strict=True))
    ties = values >= top - 2 * rounding
    if np.count_nonzero(ties) > limit:
        return float(np.sqrt(top + rounding))
    return _largest_move(columns, first[ties], second[ties])


def _distinct(columns: Array) -> Array:
    """The different ones of many rows, in order."""
    if len(columns) <= COMPARED:
        return columns
    seen = {column.tobytes(): number for number, column in reversed(list(enumerate(columns)))}
    return columns if len(seen) == len(columns) else columns[sorted(seen.values())]


def _largest_move(columns: Array, first: Indices, second: Indices) -> float:
    """Largest distance of some pairs of rows."""
    largest = 0.0
    step = max(1, BLOCK_ENTRIES // columns.shape[1])
    for start in range(0, len(first), step):
        block = slice(start, start + step)
        moves = columns[first[block]] - columns[second[block]]
        largest = max(largest, float(np.einsum("ij,ij->i", moves, moves).max()))
    return float(np.sqrt(largest))
