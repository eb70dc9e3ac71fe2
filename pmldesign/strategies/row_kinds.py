r"""Rows of L of large strategies, without L: few kinds of rows, with few different entries each.

Product without weights. A row of L is a product of rows of the factors' L_i, and only the absolute
values of its entries count, in any order.

Weighted tables (`strategies.tables.weighted`), some rows at a time. The entry for a query a on
the attributes T and a measurement b of the table by S is

    theta_S sum over U within S and T of  1/lambda_U
        prod_{i in U} (A_i Psi_i Psi_i^T D_i^T)_ab  prod_{other i} (A_i v_i)_a (D_i v_i)_b

over i in S or T, with 1^T for A_i outside T and for D_i outside S: A_i v_i = 1 and D_i v_i = 1. For
counts of a plain attribute (A_i = D_i = I) only whether a and b agree matters: all queries are of
one kind, and measurements of two; outside T measurements are of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from pmldesign.strategies.base import Strategy
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.tables.weighted import WeightedTablesStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import asks_counts
from pmldesign.workloads.terms.over import crossed_over
from pmldesign_solvers.operators.operator import Array

MOST_ROWS = 2**28
"""Entries of all kinds of rows of tables, some formed at a time: a quarter of a minute."""


@dataclass(frozen=True, eq=False)
class RowKinds:
    """Consecutive rows of L, grouped by kind.

    Attributes:
        chunks: some kinds of rows at a time, absolute values of their entries and how often each
            occurs, both of shape (kinds, entries).
        places: the kind of every row.
    """

    chunks: Iterable[tuple[Array, Array]]
    places: NDArray[np.intp]


@singledispatch
def rows_by_kind(
    strategy: Strategy,  # noqa: ARG001
    workload: Workload,  # noqa: ARG001
    most: int,  # noqa: ARG001
) -> Sequence[RowKinds] | None:
    """The rows of L by kinds, of at most so many entries at a time; None without structure."""
    return None


@rows_by_kind.register
def _(strategy: ProductStrategy, workload: Workload, most: int) -> Sequence[RowKinds] | None:
    """The kinds of rows, part by part."""
    parts = None if strategy.weights is not None else strategy.products(workload)
    kinds = []
    for part in parts or ():
        kind = _of_product(strategy, part, most)
        if kind is None:
            return None
        kinds.append(kind)
    return kinds or None


def _of_product(strategy: ProductStrategy, part: Sequence[Workload], most: int) -> RowKinds | None:
    together, places = np.ones((1, 1)), np.zeros(1, dtype=np.intp)
    for factor, queries in zip(strategy.factors, part, strict=True):
        rows = np.sort(np.abs(factor.reconstruction(queries)), axis=1)[:, ::-1]
        distinct, kind = np.unique(rows.round(12), axis=0, return_inverse=True)
        used = distinct[:, distinct.any(axis=0)]
        if together.size * used.size > most:
            return None
        together = np.kron(together, used)
        places = (places[:, None] * len(distinct) + kind.ravel()).ravel()
    return RowKinds([(together, np.ones_like(together))], places)


@dataclass(frozen=True, eq=False)
class _Factor:
    """The part of an attribute in the entries of L.

    Attributes:
        inner: (A Psi Psi^T D^T)_ab, shape (kinds of queries, kinds of measurements).
        outer: (A v)_a (D v)_b, of the same shape.
        counts: how many measurements are of each kind.
    """

    inner: Array
    outer: Array
    counts: Array


@rows_by_kind.register
def _(strategy: WeightedTablesStrategy, workload: Workload, most: int) -> Sequence[RowKinds] | None:
    """The kinds of rows, table by table; None if these have more than MOST_ROWS entries."""
    return kinds_of_tables(strategy, workload, MOST_ROWS, most)


def kinds_of_tables(
    strategy: WeightedTablesStrategy, workload: Workload, most: int, at_once: int
) -> Sequence[RowKinds] | None:
    """The kinds of rows of L, table by table; None if there are too many entries.

    Args:
        strategy: R.
        workload: A.
        most: entries of all kinds of rows.
        at_once: entries that are formed at a time.
    """
    terms = crossed_over(workload.inner, strategy.sizes)
    if terms is None:
        return None
    rows = [_Rows(strategy, term.of_attributes, term.weight, at_once) for term in terms]
    return None if sum(part.entries for part in rows) > most else [part.kinds() for part in rows]


class _Rows:
    """The rows of one table.

    Args:
        strategy: R.
        queries: A_i for i in T.
        scale: of the table.
        at_once: entries that are formed at a time.
    """

    def __init__(
        self,
        strategy: WeightedTablesStrategy,
        queries: Mapping[int, Workload],
        scale: float,
        at_once: int,
    ) -> None:
        self._strategy, self._queries, self._scale = strategy, queries, scale
        self._blocks = [
            {i: self._factor(i, measured=i in S) for i in sorted({*S, *queries})}
            for S in strategy.subsets
        ]
        self._one_kind = {i: self._is_plain(i) for i in queries}
        self._shape = [1 if self._one_kind[i] else q.shape[0] for i, q in queries.items()]
        columns = [math.prod(len(f.counts) for f in block.values()) for block in self._blocks]
        self.entries = math.prod(self._shape) * sum(columns)
        self._step = max(1, at_once // sum(columns))

    def kinds(self) -> RowKinds:
        """All rows, one after the other."""
        places = np.zeros(1, dtype=np.intp)
        for i, queries in self._queries.items():
            m = queries.shape[0]
            numbers = np.zeros(m, dtype=np.intp) if self._one_kind[i] else np.arange(m)
            kinds = 1 if self._one_kind[i] else m
            places = (places[:, None] * kinds + numbers).ravel()
        return RowKinds(self._chunks(), places)

    def _chunks(self) -> Iterator[tuple[Array, Array]]:
        counts = np.concatenate(
            [_row_products([f.counts[None] for f in block.values()])[0] for block in self._blocks]
        )
        total = math.prod(self._shape)
        for start in range(0, total, self._step):
            chunk = np.arange(start, min(start + self._step, total))
            values: Array = np.hstack(
                [self._block(number, chunk) for number in range(len(self._blocks))]
            )
            yield np.abs(values), np.broadcast_to(counts, values.shape)

    def _block(self, number: int, chunk: NDArray[np.intp]) -> Array:
        """Entries of some rows for the measurements of one S."""
        strategy, factors = self._strategy, self._blocks[number]
        places = dict(zip(self._queries, np.unravel_index(chunk, self._shape or [1]), strict=False))
        rows = {i: places.get(i, np.zeros_like(chunk)) for i in factors}
        inner = {i: factor.inner[rows[i]] for i, factor in factors.items()}
        outer = {i: factor.outer[rows[i]] for i, factor in factors.items()}
        common = [i for i in strategy.subsets[number] if i in self._queries]
        columns = math.prod(len(factor.counts) for factor in factors.values())
        total: Array = np.zeros((len(chunk), columns))
        for U in chain.from_iterable(combinations(common, k) for k in range(len(common) + 1)):
            if U in strategy.levels:
                parts = [inner[i] if i in U else outer[i] for i in factors]
                total += _row_products(parts, len(chunk)) / strategy.levels[U]
        return total * (self._scale * float(strategy.weights[number]))

    def _is_plain(self, i: int) -> bool:
        return i not in self._strategy.designs and asks_counts(self._queries[i])

    def _factor(self, i: int, *, measured: bool) -> _Factor:
        strategy, n = self._strategy, self._strategy.sizes[i]
        if i in self._queries and self._is_plain(i):
            if not measured:
                return _Factor(np.zeros((1, 1)), np.full((1, 1), 1 / n), np.ones(1))
            inner = np.array([[1 - 1 / n, -1 / n]])
            return _Factor(inner, np.full((1, 2), 1 / n**2), np.array([1.0, n - 1.0]))
        if i not in self._queries and i not in strategy.designs:
            return _Factor(np.zeros((1, 1)), np.full((1, 1), 1 / n), np.array([float(n)]))
        v, psi = strategy.free_basis(i)
        asked = self._queries[i].to_dense() if i in self._queries else np.ones((1, n))
        design = strategy.designs.get(i, np.eye(n)) if measured else np.ones((1, n))
        inner = (asked @ psi) @ (design @ psi).T
        return _Factor(inner, np.outer(asked @ v, design @ v), np.ones(len(design)))


def _row_products(parts: Sequence[Array], rows: int = 1) -> Array:
    """Row by row the outer product of some rows, shape (rows, all combinations)."""
    total = np.ones((rows, 1))
    for part in parts:
        total = (total[:, :, None] * part[:, None, :]).reshape(rows, -1)
    return total
