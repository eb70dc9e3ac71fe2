"""A tree of places as merges of two parts at a time.

The leaves are the cells, a node stands for the cells below it. A node with one child stands for the
same cells as that child: both have the same *place*. The children of all others are merged in pairs
until one is left, so that every place but the leaves has two parts; places that are not nodes are
only steps of a sum. A node may stand for copies that are alike (`orbits`): their sum is a place
above that of one of them.

Merges of one *round* are done side by side, the parts one after the other. There are about the
logarithm of the largest number of children rounds for each level.

*Parts of a whole* are two, or copies of one, many of them side by side. What the other parts add up
to is the number of the one other part, or that of a copy times how many others there are, so that
no difference of two large numbers is ever formed. Methods take and return numbers of the parts, or
of the wholes, along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import Array, Flags, Indices

Values = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Merges of two parts.

    Attributes:
        parts: the places first, first + 1, ..., the two parts of each merge next to each other.
        wholes: the place of each merge, half as many.
    """

    parts: slice
    wholes: Indices

    def each(self, wholes: Values) -> Values:
        """What the whole of every part has."""
        return np.repeat(wholes, 2, axis=-1)

    def copied(self, parts: Values) -> Values:
        """What all copies of every part in its whole have."""
        return parts

    def total(self, parts: Values) -> Values:
        """The sum of the parts of every whole."""
        return np.asarray(parts[..., 0::2] + parts[..., 1::2])

    def another(self, parts: Values) -> Values:
        """For every part another part of its whole."""
        other = np.empty_like(parts)
        other[..., 0::2], other[..., 1::2] = parts[..., 1::2], parts[..., 0::2]
        return other

    def others(self, parts: Values) -> Values:
        """For every part the sum of the other parts of its whole."""
        return self.another(parts)

    def largest(self, parts: Values) -> Values:
        """The largest part of every whole."""
        return np.asarray(np.maximum(parts[..., 0::2], parts[..., 1::2]))

    def least(self, parts: Values) -> Values:
        """The smallest part of every whole."""
        return np.asarray(np.minimum(parts[..., 0::2], parts[..., 1::2]))


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Wholes of copies of one part; numbers are those of one copy.

    Attributes:
        parts: the places first, first + 1, ...
        wholes: the place of all copies of each.
        number: how many copies, at least 2.
    """

    parts: slice
    wholes: Indices
    number: Array

    def each(self, wholes: Values) -> Values:
        """What the whole of every part has."""
        return wholes

    def copied(self, parts: Values) -> Values:
        """What all copies of every part in its whole have."""
        return np.asarray(self.number * parts)

    def total(self, parts: Values) -> Values:
        """The sum of the parts of every whole."""
        return self.copied(parts)

    def another(self, parts: Values) -> Values:
        """For every part another part of its whole."""
        return parts

    def others(self, parts: Values) -> Values:
        """For every part the sum of the other parts of its whole."""
        return np.asarray((self.number - 1.0) * parts)

    def largest(self, parts: Values) -> Values:
        """The largest part of every whole."""
        return parts

    least = largest


def by_depth(depths: Indices) -> list[Indices]:
    """The nodes of each depth, in order."""
    order = np.argsort(depths, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depths))[:-1])


def first_of_pairs(family: Indices) -> Indices:
    """The first one of every two that follow each other in a family; its last one may be left."""
    starts = np.flatnonzero(np.diff(family, prepend=-2))
    sizes = np.diff(starts, append=len(family))
    position = np.arange(len(family)) - np.repeat(starts, sizes)
    paired = (position % 2 == 0) & (position + 1 < np.repeat(sizes, sizes))
    return np.flatnonzero(paired)


Round = Pairs | Copies


class Tree:
    """A tree, from the parent of every node.

    Args:
        parents: shape (N,), parents[i] < i, and -1 for the root, which is node 0.
        copies: how many nodes each stands for, below one parent, shape (N,); None for one. Numbers
            of nodes and places are those of one copy.

    Attributes:
        nodes: N.
        leaves: the nodes without children in increasing order, shape (n,): the cells.
        places: number of different places; 2 n - 1 without copies.
        place_of_node: shape (N,).
        place_of_cell: shape (n,).
        rounds: from the leaves to the root.

    Raises:
        ValueError: the parents are those of no tree.
    """

    def __init__(self, parents: Indices, copies: Indices | None = None) -> None:
        self.parents = np.asarray(parents, dtype=np.intp)
        self.nodes = len(self.parents)
        rest = self.parents[1:]
        if self.nodes == 0 or self.parents[0] != -1 or (rest < 0).any():
            raise ValueError("node 0 is the root, with parent -1, and the only one")
        if (rest >= np.arange(1, self.nodes)).any():
            raise ValueError("parents come before their children")
        children = np.bincount(rest, minlength=self.nodes)
        self.leaves = np.flatnonzero(children == 0)
        self.depths = _depths(self.parents)
        every = np.ones(self.nodes, dtype=np.intp) if copies is None else copies
        places, merges = _merged(self.parents, every, children, self.depths)
        self.places = len(self.leaves) + sum(len(made) for _, made, _ in merges)
        self.place_of_node, self.rounds = _in_order(places, merges, self.places)
        self.place_of_cell = self.place_of_node[self.leaves]

    @property
    def cells(self) -> int:
        """Number of leaves n."""
        return len(self.leaves)

    @property
    def root(self) -> int:
        """The place of the root: the last one."""
        return self.places - 1

    @cached_property
    def times(self) -> Array:
        """How often every place is there, shape (P,)."""
        times = np.ones(self.places)
        for merges in reversed(self.rounds):
            times[merges.parts] = merges.copied(merges.each(times[merges.wholes]))
        return times

    @cached_property
    def height(self) -> int:
        """Most additions behind a sum over a path, or over the cells of a node."""
        same = self.nodes - np.count_nonzero(np.bincount(self.place_of_node))
        return len(self.rounds) + int(same)

    def same(self, other: Tree) -> bool:
        """Whether both are the same tree."""
        return self is other or np.array_equal(self.parents, other.parents)

    def sums(self, cells: Array) -> Array:
        """The sum of the cells of every node, shape (N,) or (N, c), for cells (n,) or (n, c)."""
        return np.asarray(self.sums_of_places(cells)[self.place_of_node])

    def sums_of_places(self, cells: Array) -> Array:
        """The same for every place."""
        total = np.zeros((self.places, *cells.shape[1:]), dtype=cells.dtype)
        total[self.place_of_cell] = cells
        for merges in self.rounds:
            total.T[..., merges.wholes] = merges.total(total.T[..., merges.parts])
        return total

    def above(self, nodes: Array) -> Array:
        """For every cell the sum of the nodes above it and its own, shape (n,) or (n, c)."""
        places = self.at_places(nodes)
        for merges in reversed(self.rounds):
            places.T[..., merges.parts] += merges.each(places.T[..., merges.wholes])
        return np.asarray(places[self.place_of_cell])

    def farthest(
        self, nodes: Array, shared: Array | None = None, tops: Flags | None = None
    ) -> float:
        """The largest sum, over two cells, of the nodes above one of them but not both.

        Of a tree without copies.

        Args:
            nodes: their counts, shape (N,), from 0 on.
            shared: the terms of nodes above both cells, also if both are one cell; None for zero.
            tops: places, shape (P,), with one above both cells; None for the root.
        """
        places = self.at_places(nodes)
        alike = np.zeros_like(places) if shared is None else self.at_places(shared)
        longest, both = np.zeros_like(places), alike.copy()
        for merges in self.rounds:
            paths = longest[merges.parts] + places[merges.parts]
            below = merges.largest(both[merges.parts])
            both[merges.wholes] += np.maximum(below, merges.total(paths))
            longest[merges.wholes] = merges.largest(paths)
        if tops is None:
            return both[self.root]  # type: ignore[no-any-return]
        if shared is not None:
            above = np.zeros_like(both)
            for merges in reversed(self.rounds):
                wholes = above[merges.wholes] + alike[merges.wholes]
                above[merges.parts] = merges.each(wholes)
            both += above
        return both[tops].max()  # type: ignore[no-any-return]

    def upward(self, places: Flags) -> Flags:
        """Some places and all above them, shape (P,)."""
        kept = places.copy()
        for merges in self.rounds:
            kept[merges.wholes] |= merges.largest(kept[merges.parts])
        return kept

    def lowest(self, kept: Flags) -> Flags:
        """The lowest of some places: without another of them below, shape (P,)."""
        below = np.zeros_like(kept)
        for merges in self.rounds:
            below[merges.wholes] = merges.largest(kept[merges.parts] | below[merges.parts])
        return kept & ~below

    def topmost(self, kept: Flags, values: Array, cells: Array) -> Array:
        """At each place the sum of the topmost of some places below, and of other cells, (P,)."""
        total = np.zeros(self.places)
        total[self.place_of_cell] = cells
        for merges in self.rounds:
            parts = np.where(kept[merges.parts], values[merges.parts], total[merges.parts])
            total[merges.wholes] = merges.total(parts)
        return total

    def rank(self, counted: Flags) -> int:
        """The dimension of the span of 1_nu over some places, shape (P,)."""
        spanned, ranks = counted.copy(), counted.astype(np.intp)
        for merges in self.rounds:
            parts, wholes = merges.least(spanned[merges.parts]), merges.wholes
            ranks[wholes] = merges.total(ranks[merges.parts]) + (counted[wholes] & ~parts)
            spanned[wholes] |= parts
        return int(ranks[self.root])

    def at_places(self, nodes: Array) -> Array:
        """The sum of the nodes at each place, shape (P,) or (P, c)."""
        total = np.zeros((self.places, *nodes.shape[1:]), dtype=nodes.dtype)
        np.add.at(total, self.place_of_node, nodes)
        return total


def _depths(parents: Indices) -> Indices:
    """The number of edges from the root to every node."""
    ancestors = np.maximum(parents, 0)
    depths = np.ones(len(parents), dtype=np.intp)
    depths[0] = 0
    while ancestors.any():  # the distances to ancestors double
        depths += depths[ancestors]
        ancestors = ancestors[ancestors]
    return depths


def _merged(
    parents: Indices, copies: Indices, children: Indices, depths: Indices
) -> tuple[Indices, list[tuple[Indices, Indices, Indices | None]]]:
    """Provisional numbers of the place of every node, and rounds: parts, wholes, copies.

    Leaves are numbered first.
    """
    places = np.full(len(parents), -1, dtype=np.intp)
    leaves = np.flatnonzero(children == 0)
    places[leaves] = np.arange(len(leaves))
    count = len(leaves)
    merges: list[tuple[Indices, Indices, Indices | None]] = []
    for nodes in reversed(by_depth(depths)[1:]):
        members = nodes[np.argsort(parents[nodes], kind="stable")]
        family, items = parents[members], places[members]
        many = np.flatnonzero(copies[members] > 1)
        if many.size:
            merges.append((items[many], count + np.arange(len(many)), copies[members[many]]))
            items[many] = merges[-1][1]
            count += len(many)
        while (left := first_of_pairs(family)).size:
            parts = items[np.add.outer(left, [0, 1]).ravel()]
            merges.append((parts, count + np.arange(len(left)), None))
            items[left] = merges[-1][1]
            count += len(left)
            family, items = np.delete(family, left + 1), np.delete(items, left + 1)
        places[family] = items
    return places, merges


def _in_order(
    places: Indices, merges: list[tuple[Indices, Indices, Indices | None]], count: int
) -> tuple[Indices, list[Round]]:
    """The places of nodes and the rounds, numbered so that the parts of a round are a slice."""
    number = np.full(count, count - 1, dtype=np.intp)
    first, slices = 0, []
    for parts, _, _ in merges:
        slices.append(slice(first, first + len(parts)))
        number[parts] = np.arange(first, first + len(parts))
        first += len(parts)
    rounds: list[Round] = [
        Pairs(here, number[made])
        if many is None
        else Copies(here, number[made], many.astype(np.float64))
        for here, (_, made, many) in zip(slices, merges, strict=True)
    ]
    return number[places], rounds
