"""A public table of some attributes, and which queries are such a table."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.tables.base import asks_counts, asks_total
from pmldesign.workloads.union import UnionWorkload, products_of
from pmldesign.workloads.weighting.rows import without_scale


@dataclass(frozen=True)
class KnownMargins:
    """A public table of some attributes of a product.

    Attributes:
        name: of the queries whose answers it is.
        sizes: number of values of each attribute.
        counted: whether the table counts this attribute, rather than to sum over it.
    """

    name: str
    sizes: tuple[int, ...]
    counted: tuple[bool, ...]

    @property
    def attributes(self) -> frozenset[int]:
        """Those that the table counts."""
        return frozenset(i for i, counts in enumerate(self.counted) if counts)


def known_margins(queries: Workload) -> KnownMargins:
    """The table that public answers on many cells are; others beside it follow from it.

    Raises:
        InvalidInputError: they are no table of some of the attributes with tables that it tells,
            or one of all attributes.
    """
    tables = [_counted(product) for product in _products(queries)]
    largest = max(tables, key=lambda table: 0 if table is None else sum(table[1]), default=None)
    if largest is None or not all(table is not None and _tells(largest, table) for table in tables):
        raise InvalidInputError(
            f"known answers on more than {WRITTEN_CELLS} cells are the total or one table, alone or"
            " with tables that follow from it: a product of histograms and totals, such as"
            f" 'histogram:50*total:100'; got {queries.name!r}"
        )
    sizes, counted = largest
    if all(counted):
        raise InvalidInputError(
            f"the answers to {queries.name!r} tell all cells apart: replacing a record would change"
            " them, and nothing would be protected; give known answers that tell less"
        )
    return KnownMargins(queries.name, sizes, counted)


Table = tuple[tuple[int, ...], tuple[bool, ...]]
"""Sizes of attributes, and whether a table counts each of them."""


def _counted(product: tuple[Workload, ...]) -> Table | None:
    """The table that a product is; None for other queries."""
    plain = without_scale(product)[1] if product else ()
    counted = tuple(asks_counts(factor) for factor in plain)
    if not plain or not all(
        c or asks_total(factor) for c, factor in zip(counted, plain, strict=True)
    ):
        return None
    return tuple(factor.shape[1] for factor in plain), counted


def _tells(first: Table, second: Table) -> bool:
    """Whether a table follows from another one."""
    same = first[0] == second[0]
    return same and all(c or not d for c, d in zip(first[1], second[1], strict=True))


def _products(queries: Workload) -> list[tuple[Workload, ...]]:
    """The products that queries consist of; empty where they are others."""
    parts = queries.parts if isinstance(queries, UnionWorkload) else (queries,)
    products = [products_of(part) for part in parts]
    return [product for of_part in products for product in of_part or [()]]
