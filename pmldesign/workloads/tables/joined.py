"""Workloads of tables of which each is asked for its own queries, that may join its attributes.

The domain has attributes 0 ... d - 1, the last one fastest, as for marginals (`marginals`). The
table over a set T of attributes has n_T cells and is asked for any matrix Q_T over them,

    A_T = c_T Q_T (x)_{i not in T} 1^T.

Sets may overlap, and one set may be asked for several matrices. Nothing of the size of the domain
is formed unless it is asked for.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.tables.base import (
    MAX_SETS,
    attribute_set,
    attribute_sizes,
    counts_of,
    positive_weights,
    total_of,
)
from pmldesign.workloads.tables.marginals import FromMarginals
from pmldesign.workloads.tables.same import domain_of, tables_in
from pmldesign.workloads.union import spread_out, stacked
from pmldesign_solvers.operators.operator import EPS, Array

JoinedTable = tuple[float, tuple[int, ...], Workload]
"""A weight, a set of attributes, and the queries on its cells."""


class JoinedWorkload(FromMarginals):
    """Queries on the tables over some sets of attributes.

    Args:
        sizes: number of values of each attribute.
        tables: sets of attributes in increasing order, each with the queries on its cells.
        weights: c_T > 0 for each of them; None for 1.
        name: what messages call it.

    Raises:
        InvalidInputError: no attribute or no table, sizes, sets or weights out of range, or queries
            on another number of cells than the table has.
    """

    between = "; "
    crossed = False

    def __init__(
        self,
        sizes: Sequence[int],
        tables: Iterable[tuple[Iterable[int], Workload]],
        weights: ArrayLike | None = None,
        *,
        name: str = "joined tables",
    ) -> None:
        self.name, self.sizes = name, attribute_sizes(sizes)
        listed = [(attribute_set("table", k, T, len(sizes)), Q) for k, (T, Q) in enumerate(tables)]
        if not 1 <= len(listed) <= MAX_SETS:
            raise InvalidInputError(f"there must be from 1 to {MAX_SETS} tables, got {len(listed)}")
        self.subsets = tuple(T for T, _ in listed)
        self.queries = tuple(Q for _, Q in listed)
        for number, (T, Q) in enumerate(listed):
            cells = math.prod(self.sizes[i] for i in T)
            if Q.shape[1] != cells:
                raise InvalidInputError(
                    f"table {number} over attributes {T} has {cells} cells, its queries are on"
                    f" {Q.shape[1]}"
                )
        ones = np.ones(len(listed))
        self.weights = positive_weights("table", ones if weights is None else weights, len(ones))

    @property
    def non_negative(self) -> bool:
        """Whether all queries are."""
        return all(Q.non_negative for Q in self.queries)

    @property
    def listed_tables(self) -> list[JoinedTable]:
        """The weight, the attributes and the queries of each table."""
        return [*zip(self.weights.tolist(), self.subsets, self.queries, strict=True)]

    @property
    def table_cells(self) -> list[int]:
        """The number of cells of each table."""
        return [queries.shape[1] for queries in self.queries]

    def queries_on(self, attribute: int) -> RangeWorkload:
        """The count of each value: queries are about several attributes at once."""
        return counts_of(self.sizes[attribute])

    def queries_of(self, number: int) -> tuple[Workload, ...]:
        """What table `number` asks, of all its attributes together."""
        return (self.queries[number],)

    def asked_of(self, number: int) -> tuple[int, ...]:
        """The number of queries of table `number`."""
        return (self.queries[number].shape[0],)

    def reweighted(self, scales: Array) -> JoinedWorkload:
        """The same with each table times its scale, shape (K,)."""
        tables = zip(self.subsets, self.queries, strict=True)
        return JoinedWorkload(self.sizes, tables, scales * self.weights, name=self.name)

    def ask(self, number: int, counts: Array) -> Array:
        """The answers of table `number`, shape (m_T,) or (m_T, c), from its counts (times c_T)."""
        return self.queries[number].matvec(counts)

    def spread(self, number: int, answers: Array) -> Array:
        """Q_T^T y for answers y of table `number`, shape (m_T,) or (m_T, c)."""
        return self.queries[number].rmatvec(answers)

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,); refused if too large."""
        check_entries(f"the cells of {self.name}", (self.shape[1], 1))
        total = np.zeros(self.sizes)
        for scale, T, queries in self.listed_tables:
            axes = [n if i in T else 1 for i, n in enumerate(self.sizes)]
            total += scale**2 * queries.column_squares().reshape(axes)
        return total.ravel()

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        pairs = zip(self.weights.tolist(), self.queries, strict=True)
        return np.concatenate([scale * queries.row_sizes() for scale, queries in pairs])

    def longest_column(self) -> float:
        """Squared norm of a column, or a bound above it, rounded up; any number of cells."""
        squares = [scale**2 * Q.longest_column() for scale, _, Q in self.listed_tables]
        return math.fsum(squares) * (1 + (len(squares) + 4) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, or a bound above it, rounded up."""
        squares = [scale**2 * Q.longest_difference() for scale, _, Q in self.listed_tables]
        return math.fsum(squares) * (1 + (len(squares) + 4) * EPS)

    def row_label(self, index: int) -> str:
        """What query `index` asks: "row 5 (attributes 0, 1: row 2 (at most 2))"."""
        number = bisect_right(self._stops, index)
        row = index - self._stops[number] + self.table_queries[number]
        where = ", ".join(map(str, self.subsets[number]))
        return f"row {index} (attributes {where}: {self._words(number, 0, row)})"

    def _words(self, number: int, place: int, row: int) -> str:  # noqa: ARG002 - all at once
        return self.queries[number].row_label(row)


def joined_tables(parts: Sequence[Workload], sizes: Sequence[int]) -> list[JoinedTable] | None:
    """The tables over attributes of these sizes that workloads consist of; None if they do not.

    Args:
        parts: products or tables, one below the other, whose attributes consist of these.
        sizes: the number of values of each attribute.
    """
    listed: list[JoinedTable] = []
    for part in parts:
        spans = _spans(domain_of(part), sizes)
        tables = part.listed_tables if isinstance(part, JoinedWorkload) else _crossed(part)
        if spans is None or tables is None:
            return None
        for scale, T, queries in tables:
            listed.append((scale, tuple(k for i in T for k in spans[i]), queries))
    return listed


def joined_over(workload: Workload, sizes: Sequence[int]) -> list[JoinedTable] | None:
    """The workload as queries on tables over attributes of these sizes, if it is such."""
    return _joined_over(workload.inner, tuple(sizes))


@lru_cache(maxsize=2)
def _joined_over(inner: Workload, sizes: tuple[int, ...]) -> list[JoinedTable] | None:
    tables = joined_tables(stacked(inner), sizes)
    return joined_tables(spread_out(inner), sizes) if tables is None else tables


def finest_sizes(domains: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The sizes of the attributes of which all that are listed may consist.

    Attributes are told by the products of the sizes of all before them, as cells are in the order
    of np.kron.
    """
    if len(set(domains)) == 1:
        return domains[0]
    cuts = sorted({1}.union(*(accumulate(domain, operator.mul) for domain in domains)))
    return tuple(end // start for start, end in pairwise(cuts))


def as_joined(
    parts: Sequence[Workload], sizes: tuple[int, ...] | None = None
) -> JoinedWorkload | None:
    """The union of workloads as tables over attributes; None if it does not consist of such.

    Args:
        parts: products or tables, one below the other.
        sizes: of the attributes; None for the finest that those of all parts consist of.
    """
    sizes = finest_sizes([domain_of(part) for part in parts]) if sizes is None else sizes
    tables = joined_tables(parts, sizes)
    if tables is None:
        return None
    weights = [scale for scale, _, _ in tables]
    name = "+".join(part.name for part in parts)
    return JoinedWorkload(sizes, [(T, Q) for _, T, Q in tables], weights, name=name)


def _crossed(part: Workload) -> list[JoinedTable] | None:
    """The tables of a product or of tables, each the product of what it asks of its attributes."""
    tables = tables_in([part], domain_of(part))
    made: dict[tuple[int, ...], Workload] = {}
    if tables is None:
        return None
    for _, of in tables:
        made.setdefault(tuple(map(id, of.values())), _product([*of.values()]))
    return [(scale, tuple(of), made[tuple(map(id, of.values()))]) for scale, of in tables]


def _product(factors: Sequence[Workload]) -> Workload:
    if len(factors) < 2:
        return factors[0] if factors else total_of(1)
    return KroneckerWorkload(factors)


def _spans(domain: Sequence[int], sizes: Sequence[int]) -> list[range] | None:
    """Which attributes of these sizes each attribute of a domain consists of."""
    spans, first = [], 0
    for size in domain:
        last = first
        while last < len(sizes) and math.prod(sizes[first:last]) < size:
            last += 1
        if reduce(operator.mul, sizes[first:last], 1) != size:
            return None
        if size == 1 and list(sizes[first : first + 1]) == [1]:
            last = first + 1  # an attribute with one value that is listed
        spans.append(range(first, last))
        first = last
    return spans if math.prod(sizes[first:]) == 1 else None
