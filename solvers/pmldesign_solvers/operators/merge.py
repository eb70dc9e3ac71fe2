"""A workload without repetitions, and the way back to the original one.

Equal columns are one column to a strategy: its weight is the sum of theirs, and each gets the
same share of the right inverse B. Equal rows count one by one: they share every weight u.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy

from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Cells
from pmldesign_solvers.operators.operator import (
    DIRECT_ENTRIES,
    EPS,
    RANK_CUTOFF,
    SVD_ENTRIES,
    Array,
    Indices,
    Operator,
)

REGULAR, ALIKE = 1e-4, 1e-5
"""Least eigenvalue of R R^T, rows of norm 1, from which on an inverse of it keeps twelve digits;
least norm of a row, as a part of the largest, so that none counts as zero."""
VANISHING = RANK_CUTOFF / 10
"""Length of a combination of rows of norm 1 that counts as zero."""
FLOOR = 1e-13
"""Weights stay above this fraction of the largest, where their square roots still have digits."""


class MergedWorkload:
    """A merged operator with counts.

    Attributes:
        original: the operator before merging, its Gram matrix shared.
        operator: shape (m, n), without repeated or zero rows and columns, Gram matrix shared too.
        row_copies: shape (m,), how many original rows each row stands for.
        column_copies: shape (n,), the same for columns.
        row_of, column_of: the merged row or column of every original one, -1 for zero.
        differences: the merged cells.
        decompositions: of matrices of the smaller side so far, counted by all callers.
    """

    def __init__(self, operator: Operator) -> None:
        merged = operator.merge()
        self.original = sharing_gram(operator)
        same = merged.operator.shape == operator.shape
        self.operator = self.original if same else sharing_gram(merged.operator)
        self.row_of, self.column_of = merged.row_of, merged.column_of
        self.row_copies = counts(self.row_of)
        self.column_copies = counts(self.column_of)
        self.differences = Cells(self.operator.shape[1])
        self.decompositions = 0

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the merged operator."""
        return self.operator.shape

    @property
    def wide(self) -> bool:
        """Whether it has fewer rows than columns."""
        return self.shape[0] < self.shape[1]

    @cached_property
    def tall(self) -> Operator:
        """The operator, or its transpose if it is wide: the second side is the smaller one."""
        if not self.wide:
            return self.operator
        turned = self.operator.transposed()
        return turned or DenseOperator(np.ascontiguousarray(self.operator.to_dense().T))

    @cached_property
    def rank(self) -> int:
        """The rank of the operator, after scaling rows and columns to unit norms."""
        if 0 in self.shape:
            return 0
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                return self._scaled_rank(self.tall)
        except FloatingPointError:
            raise ValueError(
                "the squares of its entries leave the range of float64; rescale it"
            ) from None

    def _scaled_rank(self, operator: Operator) -> int:
        m, n = operator.shape
        if is_definite(operator.gram(self.column_copies if self.wide else self.row_copies)):
            return n
        rows = operator.row_norms(np.eye(n))
        gram = operator.gram(1.0 / rows)
        norms = np.sqrt(gram.diagonal())
        if m * n <= DIRECT_ENTRIES:
            # a Gram matrix hides values below the root of its rounding error
            scaled = operator.to_dense() / np.sqrt(rows)[:, None] / norms
            values = np.linalg.svd(scaled, compute_uv=False)
        else:
            values = np.linalg.eigvalsh(gram / norms / norms[:, None])
        self.decompositions += 1
        return int((values > 100 * n * EPS * values.max()).sum())

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """u, shape (m,), and w, shape (n,), of the original workload; equal columns share w."""
        columns = np.where(self.column_of >= 0, (w / self.column_copies)[self.column_of], 0.0)
        return np.where(self.row_of >= 0, u[self.row_of], 0.0), columns

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload, scaled to largest column norm 1."""
        sensitivity = np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max())
        if self.shape[1] == len(self.column_of):
            return strategy / sensitivity, right_inverse * sensitivity
        full = np.take(strategy, self.column_of, axis=1)
        full /= sensitivity
        inverse = np.take(right_inverse, self.column_of, axis=0)
        inverse *= (sensitivity / self.column_copies)[self.column_of, None]
        zero = self.column_of < 0
        full[:, zero], inverse[zero] = 0.0, 0.0
        return full, inverse

    def fold(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Weights of the original rows and columns as positive ones of the merged workload."""
        u, w = np.maximum(u, 0.0), np.maximum(w, 0.0)
        rows, columns = self.row_of >= 0, self.column_of >= 0
        row_weights = np.bincount(self.row_of[rows], weights=u[rows]) / self.row_copies
        column_weights = np.bincount(self.column_of[columns], weights=w[columns])
        return (
            np.maximum(row_weights, FLOOR * row_weights.max()),
            np.maximum(column_weights, FLOOR * column_weights.max()),
        )


