"""Workloads given as a scipy sparse matrix; apart, so that scipy.sparse loads only when needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.dense import DenseWorkload, check_matrix
from pmldesign.workloads.weighting import far_exponent, near_one
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.dense import NO_QUERIES, first_seen, without_offsets
from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array, Indices, Merged

if TYPE_CHECKING:
    from pmldesign_solvers.streams.chain import RunningSums

MOST_SQUARES = 2**23
"""Products of two entries of a row that are kept, 12 bytes each: 96 MiB. With them a solution for
200 x 100,000 with 5% entries takes 13 s of processor time instead of more than 150."""

SLOWER = 32
"""Time of a product per stored entry, relative to an entry of a dense matrix: 12,640 cells with
20,000 entries of 1,000 queries take 0.04 s instead of 0.7 s for A X A^T."""

DENSER, FEW, MOST_WRITTEN = 16, 8, 2**25
"""As SLOWER, for a product with more than FEW vectors at once; the largest number of entries of a
matrix that is materialized for it, 256 MiB: 200 x 50,000 with 20% entries times 200 vectors takes
0.12 s instead of 0.58 s."""


class SparseWorkload(Workload):
    """Queries whose entries are mostly zero, stored in compressed rows.

    Args:
        matrix: a scipy sparse array or matrix of shape (m, n), in any format; entries as for
            DenseWorkload.
        name: its name in messages and tables.
        label: the label of query i.

    Raises:
        InvalidInputError: the matrix is not real, finite, two-dimensional and non-empty, or its
            index arrays contradict each other.
    """

    def __init__(
        self, matrix: Any, *, name: str = "sparse matrix", label: Callable[[int], str] | None = None
    ) -> None:
        check_matrix(matrix.shape, matrix.dtype)
        try:
            check_indices(matrix)
        except ValueError as error:
            raise InvalidInputError(f"the sparse workload is inconsistent: {error}") from None
        with np.errstate(over="ignore", invalid="ignore"):  # what float64 lacks is refused below
            kept = scipy.sparse.csr_array(matrix, dtype=np.float64, copy=True)
            kept.sum_duplicates()
        kept.eliminate_zeros()
        self.matrix: Any = kept
        self._shape = kept.shape
        self.name = name
        self._label = label
        finite = np.isfinite(kept.data)
        if not finite.all():
            position = int(finite.argmin())
            row = int(np.searchsorted(kept.indptr, position, side="right")) - 1
            raise InvalidInputError(
                f"workload entry ({row}, {kept.indices[position]}) is {kept.data[position]}; every "
                "entry must be a finite number"
            )

    @property
    def running_sums(self) -> RunningSums | None:
        """The running sums of the matrix, if it is small enough to be materialized."""
        n = self.shape[1]
        if n > WRITTEN_CELLS or self.matrix.nnz != n * (n + 1) // 2:
            return None
        return DenseWorkload(self.to_dense()).running_sums

    def transposed(self) -> SparseWorkload | None:
        """A^T, shape (n, m); None if products with its matrix take less time and memory."""
        turned = SparseWorkload(self.matrix.T, name=self.name)
        few = SLOWER * self.matrix.nnz < math.prod(self.shape)
        return turned if few or turned.products_of_entries is not None else None

    @property
    def work(self) -> tuple[int, int]:
        """Shape of a matrix on which a step takes as long; a wide one is transposed or written."""
        short, long = sorted(self.shape)
        entries = max(short, SLOWER * self.matrix.nnz // short)
        return short, entries if short == self.shape[1] else min(entries, long)

    @cached_property
    def products_of_entries(self) -> Any:
        """a_i a_i^T as rows, shape (m, n^2), above the diagonal twice; None if these are too many.

        With it diag(A X A^T) and A^T diag(u) A are products with a vector.
        """
        lengths = np.diff(self.matrix.indptr).astype(np.int64)
        entries = int((lengths * (lengths + 1) // 2).sum())
        if not MOST_SQUARES >= entries >= self.shape[1] ** 2:
            return None
        # entry e of a row goes with itself and those after it
        after = np.repeat(self.matrix.indptr[1:], lengths) - np.arange(self.matrix.nnz)
        first = np.repeat(np.arange(self.matrix.nnz), after)
        starts = np.cumsum(after) - after
        second = first + np.arange(entries) - np.repeat(starts, after)
        columns = self.matrix.indices
        low = np.minimum(columns[first], columns[second])
        high = np.maximum(columns[first], columns[second])
        values = self.matrix.data[first] * self.matrix.data[second]
        values[first != second] *= 2.0
        ends = np.append(0, np.cumsum(lengths * (lengths + 1) // 2))
        parts = values, low * self.shape[1] + high, ends
        return scipy.sparse.csr_array(parts, shape=(self.shape[0], self.shape[1] ** 2))

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        if self.products_of_entries is not None:
            n = self.shape[1]
            upper = (self.products_of_entries.T @ weights).reshape(n, n)
            return np.asarray((upper + upper.T) / 2)
        weighted = self.matrix.copy()
        weighted.data *= np.repeat(weights, np.diff(weighted.indptr))
        return np.asarray((self.matrix.T @ weighted).toarray())

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        if self.products_of_entries is not None:
            return np.asarray(self.products_of_entries @ matrix.ravel())
        m, n = self.shape
        step = max(1, BLOCK_BYTES // (8 * n))
        values = np.empty(m)
        for start in range(0, m, step):
            block = self.matrix[start : start + step]
            values[start : start + step] = block.multiply(block @ matrix).sum(axis=1)
        return values

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        return np.asarray(self._factor_of(x) @ x)

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        return np.asarray(self._factor_of(y).T @ y)

    def _factor_of(self, x: Array) -> Any:
        """A in the form in which products with x take less time."""
        written = math.prod(self.shape) <= min(MOST_WRITTEN, DENSER * self.matrix.nnz)
        return self._written if written and x.ndim == 2 and x.shape[1] > FEW else self.matrix

    @cached_property
    def _written(self) -> Array:
        return self.to_dense()

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        check_entries(self.name, self.shape)
        return np.asarray(self.matrix.toarray())

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        return np.asarray(self.matrix.power(2) @ weights)

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns."""
        return np.asarray(self.matrix.power(2).sum(axis=0))

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return np.asarray(abs(self.matrix).max(axis=1).toarray())

    def without_offsets(self) -> tuple[SparseWorkload, Array]:
        """The same on vectors that sum to zero; rows without a zero may lose a constant."""
        lengths = np.diff(self.matrix.indptr)
        rows = np.flatnonzero(lengths == self.shape[1])
        left_out = np.zeros(self.shape[0])
        if not rows.size:
            return self, left_out
        full = self.matrix[rows].toarray()
        moved, left_out[rows] = without_offsets(full)
        if moved is full:
            return self, left_out
        data = self.matrix.data.copy()
        self.matrix.sort_indices()
        data[np.repeat(lengths == self.shape[1], lengths)] = moved.ravel()
        matrix = scipy.sparse.csr_array((data, self.matrix.indices, self.matrix.indptr), self.shape)
        return SparseWorkload(matrix, name=self.name, label=self._label), left_out

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""
        rows, row_of = _distinct(self.matrix)
        kept = self.matrix[rows]
        columns, column_of = _distinct(kept.T.tocsr())
        if not rows.size:
            return Merged(NO_QUERIES, row_of, column_of)
        merged = SparseWorkload(kept[:, columns], name=self.name)
        return Merged(merged, row_of, column_of)


