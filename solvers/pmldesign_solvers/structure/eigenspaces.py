r"""Common eigenspaces of the Gram matrices of the parts of a union on one attribute.

Symmetric matrices K_1 ... K_S that commute have common eigenvectors, those of a mix of them that is
in general position. Eigenvectors with the same eigenvalues lambda_1 ... lambda_S span an
eigenspace, and in the eigenspace only its projection P counts:

    K_s = sum of lambda_s P over the eigenspaces.

Its basis is made by orthogonalising columns of P, one after the other: for histograms and totals,
with P = J/n and 1 - J/n, the constant and contrasts of one value with those before it.

P is even if its diagonal is constant, as are those that permutations of the cells leave alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import EPS, Array, Indices, Operator

EIGENVALUE_GRID = 1e-12
"""Eigenvalues, and products of them, that differ by less than this part of the largest are one."""
COMMUTE = 1e-9
"""Gram matrices commute if common eigenvectors leave less than this of them off the diagonal."""
EVEN = 1e-9
"""Relative difference of entries that count as equal."""


@dataclass(frozen=True, eq=False)
class Eigenspaces:
    """Orthogonal spaces of vectors of n cells, all of them together.

    Attributes:
        vectors: V, an orthonormal basis of them all; shape (n, n).
        labels: shape (n,), the space of each column of V, from 0.
    """

    vectors: Array
    labels: Indices

    @cached_property
    def members(self) -> Array:
        """Which column of V belongs to which space, 0 or 1; shape (n, spaces)."""
        numbers = np.arange(self.labels.max() + 1)
        return np.asarray(self.labels[:, None] == numbers, dtype=np.float64)

    @cached_property
    def diagonals(self) -> Array:
        """Diagonals of the projections, shape (n, spaces)."""
        return np.asarray(self.vectors**2 @ self.members)

    def shares(self, factor: Operator) -> Array:
        """diag(A P A^T) for every projection P, shape (queries of the factor, spaces)."""
        return np.asarray(factor.matvec(self.vectors) ** 2 @ self.members)


def common_eigenspaces(factors: Sequence[Operator]) -> tuple[Eigenspaces, Array] | None:
    """The eigenspaces of the Gram matrices of the factors; None if they do not commute.

    Returns:
        The spaces, and lambda, rounded down, of shape (S, spaces).
    """
    grams = [factor.gram(np.ones(factor.shape[0])) for factor in factors]
    norms = [float(np.linalg.norm(gram)) for gram in grams]
    mixed = sum(
        gram / norm * math.sqrt(2 + number)
        for number, (gram, norm) in enumerate(zip(grams, norms, strict=True))
    )
    vectors = np.linalg.eigh(mixed)[1]
    values = np.empty((len(grams), len(vectors)))
    for row, factor, gram, norm in zip(values, factors, grams, norms, strict=True):
        turned = vectors.T @ gram @ vectors
        diagonal = turned.diagonal().copy()
        np.fill_diagonal(turned, 0.0)
        off = float(np.linalg.norm(turned))
        if off > COMMUTE * norm:
            return None
        sums = factor.gram_rounding(np.ones(factor.shape[0])) * float(np.trace(gram))
        rounding = 2 * len(vectors) * EPS * norm + sums
        row[:] = np.maximum(diagonal - off - rounding, 0.0)
    distinct, labels = distinct_columns(values)
    for number in range(distinct.shape[1]):
        columns = labels == number
        if columns.sum() == 1:  # a basis by itself
            continue
        projection = vectors[:, columns] @ vectors[:, columns].T
        basis = scipy.linalg.qr(projection, mode="economic", pivoting=True)[0]
        vectors[:, columns] = basis[:, : columns.sum()]
    return Eigenspaces(vectors, labels), distinct


def distinct_columns(values: Array) -> tuple[Array, Indices]:
    """The columns that differ by more than GRID, rounded down, and which of them each one is."""
    scale = EIGENVALUE_GRID * values.max(axis=1, keepdims=True)
    rounded = np.round(values / scale)
    _, first, labels = np.unique(rounded, axis=1, return_index=True, return_inverse=True)
    labels = labels.ravel()
    distinct = values[:, first].copy()
    for row, eigenvalues in zip(distinct, values, strict=True):
        np.minimum.at(row, labels, eigenvalues)
    distinct[rounded[:, first] == 0] = 0.0
    return distinct, labels


def is_even(entries: Array) -> bool:
    """Whether all rows of entries >= 0 are alike."""
    return bool((np.ptp(entries, axis=0) <= EVEN * entries.max()).all())
