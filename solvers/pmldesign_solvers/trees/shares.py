r"""A count for each node of a tree, each with a share of its own of the sensitivity.

R has the rows x_nu^(1/2) 1_nu, at most one for each place of the tree. A cell is counted in the
nodes on its path to the root: its column has the squared length sum_path x_nu, which is 1 where the
leaf takes what the path has left. With noise of variance 1, least squares is two sweeps,

    up:    i_leaf = x,     h = 1 / (1 / i_1 + 1 / i_2),     i = x + h,
    down:  q_root = 0,     q_1 = 1 / (1 / (x + q) + 1 / i_2),
    var = 1 / (i + q),

i the precision of a count from below, q that from elsewhere: the sweeps of `problem` for v = 0. For
Laplace noise the absolute weights x^(1/2) add up to 1 on every path instead. The shares are broken
off: of what the path has left a node takes the part 1 / (1 + exp(-z)), and the error

    (sum_nu (a_nu^2 var_nu)^(p/2))^(1/p)

is smooth in z; its gradient is the adjoint of both sweeps, from the leaves and back.

The shares are those of levels first (one z for each), then descend from there. At p = inf the
largest variance is approached by powers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit

from pmldesign_solvers.operators.lbfgs import Value, descend
from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.trees.tree import Tree

LEAST = 1e-300
"""In place of a precision of 0."""
POWERS = (8.0, 32.0, 128.0, 512.0)
"""Exponents on the way to p = inf."""
STEPS = 200
"""Of a descent."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Precisions at all places without the count of the place, and variances with it.

    Attributes:
        below: h, from the counts below, shape (P,).
        elsewhere: q, from all other counts.
        variances: 1 / (h + x + q).
    """

    below: Array
    elsewhere: Array
    variances: Array


def swept(tree: Tree, precisions: Array) -> Sweep:
    """Least squares for counts of these precisions, shape (P,), positive at cells."""
    below, elsewhere = np.zeros((2, tree.places))
    for merges in tree.rounds:
        inverse = 1.0 / np.maximum(below[merges.parts] + precisions[merges.parts], LEAST)
        below[merges.wholes] = 1.0 / (inverse[0::2] + inverse[1::2])
    inner = below + precisions
    for merges in reversed(tree.rounds):
        outer = precisions[merges.wholes] + elsewhere[merges.wholes]
        whole = 1.0 / np.maximum(outer, LEAST)
        inverse = 1.0 / np.maximum(inner[merges.parts], LEAST)
        parts = elsewhere[merges.parts]
        parts[0::2] = 1.0 / (whole + inverse[1::2])
        parts[1::2] = 1.0 / (whole + inverse[0::2])
    return Sweep(below, elsewhere, 1.0 / (inner + elsewhere))


def by_precisions(tree: Tree, precisions: Array, sweep: Sweep, by_variances: Array) -> Array:
    """The derivative by the precisions of what has these derivatives by the variances, (P,)."""
    inner, elsewhere = sweep.below + precisions, sweep.elsewhere
    by_inner = -by_variances * sweep.variances**2
    by_elsewhere, total = by_inner.copy(), np.zeros(tree.places)
    for merges in tree.rounds:
        outer = precisions[merges.wholes] + elsewhere[merges.wholes]
        whole = np.maximum(outer, LEAST)
        least = np.maximum(inner[merges.parts], LEAST)
        q, g, told = elsewhere[merges.parts], by_elsewhere[merges.parts], by_inner[merges.parts]
        by_whole = g[0::2] * (q[0::2] / whole) ** 2 + g[1::2] * (q[1::2] / whole) ** 2
        total[merges.wholes] += by_whole
        by_elsewhere[merges.wholes] += by_whole
        told[1::2] += g[0::2] * (q[0::2] / least[1::2]) ** 2
        told[0::2] += g[1::2] * (q[1::2] / least[0::2]) ** 2
    for merges in reversed(tree.rounds):
        least = np.maximum(inner[merges.parts], LEAST)
        ratios = np.repeat(sweep.below[merges.wholes], 2) / least
        by_inner[merges.parts] += np.repeat(by_inner[merges.wholes], 2) * ratios**2
    return np.asarray(total + by_inner)


class Shares:
    """The shares of all nodes of a tree, for queries of some weights.

    Args:
        tree: the tree.
        squares: a_nu^2 >= 0, shape (N,), not all 0.
        p: in [2, inf].
        power: 1 for l2 sensitivity (Gaussian noise), where precisions are shares; 2 for l1 (Laplace
            noise), where they are squares of them.
    """

    def __init__(self, tree: Tree, squares: Array, p: float, power: int = 1) -> None:
        self.tree, self.squares, self.p, self.power = tree, squares, p, power
        counted = np.zeros(tree.places)
        counted[tree.place_of_node] = 1.0
        self._counted = counted
        inner = counted > 0
        inner[tree.place_of_cell] = False
        self._inner = np.flatnonzero(inner)
        self._levels = self._depths()[self._inner].astype(np.intp)

    @property
    def count(self) -> int:
        """Number of z: of places of nodes with children."""
        return len(self._inner)

    def equal(self) -> Array:
        """Shares that are equal on the longest paths: what is left, over the counts still below."""
        heights = np.zeros(self.tree.places)
        for merges in self.tree.rounds:
            taller = heights[merges.parts] + self._counted[merges.parts]
            heights[merges.wholes] = np.maximum(taller[0::2], taller[1::2])
        return self.of_parts(1.0 / (1.0 + heights[self._inner]))

    def leaves(self) -> Array:
        """Shares of the cells alone."""
        return self.of_parts(np.zeros(len(self._inner)))

    def best(self, proceed: Callable[[], bool] = lambda: True, *, steps: int = STEPS) -> Array:
        """The shares of least error that a descent finds, from the best shares of levels.

        Args:
            proceed: asked before every evaluation; False ends the descent.
            steps: at most, for each power.
        """
        z = self._best_of_levels(proceed)
        for p in self._powers():
            z = self._descent(partial(self.value, p=p), z, proceed, steps)
        candidates = [self.of_parts(expit(z)), self.leaves(), self.equal()]
        return min(candidates, key=self.error)

    def best_of_levels(self, proceed: Callable[[], bool] = lambda: True) -> Array:
        """The best shares where all nodes of a level take the same part of what is left."""
        return self.of_parts(expit(self._best_of_levels(proceed)))

    def error(self, shares: Array) -> float:
        """The p-norm of the standard deviations of all queries, for noise of sensitivity 1."""
        variances = swept(self.tree, shares**self.power).variances
        per_node = self.squares * variances[self.tree.place_of_node]
        return math.sqrt(power_mean(per_node, self.p / 2))

    def of_parts(self, parts: Array) -> Array:
        """The shares, shape (P,), of the parts that inner nodes take of what is left."""
        taken = np.zeros(self.tree.places)
        taken[self._inner], taken[self.tree.place_of_cell] = parts, 1.0
        left = np.empty(self.tree.places)
        left[self.tree.root] = 1.0
        for merges in reversed(self.tree.rounds):
            rest = left[merges.wholes] * (1.0 - taken[merges.wholes])
            left[merges.parts] = np.repeat(rest, 2)
        return left * taken

    def _best_of_levels(self, proceed: Callable[[], bool]) -> Array:
        count = int(self._levels.max(initial=-1)) + 1
        z = -np.log(np.arange(count, 0.0, -1.0))  # equal shares where all leaves are on one level
        for p in self._powers():

            def value(y: Array, p: float = p) -> tuple[float, Array]:
                error, slope = self.value(y[self._levels], p)
                return error, np.asarray(np.bincount(self._levels, slope, count), dtype=np.float64)

            z = self._descent(value, z, proceed, STEPS)
        return np.asarray(z[self._levels])

    def _descent(self, value: Value, z: Array, proceed: Callable[[], bool], steps: int) -> Array:
        if not z.size:
            return z
        result = descend(value, z, proceed=proceed, maxiter=steps, maxfun=2 * steps, ftol=1e-13)
        return result.unless_interrupted()

    def _powers(self) -> tuple[float, ...]:
        return POWERS if math.isinf(self.p) else (self.p,)

    def value(self, z: Array, p: float) -> tuple[float, Array]:
        """The logarithm of the error, and its derivative by z."""
        tree, parts = self.tree, expit(z)
        shares = self.of_parts(parts)
        precisions = shares**self.power
        sweep = swept(tree, precisions)
        per_node = self.squares * sweep.variances[tree.place_of_node]
        total = power_mean(per_node, p / 2)
        slopes = tree.at_places(self.squares * (per_node / total) ** (p / 2 - 1))
        slope = by_precisions(tree, precisions, sweep, slopes)
        relative = self.power * precisions * slope / (2.0 * total)  # by the logarithms of shares
        below = np.zeros(tree.places)
        for merges in tree.rounds:
            told = below[merges.parts] + relative[merges.parts]
            below[merges.wholes] = told[0::2] + told[1::2]
        here = self._inner
        return 0.5 * math.log(total), relative[here] * (1.0 - parts) - below[here] * parts

    def _depths(self) -> Array:
        depths = np.zeros(self.tree.places)
        for merges in reversed(self.tree.rounds):
            deeper = depths[merges.wholes] + self._counted[merges.wholes]
            depths[merges.parts] = np.repeat(deeper, 2)
        return depths
