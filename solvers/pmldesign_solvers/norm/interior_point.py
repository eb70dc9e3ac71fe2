"""A primal-dual interior point method on the dual weights, for duals that vanish.

With the dual function f(u, w) and its gradient 2 df/dw_k = d_k, 2 df/du_i = v_i (`dual_function`,
which has the second derivatives too), maximised is 2 f - (sum w)^2 / 2 - h(u), whose scale is
determined, with

    p = 2           u = 1 is fixed
    2 < p < inf     h = k sum u^q / q     stationary where v_i = k u_i^(q-1); Newton moves k u^(q-1)
    p = inf         h = (sum u)^2 / 2

where the number k makes the largest u_i of the start 1: a power (p - 2)/2 of v_i leaves the range
of float64 otherwise. There u_i norm(a_i)^2 stays above FAINTEST of the largest norm(a_i)^2, as far
as LIGHT allows: lower ones make singular values that are rounding, and their part of f is below
the root of FAINTEST.

and slacks z >= 0: d_k + z_k = sum(w), z_k w_k = mu (at p = inf the same for u), by Mehrotra's
predictor and corrector. On the central path no d_k exceeds sum(w), so that the factorization is
feasible as it is and the plain upper bound is as good as the lower one. A step that widens the gap
is shortened.

References:
    Mehrotra, On the implementation of a primal-dual interior point method, SIAM J. Optim. 2, 1992.
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Lemma 2.10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pmldesign_solvers.norm.dual_function import DualFunction, Iterate, NewtonSystem
from pmldesign_solvers.operators.deadline import NEVER, Deadline
from pmldesign_solvers.operators.lbfgs import StoppedError
from pmldesign_solvers.operators.operator import Array

TOWARDS_THE_BOUNDARY = (0.99, 0.7, 0.4)
"""Parts of the way to the boundary; the first that does not widen the gap, or the last. 368 steps
for pairs; 374 with 0.99 alone, 422 with 0.9 and 0.6 (benchmarks/constants.py)."""
MIXED = 0.01
"""Share of equal weights in given ones, and their smallest slack, relative to the largest:
688 eigendecompositions; 679 and 700 with 0.001 and 0.1 (benchmarks/constants.py)."""
FAINTEST, LIGHT = 1e-24, 1e-9
"""Of weights u at finite p, all of them together. Chosen: their roots are 1e-12 and 3e-5."""
MOST_GROWTH = 2.0
"""Of the logarithm of a weight u at finite p, in either direction. Chosen, not measured."""
TOWARDS_BARRED = (0.9, 0.6)
"""The same at p = inf: 310 steps and 473 decompositions on 36 matrices with weights over one or two
orders of magnitude; 355 and 726 with the other, up to 60 steps without an end with 0.9 alone."""
LONGEST = 2.0
"""Where the boundary is farther than this, a full step goes at most half of the way to it: 368
steps for pairs, as with 1 and 10 (benchmarks/constants.py)."""
PREDICTED, CORRECTED = 0.03, 0.002
"""Tolerances of the two directions: inexact ones cost steps, never correctness. 368 steps for
pairs; 380 and 392 where one of them is ten times as large (benchmarks/constants.py)."""

Moved = tuple[Array, Array, Array]


class InteriorPoint:
    """The interior-point method on one workload.

    Args:
        function: the dual function of the workload.
        start: positive weights u and w near the optimum, on any scale; equal ones if None.
        deadline: asked within a step as well, after which the iterates end.
    """

    def __init__(
        self,
        function: DualFunction,
        start: tuple[Array, Array] | None = None,
        deadline: Deadline = NEVER,
    ) -> None:
        self._function, self._counts, p = function, function.counts, function.p
        self._deadline = deadline
        self._given, self._slack = start, 0.1 if start is None else MIXED
        self._fixed_rows, self._barred_rows = p == 2, bool(np.isinf(p))
        self._towards = TOWARDS_BARRED if self._barred_rows else TOWARDS_THE_BOUNDARY
        # 1/(q - 1) = (p - 2)/2: u = (v/k)^((p - 2)/2) where stationary
        self._power, self._factor = (p - 2) / 2, 1.0
        sizes = function.operator.row_norms(np.eye(function.operator.shape[1]))
        total = float(self._counts.sum())
        self._least = np.minimum(FAINTEST * sizes.max() / sizes, LIGHT) / total

    def iterates(self) -> Iterator[Iterate]:
        """The iterates, until the time is up or the arithmetic gives no direction."""
        try:
            here, slacks = self._begin()
            while True:
                yield here
                here, slacks = self._advance(here, slacks)
        except (np.linalg.LinAlgError, FloatingPointError, StoppedError):
            return

    def _begin(self) -> tuple[Iterate, Array]:
        """The first iterate, and slacks that fit it."""
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            here = self._function.evaluate(*self._start())
            here = here.scaled(*self._stationary(here))
        size, rows = float(here.w.sum()), float(here.u.sum())
        slacks = np.maximum(size - here.columns, self._slack * size)
        if self._barred_rows:
            slacks = np.concatenate([slacks, np.maximum(rows - here.rows, self._slack * rows)])
        return here, slacks

    def _advance(self, here: Iterate, slacks: Array) -> tuple[Iterate, Array]:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            move = self._direction(here, slacks)
            for boundary in self._towards:
                u, w, moved = move(boundary)
                there = self._function.evaluate(u, w)
                if there.upper * here.lower <= here.upper * there.lower:
                    break
        if not np.isfinite(there.lower + there.upper):
            raise FloatingPointError("a bound is not finite")
        return there, moved

    def _start(self) -> tuple[Array, Array]:
        """Nearly the given weights, or nearly those after a step of the fixed point."""
        equal_u, equal_w = self._counts, np.ones(self._function.differences.count)
        if self._given is None:
            here = self._function.evaluate(equal_u, equal_w)
            u, w = equal_u * here.rows ** min(self._power, 2.0), here.columns**2
        else:
            u, w = self._given
        return equal_u if self._fixed_rows else _mixed(u, equal_u), _mixed(w, equal_w)

    def _stationary(self, here: Iterate) -> tuple[float, float]:
        """Factors a of u and b of w after which they are stationary on average."""
        f, w, u = float(here.values.sum()), float(here.w.sum()), float(here.u.sum())
        if self._fixed_rows:
            return 1.0, (f / w**2) ** (2 / 3)
        if self._barred_rows:
            size = f / np.sqrt(u * w)
            return size / u, size / w
        # f (a b)^(1/2) = (b w)^2 = k a^q rows
        q = 1 + 1 / self._power
        a = 1 / float(here.each.max())
        b = (f**2 * a / w**4) ** (1 / 3)
        self._factor = (b * w) ** 2 / float(self._counts @ (a * here.each) ** q)
        return a, b

    def _direction(self, here: Iterate, slacks: Array) -> Callable[[float], Moved]:
        """Predictor and corrector: u, w and slacks after a step so far towards the boundary."""
        u, w = here.u, here.w
        gradient, moving = here.columns - w.sum(), w
        added = np.zeros(len(w) if self._fixed_rows else len(w) + len(u))
        if self._barred_rows:
            gradient = np.concatenate([gradient, here.rows - u.sum()])
            moving = np.concatenate([w, u])
        elif not self._fixed_rows:
            goal = self._factor * here.each ** (1 / self._power)
            slope = self._power * here.each / goal  # du/d(k u^(q-1))
            added[len(w) :] = 1 / (slope * self._counts)
            least = (here.each <= self._least) & (here.rows < goal)
            gradient = np.concatenate([gradient, np.where(least, 0.0, here.rows - goal)])
        barred = len(slacks)
        added[:barred] += slacks / moving
        system = NewtonSystem(
            self._function.operator,
            self._function.differences,
            here.strategy,
            here.right_inverse,
            here.values,
            added,
            coupled_rows=self._barred_rows,
            deadline=self._deadline,
        )

        def direction(
            target: Array, tolerance: float, guess: Array | None = None
        ) -> tuple[Array, Array]:
            right = gradient.copy()
            right[:barred] += target / moving
            change = system.solve(right, tolerance, guess)
            return change, (target - slacks * change[:barred]) / moving - slacks

        average = float(moving @ slacks) / barred
        change, slack_change = direction(np.zeros(barred), PREDICTED)
        ahead = moving + min(1.0, _longest(moving, change[:barred])) * change[:barred]
        slack_ahead = slacks + min(1.0, _longest(slacks, slack_change)) * slack_change
        centring = (float(ahead @ slack_ahead) / barred / average) ** 3
        target = centring * average - change[:barred] * slack_change
        change, slack_change = direction(target, CORRECTED, change)
        longest = _longest(moving, change[:barred])
        if not (self._fixed_rows or self._barred_rows):
            goal_change = change[barred:] / (slope * self._counts)
            longest = min(longest, _longest(goal, goal_change))
        longest_slack = _longest(slacks, slack_change)

        def move(boundary: float) -> Moved:
            length, slack_length = min(1.0, boundary * longest), min(1.0, boundary * longest_slack)
            moved_u = u
            if self._barred_rows:
                moved_u = u + length * change[len(w) :]
            elif not self._fixed_rows:
                moved_u = self._counts * self._moved(here.each, length * goal_change / goal)
            moved_w = w + length * change[: len(w)]
            return moved_u, moved_w, slacks + slack_length * slack_change

        return move

    def _moved(self, each: Array, change: Array) -> Array:
        """The weights u after a relative change of k u^(q-1), with a limit to high powers."""
        growth = self._power * np.log1p(np.maximum(change, -0.999))
        grown = each * np.exp(np.clip(growth, -MOST_GROWTH, MOST_GROWTH))
        return np.asarray(np.maximum(grown, self._least))


def _mixed(given: Array, equal: Array) -> Array:
    """Mostly the given weights, scaled to the sum of the equal ones."""
    return np.asarray((1.0 - MIXED) * given * (equal.sum() / given.sum()) + MIXED * equal)


def _longest(values: Array, change: Array) -> float:
    """The longest step, of at most LONGEST, that keeps positive values non-negative."""
    shrinking = change < 0
    return float(np.min(-values[shrinking] / change[shrinking], initial=LONGEST))
