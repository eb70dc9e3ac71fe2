r"""Known sums of regions: groups of cells as nodes of a tree, and the answers that tell them.

The groups are those of neighbours, who replace a cell by another one of its group. Each has to be
what is below a node, its *top*. Known answers count nodes: they tell the group of a cell by the
nearest of these above it, and every sum if their rank is the number of groups. Of sets that nest
each adds one to the rank but those that are the topmost ones below together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.verify.arithmetic.rounding import gamma
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.trees.sweeps import ReadTree


def known_nodes(
    tree: ReadTree, header: Header, arrays: Arrays, known: Queries | None, checks: Checks
) -> tuple[Any, Any] | None:
    """The tops and these with all above them, shape (N,); None if groups are no nodes.

    None of both for add-remove neighbours; the root where the number of records is public.
    """
    if header["neighbours"] != "replace" or "groups" not in arrays:
        return root_of(tree.leaves, header["neighbours"] == "replace")
    cells, groups = int(tree.leaves.sum()), arrays["groups"]
    fits = groups.size % cells == 0
    groups = groups.reshape(cells, -1) if fits else groups
    fits = fits and bool((groups == groups[:, :1]).all())
    tops = _tops(tree, groups[:, 0]) if fits else None
    if not checks.state("groups", tops is not None, "the cells below nodes of the tree"):
        return None
    assert tops is not None
    _check_known(tree, groups[:, 0], known, checks)
    above = tree.split(tops)
    for level in reversed(range(len(tree.parents))):
        held = np.logical_or.reduceat(above[level + 1], tree.starts[level])
        above[level][tree.parents[level]] |= held
    return tops, tree.joined(above)


def root_of(nodes: Any, replace: bool) -> tuple[Any, Any]:
    """The same where the number of records is public under replace, and nothing else."""
    root = np.arange(len(nodes)) == 0 if replace else None
    return root, root


def mass_of_pairs(tree: ReadTree, masses: Any, tops: Any, concentration: float = 1.0) -> float:
    """The sum of the weights w_i w_j/w_group of pairs within groups, rounded up; 1 without any.

    Args:
        tree: the regions.
        masses: w of all nodes, read at leaves, sum 1.
        tops: of the groups, shape (N,); None for add-remove neighbours.
        concentration: sum of the squares of the parts that the cells of a leaf have.
    """
    if tops is None:
        return 1.0
    sums, squares = (tree.joined(tree.sums(values))[tops] for values in (masses, masses**2))
    share = float((squares[sums > 0] / sums[sums > 0]).sum())
    return (1 - concentration * share * (1 - gamma(masses.size + 8))) / 2


def _tops(tree: ReadTree, groups: Any) -> Any | None:
    """The topmost nodes of one group, where there is one for each; else None."""
    of_nodes = np.zeros(len(tree.leaves), dtype=np.int64)
    of_nodes[tree.leaves] = groups
    low, high = tree.split(of_nodes), tree.split(of_nodes)
    for level in reversed(range(len(tree.parents))):
        starts, inner = tree.starts[level], tree.parents[level]
        low[level][inner] = np.minimum.reduceat(low[level + 1], starts)
        high[level][inner] = np.maximum.reduceat(high[level + 1], starts)
    one = [a == b for a, b in zip(low, high, strict=True)]
    tops = [one[0].copy()]
    for level, inner in enumerate(tree.parents):
        tops.append(one[level + 1] & ~np.repeat(one[level][inner], tree.sizes[level]))
    found = tree.joined(tops)
    return found if found.sum() == len(np.unique(groups)) else None


def _check_known(tree: ReadTree, groups: Any, known: Queries | None, checks: Checks) -> None:
    counted = _counted(tree, known)
    if counted is None:
        checks.unchecked("known", "the known answers have no name that tells them")
        return
    nearest = tree.split(np.where(counted, np.arange(counted.size), -1))
    ones = tree.sums(tree.leaves.astype(np.int64))
    covered = tree.split(np.zeros(counted.size, dtype=np.int64))
    for level, inner in enumerate(tree.parents):
        above = np.repeat(nearest[level][inner], tree.sizes[level])
        nearest[level + 1] = np.where(nearest[level + 1] < 0, above, nearest[level + 1])
    asked, rank = tree.split(counted), 0
    for level in reversed(range(len(tree.levels))):
        if level < len(tree.parents):
            below = np.where(asked[level + 1], ones[level + 1], covered[level + 1])
            covered[level][tree.parents[level]] = np.add.reduceat(below, tree.starts[level])
        rank += int((asked[level] & (ones[level] > covered[level])).sum())
    labels = tree.joined(nearest)[tree.leaves]
    pairs = len(np.unique(np.column_stack([labels, groups]), axis=0))
    told = pairs == len(np.unique(labels)) == len(np.unique(groups)) == rank
    checks.state("known", told, "answers that tell the number of records in each group")


def _counted(tree: ReadTree, known: Queries | None) -> Any | None:
    """The nodes whose sums the known answers are; None if they are no such."""
    asked = None if known is None else known.region_tables
    if asked is None or any(part.table for part in asked.parts) or not tree.same(asked.parents):
        return None
    counted = np.zeros(len(tree.leaves), dtype=bool)
    for part in asked.parts:
        counted[part.nodes] = True
    return counted
