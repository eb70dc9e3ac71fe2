"""Workloads given as a matrix, or by an object that answers by products.

The object, for example a scipy.sparse.linalg.LinearOperator, has `shape` (m, n), `matvec(x)`, which
is A x, and `rmatvec(y)`, which is A^T y. It can also have `matmat` and `rmatmat` for several
columns at once, and `gram(u)`, which is A^T diag(u) A, n x n. Without a `gram`, a matrix of at most
WRITTEN entries is materialized. Of a larger one, blocks of columns are computed, which takes n
products for every Gram matrix.

A bound is only as correct as the products: A^T and the Gram matrix are compared with A on random
vectors, and refused if they belong to another matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmldesign.arguments import APART, real_numbers, whole
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.weighting import far_exponent, near_one, times
from pmldesign_solvers.operators.dense import DenseOperator, without_offsets
from pmldesign_solvers.operators.operator import Array, Merged, column_blocks

if TYPE_CHECKING:
    from pmldesign_solvers.streams.chain import RunningSums

WRITTEN = 2**24
"""Maximum entries of a workload without its own Gram matrix that is materialized, 128 MiB."""
TOLERANCE = 1e-9
"""Of products of the same matrix, relative to the sum of the sizes of their terms."""


class DenseWorkload(DenseOperator, Workload):
    """Queries as a dense matrix, stored as a read-only float64 array.

    Args:
        matrix: shape (m, n), m >= 1 queries over n >= 1 cells; booleans, integers or real numbers,
            all finite.
        name: its name in messages and tables.
        copy: False hands the array over: it is kept, and made read-only, without a copy if it
            already is float64 in C order.
        label: what query i is called.

    Raises:
        InvalidInputError: the matrix is not real, finite, two-dimensional and non-empty.
    """

    def __init__(
        self,
        matrix: ArrayLike,
        *,
        name: str = "matrix",
        copy: bool = True,
        label: Callable[[int], str] | None = None,
    ) -> None:
        given = _as_real(matrix)
        with np.errstate(over="ignore", invalid="ignore"):  # what float64 lacks is refused below
            kept = np.array(given, dtype=np.float64, order="C", copy=copy or None)
        finite = np.isfinite(kept)
        if not finite.all():
            row, column = (int(index) for index in np.unravel_index(finite.argmin(), kept.shape))
            raise InvalidInputError(
                f"workload entry ({row}, {column}) is {kept[row, column]}; every entry must be a "
                "finite number"
            )
        kept.flags.writeable = False
        self.name, self._label = name, label
        super().__init__(kept)

    @cached_property
    def running_sums(self) -> RunningSums | None:
        """The sums that the matrix is to the last digit: A_ts = q_t h_s for s <= t, and 0 after.

        One of q and h begins or ends with 1, so that weights of queries or of steps alone are
        found again as they were.
        """
        m, n = self.matrix.shape
        first, last = self.matrix[:, 0], self.matrix[-1]
        if m != n or self.matrix[0, 1:].any() or not (np.minimum(first, last) > 0).all():
            return None
        from pmldesign.workloads.running import LARGEST_WEIGHT

        for q, h in ((first, last / last[0]), (first / first[-1], last)):
            sizes = np.concatenate([q, h])
            inside = sizes.min() >= LARGEST_WEIGHT**-1 and sizes.max() <= LARGEST_WEIGHT
            if inside and np.array_equal(np.tril(np.outer(q, h)), self.matrix):
                from pmldesign_solvers.streams.chain import RunningSums

                return RunningSums(np.ones(n - 1), q, h)
        return None

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        return np.asarray(np.einsum("ij,ij,j->i", self.matrix, self.matrix, weights))

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns."""
        return np.asarray(np.einsum("ij,ij->j", self.matrix, self.matrix))

    def without_offsets(self) -> tuple[DenseWorkload, Array]:
        """Queries with equal answers on vectors that sum to zero; the part left out of each row."""
        moved, left_out = without_offsets(self.matrix)
        same = moved is self.matrix
        return (self if same else DenseWorkload(moved, name=self.name, copy=False)), left_out


@times.register
def _(workload: DenseWorkload, weights: Array | float) -> DenseWorkload:
    """The matrix, every row times its weight."""
    matrix = np.reshape(weights, (-1, 1)) * workload.matrix
    return DenseWorkload(matrix, copy=False, label=workload.row_label)


@near_one.register
def _(workload: DenseWorkload) -> tuple[Workload, int]:
    exponent = far_exponent(workload)
    if not exponent:
        return workload, 0
    matrix = np.ldexp(workload.matrix, -exponent)
    name, label = workload.name, workload.row_label
    return DenseWorkload(matrix, name=name, copy=False, label=label), exponent


def complex_workload(matrix: ArrayLike) -> DenseWorkload:
    """Complex queries as pairs of real ones: the real part of each, then its imaginary part.

    The sum of the variances of the two is that of the complex answer.

    Raises:
        InvalidInputError: as `DenseWorkload`.
    """
    given = np.atleast_2d(np.asarray(matrix))
    check_matrix(given.shape, given.real.dtype)
    pairs = np.stack([given.real, given.imag], axis=1).reshape(-1, given.shape[1])
    return DenseWorkload(pairs, name="complex matrix", copy=False, label=_part_label)


