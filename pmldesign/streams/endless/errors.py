"""What a stream without an end is off by at step t, and what any other one is at least.

**Variance.** With v_s = xi_s / rho_s, xi the noise of variance 1, and b(z) = 1/((1 - z) r(1 - z)),

    Q_t = sum_s b_(t - s) v_s,    answer_t - sum_t = Q_t / kappa_e + sum_(f < e) gap_f Q_last(f),

e the epoch of t, gap_f = 1/kappa_f - 1/kappa_(f + 1) >= 0 (summation by parts). The reciprocal of r
is a sum of the same kind (`Nodes.reciprocal`), so that b_k = d [k = 0] + sum_j e_j mu_j^k, all
positive, mu_0 = 1. The covariances P of the h_j(t) = sum_s mu_j^(t - s) v_s, and those of the last
sum above with them, go through an epoch in closed form,

    P_ij(t + n) = (mu_i mu_j)^n P_ij(t) + rho^-2 sum_(k < n) (mu_i mu_j)^k :

O(K^2) for any step, nothing cancels.

**Least.** The dual (docs/mathematics.md) at u = 1, w = 1/t is the nuclear norm of the running sums
over t, whose singular values are 1/(2 sin x_j), x_j = (2 j - 1) pi/(4 t + 2): so

    gamma_inf(prefix:t) >= (1/t) sum_(j <= t) 1/(2 sin x_j),

1 to 5 % below it. From x_J on the sum is at least its integral, and half of the first and the last
term: the trapezoidal rule is too large where a function is convex.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from pmldesign.streams.endless.strategy import EndlessStrategy, endless
from pmldesign_solvers.operators.operator import Array

FIRST_TERMS = 32
"""Of the nuclear norm, added one by one: the others are off by 1e-5 of it."""
LOWERED = 1.0 - 1e-12
"""For the roundings of the bound."""


class Errors:
    """Variances of the answers per unit variance of the noise.

    Args:
        strategy: C.
    """

    def __init__(self, strategy: EndlessStrategy) -> None:
        self._starts = np.array(strategy.starts, dtype=np.float64)
        self._squares, self._levels = strategy.falls**-2, 1.0 / strategy.levels
        inverse = strategy.nodes.reciprocal()
        logs = np.append(0.0, -np.log1p(inverse.poles**2))
        self._decays, self._decays_of_pairs = logs, np.add.outer(logs, logs)
        self._weights = np.append(inverse.origin, inverse.weights * np.exp(logs[1:]))
        self._now = inverse.constant
        self._begins = list(self._epochs())

    def variances(self, epoch: int, steps: Array) -> Array:
        """Of the answers of some steps of an epoch, shape (m,)."""
        begin = self._begins[epoch]
        states, behind = self._later(epoch, *begin[:2], steps - self._starts[epoch] + 1.0)
        of_sum, _ = self._sums(states, epoch)
        level = self._levels[epoch]
        crossed = behind @ self._weights
        return np.asarray(level**2 * of_sum + 2.0 * level * crossed + begin[2])

    def _epochs(self) -> list[tuple[Array, Array, float]]:
        """Before each epoch: P, covariances of the last sum with h, and its variance."""
        count = len(self._weights)
        states, behind, variance = np.zeros((count, count)), np.zeros(count), 0.0
        begins = []
        for epoch, (start, end) in enumerate(zip(self._starts, self._starts[1:], strict=False)):
            begins.append((states, behind, variance))
            (states,), (behind,) = self._later(epoch, states, behind, np.array([end - start]))
            (of_sum,), (with_sum,) = self._sums(states[None], epoch)
            gap = self._levels[epoch] - self._levels[epoch + 1]
            variance += gap * (2.0 * float(self._weights @ behind) + gap * float(of_sum))
            behind = behind + gap * with_sum
        return [*begins, (states, behind, variance)]

    def _later(self, epoch: int, states: Array, behind: Array, steps: Array) -> tuple[Array, Array]:
        """P and the covariances so many steps on, for several numbers of steps."""
        logs, counts = self._decays_of_pairs, steps[:, None, None]
        added = np.full((len(steps), *logs.shape), counts)
        np.divide(np.expm1(logs * counts), np.expm1(logs), out=added, where=logs < 0.0)
        later = np.exp(logs * counts) * states + self._squares[epoch] * added
        return later, np.exp(self._decays * steps[:, None]) * behind

    def _sums(self, states: Array, epoch: int) -> tuple[Array, Array]:
        """Variances of Q, and its covariances with h."""
        newest = self._now * self._squares[epoch]
        weighed = states @ self._weights
        total = weighed @ self._weights + newest * (2.0 * self._weights.sum() + self._now)
        return total, weighed + newest


def least_deviations(steps: Array) -> Array:
    """At most gamma_inf(prefix:t) for each t, shape (m,)."""
    width = np.pi / (2.0 * steps + 1.0)
    angles = width[:, None] * (np.arange(FIRST_TERMS) + 0.5)
    terms = 0.5 / np.sin(angles)
    terms[np.arange(1, FIRST_TERMS + 1) > steps[:, None]] = 0.0
    last = width * (steps - 0.5)
    first = np.minimum(angles[:, -1], last)
    integral = 0.5 * (np.log(np.tan(0.5 * last)) - np.log(np.tan(0.5 * first)))
    rest = integral / width + 0.25 / np.sin(last) - 0.5 * terms[:, -1]
    totals = terms.sum(axis=1) + np.where(steps > FIRST_TERMS, rest, 0.0)
    return np.asarray(totals / steps * LOWERED)


@cache
def errors() -> Errors:
    """Those of the strategy."""
    return Errors(endless())
