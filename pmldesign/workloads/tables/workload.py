"""Workloads of tables whose attributes have queries of their own: running sums, ranges, windows.

The domain has attributes 0 ... d - 1 with n_1 ... n_d values, the last attribute fastest, as for
marginals (`marginals`). Of attribute i the queries A_i (m_i x n_i) are asked: the identity if it is
plain, running sums or any other matrix if its values have an order. The table over a set T of
attributes asks every combination of their queries and sums over the other attributes,

    A_T = c_T (x)_i (A_i if i in T, else 1^T),

its rows in the order of np.kron. The table of counts over T determines all its answers: A_i is
applied along axis i. Nothing of the size of the domain is formed unless it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import WRITTEN_CELLS, Workload, check_entries
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.tables.base import AttributeTables, ask, asks_counts, counts_of
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import EPS, Array

MAX_VALUES = 2**20
"""Of a plain attribute; marginals alone may have more."""


class TablesWorkload(AttributeTables):
    """The tables over some sets of attributes, each attribute with queries of its own.

    Args:
        attributes: A_i for each attribute: a workload on its values, or their number for counts.
        subsets: the attributes (from 0) of each table, in any order; () is the total.
        weights: c_T > 0 for each table; None for 1.
        name: what messages call it.

    Attributes:
        attributes: A_1 ... A_d.

    Raises:
        InvalidInputError: as `MarginalsWorkload`; or the queries of an attribute are zero.
    """

    between = "; "

    def __init__(
        self,
        attributes: Sequence[Workload | int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike | None = None,
        *,
        name: str = "tables",
    ) -> None:
        self.name = name
        sizes = [entry.shape[1] if isinstance(entry, Workload) else entry for entry in attributes]
        self._counts = MarginalsWorkload(sizes, subsets, weights, name=name)
        self.sizes, self.subsets = self._counts.sizes, self._counts.subsets
        self.weights = self._counts.weights
        self.attributes: tuple[Workload, ...] = tuple(
            entry if isinstance(entry, Workload) else counts_of(_listed(number, entry))
            for number, entry in enumerate(attributes)
        )
        for number, queries in enumerate(self.attributes):
            if not isinstance(queries, RangeWorkload) and queries.longest_column() == 0:
                raise InvalidInputError(f"the queries of attribute {number} are all zero")
        self.asked = tuple(queries.shape[0] for queries in self.attributes)

    @property
    def distinct_shape(self) -> tuple[int, int]:
        """Number of queries, and of cells that some query may tell apart."""
        used = set().union(*self.subsets)
        return self.shape[0], math.prod(self.sizes[i] for i in used)

    @property
    def is_plain(self) -> bool:
        """Whether every attribute is asked for its counts: the tables are marginals."""
        return all(asks_counts(queries) for queries in self.attributes)

    def as_marginals(self) -> MarginalsWorkload:
        """The tables of counts that the answers are made of, with the weights of the tables."""
        return self._counts

    def queries_on(self, attribute: int) -> Workload:
        """A_i."""
        return self.attributes[attribute]

    def reweighted(self, scales: Array) -> TablesWorkload:
        """The same with each table times its scale, shape (K,)."""
        return TablesWorkload(self.attributes, self.subsets, scales * self.weights)

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,); refused if too large."""
        n = self.shape[1]
        check_entries(f"the Gram matrix of {self.name}", (n, n))
        total = np.zeros((n, n))
        for product, part in zip(self._products(), self.split(weights), strict=True):
            total += product.gram(part)
        return total

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return np.concatenate([product.row_quadratic(matrix) for product in self._products()])

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        counts = self._counts.split(self._counts.matvec(x))
        return np.concatenate([self.ask(number, table) for number, table in enumerate(counts)])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c); refused if too large."""
        tables = []
        for subset, part in zip(self.subsets, self.split(y), strict=True):
            asked = [self.attributes[i] for i in subset]
            maps = [queries.rmatvec for queries in asked]
            tables.append(mode_products.apply(maps, [entry.shape[0] for entry in asked], part))
        return self._counts.rmatvec(np.concatenate(tables))

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns; refused if too large."""
        check_entries(f"the cells of {self.name}", (self.shape[1], 1))
        squares = [queries.column_squares() for queries in self.attributes]
        total = np.zeros(self.sizes)
        for subset, scale in zip(self.subsets, self.weights, strict=True):
            axes = [1 if i not in subset else size for i, size in enumerate(self.sizes)]
            total += scale**2 * mode_products.outer([squares[i] for i in subset]).reshape(axes)
        return total.ravel()

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        sizes = [queries.row_sizes() for queries in self.attributes]
        return np.concatenate(
            [
                scale * mode_products.outer([sizes[i] for i in subset])
                for subset, scale in zip(self.subsets, self.weights.tolist(), strict=True)
            ]
        )

    def longest_column(self) -> float:
        """Squared norm of a column, or a bound above it, rounded up; any number of cells."""
        longest = [queries.longest_column() for queries in self.attributes]
        squares = [math.prod(longest[i] for i in subset) for subset in self.subsets]
        total = float(self.weights**2 @ np.array(squares, dtype=np.float64))
        return total * (1 + (len(squares) + 2 * len(longest)) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up; for many cells a bound above it."""
        if self.shape[1] <= WRITTEN_CELLS:
            return super().longest_difference()
        return 4 * self.longest_column()

    def _words(self, attribute: int, row: int) -> str:
        return self.attributes[attribute].row_label(row)

    def ask(self, number: int, counts: Array) -> Array:
        """The answers of table `number`, shape (m_T,) or (m_T, c), from its counts (times c_T)."""
        return ask([self.attributes[i] for i in self.subsets[number]], counts)

    def tables(self, records: ArrayLike) -> Iterator[Array]:
        """The exact answers for records, table by table, whatever the size of the domain.

        Args:
            records: whole numbers of shape (N, d), the value of each attribute, from 0.

        Raises:
            InvalidInputError: as `MarginalsWorkload.tables`.
        """
        for number, counts in enumerate(self._counts.tables(records)):
            yield self.ask(number, counts)

    def _products(self) -> Iterator[Workload]:
        for part in self.products():
            yield part[0] if len(part) == 1 else KroneckerWorkload(part)


def _listed(attribute: int, size: int) -> int:
    if size > MAX_VALUES:
        raise InvalidInputError(
            f"attribute {attribute} has {size} values; beside attributes with queries of their own "
            f"it may have up to {MAX_VALUES}"
        )
    return int(size)