def is_definite(gram: Array) -> bool:
    """Whether a Gram matrix with unit diagonal is regular beyond its rounding error.

    At a tenth of the cost of its eigenvalues.
    """
    norms = np.sqrt(gram.diagonal())
    scaled = gram / norms / norms[:, None]
    bound = 100 * len(gram) * EPS * float(np.abs(scaled).sum(axis=0).max())
    try:
        np.linalg.cholesky(scaled - bound * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        return False
    return True


def right_inverse_of(strategy: Array) -> Array:
    """R^+, for R of full row rank.

    Not in closed form, which keeps the rounding raised by vanishing weights; except for that
    of a large wide one, which takes a tenth of the time (`closed_inverse`).
    """
    if strategy.shape[0] == strategy.shape[1]:
        return np.asarray(np.linalg.inv(strategy))
    closed = closed_inverse(strategy)
    if closed is None or closed[1] < len(strategy):
        return np.asarray(np.linalg.pinv(strategy))
    return closed[0]


def closed_inverse(strategy: Array) -> tuple[Array, int] | None:
    """R^+ and the rank of a large wide R, if the inverse has twelve digits.

    It is R^T (R R^T)^-1 if the rows are independent. If combinations of them vanish: with R = D S,
    rows of S of norm 1, and S S^T = V diag(l) V^T without the l of these combinations, R = F Q for
    F = D V diag(l^(1/2)) and Q = diag(l^(-1/2)) V^T S, whose rows are orthonormal, so that
    R^+ = Q^T F^+.
    """
    rows, cells = strategy.shape
    if rows >= cells or rows * cells <= SVD_ENTRIES:
        return None
    gram = strategy @ strategy.T
    norms = np.sqrt(gram.diagonal())
    if norms.min() <= ALIKE * norms.max():
        return None
    values, vectors = np.linalg.eigh(gram / norms[:, None] / norms)
    kept = values >= REGULAR
    if kept.all():
        factor = scipy.linalg.cho_factor(gram, lower=True)
        return np.asarray(scipy.linalg.cho_solve(factor, strategy).T), rows
    if np.linalg.norm((vectors[:, ~kept] / norms[:, None]).T @ strategy) > VANISHING:
        return None
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    inverse = np.linalg.pinv(norms[:, None] * vectors * roots)
    return strategy.T @ ((vectors / roots / norms[:, None]) @ inverse), len(roots)


def counts(labels: Indices) -> Array:
    """How many originals each merged row or column stands for."""
    return np.asarray(np.bincount(labels[labels >= 0]), dtype=np.float64)


class _SharedGram:
    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._weights, self._gram = np.zeros(0), np.zeros((0, 0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n); computed when the weights are others than before."""
        if not np.array_equal(self._weights, weights):
            gram = self._operator.gram(weights)
            gram.flags.writeable = False
            self._weights, self._gram = weights.copy(), gram
        return self._gram


def sharing_gram(operator: Operator) -> Operator:
    """The operator itself except for `gram`, whose last value is kept, read-only.

    The rank of a workload, the steps of a solver and both sides of a certificate ask for
    A^T diag(u) A; at p = 2 all of them with equal weights u.
    """
    return cast(Operator, _SharedGram(operator))
