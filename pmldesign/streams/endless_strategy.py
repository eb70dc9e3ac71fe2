"""A strategy for running sums of an unbounded stream, and its errors.

**C**_ij = rho_i c_(i - j) kappa_j, i >= j >= 1.

**c** is a sum of K exponentials. With x = 1 - z and nodes of r(x) = sum_m c_m / (x + s_m^2), close
to x^(-1/2),

    sum_k c_k z^k = r(1 - z),    c_k = sum_m w_m d_m^k,    d_m = 1 / (1 + s_m^2),  w_m = c_m d_m:

the square root of the running sums, up to the error of K nodes.

**Epochs.** rho and kappa are constant on epochs, four to a doubling; rho_t = t^(-0.3) at the first
step of an epoch. rho falls, so that a column has a finite norm although c_k^2 falls like 1/k; later
answers have less weight on the noise of each step, and kappa makes up for it:

    kappa_j^-2 = S(j) = sum_(t >= j) rho_t^2 c_(t - j)^2    at the first step of an epoch.

**Sensitivity.** As rho does not increase, S(j) = sum_k rho_(j + k)^2 c_k^2 does not either: the
longest column of an epoch is its first. Sums over epochs are closed,

    sum_(a <= k < b) c_k^2 = sum_mn w_m w_n (q^a - q^b) / (1 - q),    q = d_m d_n,

all terms positive; that of the last epoch goes on for ever. So no column of the infinite matrix is
longer than 1, whatever number of steps is taken.

**Integers.** C is *defined* by d_m as multiples of 2^-96, rho w_m of 2^-128 and kappa of
2^-52, all rounded down; its columns are measured with these.

**Variance.** With v_s = xi_s / rho_s, xi the noise of variance 1, and b(z) = 1/((1 - z) r(1 - z)),

    Q_t = sum_s b_(t - s) v_s,    answer_t - sum_t = Q_t / kappa_e + sum_(f < e) gap_f Q_last(f),

e the epoch of t, gap_f = 1/kappa_f - 1/kappa_(f + 1) >= 0 (summation by parts). The reciprocal of r
is a sum of the same kind (`Nodes.reciprocal`), so that b_k = d [k = 0] + sum_j e_j mu_j^k, all
positive, mu_0 = 1. The covariances P of the h_j(t) = sum_s mu_j^(t - s) v_s, and those of the last
sum above with them, go through an epoch in closed form,

    P_ij(t + n) = (mu_i mu_j)^n P_ij(t) + rho^-2 sum_(k < n) (mu_i mu_j)^k :

O(K^2) for any step, nothing cancels.

**Least.** The dual (docs/background/norm.md) at u = 1, w = 1/t is the nuclear norm of the running
sums over t, whose singular values are 1/(2 sin x_j), x_j = (2 j - 1) pi/(4 t + 2): so

    gamma_inf(prefix:t) >= (1/t) sum_(j <= t) 1/(2 sin x_j),

1 to 5% below it. From x_J on the sum is at least its integral, and half of the first and the last
term: the trapezoidal rule is too large where a function is convex.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import cache

import numpy as np

from pmldesign.privacy.outward import raised
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.nodes import Nodes, zolotarev

STEPS = 2**48
"""Steps that a stream takes: at a million a second, for nine years; the columns go on."""
BUFFERS = 16
SPECTRUM = 2.0**-50, 2.0
"""Where r(x) is close to x^(-1/2): x from below 1/STEPS to 2, the largest abs(1 - z)."""
FALL = 0.3
"""rho_t = t^-FALL: 0.25 to 0.35 differ by 1% in the largest ratio to the optimum."""
DECAY_BITS, GAIN_BITS, WEIGHT_BITS = 96, 128, 52
ROUNDINGS = 2**26
"""Units of 2^-53, 7e-9 in all, that a column may be longer than it is computed to be.

Rounding takes fewer than 2^15: 8 for each unit of k log q, which is at most 745 in terms that
count, and some hundred for other factors and sums. The rest is for a state that continues on
another processor, whose C is equal up to `sums.AGREEMENT`.
"""
FIRST_TERMS = 32
"""Of the nuclear norm, added one by one: the others are off by 1e-5 of it."""
LOWERED = 1.0 - 1e-12
"""For the roundings of the bound."""


class EndlessStrategy:
    """C.

    Attributes:
        starts: the first step of each epoch, counted from 1.
        nodes: s_m and c_m.
        log_decays: log d_m, shape (K,).
        weights: w_m, shape (K,).
        falls: rho of each epoch.
        levels: kappa of each epoch.
        sensitivity: at least the l2 norm of every column.
    """

    def __init__(self) -> None:
        self.starts = sorted({math.isqrt(math.isqrt(1 << e)) for e in range(4 * 48)})
        self.falls = np.array(self.starts, dtype=np.float64) ** -FALL
        exact = zolotarev(*SPECTRUM, BUFFERS)
        lost = exact.poles**2 / (1.0 + exact.poles**2)
        units = [int(value * 2.0**DECAY_BITS) for value in lost.tolist()]
        self.whole_decays = [2**DECAY_BITS - unit for unit in units]
        lost = np.array(units) / 2.0**DECAY_BITS
        self.log_decays = np.log1p(-lost.astype(np.float64))
        self.weights = exact.weights * np.exp(self.log_decays)
        self.nodes = Nodes(np.sqrt(np.expm1(-self.log_decays)), exact.weights)
        squares = self._column_squares()
        whole = np.floor(2.0**WEIGHT_BITS / np.sqrt(squares))
        self.whole_levels = [int(level) for level in whole.tolist()]
        self.levels = whole * 2.0**-WEIGHT_BITS
        longest = math.sqrt(float((squares * self.levels**2).max()))
        self.sensitivity = raised(longest, ROUNDINGS)

    def epoch(self, step: int) -> int:
        """The number of the epoch of a step, which counts from 1."""
        return bisect_right(self.starts, step) - 1

    def whole_gains(self, epoch: int) -> list[int]:
        """Multiples of 2^-128: rho w_m in an epoch."""
        gains = self.falls[epoch] * self.weights
        return [int(gain) for gain in (gains * 2.0**GAIN_BITS).tolist()]

    def _column_squares(self) -> Array:
        """S at the first step of each epoch, to ROUNDINGS units."""
        starts = np.array(self.starts, dtype=np.float64)
        m, n = np.triu_indices(BUFFERS)
        logs = self.log_decays[m] + self.log_decays[n]
        shares = np.where(m < n, 2.0, 1.0) * self.weights[m] * self.weights[n] / -np.expm1(logs)
        passed = np.multiply.outer(np.append(np.diff(starts), np.inf), logs)
        added = self.falls[:, None] ** 2 * shares * -np.expm1(passed)
        squares, later = np.empty(len(starts)), np.zeros(len(logs))
        for e in range(len(starts) - 1, -1, -1):
            later = added[e] + np.exp(passed[e]) * later
            squares[e] = math.fsum(later.tolist())
        return squares


@cache
def endless() -> EndlessStrategy:
    """The strategy; there is one."""
    return EndlessStrategy()


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
        """Variances of the answers of some steps of an epoch, shape (m,)."""
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
    """The errors of the strategy."""
    return Errors(endless())
