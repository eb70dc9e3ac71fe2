r"""A count for each node of a tree, or tables there, each with a share of the sensitivity.

R has the rows x_nu^(1/2) 1_nu, at most one for each place of the tree. A cell is counted in the
nodes on its path to the root: its column has the squared length sum_path x_nu, which is 1 if the
leaf takes the rest of the path. For Laplace noise the absolute weights x^(1/2) add up to 1 on
every path instead. The variances are those of least squares (`sweeps`). The shares are broken off:
of the rest of the path a node takes the part 1 / (1 + exp(-z)), and the error

    (sum_nu (a_nu^2 var_nu)^(p/2))^(1/p)

is smooth in z; its gradient is the adjoint of both sweeps, from the leaves and back.

With tables of plain attributes (`spaces`) a node divides its share among those that are asked for
there or below, lie within these or contain them, by the exponentials of y: the sum over the tables
T that contain S of x_T / m_T is a precision in a tree for each S, and a query has the variance
a_T^2 sum_{S in T} d_S var_S (`Spaces.told`). The rest of a node goes to those below that measure.

The shares are those of levels first (one z for each), then descend from there. The logarithm of
the error has by z the derivative -a + b, a the gain of the own share and b the loss below, both
near exponentials of z, so that the second derivative is about a + b: from one at the root to one
over the number of nodes. In z (a + b)^(1/2) ten steps do what hundreds do not in z. At p = inf the
largest variance is approached by powers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from pmldesign_solvers.operators.deadline import CALL, ENTRY
from pmldesign_solvers.operators.lbfgs import Value, descend
from pmldesign_solvers.operators.operator import Array, Flags, Indices, power_mean
from pmldesign_solvers.trees.spaces import PLAIN, Spaces
from pmldesign_solvers.trees.sweeps import Sweep, by_precisions, floored, swept
from pmldesign_solvers.trees.tree import Tree

POWERS = (8.0, 32.0, 128.0, 512.0, 2048.0)
"""Exponents on the way to p = inf; the last one gains 0.4% on even levels."""
LITTLE, SPARED = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6), 1e-6
"""Tables with such a part of the largest share at a node are left out, for such of the error."""
NOTHING = 1e-30
"""A share so far below 1 counts as 0: a descent to 0 ends at any number."""
LOWEST = 4.0
"""Below the largest y of a node, for the start of a descent: 0.5% better on a small tree."""
STEPS = 200
"""Of a descent."""
ROUND, FLAT = 8.0, 1e-12
"""Largest p with second derivatives as for many queries, and the least of them."""


class Shares:
    """The shares of all nodes of a tree, for queries of some weights.

    Args:
        tree: the tree.
        squares: a_nu^2 >= 0, shape (N,), not all 0; or (A, N) for answers of K tables
            (`Spaces.as_one`). What has the shape (N,) for nodes has (P,) for places, and shares of
            tables have (K, P).
        p: in [2, inf].
        power: 1 for l2 sensitivity (Gaussian noise), with precisions as shares; 2 for l1 (Laplace
            noise), with their squares.
        spaces: of the tables.
        public: places whose sums are known, with all above them, so that they are not measured,
            shape (P,); sums over all values are a kind of their own then.
    """

    def __init__(
        self,
        tree: Tree,
        squares: Array,
        p: float,
        power: int = 1,
        spaces: Spaces = PLAIN,
        *,
        public: Flags | None = None,
    ) -> None:
        self.tree, self.p, self.power, self.spaces, self.public = tree, p, power, spaces, public
        self.asked = np.flatnonzero(squares)
        self.squares = squares.ravel()[self.asked]
        self._answers, nodes = np.divmod(self.asked, tree.nodes)
        self._tables = spaces.owner[self._answers]
        self._places = tree.place_of_node[nodes]
        self._alike = tree.times[self._places]
        self._shape = (tree.places,) if squares.ndim == 1 else (len(spaces.answers), tree.places)
        self._allowed = self._measurable() if squares.ndim > 1 else self._nodes()[None]
        self._known = None if public is None else spaces.known(public)
        if public is not None:
            others = np.delete(spaces.within, spaces.total, axis=0)
            more = np.asarray(others.sum(axis=0) > 0)
            self._allowed &= ~public | more[:, None]
        some = np.asarray(self._allowed.any(axis=0))
        lowest = tree.lowest(some)
        self._inner, self._last = np.flatnonzero(some & ~lowest), np.flatnonzero(lowest)
        several = self._allowed & (self._allowed.sum(axis=0) > 1)
        self._mixed = np.flatnonzero(several)
        self._levels = self._numbered(self._depths(some))

    @property
    def count(self) -> int:
        """Number of z, of places of nodes with measured ones below, and of y."""
        return len(self._inner) + len(self._mixed)

    def equal(self) -> Array:
        """Shares that are equal on the longest paths: the rest, over the counts still below."""
        counted = self._allowed
        if len(self._shape) > 1:
            counted = np.zeros_like(counted)
            counted[self._tables, self._places] = True
        number, heights = counted.sum(axis=0).astype(np.float64), np.zeros(self.tree.places)
        for merges in self.tree.rounds:
            heights[merges.wholes] = merges.largest(heights[merges.parts] + number[merges.parts])
        parts = number / np.maximum(number + heights, 1.0)
        nodes = self._of_parts(parts[self._inner])
        return self._shaped(nodes * counted / np.maximum(number, 1.0))

    def leaves(self) -> Array:
        """Shares of the lowest nodes only, of the largest table there."""
        shares = np.zeros_like(self._allowed, dtype=np.float64)
        lowest = self._of_parts(np.zeros(len(self._inner)))
        shares[int(self.spaces.answers.argmax())] = lowest
        return self._shaped(shares)

    def queries(self) -> Array:
        """The shares of the queries themselves."""
        answers = self.spaces.answers[self._tables]
        squares = self.squares * answers ** (2.0 - 2.0 / self.p) / self._alike ** (2.0 / self.p)
        shares = np.zeros_like(self._allowed, dtype=np.float64)
        np.add.at(shares, (self._tables, self._places), squares ** (1 / self.power))
        longest = shares.sum(axis=0)
        for merges in self.tree.rounds:
            longest[merges.wholes] += merges.largest(longest[merges.parts])
        return self._shaped(shares / longest[self.tree.root])

    def best(self, proceed: Callable[[], bool] = lambda: True, *, steps: int = STEPS) -> Array:
        """The shares of least error that a descent finds, from the best shares of levels.

        Args:
            proceed: asked before every evaluation; False ends the descent.
            steps: at most, for each power.
        """
        start = self._best_of_levels(proceed)
        z = self._lifted(start)
        for p in self._powers():
            z = self._scaled_descent(p, z, proceed, steps)
        others = [self.equal(), self.leaves(), self.queries()]
        return self._sparse(min([self._of(z), self._of(start), *others], key=self.error))

    def _lifted(self, z: Array) -> Array:
        """The same with no table so small at a node that the error does not depend on its y."""
        y = np.full(self._allowed.shape, -np.inf)
        y.ravel()[self._mixed] = z[len(self._inner) :]
        least = (y.max(axis=0) - LOWEST)[self._mixed % self.tree.places]
        return np.concatenate([z[: len(self._inner)], np.maximum(z[len(self._inner) :], least)])

    def _sparse(self, shares: Array) -> Array:
        """The same without tables of little or no share of a node, if the error stays equal."""
        most = self.error(shares) * (1 + SPARED)
        counted = np.where(shares < NOTHING, 0.0, shares)
        shares = counted if self.error(counted) <= most else shares
        every = shares.reshape(-1, self.tree.places)
        for part in LITTLE if len(every) > 1 else ():
            kept = np.where(every < part * every.max(axis=0), 0.0, every)
            total = kept.sum(axis=0)
            kept *= every.sum(axis=0) / np.where(total > 0, total, 1.0)
            if self.error(self._shaped(kept)) <= most:
                return self._shaped(kept)
        return shares

    def best_of_levels(self, proceed: Callable[[], bool] = lambda: True) -> Array:
        """The best shares if all nodes of a level take the same part of the rest."""
        return self._of(self._best_of_levels(proceed))

    @property
    def work(self) -> float:
        """Units of `Work` of an evaluation of the descent."""
        return CALL * (1 + len(self.tree.rounds) / 4) + 8 * ENTRY * self._allowed.size

    def error(self, shares: Array) -> float:
        """The p-norm of the standard deviations of all queries, for noise of sensitivity 1."""
        precisions = self._precisions(shares.reshape(-1, self.tree.places))
        variances = self._swept(precisions).variances
        return math.sqrt(power_mean(self._per_query(variances), self.p / 2))

    def of_parts(self, parts: Array) -> Array:
        """The shares of the parts that inner nodes take of the rest, equal for all tables."""
        every = self._of_parts(parts) * self._allowed
        return self._shaped(every / np.maximum(self._allowed.sum(axis=0), 1))

    def value(self, z: Array, p: float) -> tuple[float, Array]:
        """The logarithm of the error, and its derivative by z and y."""
        error, gains, losses = self._terms(z, p)
        return error, gains - losses

    def _terms(self, z: Array, p: float) -> tuple[float, Array, Array]:
        """The logarithm of the error, and its derivative as a difference of negative numbers."""
        tree, within = self.tree, self.spaces.within
        parts, mix = self._split(z)
        shares = self._of_parts(parts) * mix
        precisions = self._precisions(shares)
        sweep = self._swept(precisions)
        per_query = self._per_query(sweep.variances)
        total = power_mean(per_query, p / 2)
        slopes = self.squares / self._alike * (per_query / total) ** (p / 2 - 1)
        told = self.spaces.told[:, self._answers] * slopes
        by_variances = np.stack([self._at_places(row) for row in told])
        by_table = within.T @ by_precisions(tree, precisions, sweep, by_variances)
        by_table *= shares**self.power / self.spaces.answers[:, None]
        by_table *= self.power / (2.0 * total)  # by the logarithms of shares
        relative, below = by_table.sum(axis=0), np.zeros(tree.places)
        for merges in tree.rounds:
            below[merges.wholes] = merges.total(below[merges.parts] + relative[merges.parts])
        here = self._inner
        own, less = (every * tree.times for every in (relative, below))
        table, rest = (
            (every * tree.times).ravel()[self._mixed] for every in (by_table, mix * relative)
        )
        gains = np.concatenate([own[here] * (1.0 - parts), table])
        return 0.5 * math.log(total), gains, np.concatenate([less[here] * parts, rest])

    def _swept(self, precisions: Array) -> Sweep:
        return swept(self.tree, precisions, self._known)

    def _nodes(self) -> Flags:
        """Which places are those of nodes, shape (P,)."""
        counted = np.zeros(self.tree.places, dtype=bool)
        counted[self.tree.place_of_node] = True
        return counted

    def _measurable(self) -> Flags:
        """Tables asked for at a place or below, and those within such or holding them, (K, P)."""
        starts = np.searchsorted(self.spaces.owner, np.arange(len(self.spaces.answers)))
        seen = (np.maximum.reduceat(self.spaces.told, starts, axis=1) > 0).astype(np.float64)
        within = seen.T @ seen >= seen.sum(axis=0)[:, None]  # [T, T']: T lies within T'
        held = within | within.T
        asked = np.zeros((len(held), self.tree.places))
        asked[self._tables, self._places] = 1.0
        for merges in self.tree.rounds:
            asked[:, merges.wholes] += merges.total(asked[:, merges.parts])
        return np.asarray((held @ asked > 0) & self._nodes())

    def _numbered(self, depths: Array) -> Indices:
        """A number for each z by the depth of its place, and for each y by that and its table."""
        tables, places = np.divmod(self._mixed, self.tree.places)
        keys = np.concatenate(
            [depths[self._inner], (tables + 1) * self.tree.places + depths[places]]
        )
        return np.asarray(np.unique(keys, return_inverse=True)[1].ravel(), dtype=np.intp)

    def _at_places(self, values: Array) -> Array:
        """The sum of the values of queries at each place, shape (P,)."""
        return np.asarray(np.bincount(self._places, values, self.tree.places), dtype=np.float64)

    def _precisions(self, shares: Array) -> Array:
        """For each kind of spaces the precisions of places, shape (S, P)."""
        per_answer = shares**self.power / self.spaces.answers[:, None]
        return floored(self.tree, self.spaces.within @ per_answer)

    def _per_query(self, variances: Array) -> Array:
        """The variance of every query, from those of the spaces at places."""
        of_answers = self.spaces.told.T @ variances
        return np.asarray(self.squares * of_answers[self._answers, self._places])

    def _of(self, z: Array) -> Array:
        parts, mix = self._split(z)
        return self._shaped(self._of_parts(parts) * mix)

    def _shaped(self, shares: Array) -> Array:
        return shares.reshape(self._shape)

    def _split(self, z: Array) -> tuple[Array, Array]:
        """The parts that inner nodes take, and the share of each table in it, (K, P)."""
        mix = np.where(self._allowed, 1.0, 0.0)
        if self._mixed.size:
            logits = np.where(self._allowed, 0.0, -np.inf)
            logits.ravel()[self._mixed] = z[len(self._inner) :]
            mix *= np.exp(logits - np.maximum(logits.max(axis=0), -1e300))
            mix /= np.where(self._allowed.any(axis=0), mix.sum(axis=0), 1.0)
        return scipy.special.expit(z[: len(self._inner)]), mix

    def _of_parts(self, parts: Array) -> Array:
        """The share of every place, shape (P,)."""
        taken = np.zeros(self.tree.places)
        taken[self._inner], taken[self._last] = parts, 1.0
        left = np.empty(self.tree.places)
        left[self.tree.root] = 1.0
        for merges in reversed(self.tree.rounds):
            rest = left[merges.wholes] * (1.0 - taken[merges.wholes])
            left[merges.parts] = merges.each(rest)
        return left * taken

    def _best_of_levels(self, proceed: Callable[[], bool]) -> Array:
        count = int(self._levels.max(initial=-1)) + 1
        inner = len(np.unique(self._levels[: len(self._inner)]))
        z = np.zeros(count)  # equal shares where all leaves are on one level
        z[:inner] = -np.log(np.arange(inner, 0.0, -1.0))
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

    def _scaled_descent(self, p: float, z: Array, proceed: Callable[[], bool], steps: int) -> Array:
        """By z, scaled so that all second derivatives are about 1 at the start."""
        if not z.size or not proceed():
            return z
        _, gains, losses = self._terms(z, min(p, ROUND))
        scale = np.sqrt(np.maximum(-gains - losses, FLAT))

        def value(scaled: Array) -> tuple[float, Array]:
            error, slope = self.value(scaled / scale, p)
            return error, slope / scale

        return self._descent(value, z * scale, proceed, steps) / scale

    def _powers(self) -> tuple[float, ...]:
        return POWERS if math.isinf(self.p) else (self.p,)

    def _depths(self, counted: Flags) -> Array:
        """The number of counted places above each."""
        depths = np.zeros(self.tree.places)
        for merges in reversed(self.tree.rounds):
            deeper = depths[merges.wholes] + counted[merges.wholes]
            depths[merges.parts] = merges.each(deeper)
        return depths
