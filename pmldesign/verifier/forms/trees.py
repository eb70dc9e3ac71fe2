r"""Counts on a tree of regions: sums, variances and nuclear norms level by level, and known sums.

Of counts of the nodes with precisions x, v and S = sum of the v of the parts from below, q from
elsewhere. The sum over the others is the total less one part, except for a part above half of the
total:

    up:     v_leaf = 1/x,    v = 1/(x + 1/S)
    down:   q_root = 0,      q_part = 1/(1/(x + q) + sum of the v of the others)
    var = 1/(1/v + q)

and q is infinite at nodes whose sums are known, with all above them. With alpha_nu of nodes and w
of cells the matrix N = W^(1/2) (sum_nu alpha_nu 1_nu 1_nu^T) W^(1/2) has, by one update of rank 1
after the other,

    det(1 + N/z) = prod_nu (1 + alpha_nu g_nu),
    g_leaf = w/z,    g_whole = sum of g/(1 + alpha g) over the parts,

and tr N (N + z)^-1 is -z times the derivative of its logarithm: with g' = -z dg/dz,

    sum_nu alpha_nu g'_nu/(1 + alpha_nu g_nu),
    g'_leaf = g,    g'_whole = sum of g'/(1 + alpha g)^2 over the parts.

x^(1/2) = (2/pi) integral of x e^y/(x + e^(2y)) dy is a sum of these over steps of STEP, which is
off by at most 4.01 e^(-pi^2/STEP) of it; the tails are positive.

Where sums are known their indicators are taken out of N on both sides, which is an infinite alpha
there. That adds g'/g - 1 = -d/g for each of these, and with d = g - g'

    d_leaf = 0,    d_whole = sum of (d + alpha g^2)/(1 + alpha g)^2 over the parts.

All are sums, products and quotients of positive numbers, in which relative errors are averaged: of
a level with families of k a sum adds gamma_k, everything else at most 8 units; the difference is
formed if it is at least half of its minuend, which triples errors once.

Known sums of regions: groups of cells as nodes of a tree, and the answers that determine them.

The groups are those of neighbours, who replace a cell by another one of its group. Each has to be
the cells below a node, its *top*. Invariants count nodes: the nearest of these above a cell
identifies its group, and they determine every sum if their rank is the number of groups. Each of
several nested sets adds one to the rank, except a set that is the union of the topmost ones below
it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmldesign.verifier.balls import Array
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header
from pmldesign.verifier.rounding import gamma

STEP = 0.42
"""An error of 2.5e-10."""
TAIL = 24.0
"""Beyond the logarithms of singular values: e^-24 of those at the ends is left out."""
ENTRIES = 2**16
"""Of nodes times places of the integral, taken together."""
FAINTEST = 25.0
"""Singular values down to e^-25 of the largest count fully."""


class ReadTree:
    """A tree, its nodes by level and families next to each other.

    Args:
        parents: of every node, before it; -1 for the root, node 0.

    Attributes:
        leaves: whether each node is one.
        levels: the nodes of each depth.
        parents: of these, the places in `levels` of those that have parts.
        starts: where their families begin, among the nodes of the next level.
        sizes: of their families.
        slack: of everything that goes up the tree, relatively.

    Raises:
        ValueError: the parents are those of no tree.
    """

    def __init__(self, parents: Any) -> None:
        if parents[0] != -1 or (parents[1:] >= np.arange(1, len(parents))).any():
            raise ValueError("parents come before their children")
        if (parents[1:] < 0).any():
            raise ValueError("there is more than one root")
        order = 1 + np.argsort(parents[1:], kind="stable")
        children = np.bincount(parents[1:], minlength=len(parents))
        self.leaves, self._parents = children == 0, parents
        first = np.cumsum(children) - children
        self.levels, self.parents, self.starts, self.sizes = [np.zeros(1, dtype=int)], [], [], []
        while True:
            inner = np.flatnonzero(children[self.levels[-1]])
            if not inner.size:
                break
            nodes = self.levels[-1][inner]
            sizes = children[nodes]
            starts = np.cumsum(sizes) - sizes
            members = np.arange(int(sizes.sum())) + np.repeat(first[nodes] - starts, sizes)
            self.levels.append(order[members])
            self.parents.append(inner)
            self.starts.append(starts)
            self.sizes.append(sizes)
        self.slack = gamma(sum(float(sizes.max()) + 8 for sizes in self.sizes) + 8)

    def same(self, parents: Any) -> bool:
        """Whether these are its parents."""
        return np.array_equal(self._parents, parents)

    def joined(self, levels: list[Any]) -> Any:
        """Values of all nodes, shape (N,), from those of levels."""
        values = np.empty(len(self.leaves), dtype=levels[0].dtype)
        for nodes, of_level in zip(self.levels, levels, strict=True):
            values[nodes] = of_level
        return values

    def split(self, values: Any) -> list[Any]:
        """Values of all nodes, level by level."""
        return [values[nodes] for nodes in self.levels]

    def longest(self, values: Any) -> float:
        """The largest sum on the path to a leaf, off by `slack` at most."""
        above, largest = self.split(values), 0.0
        for level, of_nodes in enumerate(above):
            largest = max(largest, float(of_nodes.max()))
            if level < len(self.parents):
                above[level + 1] += np.repeat(of_nodes[self.parents[level]], self.sizes[level])
        return largest

    def told(self, counted: Any) -> Any:
        """Which nodes are counted, or have parts that all are, or are all of one that is."""
        told = self.split(counted)
        for level in reversed(range(len(self.parents))):
            whole = np.logical_and.reduceat(told[level + 1], self.starts[level])
            told[level][self.parents[level]] |= whole
        result = np.zeros(len(self.leaves), dtype=bool)
        for level, nodes in enumerate(self.levels):
            result[nodes] = told[level]
            if level < len(self.parents):
                alone = told[level][self.parents[level]] & (self.sizes[level] == 1)
                told[level + 1] |= np.repeat(alone, self.sizes[level])
        return result

    def farthest(self, values: Any, shared: Any = 0.0, tops: Any = None) -> float:
        """The largest sum of values above one of two leaves but not both, off by `slack`.

        Args:
            values: of nodes.
            shared: the part added by nodes above both, also for a leaf and itself.
            tops: nodes, shape (N,); one must be above both leaves; None for the root.
        """
        below, parts = np.zeros(len(self.levels[-1])), self.split(values)
        adding = self.split(np.broadcast_to(shared, values.shape))
        topmost = self.split(np.arange(len(values)) == 0 if tops is None else tops)
        above = [np.zeros(len(nodes)) for nodes in self.levels]
        for level, inner in enumerate(self.parents):
            above[level + 1] = np.repeat((above[level] + adding[level])[inner], self.sizes[level])
        largest = adding[-1]
        best = float((largest + above[-1])[topmost[-1]].max(initial=0.0))
        for level in reversed(range(len(self.parents))):
            paths, starts = below + parts[level + 1], self.starts[level]
            longest = np.maximum.reduceat(paths, starts)
            ahead = paths == np.repeat(longest, self.sizes[level])
            others = np.maximum.reduceat(np.where(ahead, 0.0, paths), starts)
            second = np.where(np.add.reduceat(ahead, starts, dtype=int) > 1, longest, others)
            meet = np.where(self.sizes[level] > 1, longest + second, 0.0)
            apart = np.maximum(meet, np.maximum.reduceat(largest, starts))
            largest = adding[level]
            largest[self.parents[level]] += apart
            below = np.zeros(len(self.levels[level]))
            below[self.parents[level]] = longest
            best = max(best, float((largest + above[level])[topmost[level]].max(initial=0.0)))
        return best

    def variances(self, precisions: Array, known: Any = None) -> Array:
        """Of all nodes by least squares, off by 4 `slack` at most.

        Args:
            precisions: of all nodes.
            known: nodes with known sums, with all above them, shape (N,); None without any.
        """
        surely = self.split(np.zeros(len(precisions), dtype=bool) if known is None else known)
        x, v = self.split(precisions), self.split(precisions)
        sums: list[Any] = [None] * len(self.parents)
        result = np.empty(len(precisions))
        with np.errstate(divide="ignore", invalid="ignore"):
            v[-1] = 1 / x[-1]
            for level in reversed(range(len(self.parents))):
                sums[level] = np.add.reduceat(v[level + 1], self.starts[level])
                v[level] = 1 / x[level]
                inner = self.parents[level]
                v[level][inner] = 1 / (x[level][inner] + 1 / sums[level])
            q = np.zeros(1)
            for level, nodes in enumerate(self.levels):
                q = np.where(surely[level], math.inf, q)
                result[nodes] = 1 / (1 / v[level] + q)
                if level < len(self.parents):
                    whole = 1 / (x[level] + q)[self.parents[level]]
                    whole = np.repeat(whole, self.sizes[level])
                    q = 1 / (whole + self._others(level, v[level + 1], sums[level]))
        return result

    def _others(self, level: int, values: Array, sums: Array) -> Array:
        """The sum of the rest of each family."""
        every = np.repeat(sums, self.sizes[level])
        most = (2 * values > every) | (values == every)
        few = np.add.reduceat(np.where(most, 0.0, values), self.starts[level])
        return np.where(most, np.repeat(few, self.sizes[level]), every - values)

    def sums(self, w: Array) -> list[Array]:
        """Of the leaves below every node, level by level; w of all nodes, read at leaves."""
        masses = self.split(w)
        for level in reversed(range(len(self.parents))):
            sums = np.add.reduceat(masses[level + 1], self.starts[level])
            masses[level][self.parents[level]] = sums
        return masses

    def nuclear_norm(self, alpha: Array, w: Array, tops: Any = None) -> float:
        """At most tr N^(1/2), or that without some sums.

        Args:
            alpha: of all nodes; 0 above and at the tops.
            w: of all nodes, read at leaves.
            tops: nodes with known sums, none above another one, shape (N,); None without any.
        """
        masses = self.sums(w)
        parts, out = self.split(alpha), None if tops is None else self.split(tops)
        trace = sum(float(a @ mass) for a, mass in zip(parts, masses, strict=True))
        products = (alpha * w)[self.leaves]
        top = math.log(trace) / 2
        bottom = top - FAINTEST
        if products.min() > 0:
            bottom = max(bottom, math.log(float(products.min())) / 2)
        y = np.arange(bottom - TAIL, top + TAIL, STEP)
        together = max(1, ENTRIES // len(alpha))
        places = [y[start : start + together] for start in range(0, len(y), together)]
        off = (2 * len(self.levels) + 4) * self.slack + gamma(64 + math.log2(len(alpha)))
        values = []
        for at in places:
            added, taken = self._traces(parts, masses, np.exp(2 * at), out)
            values.append(np.exp(at) * (added * (1 - off) - taken * (1 + off)))
        value = max(math.fsum(np.concatenate(values)), 0.0) * STEP * 2 / math.pi
        return value / (1 + 4.01 * math.exp(-(math.pi**2) / STEP))

    def _traces(
        self, alpha: list[Array], masses: list[Array], z: Array, tops: list[Any] | None
    ) -> tuple[Array, Array]:
        """The trace of N (N + z)^-1 for each z, and by how much less it is without some sums."""
        z = z[:, None]
        g = masses[-1] / z
        slope, rest = g, np.zeros_like(g)
        total, taken = np.zeros((2, len(z)))
        for level in reversed(range(len(self.levels))):
            shares = 1 / (1 + alpha[level] * g)
            told = slope * shares
            total += (alpha[level] * told).sum(axis=1)
            if tops is not None:
                here = tops[level] & (masses[level] > 0)
                taken += (rest[:, here] / g[:, here]).sum(axis=1)
            if level:
                starts, inner = self.starts[level - 1], self.parents[level - 1]
                above = masses[level - 1] / z
                slope, bare = above.copy(), np.add.reduceat(g * shares, starts, axis=1)
                slope[:, inner] = np.add.reduceat(told * shares, starts, axis=1)
                above[:, inner] = bare
                if tops is not None:
                    added = (rest + alpha[level] * g**2) * shares**2
                    rest = np.zeros_like(above)
                    rest[:, inner] = np.add.reduceat(added, starts, axis=1)
                g = above
        return total, taken


def known_nodes(
    tree: ReadTree, header: Header, arrays: Arrays, known: Queries | None, checks: Checks
) -> tuple[Any, Any] | None:
    """The tops and these with all above them, shape (N,); None if groups are not nodes.

    Both are None for add-remove neighbours, and the root if the number of records is public.
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
    """The topmost nodes of one group, if there is one for each; else None."""
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
    """The nodes whose sums are the invariants; None if these are not sums of nodes."""
    asked = None if known is None else known.region_tables
    if asked is None or any(part.table for part in asked.parts) or not tree.same(asked.parents):
        return None
    counted = np.zeros(len(tree.leaves), dtype=bool)
    for part in asked.parts:
        counted[part.nodes] = True
    return counted
