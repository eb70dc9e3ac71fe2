"""Groups of cells with public numbers of records, as places of a tree that hold every cell once."""

from __future__ import annotations

import numpy as np

from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Indices
from pmldesign_solvers.trees.tree import Flags, Tree


def tops_of(tree: Tree, public: Public, plain: int = 1) -> Flags | None:
    """The places whose cells are the groups, shape (P,); None where groups are no such.

    Args:
        tree: the regions.
        public: what is public.
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
    """The groups of cells that the sums of some nodes tell apart, and whether they tell each sum.

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
