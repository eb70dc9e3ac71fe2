"""Unions of products as tables: of every attribute its sum, or queries in one way or several."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from pmldesign.workloads.base import Workload
from pmldesign.workloads.kronecker import MERGED_ENTRIES, KroneckerWorkload
from pmldesign.workloads.tables.base import (
    AttributeTables,
    asks_counts,
    asks_total,
    counts_of,
    total_of,
)
from pmldesign.workloads.tables.workload import TablesWorkload
from pmldesign.workloads.union import spread_out, stacked
from pmldesign.workloads.weighting import without_scale

MAX_JOINED = 2048
"""Cells of attributes that are asked about together: every step decomposes a matrix of them."""

Table = tuple[float, dict[int, Workload]]
"""A scale, and the queries of each attribute that is not summed over."""


def tables_in(parts: Sequence[Workload], sizes: Sequence[int]) -> list[Table] | None:
    """The tables that workloads consist of, one after the other; None if they have others.

    Args:
        parts: products, or tables.
        sizes: the number of values of each attribute.
    """
    if any(domain_of(part) != tuple(sizes) for part in parts):
        return None
    tables: list[Table] = []
    for part in parts:
        if isinstance(part, AttributeTables):
            if not part.crossed:
                return None
            subsets = enumerate(zip(part.subsets, part.weights.tolist(), strict=True))
            tables += [
                (scale, dict(zip(subset, part.queries_of(number), strict=True)))
                for number, (subset, scale) in subsets
            ]
        else:
            scale, factors = without_scale(part.factors)
            tables.append((scale, {i: f for i, f in enumerate(factors) if not asks_total(f)}))
    return tables


def as_tables_over(workload: Workload, sizes: Sequence[int]) -> list[Table] | None:
    """The workload as tables over attributes of these sizes, if it is such; not to be changed."""
    return _tables_over(workload.inner, tuple(sizes))


@lru_cache(maxsize=2)
def _tables_over(inner: Workload, sizes: tuple[int, ...]) -> list[Table] | None:
    tables = tables_in(stacked(inner), sizes)
    return tables_in(spread_out(inner), sizes) if tables is None else tables


def domain_of(part: Workload) -> tuple[int, ...]:
    """The number of values of each attribute of a product or of tables."""
    if isinstance(part, AttributeTables):
        return part.sizes
    return tuple(factor.shape[1] for factor in part.factors)


def as_tables(parts: Sequence[Workload]) -> TablesWorkload | None:
    """The union of products as one of tables, each attribute asked in the ways that there are.

    Where parts divide the cells differently, attributes that one of them asks about together are
    one (`common_sizes`). A table that occurs twice is not merged, as its queries count twice in the
    error.
    """
    domains = [domain_of(part) for part in parts]
    listed = [tables_in([part], sizes) for part, sizes in zip(parts, domains, strict=True)]
    sizes = common_sizes(domains)
    if None in listed or sizes is None:
        return None
    join = Joined(sizes)
    asked = [
        (scale, join(domain, of))
        for domain, tables in zip(domains, listed, strict=True)
        for scale, of in tables or ()
    ]
    ways: list[list[Workload]] = [[] for _ in sizes]
    tables = [{i: way_of(ways[i], factor) for i, factor in of.items()} for _, of in asked]
    if len({tuple(table.items()) for table in tables}) < len(tables):
        return None
    queries = [listed or [counts_of(size)] for listed, size in zip(ways, sizes, strict=True)]
    weights = [scale for scale, _ in asked]
    return TablesWorkload(queries, tables, weights, name="+".join(part.name for part in parts))


def common_sizes(domains: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The finest attributes of which those of all parts are made.

    Cells are in the order of np.kron, so that neighbouring attributes of a and b values are one of
    a b values, and attributes are told by the products of all before them.

    Returns:
        Their sizes; None for parts on different cells, with no boundary in common, or that join
        attributes of more than MAX_JOINED cells.
    """
    if len(set(domains)) == 1:
        return domains[0]
    ends = [set(accumulate(sizes, operator.mul)) for sizes in domains]
    shared = sorted({1, *set.intersection(*ends)})
    inner = set.union(*ends).difference(shared)
    pairs = [*pairwise(shared)]
    joined = [end // start for start, end in pairs if any(start < cut < end for cut in inner)]
    if len({math.prod(sizes) for sizes in domains}) > 1 or len(pairs) < 2:
        return None
    return (
        None if max(joined, default=1) > MAX_JOINED else tuple(end // start for start, end in pairs)
    )


class Joined:
    """Tables over attributes of any parts as tables over attributes that are common to all.

    Args:
        sizes: of the common attributes.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self._sizes = sizes
        self._made: dict[tuple[int, ...], Workload] = {}
        self._kept: list[Workload] = []  # so that their ids stay theirs

    def __call__(
        self, domain: tuple[int, ...], queries: dict[int, Workload]
    ) -> dict[int, Workload]:
        """The same table.

        Args:
            domain: of the part.
            queries: of each of its attributes that is not summed over.
        """
        if domain == self._sizes:
            return queries
        first, table = 0, {}
        for place, size in enumerate(self._sizes):
            last = first
            while math.prod(domain[first:last]) < size:
                last += 1
            if place == len(self._sizes) - 1:  # what has one value stands with what follows
                last = len(domain)
            members = range(first, last)
            if any(i in queries for i in members):
                table[place] = self._together([queries.get(i, domain[i]) for i in members])
            first = last
        return table

    def _together(self, entries: list[Workload | int]) -> Workload:
        """The queries of neighbours, and their sums where there is a number of values."""
        if len(entries) == 1:
            assert isinstance(entries[0], Workload)
            return entries[0]
        key = tuple(-entry if isinstance(entry, int) else id(entry) for entry in entries)
        if key not in self._made:
            listed = [total_of(entry) if isinstance(entry, int) else entry for entry in entries]
            cells = math.prod(entry.shape[1] for entry in listed)
            plain = all(asks_counts(entry) for entry in listed)
            self._made[key] = counts_of(cells) if plain else KroneckerWorkload(listed)
            self._kept += listed
        return self._made[key]


def way_of(ways: list[Workload], queries: Workload) -> int:
    """The number of queries among the ways in which an attribute is asked; the last, if new."""
    same = next((k for k, way in enumerate(ways) if alike(way, queries)), len(ways))
    if same == len(ways):
        ways.append(queries)
    return same


def alike(first: Workload, second: Workload) -> bool:
    """Whether two workloads ask the same, as far as that is cheap to tell."""
    return first is second or (
        first.shape == second.shape
        and math.prod(first.shape) <= MERGED_ENTRIES
        and np.array_equal(first.to_dense(), second.to_dense())
    )
