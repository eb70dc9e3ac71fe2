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

from typing import Protocol

import numpy as np

from pmldesign_solvers.operators import Array


class Differences(Protocol):
    """Difference vectors v_1 ... v_N in k coordinates."""

    @property
    def count(self) -> int:
        """N."""
        ...

    def root(self, weights: Array) -> Array:
        """C, shape (k, k), with C C^T = sum_k w_k v_k v_k^T."""
        ...

    def images(self, strategy: Array) -> Array:
        """R v_k as rows, shape (N, r), for R of shape (r, k)."""
        ...


class Cells:
    """The unit vectors of k cells."""

    def __init__(self, cells: int) -> None:
        self.count = cells

    def root(self, weights: Array) -> Array:
        """diag(w)^(1/2)."""
        return np.diag(np.sqrt(weights))

    def images(self, strategy: Array) -> Array:
        """The columns of R."""
        return np.ascontiguousarray(strategy.T)


class Pairs:
    """The differences of k cells to the reference, then those of pairs i < j among them."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._first, self._second = np.triu_indices(cells, 1)
        self.count = cells + len(self._first)

    def root(self, weights: Array) -> Array:
        """The Cholesky factor of the grounded Laplacian."""
        return np.asarray(np.linalg.cholesky(self.laplacian(weights)))

    def laplacian(self, weights: Array) -> Array:
        """sum_k w_k v_k v_k^T, shape (k, k)."""
        single, double = np.split(weights, [self._cells])
        matrix = np.zeros((self._cells, self._cells))
        matrix[self._first, self._second] = -double
        matrix += matrix.T
        np.fill_diagonal(matrix, single - matrix.sum(axis=1))
        return matrix

    def images(self, strategy: Array) -> Array:
        """The columns of R, then their differences."""
        columns = strategy.T
        return np.vstack([columns, columns[self._first] - columns[self._second]])

    def to_matrix(self, weights: Array) -> Array:
        """Weights as a symmetric matrix over all cells, the reference last; zero diagonal."""
        single, double = np.split(weights, [self._cells])
        matrix = np.zeros((self._cells + 1, self._cells + 1))
        matrix[self._first, self._second] = double
        matrix[:-1, -1] = single
        return matrix + matrix.T
