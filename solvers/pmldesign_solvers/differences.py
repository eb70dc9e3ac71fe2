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

    def weighted(self, weights: Array) -> Array:
        """W = sum_k w_k v_k v_k^T, shape (k, k)."""
        ...

    def root(self, weights: Array) -> Array:
        """C, shape (k, k), with C C^T = W, for positive weights."""
        ...

    def quadratic(self, matrix: Array) -> Array:
        """v_k^T X v_k, shape (N,), for a symmetric matrix X of shape (k, k)."""
        ...

    def vectors(self) -> Array:
        """The v_k as rows, shape (N, k)."""
        ...


class Cells:
    """The unit vectors of k cells."""

    def __init__(self, cells: int) -> None:
        self.count = cells

    def weighted(self, weights: Array) -> Array:
        """diag(w)."""
        return np.diag(weights)

    def root(self, weights: Array) -> Array:
        """diag(w)^(1/2)."""
        return np.diag(np.sqrt(weights))

    def quadratic(self, matrix: Array) -> Array:
        """The diagonal."""
        return matrix.diagonal().copy()

    def vectors(self) -> Array:
        """The identity."""
        return np.eye(self.count)


class Pairs:
    """The differences of k cells to the reference, then those of pairs i < j among them."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._first, self._second = np.triu_indices(cells, 1)
        self.count = cells + len(self._first)

    def weighted(self, weights: Array) -> Array:
        """The grounded Laplacian."""
        single, double = np.split(weights, [self._cells])
        matrix = np.zeros((self._cells, self._cells))
        matrix[self._first, self._second] = -double
        matrix += matrix.T
        np.fill_diagonal(matrix, single - matrix.sum(axis=1))
        return matrix

    def root(self, weights: Array) -> Array:
        """The Cholesky factor of the grounded Laplacian."""
        return np.asarray(np.linalg.cholesky(self.weighted(weights)))

    def quadratic(self, matrix: Array) -> Array:
        """x_jj, then x_ii + x_jj - 2 x_ij."""
        diagonal = matrix.diagonal()
        mixed = matrix[self._first, self._second]
        pairs = diagonal[self._first] + diagonal[self._second] - 2 * mixed
        return np.concatenate([diagonal, pairs])

    def vectors(self) -> Array:
        """e_j, then e_i - e_j."""
        unit = np.eye(self._cells)
        return np.vstack([unit, unit[self._first] - unit[self._second]])

    def to_matrix(self, weights: Array) -> Array:
        """Weights as a symmetric matrix over all cells, the reference last; zero diagonal."""
        single, double = np.split(weights, [self._cells])
        matrix = np.zeros((self._cells + 1, self._cells + 1))
        matrix[self._first, self._second] = double
        matrix[:-1, -1] = single
        return matrix + matrix.T
