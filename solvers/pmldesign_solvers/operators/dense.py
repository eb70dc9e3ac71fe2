"""A workload stored as a matrix, and the common offsets of its rows.

One-sided Jacobi rotations compute the singular values of D_1 X D_2, for any diagonal matrices D_1
and D_2, as accurately as the condition number of X allows; other methods, only as parts of the
largest.

References:
    Drmac and Veselic, New fast and accurate Jacobi SVD algorithm, SIAM J. Matrix Anal. 29, 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
import scipy

from pmldesign_solvers.operators.intervals import numbered
from pmldesign_solvers.operators.operator import (
    BLOCK_BYTES,
    EPS,
    Array,
    Indices,
    Merged,
    Operator,
    column_blocks,
)

JACOBI_ENTRIES = 2**20
"""Largest m * n for which singular values are computed like that."""


@dataclass(eq=False, repr=False)
class DenseOperator(Operator):
    """A workload held as a float64 array of shape (m, n)."""

    matrix: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""
        m, n = self.matrix.shape
        return m, n

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A."""
        total = np.zeros((self.shape[1], self.shape[1]))
        equal = bool((weights == 1).all())  # the product with itself takes half the time
        for rows in self._blocks():
            block = self.matrix[rows]
            total += block.T @ (block if equal else weights[rows, None] * block)
        return total

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T)."""
        values = np.empty(self.shape[0])
        for rows in self._blocks():
            block = self.matrix[rows]
            values[rows] = np.einsum("ij,ij->i", block @ matrix, block)
        return values

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T)."""
        values = np.empty(self.shape[0])
        for rows in self._blocks():
            image = self.matrix[rows] @ half
            values[rows] = np.einsum("ij,ij->i", image, image)
        return values

    def matvec(self, x: Array) -> Array:
        """A x."""
        product: Array = self.matrix @ x
        return product

    def rmatvec(self, y: Array) -> Array:
        """A^T y."""
        product: Array = self.matrix.T @ y
        return product

    def to_dense(self) -> Array:
        """The matrix itself."""
        return self.matrix

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return largest_entries(self.matrix)

    def without_offsets(self) -> tuple[DenseOperator, Array]:
        """The same on vectors that sum to zero, and the part left out of each row."""
        matrix, left_out = without_offsets(self.matrix)
        return (self if matrix is self.matrix else DenseOperator(matrix)), left_out

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""
        m, n = self.shape
        rows, row_of = distinct_rows(self.matrix)
        columns, column_of = distinct_rows(self.matrix.T)
        if (rows.size, columns.size) == (m, n):
            return Merged(self, row_of, column_of)
        return Merged(DenseOperator(self.matrix[np.ix_(rows, columns)]), row_of, column_of)

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The same on vectors that sum to zero, without rows of rounding; and which are left."""
        moves = self.matrix if idle else self.matrix[:, :-1] - self.matrix[:, -1:]
        largest = np.abs(moves).max(axis=1, initial=0.0)
        rows = np.flatnonzero(largest > EPS * np.abs(self.matrix).max(axis=1))
        return DenseOperator(np.ascontiguousarray(moves[rows])), rows

    def _blocks(self) -> list[slice]:
        m, n = self.shape
        step = max(1, BLOCK_BYTES // (8 * max(n, 1)))
        return [slice(start, min(start + step, m)) for start in range(0, m, step)]


class ByMatrix(Operator):
    """An operator that materializes its matrix for operations without a faster way."""

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        return DenseOperator(self.to_dense()).gram(weights)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return DenseOperator(self.to_dense()).row_quadratic(matrix)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return largest_entries(self.to_dense())

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""
        return DenseOperator(self.to_dense()).merge()

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The same on vectors that sum to zero, without zero rows; and which rows are left."""
        return DenseOperator(self.to_dense()).relative(idle=idle)


def largest_entries(matrix: Array) -> Array:
    """Largest absolute entry of every row, shape (m,)."""
    return np.asarray(np.maximum(matrix.max(axis=1, initial=0.0), -matrix.min(axis=1, initial=0.0)))


