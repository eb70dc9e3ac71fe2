"""A workload in orthonormal coordinates of its row space, where that has fewer than all.

The best strategy measures nothing outside the row space of A. With an orthonormal basis Q of it,
r x k, A = A' Q and R = R' Q, where A' is m x r and R' is r x r. Vectors Q v_j in r coordinates
take the place of the v_j by which neighbours differ.

Directions in which A, its rows scaled to norm 1, has next to nothing are left out: that cannot be
told from rounding, and a strategy that measured it would amplify rounding. The certificate counts
what is missing of A then.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Differences
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import Array, Operator

RANK_CUTOFF = 1e-11
"""Singular values below this part of the largest are left out."""
INDEPENDENT = 1e-6
"""Least eigenvalue of the Gram matrix of rows of norm 1 that counts as one: it has ten digits."""


class Projected(Differences):
    """The vectors Q v_j, for difference vectors v_j and Q of shape (r, k)."""

    def __init__(self, differences: Differences, basis: Array) -> None:
        self._differences, self._basis = differences, basis
        self.count = differences.count

    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R Q W Q^T R^T."""
        return self._differences.weighted(strategy @ self._basis, weights)

    def root(self, weights: Array) -> Array:
        """The Cholesky factor of Q W Q^T."""
        return np.asarray(np.linalg.cholesky(self._differences.weighted(self._basis, weights)))

    def products(self, strategy: Array, image: Array) -> Array:
        """v_j^T Q^T R^T X R Q v_j."""
        return self._differences.products(strategy @ self._basis, image @ self._basis)

    def vectors(self) -> Array:
        """Q v_j as rows."""
        return np.asarray(self._differences.vectors() @ self._basis.T)


class Columns(Differences):
    """The vectors T a_j for the columns a_j of A, shape (m, n), and T of shape (r, m).

    Args:
        turned: A^T.
        coordinates: T.
    """

    def __init__(self, turned: Operator, coordinates: Array) -> None:
        self._turned, self._coordinates = turned, coordinates
        self.count = turned.shape[0]

    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R T A diag(w) A^T T^T R^T."""
        outer = strategy @ self._coordinates
        return np.asarray(outer @ self._turned.gram(weights) @ outer.T)

    def root(self, weights: Array) -> Array:
        """The Cholesky factor of T A diag(w) A^T T^T."""
        return np.asarray(
            np.linalg.cholesky(self.weighted(np.eye(len(self._coordinates)), weights))
        )

    def products(self, strategy: Array, image: Array) -> Array:
        """a_j^T T^T R^T X R T a_j."""
        inner = self._coordinates.T @ (strategy.T @ image) @ self._coordinates
        return self._turned.row_quadratic(np.asarray((inner + inner.T) / 2))

    def vectors(self) -> Array:
        """T a_j as rows."""
        return self._turned.matvec(self._coordinates.T)


class ReducedWorkload(Protocol):
    """A workload in k coordinates, without repetitions.

    Attributes:
        operator: A, shape (m, k).
        row_copies: how many original rows each row stands for, shape (m,).
    """

    operator: Operator
    row_copies: Array

    @property
    def differences(self) -> Differences:
        """Of neighbours."""

    @property
    def rank(self) -> int:
        """Rank of A."""


class Spreading(ReducedWorkload, Protocol):
    """A workload that takes its solutions back to the original one.

    Attributes:
        decompositions: so far.
    """

    decompositions: int

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload."""

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Weights u and w of the original workload."""


class RowSpaceWorkload:
    """A workload in coordinates of its row space.

    Attributes:
        operator: A', shape (m, r).
        row_copies: shape (m,), how many original rows each row stands for.
        differences: the vectors Q v_j.
        rank: r.
    """

    def __init__(self, problem: Spreading) -> None:
        norms, left, values, right = _decomposed(problem.operator.to_dense())
        self.rank, self.decompositions = len(values), 0
        self._problem, self._basis = problem, right
        self.operator: Operator = DenseOperator(norms * left * values)
        self.row_copies = problem.row_copies
        self.differences = Projected(problem.differences, right)

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload."""
        return self._problem.original_factors(strategy @ self._basis, self._basis.T @ right_inverse)

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Weights u and w of the original workload."""
        return self._problem.original_weights(u, w)


class ColumnSpaceWorkload:
    """A workload of few independent queries, in coordinates T A of its row space.

    With D^-1 A A^T D^-1 = U S^2 U^T, D the norms of the rows, T is S^-1 U^T D^-1 and A' = D U S.
    Nothing but T and A is kept, so that products take as long as those with A.

    Attributes:
        operator: A', shape (m, m).
        row_copies: shape (m,), how many original rows each row stands for.
        differences: the vectors T a_j.
        rank: m.
    """

    def __init__(self, problem: MergedWorkload, norms: Array, roots: Array, left: Array) -> None:
        self.rank, self.decompositions = len(roots), 1
        self.operator: Operator = DenseOperator(norms[:, None] * left * roots)
        self.row_copies = problem.row_copies
        self._problem, self._coordinates = problem, np.asarray(left.T / roots[:, None] / norms)
        self.differences = Columns(problem.tall, self._coordinates)

    @classmethod
    def of(cls, problem: Spreading) -> ColumnSpaceWorkload | None:
        """None where a Gram matrix does not tell that the queries are independent."""
        if not (isinstance(problem, MergedWorkload) and problem.wide):
            return None
        gram = problem.tall.gram(np.ones(problem.shape[1]))
        norms = np.sqrt(gram.diagonal())
        squares, left = np.linalg.eigh(gram / norms / norms[:, None])
        return cls(problem, norms, np.sqrt(squares), left) if squares[0] >= INDEPENDENT else None

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload."""
        rows = self._problem.operator.rmatvec
        turned = np.ascontiguousarray(self._coordinates.T)
        return self._problem.original_factors(
            rows(turned @ strategy.T).T, rows(turned @ right_inverse)
        )

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Weights u and w of the original workload."""
        return self._problem.original_weights(u, w)


def numerical_rank(matrix: Array) -> int:
    """The number of singular values that count, of the rows scaled to norm 1."""
    return len(_decomposed(matrix)[2])


def _decomposed(matrix: Array) -> tuple[Array, Array, Array, Array]:
    """The norms of the rows, shape (m, 1), and what singular vectors and values say more.

    Of the matrix with rows of norm 1: left vectors (m, r), values (r,), right vectors (r, k).
    """
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled, rows = matrix / norms, None
    if len(matrix) < matrix.shape[1]:
        basis, triangle = np.linalg.qr(scaled.T)
        scaled, rows = triangle.T, basis.T
    left, values, right = np.linalg.svd(scaled, full_matrices=False)
    rank = int((values > RANK_CUTOFF * values[0]).sum())
    kept = right[:rank]
    return norms, left[:, :rank], values[:rank], kept if rows is None else kept @ rows