def sparse_rows(workload: Workload) -> Any:
    """A as a scipy sparse array in rows if it is stored as one; else None."""
    return workload.matrix if isinstance(workload, SparseWorkload) else None


@near_one.register
def _(workload: SparseWorkload) -> tuple[Workload, int]:
    exponent = far_exponent(workload)
    if not exponent:
        return workload, 0
    matrix = workload.matrix.copy()
    matrix.data = np.ldexp(matrix.data, -exponent)
    return SparseWorkload(matrix, name=workload.name, label=workload.row_label), exponent


def _distinct(matrix: Any) -> tuple[Indices, Indices]:
    matrix.sort_indices()
    bounds = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    # Both parts grow with the number of entries, so that no two rows share a key.
    keys = [
        matrix.indices[low:high].tobytes() + matrix.data[low:high].tobytes() for low, high in bounds
    ]
    return first_seen(keys, b"")


def check_indices(matrix: Any) -> None:
    """ValueError if indices of a scipy matrix are out of range: they are used as addresses."""
    if matrix.format == "coo":
        scipy.sparse.coo_array((matrix.data, matrix.coords), shape=matrix.shape)
    elif matrix.format == "dia":
        scipy.sparse.dia_array((matrix.data, matrix.offsets), shape=matrix.shape)
    elif matrix.format in ("csr", "csc", "bsr"):
        if np.any(np.diff(matrix.indptr) < 0):  # unseen by scipy where the last entry is 0
            raise ValueError("indptr must not decrease")
        matrix.check_format(full_check=True)
