r"""Sums, variances and nuclear norms on a tree, level by level.

Of counts of the nodes with precisions x, v and S = sum of the v of the parts from below, q from
elsewhere; what others have is the sum less one, but for the one that is more than half:

    up:     v_leaf = 1/x,    v = 1/(x + 1/S)
    down:   q_root = 0,      q_part = 1/(1/(x + q) + sum of the v of the others)
    var = 1/(1/v + q)

and q_root is infinite where the total is public. With alpha_nu of nodes and w of cells the matrix
N = W^(1/2) (sum_nu alpha_nu 1_nu 1_nu^T) W^(1/2) has, by one update of rank 1 after the other,

    det(1 + N/z) = prod_nu (1 + alpha_nu g_nu),
    g_leaf = w/z,    g_whole = sum of g/(1 + alpha g) over the parts,

and tr N (N + z)^-1 is -z times the derivative of its logarithm: with g' = -z dg/dz,

    sum_nu alpha_nu g'_nu/(1 + alpha_nu g_nu),
    g'_leaf = g,    g'_whole = sum of g'/(1 + alpha g)^2 over the parts.

x^(1/2) = (2/pi) integral of x e^y/(x + e^(2y)) dy is a sum of these over steps of STEP, which is
off by at most 4.01 e^(-pi^2/STEP) of it; the tails are positive.

All are sums, products and quotients of positive numbers, in which relative errors are averaged: of
a level with families of k a sum adds gamma_k, everything else at most 8 units; the difference is
taken where it is at least half of what it is taken from, which triples errors once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmldesign.verify.arithmetic.rounding import Array, gamma

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
        self.leaves = children == 0
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

    def split(self, values: Any) -> list[Any]:
        """Values of all nodes, level by level."""
        return [values[nodes] for nodes in self.levels]

    def tells_leaves(self, counted: Any) -> bool:
        """Whether each leaf, or a node of that leaf alone, is among those that are counted."""
        told = self.split(counted)
        for level, inner in enumerate(self.parents):
            alone = told[level][inner] & (self.sizes[level] == 1)
            told[level + 1] |= np.repeat(alone, self.sizes[level])
        leaves = self.split(self.leaves)
        return all(bool(own[bare].all()) for own, bare in zip(told, leaves, strict=True))

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

    def farthest(self, values: Any, shared: Any = 0.0) -> float:
        """The largest sum of what is above one of two leaves but not both, off by `slack`.

        Args:
            values: of nodes.
            shared: what nodes above both add, also for a leaf and itself.
        """
        below, parts = np.zeros(len(self.levels[-1])), self.split(values)
        adding = self.split(np.broadcast_to(shared, values.shape))
        largest = adding[-1]
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
        return float(largest[0])

    def variances(self, precisions: Array, *, public: bool) -> Array:
        """Of all nodes by least squares, off by 4 `slack` at most; whether the total is public."""
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
            q = np.full(1, math.inf if public else 0.0)
            for level, nodes in enumerate(self.levels):
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

    def nuclear_norm(self, alpha: Array, w: Array) -> float:
        """At most tr N^(1/2); w of all nodes, read at leaves."""
        masses = self.sums(w)
        parts = self.split(alpha)
        trace = sum(float(a @ mass) for a, mass in zip(parts, masses, strict=True))
        products = (alpha * w)[self.leaves]
        top = math.log(trace) / 2
        bottom = top - FAINTEST
        if products.min() > 0:
            bottom = max(bottom, math.log(float(products.min())) / 2)
        y = np.arange(bottom - TAIL, top + TAIL, STEP)
        together = max(1, ENTRIES // len(alpha))
        places = [y[start : start + together] for start in range(0, len(y), together)]
        values = [np.exp(at) * self._traces(parts, masses, np.exp(2 * at)) for at in places]
        off = (2 * len(self.levels) + 4) * self.slack + gamma(64 + math.log2(len(alpha)))
        value = math.fsum(np.concatenate(values)) * STEP * 2 / math.pi * (1 - off)
        return value / (1 + 4.01 * math.exp(-(math.pi**2) / STEP))

    def _traces(self, alpha: list[Array], masses: list[Array], z: Array) -> Array:
        """The trace of N (N + z)^-1 for each z; masses as w are read at leaves alone."""
        z = z[:, None]
        g = masses[-1] / z
        slope, total = g, np.zeros(len(z))
        for level in reversed(range(len(self.levels))):
            shares = 1 / (1 + alpha[level] * g)
            told = slope * shares
            total += (alpha[level] * told).sum(axis=1)
            if level:
                starts, inner = self.starts[level - 1], self.parents[level - 1]
                above = masses[level - 1] / z
                slope, bare = above.copy(), np.add.reduceat(g * shares, starts, axis=1)
                slope[:, inner] = np.add.reduceat(told * shares, starts, axis=1)
                above[:, inner] = bare
                g = above
        return total
