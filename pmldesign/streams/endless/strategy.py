"""A strategy for running sums without an end: C_ij = rho_i c_(i - j) kappa_j, i >= j >= 1.

**c** is a sum of K exponentials. With x = 1 - z and nodes of r(x) = sum_m c_m / (x + s_m^2), close
to x^(-1/2),

    sum_k c_k z^k = r(1 - z),    c_k = sum_m w_m d_m^k,    d_m = 1 / (1 + s_m^2),  w_m = c_m d_m:

the square root of the running sums, but for what K nodes leave.

**Epochs.** rho and kappa are constant on epochs, four to a doubling; rho_t = t^(-0.3) at the first
step of an epoch. rho falls, so that a column has a finite norm although c_k^2 falls like 1/k; later
answers have less weight on the noise of each step, and kappa makes up for it:

    kappa_j^-2 = S(j) = sum_(t >= j) rho_t^2 c_(t - j)^2    at the first step of an epoch.

**Sensitivity.** As rho does not increase, S(j) = sum_k rho_(j + k)^2 c_k^2 does not either: the
longest column of an epoch is its first. Sums over epochs are closed,

    sum_(a <= k < b) c_k^2 = sum_mn w_m w_n (q^a - q^b) / (1 - q),    q = d_m d_n,

all terms positive; that of the last epoch goes on for ever. So no column of the infinite matrix is
longer than 1, whatever number of steps is taken.

**Whole numbers.** C is *defined* by d_m as multiples of 2^-96, rho w_m of 2^-128 and kappa of
2^-52, all rounded down; its columns are measured with these.
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
"""rho_t = t^-FALL: 0.25 to 0.35 differ by 1 % in the largest ratio to the optimum."""
DECAY_BITS, GAIN_BITS, WEIGHT_BITS = 96, 128, 52
ROUNDINGS = 2**26
"""Units of 2^-53, 7e-9 in all, that a column may be longer than it is computed to be.

Rounding takes fewer than 2^15: 8 for each unit of k log q, of which terms that count have up to
745, and some hundred for other factors and sums. The rest is for a state that goes on where another
processor computes C, to `sums.AGREEMENT` the same.
"""


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
