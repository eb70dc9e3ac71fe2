r"""A tree of places as merges of two parts at a time.

The leaves are the cells, a node stands for the cells below it. A node with one child stands for the
same cells as that child: both have the same *place*. The children of all others are merged in pairs
until one is left, so that every place but the leaves has two parts; places that are no node are
only steps of a sum. Sums over siblings are then the number of the other part, and no difference of
two large numbers is ever formed.

Merges of one *round* are done side by side. The parts of a round lie one after the other, those of
a merge next to each other: `first`, `stop` of the parts and `wholes`, the places of what they make.
There are about the logarithm of the largest number of children rounds for each level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import Array, Indices

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Merges that are done side by side.

    Attributes:
        parts: the places first, first + 1, ..., the two parts of each merge next to each other.
        wholes: the place of each merge, half as many.
    """

    parts: slice
    wholes: Indices


class Tree:
    """A tree, from the parent of every node.

    Args:
        parents: shape (N,), parents[i] < i, and -1 for the root, which is node 0.

    Attributes:
        nodes: N.
        leaves: the nodes without children in increasing order, shape (n,): the cells.
        places: number of different places, 2 n - 1.
        place_of_node: shape (N,).
        place_of_cell: shape (n,).
        rounds: from the leaves to the root.

    Raises:
        ValueError: the parents are those of no tree.
    """

    def __init__(self, parents: Indices) -> None:
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
        places, merges = _merged(self.parents, children, self.depths)
        self.places = 2 * len(self.leaves) - 1
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

    @property
    def height(self) -> int:
        """Most additions behind a sum over a path, or over the cells of a node."""
        return len(self.rounds) + self.nodes - len(np.unique(self.place_of_node))

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
            parts = total[merges.parts]
            total[merges.wholes] = parts[0::2] + parts[1::2]
        return total

    def above(self, nodes: Array) -> Array:
        """For every cell the sum of the nodes above it and its own, shape (n,) or (n, c)."""
        places = self.at_places(nodes)
        for merges in reversed(self.rounds):
            whole = places[merges.wholes]
            parts = places[merges.parts]
            parts[0::2] += whole
            parts[1::2] += whole
        return np.asarray(places[self.place_of_cell])

    def farthest(
        self, nodes: Array, shared: Array | None = None, tops: Flags | None = None
    ) -> float:
        """The largest sum, over two cells, of the nodes above one of them but not both.

        Args:
            nodes: what they count, shape (N,), from 0 on.
            shared: what nodes above both add, for a cell and itself too; None for nothing.
            tops: places, shape (P,), one of which is to be above both cells; None for the root.
        """
        places = self.at_places(nodes)
        longest, both = np.zeros_like(places), np.zeros_like(places)
        if shared is not None:
            both += self.at_places(shared)
        for merges in self.rounds:
            paths = longest[merges.parts] + places[merges.parts]
            below = np.maximum(both[merges.parts][0::2], both[merges.parts][1::2])
            both[merges.wholes] += np.maximum(below, paths[0::2] + paths[1::2])
            longest[merges.wholes] = np.maximum(paths[0::2], paths[1::2])
        if tops is None:
            return both[self.root]  # type: ignore[no-any-return]
        if shared is not None:
            above = np.zeros_like(both)
            for merges in reversed(self.rounds):
                above[merges.parts] = np.repeat((above + self.at_places(shared))[merges.wholes], 2)
            both += above
        return both[tops].max()  # type: ignore[no-any-return]

    def upward(self, places: Flags) -> Flags:
        """Some places and all above them, shape (P,)."""
        kept = places.copy()
        for merges in self.rounds:
            parts = kept[merges.parts]
            kept[merges.wholes] |= parts[0::2] | parts[1::2]
        return kept

    def lowest(self, kept: Flags) -> Flags:
        """Those of some places that have none of them below, shape (P,)."""
        below = np.zeros_like(kept)
        for merges in self.rounds:
            parts = kept[merges.parts] | below[merges.parts]
            below[merges.wholes] = parts[0::2] | parts[1::2]
        return kept & ~below

    def topmost(self, kept: Flags, values: Array, cells: Array) -> Array:
        """At each place the sum of the topmost of some places below, and of other cells, (P,)."""
        total = np.zeros(self.places)
        total[self.place_of_cell] = cells
        for merges in self.rounds:
            parts = np.where(kept[merges.parts], values[merges.parts], total[merges.parts])
            total[merges.wholes] = parts[0::2] + parts[1::2]
        return total

    def rank(self, counted: Flags) -> int:
        """The dimension of the span of 1_nu over some places, shape (P,)."""
        spanned, ranks = counted.copy(), counted.astype(np.intp)
        for merges in self.rounds:
            told, sums = spanned[merges.parts], ranks[merges.parts]
            parts, wholes = told[0::2] & told[1::2], merges.wholes
            ranks[wholes] = sums[0::2] + sums[1::2] + (counted[wholes] & ~parts)
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
    parents: Indices, children: Indices, depths: Indices
) -> tuple[Indices, list[tuple[Indices, Indices, Indices]]]:
    """Provisional numbers of the place of every node, and merges: left parts, right parts, wholes.

    Leaves are numbered first.
    """
    places = np.full(len(parents), -1, dtype=np.intp)
    leaves = np.flatnonzero(children == 0)
    places[leaves] = np.arange(len(leaves))
    count, merges = len(leaves), []
    order = np.argsort(depths, kind="stable")
    bounds = np.searchsorted(depths[order], np.arange(int(depths.max()) + 2))
    for depth in range(int(depths.max()), 0, -1):
        members = order[bounds[depth] : bounds[depth + 1]]
        members = members[np.argsort(parents[members], kind="stable")]
        family, items = parents[members], places[members]
        while True:
            starts = np.flatnonzero(np.diff(family, prepend=-1))
            sizes = np.diff(starts, append=len(family))
            position = np.arange(len(family)) - np.repeat(starts, sizes)
            single = (position % 2 == 0) & (position == np.repeat(sizes, sizes) - 1)
            if single.all():
                break
            left = np.flatnonzero((position % 2 == 0) & ~single)
            made = count + np.arange(len(left))
            merges.append((items[left], items[left + 1], made))
            count += len(left)
            items[left] = made
            kept = position % 2 == 0
            family, items = family[kept], items[kept]
        places[family] = items
    return places, merges


def _in_order(
    places: Indices, merges: list[tuple[Indices, Indices, Indices]], count: int
) -> tuple[Indices, list[Round]]:
    """The places of nodes and the rounds, numbered so that the parts of a round are a slice."""
    number = np.full(count, count - 1, dtype=np.intp)
    first, slices = 0, []
    for left, right, _ in merges:
        stop = first + 2 * len(left)
        number[left], number[right] = np.arange(first, stop, 2), np.arange(first + 1, stop, 2)
        slices.append(slice(first, stop))
        first = stop
    rounds = [
        Round(parts, number[wholes]) for parts, (_, _, wholes) in zip(slices, merges, strict=True)
    ]
    return number[places], rounds
