"""Kept directions of an attribute with weights of cells, for lower bounds (`lower`).

N_k = (W^(1/2) G_k W^(1/2))^(1/2) for each factor, r = w^(1/2), and an orthonormal frame L that
begins with r: N r, N^-1 r, N^2 r, ... come next. Of an attribute that is asked in several ways the
frame may hold all that some ways ask about, those of least rank: of two attributes in one these are
the tables by either of them, and nothing of such tables is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array

KEPT = 1e-8
"""Part of the largest eigenvalue below which a direction is left out."""
LEAST_SQUARABLE = 1e-150
"""Its square is still a normal float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """The root N of one factor's weighted Gram matrix, by eigenvalues and vectors."""

    values: Array
    vectors: Array
    off: float

    @property
    def matrix(self) -> Array:
        """N as a dense matrix."""
        return (self.vectors * self.values) @ self.vectors.T

    def times(self, x: Array) -> Array:
        """N x."""
        image = self.vectors.T @ x
        return np.asarray(self.vectors @ (self.values * image.T).T)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """An attribute with its weights and kept directions.

    Attributes:
        r: w^(1/2).
        roots: N_k of its factors.
        columns: L, shape (n, d).
        inner: L^T N_k L.
        rest: tr N_k - tr L^T N_k L.
    """

    r: Array
    roots: Sequence[Root]
    columns: Array
    inner: list[Array]
    rest: list[float]


def frame(roots: Sequence[Root], r: Array, size: int, directions: Array | None = None) -> Frame:
    """The kept directions of an attribute.

    Args:
        roots: N_k of its factors (`root_of`).
        r: w^(1/2), norm 1.
        size: d.
        directions: to keep in addition to r, shape (n, d - 1); None for N r, N^-1 r, N^2 r, ...
    """
    columns = _complete(r, _krylov(roots, r, size) if directions is None else directions)
    inner = [columns.T @ root.times(columns) for root in roots]
    rest = [
        max(float(root.values.sum() - np.trace(matrix)), 0.0) if columns.shape[1] < len(r) else 0.0
        for root, matrix in zip(roots, inner, strict=True)
    ]
    return Frame(r, roots, columns, inner, rest)


def asked_by_few(roots: Sequence[Root], r: Array, most: int) -> Array | None:
    """Directions of the query sets of least rank other than r, as columns; None without any.

    Args:
        roots: N_k of an attribute.
        r: w^(1/2).
        most: columns together.
    """
    ranges = [root.vectors[:, root.values > 0] for root in roots]
    ranges.sort(key=lambda vectors: vectors.shape[1])
    sums = np.cumsum([vectors.shape[1] for vectors in ranges])
    few = int((sums <= min(most, len(r) - 1)).sum())
    if len(roots) == 1 or not few:
        return None
    columns = np.column_stack(ranges[:few])
    columns = columns - np.outer(r, r @ columns) / (r @ r)
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(vectors[:, values > KEPT])


def root_of(gram: Array, r: Array) -> Root:
    """N of a factor with weights r^2."""
    n = len(r)
    squares, vectors = np.linalg.eigh(r[:, None] * gram * r)
    kept = squares > KEPT * squares[-1]
    values = np.where(kept, np.sqrt(np.maximum(squares, 0.0)), 0.0)
    off = (2 * n + 16) * EPS * float(np.abs(squares).sum()) / float(squares[kept][0])
    return Root(values, vectors, off)


def _krylov(roots: Sequence[Root], r: Array, size: int) -> Array:
    """Directions N r, N^-1 r, N^2 r ... in turn, N the sum of the factors' matrices."""
    if len(roots) == 1:
        values, vectors = roots[0].values, roots[0].vectors
    else:
        values, vectors = np.linalg.eigh(np.sum([root.matrix for root in roots], axis=0))
    inverse = np.where(values > KEPT * values.max(), 1 / np.maximum(values, LEAST_SQUARABLE), 0.0)
    columns = np.empty((len(r), size - 1))
    sides = [vectors.T @ r] * 2
    for number in range(size - 1):
        moved = sides[number % 2] * (inverse if number % 2 else values)
        sides[number % 2] = moved / max(float(np.linalg.norm(moved)), LEAST_SQUARABLE)
        columns[:, number] = vectors @ sides[number % 2]
    return columns


def _complete(r: Array, directions: Array) -> Array:
    """An orthonormal frame whose first column is r, whatever the directions (Householder)."""
    columns = np.linalg.qr(np.column_stack([r, directions]))[0]
    columns[:, 0] = r / np.linalg.norm(r)
    return np.asarray(columns)
