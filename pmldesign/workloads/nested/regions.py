r"""Counts of regions that nest: a nation, its states, their counties, and so on.

The regions are the nodes of a tree whose leaves are the cells; query nu is a_nu times the indicator
1_nu of the cells below the node nu. Products with A sum up the tree, products with A^T down. Two
columns share the nodes above both, so that only the other nodes add to their squared distance,

    |A (e_i - e_j)|^2 = sum of a_nu^2 over the nodes above i or j, but not above both,

and the largest is found on the way up: the two longest paths that meet at a node.

Groups of cells with public numbers of records are places of the tree that contain every cell once.

Queries of any form may be counts of a hierarchy of regions (`as_nested`) if every query is the sum
of some cells. They form a tree if the cells of each query are part of one earlier query, and no
query between the two has any of these cells: the parent of a query is the last one before it that
has its cells. There is a query for every single cell, in order, so that the leaves are the cells.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.beside import difference_within, public_groups
from pmldesign.workloads.public import Public
from pmldesign.workloads.ranges import total_of
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign.workloads.weighting import times, times_parts
from pmldesign_solvers.limits import REGION_CELLS
from pmldesign_solvers.operators.operator import EPS, Array, Flags, Indices
from pmldesign_solvers.trees.orbits import Orbits, orbits_of
from pmldesign_solvers.trees.tree import Tree

DEEPEST = 64
"""Maximum number of queries per cell, on average: deeper hierarchies are left as they are."""


class TreeWorkload(Workload):
    """Counts at the nodes of a tree, whose leaves are cells or consist of several cells.

    Attributes:
        tree: the regions.
        sizes: number of values of each attribute; a leaf has a cell for each combination.
        scales: a of every node, shape (N,), or of every table and node, shape (K, N); 0 without a
            query.
    """

    tree: Tree
    sizes: tuple[int, ...] = ()
    scales: Array

    @property
    def non_negative(self) -> bool:
        """True: they count."""
        return True

    @cached_property
    def orbits(self) -> Orbits:
        """The orbits of places, which no weight distinguishes."""
        return orbits_of(self.tree, np.atleast_2d(self.scales))

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,), for H of shape (n, c)."""
        return np.asarray((self.matvec(half) ** 2).sum(axis=1))

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        return self.matvec(weights) * self.row_sizes()

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, or a bound above it, rounded up."""
        return self.farthest_below(None)

    @abstractmethod
    def farthest_below(self, tops: Flags | None) -> float:
        """Largest squared distance of two columns below one of some places; None for the root."""


class RegionsWorkload(TreeWorkload):
    """The count of every queried region, times its weight.

    Args:
        name: its name in tables and messages.
        tree: the regions; its leaves are the cells.
        scales: a_nu >= 0 of every node, shape (N,); nodes with 0 have no query.
        levels: the names of the levels, the root first.
        level: the level of each node, shape (N,); by default its depth.
        keys: the name of each node, shape (N,).

    Attributes:
        asked: the nodes of the queries, in increasing order, shape (m,).

    Raises:
        InvalidInputError: no node has a query.
    """

    def __init__(
        self,
        name: str,
        tree: Tree,
        scales: Array,
        levels: Sequence[str] = (),
        level: Indices | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        self.name, self.tree, self.levels, self.keys = name, tree, tuple(levels), tuple(keys)
        self.level = tree.depths if level is None else level
        self.scales = np.asarray(scales, dtype=np.float64)
        self.asked: Indices = np.flatnonzero(self.scales)
        if not self.asked.size:
            raise InvalidInputError(
                f"workload {name!r} asks about no region; give a level a weight"
            )
        self._shape = len(self.asked), tree.cells
        self.binary = bool((self.scales[self.asked] == 1).all())

    @property
    def part_rows(self) -> Sequence[tuple[str, int]]:
        """The levels with queries; a single part if queries are not level by level."""
        return [*self._by_level.items()]

    @cached_property
    def _by_level(self) -> dict[str, int]:
        level = self.level[self.asked]
        if not self.levels or (np.diff(level) < 0).any():
            return {self.name: len(level)}
        numbers, counts = np.unique(level, return_counts=True)
        names = [self.levels[number] for number in numbers.tolist()]
        return dict(zip(names, counts.tolist(), strict=True))

    def reweighted(self, weights: Array) -> Self:
        """The same with each query times its weight, shape (m,)."""
        scales = np.zeros(self.tree.nodes)
        scales[self.asked] = weights * self.scales[self.asked]
        return type(self)(self.name, self.tree, scales, self.levels, self.level, self.keys)

    def open_scales(self, known: Flags | None) -> Array:
        """The weights of nodes, 0 where the count is public, from the places whose sums are."""
        if known is None:
            return self.scales
        return np.where(known[self.tree.place_of_node], 0.0, self.scales)

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        return np.asarray((self.tree.sums(x)[self.asked].T * self.scales[self.asked]).T)

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        nodes = np.zeros((self.tree.nodes, *y.shape[1:]))
        nodes[self.asked] = (y.T * self.scales[self.asked]).T
        return self.tree.above(nodes)

    def column_squares(self) -> Array:
        """The squared norms of the columns, shape (n,)."""
        return self.tree.above(self.scales**2)

    def farthest_below(self, tops: Flags | None) -> float:
        """Largest squared distance of two columns below one of some places; None for the root."""
        largest = float(self.tree.farthest(self.scales**2, tops=tops))
        return largest * (1 + (self.tree.height + 4) * EPS)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return self.scales[self.asked]

    def row_label(self, index: int) -> str:
        """The label of query `index` (from 0) in messages and tables: "row 5 (county 'Ada')"."""
        node = int(self.asked[index])
        number = int(self.level[node])
        level = self.levels[number] if self.levels else f"level {number}"
        key = f" {self.keys[node]!r}" if self.keys else ""
        return f"row {index} ({level}{key})"


@difference_within.register
def _(workload: TreeWorkload, public: Public) -> float | None:
    """Where the groups are the cells of places."""
    tops = tops_of(workload.tree, public, math.prod(workload.sizes))
    return None if tops is None else workload.farthest_below(tops)


@public_groups.register
def _(workload: RegionsWorkload) -> tuple[Indices, bool]:
    return groups_below(workload.tree, workload.asked)


@times.register
def _(workload: RegionsWorkload, weights: Array | float) -> RegionsWorkload:
    return workload.reweighted(np.broadcast_to(weights, workload.shape[0]))


@times_parts.register
def _(workload: RegionsWorkload, weights: Sequence[float]) -> RegionsWorkload:
    rows = [count for _, count in workload.part_rows]
    return workload.reweighted(np.repeat(np.array(weights), rows))


def tops_of(tree: Tree, public: Public, plain: int = 1) -> Flags | None:
    """The places whose cells are the groups, shape (P,); None if the groups are not places.

    Args:
        tree: the regions.
        public: the invariants.
        plain: the number of cells of each leaf.
    """
    if public.kind == "records":
        return np.asarray(np.arange(tree.places) == tree.root)
    if public.groups is None or len(public.groups) != tree.cells * plain:
        return None
    groups = public.groups.reshape(tree.cells, plain)
    if (groups != groups[:, :1]).any():
        return None
    lowest, highest = np.zeros((2, tree.places), dtype=np.intp)
    lowest[tree.place_of_cell] = highest[tree.place_of_cell] = groups[:, 0]
    for merges in tree.rounds:
        lowest[merges.wholes] = merges.least(lowest[merges.parts])
        highest[merges.wholes] = merges.largest(highest[merges.parts])
    within = lowest == highest
    tops = within.copy()
    for merges in tree.rounds:
        tops[merges.parts] &= ~merges.each(within[merges.wholes])
    of_nodes = np.isin(np.flatnonzero(tops), tree.place_of_node).all()
    return tops if of_nodes and tops.sum() == groups.max() + 1 else None


def groups_below(tree: Tree, counted: Indices) -> tuple[Indices, bool]:
    """The groups of cells that sums of some nodes distinguish, and if these determine group sums.

    Args:
        tree: the regions.
        counted: the nodes.

    Returns:
        The number of the group of every cell, from 0 without gaps, shape (n,).
    """
    nearest = np.full(tree.places, -1, dtype=np.intp)
    nearest[tree.place_of_node[counted]] = tree.place_of_node[counted]
    asked = nearest >= 0
    for merges in reversed(tree.rounds):
        parts = nearest[merges.parts]
        nearest[merges.parts] = np.where(parts < 0, merges.each(nearest[merges.wholes]), parts)
    kinds, groups = np.unique(nearest[tree.place_of_cell], return_inverse=True)
    return groups.ravel().astype(np.intp), tree.rank(asked) == len(kinds)


def as_nested(workload: Workload) -> Workload:
    """The queries as counts of regions if they are nested and many; otherwise unchanged."""
    cells = workload.shape[1]
    if not REGION_CELLS < cells <= workload.shape[0]:
        return workload
    if isinstance(workload, TermsWorkload):
        if len(workload.domain) > 1 or (workload.weights != 1).any():
            return workload
        parts = [q for t in workload.terms for q in (*t.queries.values(), total_of(cells))[:1]]
    elif _is_sparse(workload):
        parts = [workload]
    else:
        return workload
    rows = [_rows(part) for part in parts]
    parents = None if any(row is None for row in rows) else _parents(scipy.sparse.vstack(rows))
    if parents is None:
        return workload
    scales = np.ones(len(parents))
    scales[: len(parents) - workload.shape[0]] = 0.0
    return RegionsWorkload(workload.name, Tree(parents), scales)


def _is_sparse(workload: Workload) -> bool:
    return hasattr(getattr(workload, "matrix", None), "indptr")


def _rows(part: Workload) -> Any:
    """The queries as a sparse matrix of ones; None for others."""
    if _is_sparse(part):
        matrix: Any = part.matrix  # type: ignore[attr-defined]
        few = matrix.nnz <= DEEPEST * part.shape[1] and bool((matrix.data == 1).all())
        return matrix if few else None
    if part.ends is None:
        return None
    starts, stops = part.ends
    lengths = stops - starts
    ends = np.append(0, np.cumsum(lengths))
    if ends[-1] > DEEPEST * part.shape[1]:
        return None
    first = np.repeat(starts - ends[:-1], lengths)
    cells = np.arange(ends[-1]) + first
    return scipy.sparse.csr_array((np.ones(len(cells)), cells, ends), shape=part.shape)


def _parents(matrix: Any) -> Indices | None:
    """The parent of every query, after an added root if no query is one; None without a tree."""
    matrix = matrix.tocsr()
    bounds, cells, n = matrix.indptr, matrix.indices, matrix.shape[1]
    added = int(bounds[1] - bounds[0] < n)
    owner = np.full(n, added - 1, dtype=np.intp)
    parents = np.full(len(bounds) - 1 + added, -1, dtype=np.intp)
    for number in range(added, len(parents)):
        own = cells[bounds[number - added] : bounds[number - added + 1]]
        above = owner[own]
        if not len(own) or (above != above[0]).any():
            return None
        parents[number], owner[own] = above[0], number
    leaves = np.flatnonzero(np.bincount(parents[1:], minlength=len(parents)) == 0)
    return parents if np.array_equal(leaves, owner) else None
