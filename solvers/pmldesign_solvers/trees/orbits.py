r"""Places that are alike: a tree with a node for each orbit of the symmetries of another one.

Two nodes are of the same *type* if their labels, and the types of their children, are the same
with multiplicities; and of the same *orbit* if their parents are, too. So an automorphism
of the labelled tree takes the one to the other, and all members of an orbit have the same number of
children in each orbit below. Nothing is lost by weights that are alike on orbits: f(u, w) is
concave and the error of shares convex, so that the mean over the symmetries is as good. The tree
has one node for each orbit, which stands for `copies` of it below one parent
(`Tree.times` in all), and m queries that are alike count as one of a scale m^(1/p) as large,
(m^(2/p) var)^(p/2) = m var^(p/2).

Ten million places with hundreds of equal ones below each parent are a tree of a hundredth of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array, Flags, Indices
from pmldesign_solvers.trees.tree import Tree, by_depth, first_of_pairs


@dataclass(frozen=True, slots=True, eq=False)
class Orbits:
    """A tree with a node for each orbit of another one.

    Attributes:
        whole: the other one.
        tree: its nodes are the orbits.
        orbit: of each node of the whole, shape (N,).
        first: a node of each orbit, shape (number of orbits,).
    """

    whole: Tree
    tree: Tree
    orbit: Indices
    first: Indices

    def squares(self, squares: Array, p: float) -> Array:
        """a^2 of the queries that stand for orbits, (..., orbits), from that of nodes, (..., N)."""
        return np.asarray(squares[..., self.first] * self._members ** (2.0 / p))

    def places(self, flags: Flags | None) -> Flags | None:
        """Places of the tree, with all above, from those of the whole; None for None."""
        if flags is None:
            return None
        kept = np.zeros(self.tree.places, dtype=bool)
        kept[self.tree.place_of_node] = flags[self.whole.place_of_node[self.first]]
        return self.tree.upward(kept)

    def queries(self, u: Array, p: float) -> Array:
        """The dual weights of all nodes, (..., N), from those of orbits."""
        return np.asarray((u / self._members ** (1.0 - 2.0 / p))[..., self.orbit])

    def cells(self, w: Array) -> Array:
        """The dual weights of all cells, shape (n,), from those of orbits."""
        of_orbits = np.zeros(self.tree.nodes)
        of_orbits[self.tree.leaves] = w / self._members[self.tree.leaves]
        return np.asarray(of_orbits[self.orbit[self.whole.leaves]])

    def shares(self, shares: Array) -> Array:
        """The shares of all places, (..., P), from those of places of the tree."""
        every = np.zeros((*shares.shape[:-1], self.whole.places))
        every[..., self.whole.place_of_node] = shares[..., self.tree.place_of_node][..., self.orbit]
        return every

    @property
    def _members(self) -> Array:
        """The number of members of each orbit."""
        return np.asarray(self.tree.times[self.tree.place_of_node])


def orbits_of(tree: Tree, labels: Array, public: Flags | None = None) -> Orbits:
    """The orbits of a tree with labelled nodes.

    Args:
        tree: the tree, without copies.
        labels: several for each node, shape (K, N).
        public: places that differ from others, shape (P,).
    """
    kind = np.zeros(tree.nodes, dtype=np.intp)
    for row in (*labels, *([] if public is None else [public[tree.place_of_node]])):
        values, numbers = np.unique(row, return_inverse=True)
        kind = np.unique(kind * len(values) + numbers, return_inverse=True)[1]
    levels = by_depth(tree.depths)
    types = _types(tree.parents, kind, levels)
    orbit, members, count = np.zeros(tree.nodes, dtype=np.intp), np.ones(1, dtype=np.intp), 1
    parents, copies, first = [np.array([-1])], [members], [levels[0]]
    for nodes in levels[1:]:
        codes = orbit[tree.parents[nodes]] * len(types) + types[nodes]
        _, index, inverse, sizes = np.unique(
            codes, return_index=True, return_inverse=True, return_counts=True
        )
        parents.append(orbit[tree.parents[nodes[index]]])
        copies.append(sizes // members[parents[-1] - count + len(members)])
        first.append(nodes[index])
        orbit[nodes] = count + inverse
        members, count = sizes, count + len(sizes)
    quotient = Tree(np.concatenate(parents), np.concatenate(copies))
    return Orbits(tree, quotient, orbit, np.concatenate(first))


def _types(parents: Indices, kind: Indices, levels: list[Indices]) -> Indices:
    """A number for each node, equal where all that is below is equal, from those of the node alone.

    Sorted children are numbered two at a time, so that equal numbers have equal parts.
    """
    below, types, count = np.zeros_like(kind), np.zeros_like(kind), 1
    for nodes in reversed(levels):
        found, numbers = np.unique(kind[nodes] * count + below[nodes], return_inverse=True)
        types[nodes] = numbers = numbers + count
        count += len(found)
        order = np.lexsort((numbers, parents[nodes]))
        family, items = parents[nodes[order]], numbers[order]
        while (left := first_of_pairs(family)).size:
            found, numbers = np.unique(items[left] * count + items[left + 1], return_inverse=True)
            items[left] = numbers + count
            count += len(found)
            family, items = np.delete(family, left + 1), np.delete(items, left + 1)
        below[family[family >= 0]] = items[family >= 0]
    return np.unique(types, return_inverse=True)[1]
