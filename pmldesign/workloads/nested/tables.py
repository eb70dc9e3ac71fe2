r"""Tables at regions that nest: state by sex, county by sex and running sums of age, tract.

A cell is a leaf of the tree and a combination of values of the other attributes, the last of them
fastest. A part asks for the table over some attributes T at some nodes,

    a_nu 1_nu x (x)_i (A_i if i in T, else 1^T),

row by row all combinations of queries at one node, then those at the next: A_i is the identity for
a plain attribute, and 0 or 1 everywhere for an ordered one. Two columns differ in all that stands
above one leaf and not the other, and in tables with their values above both, by the squares

    d_T = 2, or 0 for counts alone;     2 (max prod G_cc - min prod G_cd) at most, G_i = A_i^T A_i.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from types import MappingProxyType

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.beside import public_groups
from pmldesign.workloads.nested.regions import RegionsWorkload, TreeWorkload, groups_below
from pmldesign.workloads.weighting import WeightedWorkload, times, times_parts
from pmldesign_solvers.operators.operator import EPS, Array, Flags, Indices
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.trees.tree import Tree

Table = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """One table at some nodes.

    Attributes:
        name: the user's name for it.
        table: the attributes, in increasing order.
        nodes: the nodes with this table, in increasing order, shape (k,).
        scales: a_nu > 0 of each, shape (k,).
    """

    name: str
    table: Table
    nodes: Indices
    scales: Array


class RegionTablesWorkload(TreeWorkload):
    """Tables at regions.

    Args:
        name: its name in tables and messages.
        tree: the regions.
        sizes: number of values of each attribute.
        parts: the tables at nodes, in the order of the queries.
        queries: those of each ordered attribute, of entries 0 and 1.

    Attributes:
        tables: the different tables, K of them.
        scales: a of every table and node, shape (K, N); 0 without a query.

    Raises:
        InvalidInputError: no part, a part without a node, or one table at a node twice.
    """

    def __init__(
        self,
        name: str,
        tree: Tree,
        sizes: Sequence[int],
        parts: Sequence[RegionTable],
        queries: Mapping[int, Workload] = MappingProxyType({}),
    ) -> None:
        self.name, self.tree, self.sizes, self.parts = name, tree, tuple(sizes), tuple(parts)
        self.queries = dict(queries)
        self.tables = tuple(dict.fromkeys(part.table for part in parts))
        self.scales = np.zeros((len(self.tables), tree.nodes))
        for part in parts:
            row = self.scales[self.tables.index(part.table)]
            if not part.nodes.size or row[part.nodes].any():
                problem = "twice; give it once" if part.nodes.size else "nowhere; leave it out"
                raise InvalidInputError(f"{name!r} asks for {part.name!r} {problem}")
            row[part.nodes] = part.scales
        if not self.tables:
            raise InvalidInputError(f"{name!r} asks for nothing")
        self.answers = [math.prod(self.asked_of(i) for i in part.table) for part in parts]
        self._stops = list(accumulate(rows for _, rows in self.part_rows))
        self._shape = self._stops[-1], tree.cells * math.prod(self.sizes)
        self.binary = all(bool((part.scales == 1).all()) for part in parts)

    @property
    def part_rows(self) -> list[tuple[str, int]]:
        """What the user called the parts, and the number of queries of each."""
        pairs = zip(self.answers, self.parts, strict=True)
        return [(part.name, m * len(part.nodes)) for m, part in pairs]

    def asked_of(self, attribute: int) -> int:
        """The number of queries on an attribute."""
        queries = self.queries.get(attribute)
        return self.sizes[attribute] if queries is None else queries.shape[0]

    def split(self, values: Array) -> list[Array]:
        """Values of queries part by part, shape (k, m_T) or (k, m_T, c) for (m,) or (m, c)."""
        return [
            rows.reshape(-1, m, *values.shape[1:])
            for rows, m in zip(np.split(values, self._stops[:-1]), self.answers, strict=True)
        ]

    def by_node(self, weights: Array) -> list[Array] | None:
        """Weights of queries, shape (m,), as those of nodes; None if they differ within a node."""
        parts = self.split(weights)
        alike = all((part == part[:, :1]).all() for part in parts)
        return [part[:, 0] for part in parts] if alike else None

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        counts = {table: table_sums(self.tree, self.sizes, table, x) for table in self.tables}
        places = self.tree.place_of_node
        answers = []
        for part in self.parts:
            maps = [self.queries[i].matvec if i in self.queries else None for i in part.table]
            rows = along_axes(
                maps, [self.sizes[i] for i in part.table], counts[part.table][places[part.nodes]]
            )
            answers.append((rows.T * part.scales).T.reshape(-1, *x.shape[1:]))
        return np.concatenate(answers)

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        total = np.zeros((self.tree.cells, *self.sizes, *y.shape[1:]))
        for part, values in zip(self.parts, self.split(y), strict=True):
            maps = [self.queries[i].rmatvec if i in self.queries else None for i in part.table]
            cells = along_axes(maps, [self.asked_of(i) for i in part.table], values)
            nodes = np.zeros((self.tree.nodes, *cells.shape[1:]))
            nodes[part.nodes] = (cells.T * part.scales).T
            total += spread(self.sizes, part.table, self.tree.above(nodes))
        return total.reshape(-1, *y.shape[1:])

    def column_squares(self) -> Array:
        """The squared norms of the columns, shape (n,)."""
        if self.queries:
            return self.rmatvec(self.row_sizes())
        squares = self.tree.above((self.scales**2).sum(axis=0))
        return np.repeat(squares, math.prod(self.sizes))

    def open_scales(self, known: Flags | None) -> Array:
        """`scales`, 0 for counts that are public, from the places whose sums are, shape (P,)."""
        if known is None:
            return self.scales
        alone = [all(self.sizes[i] == 1 for i in table) for table in self.tables]
        return np.where(np.outer(alone, known[self.tree.place_of_node]), 0.0, self.scales)

    def farthest_below(self, tops: Flags | None) -> float:
        """Largest squared distance of two columns below one of some places; None for the root."""
        grams = {i: queries.gram(np.ones(queries.shape[0])) for i, queries in self.queries.items()}
        ends = {i: (float(gram.diagonal().max()), float(gram.min())) for i, gram in grams.items()}
        lengths, apart = table_distances(self.sizes, self.tables, ends)
        largest = farthest_tables(self.tree, lengths[:, None] * self.scales**2, apart, tops)
        return largest * (1 + (self.tree.height + len(self.tables) + 8) * EPS)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        pairs = zip(self.parts, self.answers, strict=True)
        return np.concatenate([np.repeat(part.scales, m) for part, m in pairs])

    def row_label(self, index: int) -> str:
        """The label of query `index` (from 0) in messages: "row 5 (state*sex, query 2)"."""
        number = bisect_right(self._stops, index)
        first = self._stops[number] - self.part_rows[number][1]
        return f"row {index} ({self.parts[number].name}, query {index - first})"


@public_groups.register
def _(workload: RegionTablesWorkload) -> tuple[Indices, bool] | None:
    """None for tables with values."""
    if any(workload.tables):
        return None
    groups, told = groups_below(workload.tree, np.flatnonzero(workload.scales[0]))
    return np.repeat(groups, math.prod(workload.sizes)), told


@times.register
def _(workload: RegionTablesWorkload, weights: Array | float) -> Workload:
    """The tables, each node with its weight where all its answers have the same."""
    of_nodes = workload.by_node(np.broadcast_to(weights, workload.shape[0]))
    if of_nodes is None:
        return WeightedWorkload(workload, weights, name=workload.name)
    return _reweighted(workload, of_nodes)


@times_parts.register
def _(workload: RegionTablesWorkload, weights: Sequence[float]) -> RegionTablesWorkload:
    return _reweighted(workload, weights)


def _reweighted(
    workload: RegionTablesWorkload, weights: Sequence[Array | float]
) -> RegionTablesWorkload:
    """Each part times its weight, or its nodes times weights, shape (k,)."""
    parts = [
        replace(part, scales=part.scales * weight)
        for part, weight in zip(workload.parts, weights, strict=True)
    ]
    tree, sizes = workload.tree, workload.sizes
    return RegionTablesWorkload(workload.name, tree, sizes, parts, workload.queries)


def as_regions(workload: Workload) -> RegionsWorkload | None:
    """The workload as counts of regions alone, in the order of its queries; None if it is not."""
    if isinstance(workload, RegionsWorkload) or not isinstance(workload, RegionTablesWorkload):
        return workload if isinstance(workload, RegionsWorkload) else None
    if any(workload.tables) or math.prod(workload.sizes) > 1:
        return None
    regions = RegionsWorkload(workload.name, workload.tree, workload.scales[0])
    regions.asked = np.concatenate([part.nodes for part in workload.parts])
    return regions


def table_sums(tree: Tree, sizes: Sequence[int], table: Table, x: Array) -> Array:
    """The table at every place, shape (P, m_T) or (P, m_T, c), for cells (n,) or (n, c)."""
    tensor = x.reshape(tree.cells, *sizes, *x.shape[1:])
    summed = tuple(1 + i for i in range(len(sizes)) if i not in table)
    counts = tensor.sum(axis=summed) if summed else tensor
    return tree.sums_of_places(counts.reshape(tree.cells, -1, *x.shape[1:]))


def spread(sizes: Sequence[int], table: Table, values: Array) -> Array:
    """Values of a table, shape (k, m_T) or (k, m_T, c), along the axes of all attributes."""
    axes = [size if i in table else 1 for i, size in enumerate(sizes)]
    return values.reshape(len(values), *axes, *values.shape[2:])


def along_axes(maps: Sequence[kronecker.Map | None], sizes: Sequence[int], values: Array) -> Array:
    """Maps along the attributes of a table, for values (k, m_T) or (k, m_T, c) of regions.

    None leaves an attribute as it is.
    """
    if not any(maps) or not values.size:
        return values
    k = len(values)
    flat = values.reshape(k * values.shape[1], *values.shape[2:])
    changed = kronecker.apply([None, *maps], [k, *sizes], flat)
    return changed.reshape(k, -1, *values.shape[2:])


def table_distances(
    sizes: Sequence[int], tables: Sequence[Table], ends: Mapping[int, tuple[float, float]]
) -> tuple[Array, Array]:
    """How long the columns of a table are, squared, and how far apart, as parts of that, (K,).

    Args:
        sizes: number of values of each attribute.
        tables: their attributes.
        ends: of each ordered attribute the largest of the diagonal and the least entry of its Gram
            matrix, which is not larger in size.
    """
    lengths, apart = [], []
    for table in tables:
        ordered = [ends[i] for i in table if i in ends]
        most = math.prod(top for top, _ in ordered)
        corners = [math.prod(corner) for corner in product(*ordered)]
        plain = any(i not in ends and sizes[i] > 1 for i in table)
        lengths.append(most)
        apart.append(2 * (1 - min(*corners, 0.0 if plain else most) / most))
    return np.array(lengths), np.array(apart)


def farthest_tables(tree: Tree, of_nodes: Array, apart: Array, tops: Flags | None = None) -> float:
    """The largest distance of two cells, from the amounts of single cells, shape (K, N).

    Args:
        tree: the regions.
        of_nodes: the amount that the rows of a table at a node add for one cell.
        apart: by how many times that two cells differ there, below both, shape (K,).
        tops: places, shape (P,); one of them must be above both cells. None for the root.
    """
    return tree.farthest(of_nodes.sum(axis=0), (of_nodes.T * apart).T.sum(axis=0), tops)


NestedWorkload = RegionsWorkload | RegionTablesWorkload