def _part_label(query: int) -> str:
    return f"row {query // 2}, {'imaginary' if query % 2 else 'real'} part"


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what cannot be a workload by its shape or its type of entries.

    Raises:
        InvalidInputError: not two-dimensional, empty, or not of real numbers.
    """
    if dtype.kind not in "biuf":
        apart = f"; {APART}" if dtype.kind == "c" else ""
        raise InvalidInputError(
            f"a workload holds booleans, integers or real numbers, got entries of type"
            f" {dtype}{apart}"
        )
    if len(shape) != 2:
        raise InvalidInputError(
            f"a workload is a matrix, one row for each query and one column for each cell; got "
            f"{len(shape)} dimensions, shape {shape}"
        )
    if 0 in shape:
        raise InvalidInputError(
            f"a workload has at least one query and one cell, got shape {shape}"
        )


def _as_real(matrix: ArrayLike) -> NDArray[Any]:
    given = real_numbers("workload", matrix)
    check_matrix(given.shape, given.dtype)
    return given


def by_products(value: Any) -> bool:
    """Whether an object answers queries by products."""
    return all(hasattr(value, name) for name in ("shape", "matvec", "rmatvec"))


def workload_of_products(value: Any) -> Workload:
    """The queries of an object with products; as a matrix if it is small and has no `gram`.

    Raises:
        InvalidInputError: an invalid shape, entries that are not real numbers, or products that do
            not belong to one matrix.
    """
    workload = ProductsWorkload(value)
    m, n = workload.shape
    if hasattr(value, "gram") or m * n > WRITTEN:
        return workload
    return DenseWorkload(workload.to_dense(), name=workload.name, copy=False)


class ProductsWorkload(Workload):
    """Queries that an object answers by products.

    Args:
        products: the object.
    """

    name = "operator"

    def __init__(self, products: Any) -> None:
        shape = tuple(products.shape)
        if len(shape) != 2:
            raise InvalidInputError(f"{self.name} must have a shape (queries, cells), got {shape}")
        self._shape = whole("the number of queries", shape[0]), whole("the cells", shape[1])
        self._products = products
        self._check()

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        return self._times("matvec", "matmat", x, self._shape[0])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        return self._times("rmatvec", "rmatmat", y, self._shape[1])

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        m, n = self._shape
        if hasattr(self._products, "gram"):
            return _numbers("gram", self._products.gram(weights), (n, n))
        total = np.empty((n, n))
        for columns in column_blocks(m, n):
            total[:, columns] = self.rmatvec(weights[:, None] * self.matvec(_unit(n, columns)))
        return np.asarray((total + total.T) / 2)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        m, n = self._shape
        total = np.zeros(m)
        for columns in column_blocks(m, n):
            image = self.matvec(np.ascontiguousarray(matrix[:, columns]))
            total += np.einsum("ij,ij->i", image, self.matvec(_unit(n, columns)))
        return total

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        m, n = self._shape
        sizes = np.zeros(m)
        for columns in column_blocks(m, n):
            np.maximum(sizes, np.abs(self.matvec(_unit(n, columns))).max(axis=1), out=sizes)
        return sizes

    def merge(self) -> Merged:
        """Unchanged if it is large and has no zero row or column."""
        m, n = self._shape
        if m * n > WRITTEN and m >= n and self.row_sizes().all() and self.column_squares().all():
            return Merged(self, np.arange(m), np.arange(n))
        return super().merge()

    def _times(self, single: str, several: str, x: Array, rows: int) -> Array:
        if x.ndim == 1:
            product = np.ravel(getattr(self._products, single)(x))
        elif hasattr(self._products, several):
            product = getattr(self._products, several)(x)
        else:
            one = getattr(self._products, single)
            product = np.column_stack([np.ravel(one(column)) for column in x.T])
        return _numbers(single, product, (rows, *x.shape[1:]))

    def _check(self) -> None:
        """Compare A^T and the Gram matrix with A."""
        (m, n), rng = self._shape, np.random.default_rng(0)
        x, y = rng.standard_normal(n), rng.standard_normal(m)
        image, back = self.matvec(x), self.rmatvec(y)
        size = float(np.abs(image) @ np.abs(y) + np.abs(back) @ np.abs(x))
        if abs(float(image @ y - back @ x)) > TOLERANCE * size:
            raise InvalidInputError(f"{self.name}: rmatvec is not the transpose of matvec")
        if hasattr(self._products, "gram"):
            weights = rng.random(m)
            there, expected = self.gram(weights) @ x, self.rmatvec(weights * image)
            if np.abs(there - expected).max() > TOLERANCE * max(np.abs(expected).max(), size / n):
                raise InvalidInputError(f"{self.name}: gram(u) is not A^T diag(u) A")


def _unit(n: int, columns: slice) -> Array:
    unit = np.zeros((n, columns.stop - columns.start))
    np.fill_diagonal(unit[columns], 1.0)
    return unit


def _numbers(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    array = real_numbers(f"{name} of the workload", value).astype(np.float64, copy=False)
    if array.shape != shape or not np.isfinite(array).all():
        got = "numbers that are not finite" if array.shape == shape else f"shape {array.shape}"
        raise InvalidInputError(f"{name} of the workload must give {shape} numbers, got {got}")
    return np.ascontiguousarray(array)
