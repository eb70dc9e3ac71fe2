"""A workload in fewer coordinates: of its row space, or relative to a reference cell.

Row space. The best strategy measures nothing outside the row space of A. With an orthonormal basis
Q of it, r x k, A = A' Q and R = R' Q, where A' is m x r and R' is r x r. Vectors Q v_j in r
coordinates take the place of the v_j by which neighbours differ.

Directions in which A, its rows scaled to norm 1, has next to nothing are left out: they are
lost in rounding, and a strategy that measured them would amplify it. The certificate counts the
missing part of A then.

Reference cell. For neighbours that replace one record only vectors that sum to zero matter: the
total is public. If public answers determine the number of records in every group of cells, a record
is replaced by one of its group, and vectors sum to zero in each. They are written in coordinates
relative to a reference cell of each group, A' = (a_j - a_ref) for j other than ref, in which e_j
stands for e_j - e_ref. Equal columns of a group are one, and groups of equal columns have none.
Zero columns are one uncovered cell; if there is one, it is the reference.
Queries only on known numbers become zero rows and are left out.

Back in the original cells a strategy has columns R'_j and 0 for the reference, minus their mean, so
that R 1 = 0; the right inverse has rows B'_j, shared among equal cells, and minus their sum for the
reference, so that 1^T B = 0 and A B = A' B'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import (
    ONLY_THE_KNOWN,
    ONLY_THE_TOTAL,
    Differences,
    Pairs,
    members_of,
)
from pmldesign_solvers.operators.merge import MergedWorkload, counts, is_definite, sharing_gram
from pmldesign_solvers.operators.operator import Array, Indices, Operator

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
        """The differences of neighbours."""

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
        """None if a Gram matrix does not show that the queries are independent."""
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


class GroundedWorkload:
    """A workload relative to a reference cell of each group.

    Args:
        operator: A', shape (m', k).
        row_of: shape (m,), the row that stands for each original one, -1 for a zero row.
        groups: the cells of each group with several distinct columns, and the class of each cell:
            equal ones have the same, in the order of coordinates, the reference's being the last.
        cells: n.

    Attributes:
        operator: A', its Gram matrix shared.
        row_copies: shape (m',), how many original rows each row stands for.
        differences: pairs of cells of one group in these coordinates.
        rank: of A'.
        decompositions: so far, counted by all callers.
    """

    def __init__(
        self,
        operator: Operator,
        row_of: Indices,
        groups: Sequence[tuple[Indices, Indices]],
        cells: int,
    ) -> None:
        self._row_of, self._groups, self._cells = row_of, groups, cells
        self.decompositions = 0
        self.operator, self.row_copies = sharing_gram(operator), counts(row_of)
        self.differences = Pairs(*(int(classes.max()) for _, classes in groups))
        self.rank = operator.shape[1]
        if not is_definite(self.operator.gram(self.row_copies)):
            self.decompositions += 1
            self.rank = numerical_rank(operator.to_dense())

    @classmethod
    def of(cls, merged: MergedWorkload) -> GroundedWorkload:
        """All cells being one group.

        Raises:
            ValueError: every query depends only on the total.
        """
        classes = merged.column_of
        idle = bool((classes < 0).any())
        operator, rows = merged.operator.relative(idle=idle)
        if not rows.size:
            raise ValueError(ONLY_THE_TOTAL)
        number = np.full(merged.shape[0] + 1, -1)
        number[rows] = np.arange(rows.size)
        classes = np.where(classes < 0, merged.shape[1], classes)
        cells = np.arange(len(classes))
        return cls(operator, number[merged.row_of], [(cells, classes)], len(cells))

    @classmethod
    def in_groups(cls, matrix: Array, numbers: Indices) -> GroundedWorkload:
        """For a matrix of shape (m, n) and the number of the group of each cell.

        Raises:
            ValueError: the known numbers answer every query.
        """
        groups, columns = [], []
        for cells in members_of(numbers):
            moves = matrix[:, cells] - matrix[:, cells[-1:]]
            distinct, labels = np.unique(moves, axis=1, return_inverse=True)
            classes, last = labels.ravel(), distinct.shape[1] - 1
            if last:
                place = np.arange(last + 1)
                place[[classes[-1], last]] = last, classes[-1]
                groups.append((cells, place[classes]))
                columns.append(distinct[:, place[:-1]])
        if not columns:
            raise ValueError(ONLY_THE_KNOWN)
        relative = np.hstack(columns)
        asked = relative.any(axis=1)
        row_of = np.where(asked, np.cumsum(asked) - 1, -1)
        operator = DenseOperator(np.ascontiguousarray(relative[asked]))
        return cls(operator, row_of, groups, len(numbers))

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload, zero sums in each group, scaled to sensitivity 1."""
        rank, sensitivity = len(strategy), self.differences.diameter(strategy)
        full, shares = np.zeros((rank, self._cells)), np.zeros((self._cells, rank))
        for place, (cells, classes) in zip(self.differences.groups, self._groups, strict=True):
            columns = np.hstack([strategy[:, place], np.zeros((rank, 1))])[:, classes] / sensitivity
            full[:, cells] = columns - columns.mean(axis=1, keepdims=True)
            rows = np.vstack([right_inverse[place], -right_inverse[place].sum(axis=0)])
            shares[cells] = (rows / np.bincount(classes)[:, None] * sensitivity)[classes]
        return full, shares

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """u, shape (m,), and the symmetric matrix of the pairs' weights, shape (n, n)."""
        weights = np.zeros((self._cells, self._cells))
        matrices = self.differences.to_matrices(w)
        for (cells, classes), matrix in zip(self._groups, matrices, strict=True):
            first = cells[np.unique(classes, return_index=True)[1]]
            weights[np.ix_(first, first)] = matrix
        return np.where(self._row_of >= 0, u[self._row_of], 0.0), weights
