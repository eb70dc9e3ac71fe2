"""Queries that an object answers by products, such as scipy.sparse.linalg.LinearOperator.

The object has `shape` (m, n), `matvec(x)`, which is A x, and `rmatvec(y)`, which is A^T y; where it
can, `matmat` and `rmatmat` for several columns at once, and `gram(u)`, which is A^T diag(u) A, n x
n. Without a `gram` the matrix is written out where it has at most WRITTEN entries. A larger one is
asked for blocks of its columns, which takes n products for every Gram matrix.

A bound is as true as the products: A^T and the Gram matrix are compared with A on random vectors,
and refused where they are those of another matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.arguments import real_numbers, whole
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.dense import DenseWorkload
from pmldesign_solvers.operators.operator import Array, Merged, column_blocks

WRITTEN = 2**24
"""Entries of a workload without a Gram matrix of its own that is written out, 128 MiB."""
TOLERANCE = 1e-9
"""Of products of the same matrix, relative to the sum of the sizes of their terms."""


def by_products(value: Any) -> bool:
    """Whether an object answers queries by products."""
    return all(hasattr(value, name) for name in ("shape", "matvec", "rmatvec"))


def workload_of_products(value: Any) -> Workload:
    """The queries of such an object; as a matrix where that is small and nothing else is faster.

    Raises:
        InvalidInputError: a shape that is none, entries that are no real numbers, or products that
            are not those of one matrix.
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
        name: what messages and tables call it.
    """

    def __init__(self, products: Any, *, name: str = "operator") -> None:
        shape = tuple(products.shape)
        if len(shape) != 2:
            raise InvalidInputError(f"{name} must have a shape (queries, cells), got {shape}")
        self._shape = whole("the number of queries", shape[0]), whole("the cells", shape[1])
        self.name, self._products = name, products
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
        """As it is where it is large and nothing in it is zero."""
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