def without_offsets(matrix: Array) -> tuple[Array, Array]:
    """The same on vectors that sum to zero: rows may lose a constant.

    A row whose entries lie within a factor of two of each other loses the one nearest to zero.
    These differences are exact (Sterbenz). If they are one rounding of the row at most, it counts
    as constant and becomes 0.

    Returns:
        The matrix, the same object if nothing changes; and, shape (m,), how far apart the entries
        are at most in rows that count as constant, 0 for others.
    """
    low, high = matrix.min(axis=1), matrix.max(axis=1)
    near = np.where(low > 0, low, np.where(high < 0, high, 0.0))
    far = np.where(low > 0, high, low)
    close = (near != 0) & (np.abs(far) / 2 <= np.abs(near))
    if not close.any():
        return matrix, np.zeros(len(matrix))
    near = np.where(close, near, 0.0)
    apart = np.where(close, np.abs(far - near), 0.0)
    constant = close & (apart <= EPS * np.abs(far))
    moved = matrix - near[:, None]
    moved[constant] = 0.0
    return moved, np.where(constant, apart, 0.0)


def first_seen(keys: list[bytes], zero: bytes) -> tuple[Indices, Indices]:
    """Number equal keys by their first appearance; `zero` gets -1.

    Returns:
        The positions of the representatives, and for every key the number of its representative.
    """
    number: dict[bytes, int] = {zero: -1}
    representatives: list[int] = []
    labels = np.empty(len(keys), dtype=np.intp)
    for position, key in enumerate(keys):
        label = number.get(key)
        if label is None:
            label = number[key] = len(representatives)
            representatives.append(position)
        labels[position] = label
    return np.array(representatives, dtype=np.intp), labels


MIXER = 0x9E3779B97F4A7C15
"""Odd, as murmur's: with shifts it spreads the bits of a number, one to one."""
IN_CACHE = 2**15
"""Entries that are hashed at once."""


def distinct_rows(matrix: Array) -> tuple[Indices, Indices]:
    """As `first_seen`, for the rows of a matrix.

    Their numbers are hashed, all rows at once, and rows of equal hashes are compared.
    """
    rows, zero = np.arange(len(matrix)), np.asarray(~matrix.any(axis=1))
    for seed in count():
        kept, labels = numbered(_hashes(matrix, seed), zero)
        twins = rows[labels >= 0]
        twins = twins[kept[labels[twins]] != twins]
        blocks = [twins[part] for part in column_blocks(matrix.shape[1], twins.size)]
        if all(
            np.array_equal(matrix[part], matrix[kept[labels[part]]], equal_nan=True)
            for part in blocks
        ):
            return kept, labels
    raise AssertionError


def _hashes(matrix: Array, seed: int) -> Indices:
    """A sum of random multiples of mixed bits for each row, modulo 2^64."""
    odd = 2 * np.random.default_rng(seed).integers(2**63, size=matrix.shape[1], dtype=np.uint64) + 1
    hashes = np.empty(len(matrix), dtype=np.uint64)
    step = max(1, IN_CACHE // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        rows = slice(start, start + step)
        bits = (matrix[rows] + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
        bits ^= bits >> np.uint64(32)
        bits *= np.uint64(MIXER)
        bits ^= bits >> np.uint64(29)
        bits *= odd
        hashes[rows] = bits.sum(axis=1)
    return hashes.view(np.int64)


NO_QUERIES = DenseOperator(np.zeros((0, 0)))
"""What merging leaves of a workload of zeros."""


def jacobi_svd(matrix: Array, rank: int) -> tuple[Array, Array]:
    """The largest singular values of a tall matrix, shape (rank,), and right vectors (n, rank)."""
    # joba=2: relative accuracy for rows and columns of any scale; jobu=3, jobv=0: no U, all of V
    values, _, vectors, work, _, _ = scipy.linalg.lapack.dgejsv(
        matrix, joba=2, jobu=3, jobv=0, jobr=0, jobp=0
    )
    return values[:rank] * (work[0] / work[1]), vectors[:, :rank]
