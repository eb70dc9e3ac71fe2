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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.tables.base import (
    ask,
    asks_counts,
    attribute_set,
    attribute_sizes,
    counts_of,
    positive_weights,
    require_different,
)
from pmldesign.workloads.tables.marginals import FromMarginals, MarginalsWorkload
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.structure import kronecker

MAX_VALUES = 2**20
"""Of a plain attribute; marginals alone may have more."""


class TablesWorkload(FromMarginals):
    """The tables over some sets of attributes, each attribute with queries of its own.

    Args:
        attributes: A_i for each attribute: a workload on its values, or their number for counts; or
            several of these, the ways in which different tables ask about it.
        subsets: the attributes (from 0) of each table, in any order, () is the total; where one is
            asked in several ways, from every attribute to the number of its way.
        weights: c_T > 0 for each table; None for 1.
        name: what messages call it.

    Attributes:
        attributes: A_1 ... A_d, all ways of an attribute one below the other.

    Raises:
        InvalidInputError: as `MarginalsWorkload`; the queries of an attribute are zero; ways of
            different sizes, or one that there is not.
    """

    between = "; "

    def __init__(
        self,
        attributes: Sequence[Workload | int | Sequence[Workload | int]],
        subsets: Iterable[Iterable[int] | Mapping[int, int]],
        weights: ArrayLike | None = None,
        *,
        name: str = "tables",
    ) -> None:
        self.name = name
        entries = [entry if isinstance(entry, Sequence) else (entry,) for entry in attributes]
        self.sizes = attribute_sizes([_size_of(ways[0]) for ways in entries])
        pairs = enumerate(zip(self.sizes, entries, strict=True))
        self.ways = tuple(_ways(i, size, entry) for i, (size, entry) in pairs)
        self.subsets, self.kinds = _sets_and_kinds(subsets, self.ways)
        ones = np.ones(len(self.subsets))
        self.weights = positive_weights("table", ones if weights is None else weights, len(ones))

    @cached_property
    def attributes(self) -> tuple[Workload, ...]:
        """All that is asked of each attribute."""
        return tuple(self.queries_on(i) for i in range(len(self.sizes)))

    @property
    def is_plain(self) -> bool:
        """Whether every attribute is asked for its counts: the tables are marginals."""
        return all(len(ways) == 1 and asks_counts(ways[0]) for ways in self.ways)

    def as_marginals(self) -> MarginalsWorkload:
        """The tables of counts, where every attribute is asked for these, with their weights."""
        return MarginalsWorkload(self.sizes, self.subsets, self.weights, name=self.name)

    def queries_on(self, attribute: int) -> Workload:
        """A_i, all ways one below the other."""
        from pmldesign.workloads.union import together

        return together(self.ways[attribute])

    def queries_of(self, number: int) -> tuple[Workload, ...]:
        """What table `number` asks of each of its attributes."""
        chosen = zip(self.subsets[number], self.kinds[number], strict=True)
        return tuple(self.ways[i][kind] for i, kind in chosen)

    def asked_of(self, number: int) -> tuple[int, ...]:
        """The number of queries on each attribute of table `number`."""
        return tuple(queries.shape[0] for queries in self.queries_of(number))

    def reweighted(self, scales: Array) -> TablesWorkload:
        """The same with each table times its scale, shape (K,)."""
        tables = [
            dict(zip(*table, strict=True)) for table in zip(self.subsets, self.kinds, strict=True)
        ]
        return TablesWorkload(self.ways, tables, scales * self.weights, name=self.name)

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

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns; refused if too large."""
        check_entries(f"the cells of {self.name}", (self.shape[1], 1))
        squares = [[queries.column_squares() for queries in ways] for ways in self.ways]
        total = np.zeros(self.sizes)
        for subset, kinds, scale in self._tables():
            axes = [1 if i not in subset else size for i, size in enumerate(self.sizes)]
            parts = [squares[i][kind] for i, kind in zip(subset, kinds, strict=True)]
            total += scale**2 * kronecker.outer(parts).reshape(axes)
        return total.ravel()

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        sizes = [[queries.row_sizes() for queries in ways] for ways in self.ways]
        return np.concatenate(
            [
                scale
                * kronecker.outer([sizes[i][kind] for i, kind in zip(subset, kinds, strict=True)])
                for subset, kinds, scale in self._tables()
            ]
        )

    def longest_column(self) -> float:
        """Squared norm of a column, or a bound above it, rounded up; any number of cells."""
        longest = [[queries.longest_column() for queries in ways] for ways in self.ways]
        squares = [
            scale**2 * math.prod(longest[i][kind] for i, kind in zip(subset, kinds, strict=True))
            for subset, kinds, scale in self._tables()
        ]
        return math.fsum(squares) * (1 + (len(squares) + 2 * len(longest)) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up; for many cells a bound above it."""
        if self.shape[1] <= WRITTEN_CELLS:
            return super().longest_difference()
        return 4 * self.longest_column()

    def _words(self, number: int, place: int, row: int) -> str:
        return self.queries_of(number)[place].row_label(row)

    def ask(self, number: int, counts: Array) -> Array:
        """The answers of table `number`, shape (m_T,) or (m_T, c), from its counts (times c_T)."""
        return ask(self.queries_of(number), counts)

    def spread(self, number: int, answers: Array) -> Array:
        """Q_T^T y for answers y of table `number`, shape (m_T,) or (m_T, c)."""
        maps = [queries.rmatvec for queries in self.queries_of(number)]
        return kronecker.apply(maps, self.asked_of(number), answers)

    def _tables(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
        return zip(self.subsets, self.kinds, self.weights.tolist(), strict=True)

    def _products(self) -> Iterator[Workload]:
        for part in self.products():
            yield part[0] if len(part) == 1 else KroneckerWorkload(part)


def _size_of(queries: Workload | int) -> int:
    return queries.shape[1] if isinstance(queries, Workload) else queries


def _ways(attribute: int, size: int, ways: Sequence[Workload | int]) -> tuple[Workload, ...]:
    """The queries of an attribute.

    Raises:
        InvalidInputError: they are about different values, or zero.
    """
    if any(_size_of(queries) != size for queries in ways):
        raise InvalidInputError(
            f"the ways of attribute {attribute} are about {[*map(_size_of, ways)]} values; all"
            " are about the same"
        )
    listed = tuple(
        queries if isinstance(queries, Workload) else counts_of(_listed(attribute, size))
        for queries in ways
    )
    for queries in listed:
        if not isinstance(queries, RangeWorkload) and queries.longest_column() == 0:
            raise InvalidInputError(f"the queries of attribute {attribute} are all zero")
    return listed


def _listed(attribute: int, size: int) -> int:
    if size > MAX_VALUES:
        raise InvalidInputError(
            f"attribute {attribute} has {size} values; beside attributes with queries of their own "
            f"it may have up to {MAX_VALUES}"
        )
    return int(size)


def _sets_and_kinds(
    tables: Iterable[Iterable[int] | Mapping[int, int]], ways: Sequence[Sequence[Workload]]
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The attributes of every table, in increasing order, and the number of the way of each.

    Raises:
        InvalidInputError: as `attribute_sets`, or a way that there is not.
    """
    subsets, kinds = [], []
    for number, table in enumerate(tables):
        subset = attribute_set("table", number, table, len(ways))
        chosen = tuple(table[i] if isinstance(table, Mapping) else 0 for i in subset)
        for i, kind in zip(subset, chosen, strict=True):
            if not 0 <= kind < len(ways[i]):
                raise InvalidInputError(
                    f"table {number} asks attribute {i} in way {kind}; its ways are numbered from 0"
                    f" to {len(ways[i]) - 1}"
                )
        subsets.append(subset)
        kinds.append(chosen)
    pairs = zip(subsets, kinds, strict=True)
    require_different("table", [pair if any(pair[1]) else pair[0] for pair in pairs])
    return tuple(subsets), tuple(kinds)
