"""What a strategy is for: a matrix A, or the tables that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Factors = Mapping[int, Any]
"""For attributes of a table the queries on their values, shape (m_i, n_i); None for each value."""


@dataclass(frozen=True, slots=True)
class Table:
    """A product of queries, weight times the product of A_i, summed over all other attributes."""

    weight: float
    factors: Factors

    def factor(self, attribute: int, size: int) -> Any:
        """A_i, the identity, or a row of ones."""
        if attribute not in self.factors:
            return np.ones((1, size))
        matrix = self.factors[attribute]
        return np.eye(size) if matrix is None else matrix


@dataclass(frozen=True, slots=True)
class JointTable:
    """Queries on the cells of the table over some attributes, shape (m, cells), with weights."""

    members: tuple[int, ...]
    matrix: Any


@dataclass(frozen=True, slots=True)
class RegionTable:
    """A table over some attributes at some nodes, each answer times the scale of its node."""

    table: tuple[int, ...]
    nodes: Any
    scales: Any


@dataclass(frozen=True, slots=True)
class RegionTables:
    """The parents of all regions, shape (N,), numbers of values of attributes, and tables.

    Attributes `queries` are asked for by matrices of their own, shape (m_i, n_i).
    """

    parents: Any
    sizes: tuple[int, ...]
    parts: Sequence[RegionTable]
    queries: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queries:
    """A.

    Attributes:
        matrix: A itself, shape (m, n); None if it is too large.
        sizes: the number of values of each attribute.
        tables: those that A consists of, one below the other; empty if A is not such a workload.
        joint: queries that join attributes, one below the other, if any do.
        count: the number m of queries.
        gram: makes A^T A, shape (n, n), if A is too large and that is not.
        columns: makes columns of A, from one number to another, if A is too large.
        sums: makes of running sums the rates, shape (n - 1,), and weights of queries and of steps.
        region_tables: of counts and tables of a geographic hierarchy.
        known: the invariants, if they are known.
        named: whether these are the queries that the file itself names.
    """

    matrix: Any
    sizes: Sequence[int] = ()
    tables: Sequence[Table] = ()
    count: int | None = None
    gram: Callable[[], Any] | None = None
    columns: Callable[[int, int], Any] | None = None
    sums: Callable[[], tuple[Any, Any, Any] | None] = lambda: None
    region_tables: RegionTables | None = None
    known: Queries | None = None
    named: bool = False
    joint: Sequence[JointTable] = ()

    @property
    def plain(self) -> bool:
        """Whether A is made of tables of counts."""
        factors = [factor for table in self.tables for factor in table.factors.values()]
        return bool(self.tables) and all(factor is None for factor in factors)

    def are_tables_of(self, counted: Sequence[Collection[int]]) -> bool:
        """Whether it is the tables of counts of these attributes, with others that these determine.

        Attributes with one value do not count.
        """
        alone = {i for i, size in enumerate(self.sizes) if size == 1}
        sets = [alone | set(table.factors) for table in self.tables]
        given = [alone.union(members) for members in counted]
        told = all(any(s <= other for other in given) for s in sets)
        return self.plain and told and all(members in sets for members in given)

    def factors(self) -> list[Any] | None:
        """The factors of a single product; None for any other workload."""
        return self.products()[0] if len(self.tables) == 1 else None

    def products(self) -> list[list[Any]]:
        """The factors of every table, the first ones times its weight."""
        every = [[table.factor(i, n) for i, n in enumerate(self.sizes)] for table in self.tables]
        return [
            [table.weight * factors[0], *factors[1:]]
            for table, factors in zip(self.tables, every, strict=True)
        ]
