"""A workload with fewer queries than cells, in orthonormal coordinates of its row space.

The best strategy measures nothing outside the row space of A. With an orthonormal basis Q of it
(r x n), A = A' Q and R = R' Q, where A' is m x r and R' is r x r. The norm of column j of R is that
of R' v_j with v_j = Q e_j: n vectors in r coordinates take the place of unit vectors in n.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.merged import MergedWorkload
from pmldesign_solvers.operators import Array, DenseOperator, Operator


class Columns:
    """The columns of Q as difference vectors, from Q^T of shape (n, r)."""

    def __init__(self, vectors: Array) -> None:
        self._vectors = vectors
        self.count = len(vectors)

    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R Q diag(w) Q^T R^T."""
        columns = self._vectors @ strategy.T
        return np.asarray(columns.T @ (weights[:, None] * columns))

    def root(self, weights: Array) -> Array:
        """The Cholesky factor of Q diag(w) Q^T."""
        gram = self._vectors.T @ (weights[:, None] * self._vectors)
        return np.asarray(np.linalg.cholesky(gram))

    def products(self, strategy: Array, image: Array) -> Array:
        """The diagonal of Q^T R^T X R Q."""
        return np.asarray(
            np.einsum("ij,ij->i", self._vectors @ strategy.T, self._vectors @ image.T)
        )

    def squared_norms(self, strategy: Array) -> Array:
        """Of the columns of R Q."""
        columns = self._vectors @ strategy.T
        return np.asarray(np.einsum("ij,ij->i", columns, columns))

    def vectors(self) -> Array:
        """Q^T."""
        return self._vectors


class RowSpaceWorkload:
    """A merged workload in coordinates of its row space.

    Attributes:
        operator: A', shape (m, r).
        row_copies: shape (m,), how many original rows each row stands for.
        columns: the v_j.
        rank: r.
    """

    def __init__(self, merged: MergedWorkload) -> None:
        matrix = merged.tall.to_dense()
        norms = np.linalg.norm(matrix, axis=0)
        basis, triangle = np.linalg.qr(matrix / norms)
        left, values, right = np.linalg.svd(triangle.T)
        merged.decompositions += 1
        self._merged, self.rank = merged, merged.rank
        self._vectors = np.asarray(basis @ right[: self.rank].T)
        coordinates = norms[:, None] * left[:, : self.rank] * values[: self.rank]
        self.operator: Operator = DenseOperator(coordinates)
        self.row_copies = merged.row_copies
        self.columns = Columns(self._vectors)

    def original_factors(self, strategy: Array, basis: Array) -> tuple[Array, Array]:
        """R and B of the original workload, scaled to largest column norm 1."""
        return self._merged.original_factors(strategy @ self._vectors.T, self._vectors @ basis)

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """u, shape (m,), and w, shape (n,), of the original workload."""
        return self._merged.original_weights(u, w)
