r"""Non-negative and integer hierarchical counts, closest to released ones, exactly.

**Non-negative.** With X_nu the sum of the cells x >= 0 below the node nu, the least sum a_nu^2
(X_nu - t_nu)^2 / 2 is found up the tree and down again. The best parts of a whole have the same
slope mu if they are not 0, so that their sum G(mu) is a sum of the sums of the parts; with its own
term the whole has at X = G(mu) the slope

    lambda = mu + a^2 (G(mu) - t),        leaves: x = max(0, t + lambda / a^2).

Both are increasing and piecewise linear, of at most as many pieces as there are cells below. The
slope of the root is 0, that of a place with a public sum the one at which X is it, and mu of a
whole is lambda of its parts. It takes one sort for each level.

**Whole.** Every count is rounded up or down so that parts add up: if a whole is k more than the sum
of its parts rounded down, the k parts that cost least are rounded up, and the cost of each choice
below is known on the way up the tree. No such rounding is closer to the counts. Fixed-point sums
are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmldesign.releases.public_counts import PublicCounts
from pmldesign_solvers.operators.operator import Array, Flags, Indices
from pmldesign_solvers.trees.tree import Tree

if TYPE_CHECKING:
    from pmldesign.workloads.nested.regions import RegionsWorkload

UNASKED = 1e-6
"""Of the least a^2, that of cells that are not asked about."""
BITS, LARGEST = 20, 2.0**42
"""After the point of counts that are rounded, which may be so large."""


@dataclass(frozen=True, slots=True, eq=False)
class _Wholes:
    """Nodes with parts, and the pieces of G, in order.

    Attributes:
        nodes: shape (f,).
        starts: where the pieces of each begin.
        mu: where pieces begin.
        slopes: of G.
        sums: G there.
        forces: lambda there.
        own: a^2 of each node.
    """

    nodes: Indices
    starts: Indices
    mu: Array
    slopes: Array
    sums: Array
    forces: Array
    own: Array

    @classmethod
    def of(cls, owner: Indices, mu: Array, steps: Array, squares: Array, t: Array) -> _Wholes:
        """The wholes of pieces of parts, by owner and mu, and by how much slopes grow at each."""
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        sizes = np.diff(starts, append=len(owner))
        slopes = _running(steps, starts, sizes)
        ahead = slopes * np.diff(mu, append=0.0)
        ahead[np.append(starts[1:], len(mu)) - 1] = 0.0
        sums = _running(ahead, starts, sizes) - ahead
        forces = mu + squares[owner] * (sums - t[owner])
        nodes = owner[starts]
        return cls(nodes, starts, mu, slopes, sums, forces, squares[nodes])

    def outer(self) -> tuple[Array, Array]:
        """Where the pieces of X begin in lambda, and by how much slopes grow at each."""
        sizes = np.diff(self.starts, append=len(self.mu))
        slopes = self.slopes / (1.0 + np.repeat(self.own, sizes) * self.slopes)
        steps = np.diff(slopes, prepend=0.0)
        steps[self.starts] = slopes[self.starts]
        return self.forces, np.maximum(steps, 0.0)

    def inner(self, force: Array) -> Array:
        """The mu of each node at its lambda."""
        piece, before = self._piece(self.forces, force)
        rise = 1.0 + np.where(before, 0.0, self.own * self.slopes[piece])
        return np.asarray(self.mu[piece] + (force - self.forces[piece]) / rise)

    def at_totals(self, totals: Array) -> Array:
        """The mu of each node at its sum."""
        piece, _ = self._piece(self.sums, totals)
        return np.asarray(self.mu[piece] + (totals - self.sums[piece]) / self.slopes[piece])

    def _piece(self, ends: Array, values: Array) -> tuple[Indices, NDArray[np.bool_]]:
        """The piece that holds a value of each node, and whether the value is before them all."""
        sizes = np.diff(self.starts, append=len(self.mu))
        passed = np.add.reduceat(ends <= np.repeat(values, sizes), self.starts, dtype=np.intp)
        return self.starts + np.maximum(passed - 1, 0), passed == 0


def _public_nodes(tree: Tree, public: PublicCounts) -> Flags:
    """The topmost node of each of these, shape (N,)."""
    tops = public.tops(tree)
    assert tops is not None
    places = tree.place_of_node
    above = places[np.maximum(tree.parents, 0)] == places
    above[0] = False
    return np.asarray(tops[places] & ~above)


def closest_regions(
    regions: RegionsWorkload, cells: Array, public: PublicCounts | None = None
) -> Array:
    """The cells x >= 0 whose counts are closest to those of the cells without negative ones.

    Args:
        regions: the released counts.
        cells: the estimate whose counts were released, shape (n,).
        public: sums of places that are public.
    """
    tree, totals = regions.tree, None
    if public is not None:
        sizes = [
            len(range(tree.cells)[g]) if isinstance(g, slice) else len(g) for g in public.groups
        ]
        parts = public.in_cells(np.array(public.counts) / np.array(sizes), tree.cells)
        totals = np.where(_public_nodes(tree, public), np.rint(tree.sums(parts)), np.nan)
    targets = np.maximum(tree.sums(cells), 0.0)
    closest = closest_cells(tree, regions.scales**2, targets, totals)
    return closest if public is None else public.scaled(closest)


def rounded_regions(
    regions: RegionsWorkload, cells: Array, public: PublicCounts | None = None
) -> Array:
    """Integer cells with all counts rounded up or down; arguments as `closest_regions`."""
    nearest = None if public is None else _public_nodes(regions.tree, public)
    return rounded_cells(regions.tree, regions.scales**2, cells, nearest)


def closest_cells(tree: Tree, squares: Array, targets: Array, totals: Array | None = None) -> Array:
    """The cells x >= 0 whose sums are closest to the targets, shape (n,).

    Args:
        tree: the places.
        squares: a^2 of every node, not all 0, shape (N,).
        targets: t of every node, shape (N,).
        totals: the sums of some nodes, none above another one, NaN elsewhere, shape (N,).
    """
    totals = np.full(tree.nodes, np.nan) if totals is None else totals
    known = ~np.isnan(totals)
    weights = squares.copy()
    bare = tree.leaves[weights[tree.leaves] == 0]
    weights[bare] = UNASKED * squares[squares > 0].min()
    if tree.nodes == 1:
        return np.where(known, totals, np.maximum(targets, 0.0))
    by_depth = _by_depth(tree, tree.leaves)
    owner, at, steps = np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0)
    wholes: list[_Wholes] = []
    for depth in reversed(range(1, len(by_depth))):
        leaves = by_depth[depth]
        owner = np.concatenate([owner, leaves])
        at = np.concatenate([at, -weights[leaves] * targets[leaves]])
        steps = np.concatenate([steps, 1.0 / weights[leaves]])
        owner = tree.parents[owner]
        order = np.lexsort((at, owner))
        owner = owner[order]
        wholes.append(_Wholes.of(owner, at[order], steps[order], weights, targets))
        at, steps = wholes[-1].outer()
    inner = np.zeros(tree.nodes)
    for level in reversed(wholes):
        nodes = level.nodes
        forces = np.where(nodes > 0, inner[tree.parents[nodes]], 0.0)
        sums = level.at_totals(np.where(known[nodes], totals[nodes], 0.0))
        inner[nodes] = np.where(known[nodes], sums, level.inner(forces))
    leaves = tree.leaves
    cells = targets[leaves] + inner[tree.parents[leaves]] / weights[leaves]
    return np.where(known[leaves], totals[leaves], np.maximum(cells, 0.0))


def rounded_cells(tree: Tree, squares: Array, cells: Array, nearest: Flags | None = None) -> Array:
    """Integer cells with every sum rounded up or down, closest to the given ones, shape (n,).

    Args:
        tree: the places.
        squares: a^2 of every node, shape (N,).
        cells: shape (n,).
        nearest: nodes whose sums are rounded to the nearest whole number, shape (N,).
    """
    nearest = np.zeros(tree.nodes, dtype=bool) if nearest is None else nearest
    largest = max(float(np.abs(cells).sum()), 1.0)
    bits = BITS - max(0, int(np.ceil(np.log2(largest / LARGEST))))
    counts: Any = np.rint(np.ldexp(cells, bits)).astype(np.int64)
    sums: Any = tree.sums(counts)
    down = sums >> bits
    rest = np.ldexp(np.float64(sums - (down << bits)), -bits)
    low, high = squares * rest**2, squares * (1.0 - rest) ** 2
    high[rest == 0] = np.inf
    by_depth = _by_depth(tree, np.arange(tree.nodes))
    families = []
    for members in reversed(by_depth[1:]):
        owner, more = tree.parents[members], high[members] - low[members]
        order = np.lexsort((more, owner))
        members, owner, more = members[order], owner[order], more[order]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        families.append((members, starts))
        sizes, nodes = np.diff(starts, append=len(owner)), owner[starts]
        up = down[nodes] - np.add.reduceat(down[members], starts)
        costs = _running(np.where(np.isfinite(more), more, 0.0), starts, sizes)
        low[nodes] += np.add.reduceat(low[members], starts) + _cost(costs, starts, up)
        high[nodes] += np.add.reduceat(low[members], starts) + _cost(costs, starts, up + 1)
    whole = down.copy()
    closer = down + (rest >= 0.5)
    whole[0] += high[0] < low[0]
    whole[nearest] = closer[nearest]
    for members, starts in reversed(families):
        nodes = tree.parents[members[starts]]
        up = whole[nodes] - np.add.reduceat(down[members], starts)
        sizes = np.diff(starts, append=len(members))
        place = np.arange(len(members)) - np.repeat(starts, sizes)
        moved = down[members] + (place < np.repeat(up, sizes))
        whole[members] = np.where(nearest[members], closer[members], moved)
    return np.asarray(whole[tree.leaves], dtype=np.float64)


def _cost(costs: Array, starts: Indices, up: Indices) -> Array:
    """What the first parts of each family cost more if so many go up."""
    last = np.minimum(starts + np.maximum(up, 1) - 1, len(costs) - 1)
    return np.asarray(np.where(up > 0, costs[last], 0.0))


def _by_depth(tree: Tree, nodes: Indices) -> list[Indices]:
    """Some nodes, by their depth."""
    order = nodes[np.argsort(tree.depths[nodes], kind="stable")]
    depths = tree.depths[order]
    bounds = np.searchsorted(depths, np.arange(int(tree.depths.max()) + 2))
    return [order[first:stop] for first, stop in pairwise(bounds)]


def _running(values: Array, starts: Indices, sizes: Indices) -> Array:
    """Sums up to each value from the start of its family, in extended precision."""
    sums = np.cumsum(values, dtype=np.longdouble)
    before = sums[starts] - values[starts]
    return np.asarray(sums - np.repeat(before, sizes), dtype=np.float64)
