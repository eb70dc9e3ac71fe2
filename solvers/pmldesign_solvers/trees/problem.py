r"""Hierarchical counts, as sums over a tree instead of matrices, for the solver of streams.

The query of a node nu is a_nu times the indicator 1_nu of the cells below it. With weights u of
queries and w of cells, alpha_nu = u_nu a_nu^2 and

    S = W^(1/2) (sum_nu alpha_nu 1_nu 1_nu^T) W^(1/2) = M^T M,      M = U^(1/2) A W^(1/2),

the dual is tr S^(1/2) = tr T^(-1/2), T = S^(-1), and r(T), g(T) of `streams.nodes` are sums over
S (S + s^-2)^(-1) / s^2. Both diagonals of (S + v)^(-1) are those of a network: v / w_i is the
resistance of cell i, alpha_nu that of a node, and conductances 1 / r of parts add up.

    up:      r0_i = v / w_i at cells,     r = r0 + alpha,     r0_whole = 1 / (1/r_1 + 1/r_2),
    down:    t_root = 0,     t_1 = 1 / (1 / A + 1 / r_2),     A = t_whole + alpha_whole,
    cells:   (S (S + v)^(-1))_ii = (t_i + alpha_i) / (v / w_i + t_i + alpha_i),
    queries: (M (S + v)^(-1) M^T)_nu,nu = alpha_nu / (r0 + alpha + t) at the place of nu.

Every step adds, multiplies and divides positive numbers, and the maps do not increase relative
errors: 1 / (1 / A + g) takes a mean of those of A and g. So a number is off by 12 roundings for
each round at most (`rounding`), whatever the condition. Tables of plain attributes are such a tree
for each kind of residual spaces (`spaces`), which share the weights w.

**Copies.** A node may stand for copies that are alike (`orbits`). Then weights w are those of all
copies of a cell together, and m queries that are alike are one of a scale m^(1/p) as large, whose
weight in the dual is m^(1 - 2/p) u; numbers of places are those of one copy.

**Known sums.** Where the sums of some places are public, their indicators are taken out on both
sides: C = (1 - Pi) S (1 - Pi), Pi on the vectors w^(1/2) of the groups of cells below them. That is
an infinite alpha at these places and all above, in the tree of the sums over all values, and

    (C (C + v)^(-1))_ii = (t_i + alpha_i) / (v / w_i + t_i + alpha_i) - w_i / w_group;

its trace is the sum over the other queries, whose formula stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pmldesign_solvers.operators.operator import UNIT, Array, Flags
from pmldesign_solvers.streams.chain import DualProblem
from pmldesign_solvers.streams.nodes import Nodes
from pmldesign_solvers.trees.spaces import PLAIN, Spaces
from pmldesign_solvers.trees.tree import Tree

NOTHING = 1e-290
"""v / w_i instead of 0: so far below any resistance that it vanishes in sums."""
LANES = 2**18
"""Numbers that one NumPy operation takes: as many poles side by side."""


class NestedCounts(DualProblem):
    """Counts of the nodes of a tree, or tables of plain attributes there, each with a weight.

    Args:
        tree: the tree.
        squares: a_nu^2 >= 0, shape (N,) or (K, N) for K tables (`Spaces.as_one`); 0 outside the
            workload.
        spaces: of the tables.
        public: places whose sums are known, with all above them, shape (P,); sums over all values
            are a kind of their own then, and nothing asks about these there alone.

    Attributes:
        asked: the places of the queries in the flattened squares, shape (m,).
    """

    smooth = False

    def __init__(
        self,
        tree: Tree,
        squares: Array,
        spaces: Spaces = PLAIN,
        *,
        public: Flags | None = None,
    ) -> None:
        self.tree, self.spaces, self.public = tree, spaces, public
        self.asked = np.flatnonzero(squares)
        self.squares = squares.ravel()[self.asked]
        self._tables, nodes = np.divmod(self.asked, tree.nodes)
        self._places = tree.place_of_node[nodes]
        self._copies, self._alike = tree.times[tree.place_of_cell], tree.times[self._places]
        self.cells, self.queries = tree.cells, len(self.asked)

    def even(self, p: float) -> tuple[Array, Array]:
        """Weights that are equal for all queries and cells, not normalised."""
        return self._alike ** (1.0 - 2.0 / p), self._copies

    def measured(self, u: Array, w: Array, nodes: Nodes) -> Array:
        """diag(r(T)), shape (n,); over the plain cells of each, and its copies."""
        total = np.zeros(self.cells)
        for number, alpha in enumerate(self._conductances(u)):
            found = np.zeros(self.cells)
            for base, weights in self._chunks(nodes, w):
                _, outer = self._sweep(alpha, base)
                told = np.minimum(outer[:, self.tree.place_of_cell], base / UNIT**2)
                found += weights @ (told / (base + told))
                if self._is_known(number):
                    found -= weights.sum() * self._within(w)[self.tree.place_of_cell]
            total += self.spaces.dimensions[number] * found
        return np.maximum(total, 0.0) * self._copies

    def trace(self, u: Array, w: Array, nodes: Nodes) -> float:
        """The sum of these, from positive numbers alone."""
        if self.public is None:
            return super().trace(u, w, nodes)
        total = 0.0
        for number, alpha in enumerate(self._conductances(u)):
            asked = np.where(np.isinf(alpha), 0.0, alpha)
            for base, weights in self._chunks(nodes, w):
                inner, outer = self._sweep(alpha, base)
                told = asked / (inner + outer) @ self.tree.times
                total += float(self.spaces.dimensions[number] * (weights @ told))
        return total

    def spread(self, u: Array, w: Array, reciprocal: Nodes) -> Array:
        """Variances diag(A X^-1 A^T) of X = W^(-1/2) r(T) W^(-1/2), times u, shape (m,)."""
        sums, per_query = self._sums(w), np.zeros(self.queries)
        for number, alpha in enumerate(self._conductances(u)):
            total = reciprocal.origin * sums
            if self._is_known(number):
                total *= np.maximum(1.0 - self._within(w), 0.0)
            for base, weights in self._chunks(reciprocal, w):
                inner, outer = self._sweep(alpha, base)
                total += weights @ (1.0 / (inner + outer))
            inner, outer = self._sweep(alpha, np.full((1, self.cells), NOTHING))
            total += reciprocal.constant / (inner + outer)[0]
            dimensions = self.spaces.dimensions[number] * self.spaces.within[number]
            per_query += dimensions[self._tables] * total[self._places]
        return np.asarray(u * self.squares * per_query)

    def rounding(self, nodes: Nodes) -> float:
        """The relative rounding of every number of `measured` and `spread`, at most."""
        rounds, kinds = len(self.tree.rounds), sum(self.spaces.within.shape)
        sums = math.ceil(math.log2(self.queries + 1))
        return (12 * rounds + len(nodes.poles) + sums + 2 * kinds + 64) * UNIT

    def spectrum(self, u: Array, w: Array) -> tuple[float, float]:
        """The spectrum of T, about: from the trace of S, and what nodes alone ask about.

        On the cells that no node below nu asks about, of mass w_nu, its indicator less those of the
        topmost nodes c below is (1 / alpha_nu + sum 1 / alpha_c) / w_nu of the inverse.
        """
        trace, largest, cells = 0.0, 0.0, np.zeros_like(w)
        sums = self._sums(w)
        for alpha in self._alphas(u):
            asked = alpha > 0
            trace = max(trace, float(alpha * sums @ self.tree.times))
            alone = self.tree.topmost(asked, np.zeros_like(alpha), w / self._copies)
            inverse = np.divide(1.0, alpha, out=np.zeros_like(alpha), where=asked)
            below = self.tree.topmost(asked, inverse, cells)
            own = asked & (alone > 0)
            largest = max(largest, float(((inverse + below)[own] / alone[own]).max(initial=0.0)))
        return 1.0 / trace, min(max(largest, 2.0 / trace), 1e28 / trace)

    def _alphas(self, u: Array) -> list[Array]:
        """For each kind of spaces the weights of places."""
        weights = u * self.squares / self._alike
        return [
            np.asarray(
                np.bincount(self._places, weights * row[self._tables], self.tree.places),
                dtype=np.float64,
            )
            for row in self.spaces.within
        ]

    def pairs(self, w: Array, concentration: float = 1.0) -> float:
        """The sum of the weights w_i w_j / w_group of pairs within groups, rounded up.

        Neighbours replace a cell by one of its group, whatever the sums that are known, so that
        f / pairs^(1/2) is a lower bound for these.

        Args:
            w: of cells, sum 1, shape (n,).
            concentration: sum of the squares of the parts that the plain cells of each have.
        """
        within = self._within(w)[self.tree.place_of_cell]
        apart = float(w @ (1.0 - concentration * within)) / 2.0
        return apart + (self.cells + 16) * UNIT * float(w.sum())

    def _is_known(self, kind: int) -> bool:
        return self.public is not None and kind == self.spaces.total

    def _conductances(self, u: Array) -> list[Array]:
        """The same, infinite where sums are known."""
        alphas = self._alphas(u)
        if self.public is not None:
            alphas[self.spaces.total][self.public] = np.inf
        return alphas

    def _sums(self, w: Array) -> Array:
        """The weights of the cells of each place."""
        return self.tree.sums_of_places(w / self._copies)

    def _within(self, w: Array) -> Array:
        """The weights of places as parts of those of the known sums that hold them, at most 1."""
        assert self.public is not None
        sums = self._sums(w)
        masses = sums.copy()
        for merges in reversed(self.tree.rounds):
            wholes = merges.each(masses[merges.wholes])
            masses[merges.parts] = np.where(self.public[merges.parts], sums[merges.parts], wholes)
        return np.asarray(sums / masses)

    def _chunks(self, nodes: Nodes, w: Array) -> Iterator[tuple[Array, Array]]:
        """The base resistances and the factors of a few poles at a time."""
        width = max(1, LANES // self.tree.places)
        for start in range(0, len(nodes.poles), width):
            inverse = 1.0 / nodes.poles[start : start + width] ** 2
            yield (
                inverse[:, None] / (w / self._copies),
                nodes.weights[start : start + width] * inverse,
            )

    @np.errstate(divide="ignore")  # where nothing conducts, or everything does
    def _sweep(self, alpha: Array, base: Array) -> tuple[Array, Array]:
        """The r0 and t + alpha of all places, shape (K, P)."""
        tree = self.tree
        inner, flows = np.empty((2, len(base), tree.places))
        inner[:, tree.place_of_cell] = base
        for merges in tree.rounds:
            flow = flows[:, merges.parts]
            flow[:] = 1.0 / (inner[:, merges.parts] + alpha[merges.parts])
            inner[:, merges.wholes] = 1.0 / merges.total(flow)
        outer = np.empty_like(inner)
        outer[:, tree.root] = alpha[tree.root]
        for merges in reversed(tree.rounds):
            whole, parts = 1.0 / outer[:, merges.wholes], outer[:, merges.parts]
            parts[:] = 1.0 / (merges.each(whole) + merges.others(flows[:, merges.parts]))
            parts += alpha[merges.parts]
        return inner, outer
