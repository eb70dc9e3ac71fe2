"""Unions of products that are tables: every attribute has one kind of queries beside totals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pmldesign.workloads.base import Workload
from pmldesign.workloads.kronecker import MERGED_ENTRIES
from pmldesign.workloads.tables.base import asks_total, counts_of
from pmldesign.workloads.tables.workload import TablesWorkload
from pmldesign.workloads.union import products_of
from pmldesign.workloads.weighting.rows import without_scale


def as_tables(parts: Sequence[Workload]) -> TablesWorkload | None:
    """The union of products as one of tables, if each attribute has the same queries throughout.

    A table that occurs twice is not merged, as its queries count twice in the error.
    """
    products_of_parts = [products_of(part) for part in parts]
    pairs = [
        without_scale(product)
        for in_part in products_of_parts
        if in_part is not None
        for product in in_part
    ]
    products = [product for _, product in pairs]
    if (
        None in products_of_parts
        or len({tuple(entry.shape[1] for entry in product) for product in products}) > 1
    ):
        return None
    attributes: dict[int, Workload] = {}
    for product in products:
        for i, factor in enumerate(product):
            if not asks_total(factor) and not alike(attributes.setdefault(i, factor), factor):
                return None
    subsets = [
        tuple(i for i, factor in enumerate(product) if not asks_total(factor))
        for product in products
    ]
    if len(set(subsets)) < len(subsets):
        return None
    queries = [attributes.get(i, counts_of(f.shape[1])) for i, f in enumerate(products[0])]
    weights = [scale for scale, _ in pairs]
    return TablesWorkload(queries, subsets, weights, name="+".join(part.name for part in parts))


def alike(first: Workload, second: Workload) -> bool:
    """Whether two workloads ask the same, as far as that is cheap to tell."""
    return first is second or (
        first.shape == second.shape
        and math.prod(first.shape) <= MERGED_ENTRIES
        and np.array_equal(first.to_dense(), second.to_dense())
    )
