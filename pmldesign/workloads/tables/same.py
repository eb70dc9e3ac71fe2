"""Unions of products as tables: of every attribute its sum, or queries in one way or several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pmldesign.workloads.base import Workload
from pmldesign.workloads.kronecker import MERGED_ENTRIES
from pmldesign.workloads.tables.base import AttributeTables, asks_total, counts_of
from pmldesign.workloads.tables.workload import TablesWorkload
from pmldesign.workloads.weighting.rows import without_scale

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
            subsets = enumerate(zip(part.subsets, part.weights.tolist(), strict=True))
            tables += [
                (scale, dict(zip(subset, part.queries_of(number), strict=True)))
                for number, (subset, scale) in subsets
            ]
        else:
            scale, factors = without_scale(part.factors)
            tables.append((scale, {i: f for i, f in enumerate(factors) if not asks_total(f)}))
    return tables


def domain_of(part: Workload) -> tuple[int, ...]:
    """The number of values of each attribute of a product or of tables."""
    if isinstance(part, AttributeTables):
        return part.sizes
    return tuple(factor.shape[1] for factor in part.factors)


def as_tables(parts: Sequence[Workload]) -> TablesWorkload | None:
    """The union of products as one of tables, each attribute asked in the ways that there are.

    A table that occurs twice is not merged, as its queries count twice in the error.
    """
    sizes = domain_of(parts[0])
    asked = tables_in(parts, sizes)
    if asked is None:
        return None
    ways: list[list[Workload]] = [[] for _ in sizes]
    tables = [{i: way_of(ways[i], factor) for i, factor in of.items()} for _, of in asked]
    if len({tuple(table.items()) for table in tables}) < len(tables):
        return None
    queries = [listed or [counts_of(size)] for listed, size in zip(ways, sizes, strict=True)]
    weights = [scale for scale, _ in asked]
    return TablesWorkload(queries, tables, weights, name="+".join(part.name for part in parts))


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
