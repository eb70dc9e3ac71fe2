"""What noise satisfies when each step draws at random whose records take part in it.

Records are in b parts. Step t draws from part t mod b, each record with probability q, for itself
and again each time. C is lower triangular with at most b bands, no column longer than D, and noise
has the standard deviation sigma. The steps of a record are b apart, so that C x moves in rows of
its own for each of them. Given what came before, these rows are N(0, sigma^2) or, with probability
q, moved by at most D: all together are at most as distinct as k = ceil(n / b) of the pair

    Q = N(0, sigma^2),        P = (1 - q) N(0, sigma^2) + q N(D, sigma^2)

of Poisson-subsampled Gaussian noise, which one dimension attains [CC, Theorem 4]; (P, Q) where a
record is removed, (Q, P) where it is added. With q = 1 this is k steps without sampling, and b = 1
is DP-SGD. The package dp-accounting composes the distributions of the losses log(P/Q) on a grid,
which it rounds towards more loss.

References:
    [CC] Choquette-Choo and others (2023), (Amplified) banded matrix factorization: a unified
    approach to private training, Section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, non_negative, probability, real_numbers
from pmldesign.errors import require_extra
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import private_end, quotient_above
from pmldesign_solvers.operators.operator import Array

GRID, ROUGH = 1e-4, 1e-3
"""Of the losses: that of dp-accounting's accountants, and one that is ten times as fast."""
NEAR, WIDTH = 1e-4, 5e-7
"""Relative widths of the bracket of a scale, on either grid."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How records are drawn for a strategy.

    Attributes:
        rate: q, in (0, 1).
        rounds: k, for how many steps a record can be drawn.
        longest: D, largest l2 norm of a column.
    """

    rate: float
    rounds: int
    longest: float

    def curve(self, sensitivity: float, scale: float) -> SampledCurve:
        """What noise of a scale satisfies, of `sensitivity` without sampling."""
        whole, step = (quotient_above(length, scale) for length in (sensitivity, self.longest))
        return SampledCurve(Noise.GAUSSIAN, whole, step, self.rate, self.rounds)

    def scale(self, epsilon: float, delta: float) -> float:
        """Smallest standard deviation for (epsilon, delta), rounded to the private side.

        Raises:
            InvalidInputError: dp-accounting is not installed, or no scale is in the range.
        """
        start = self.roughly(epsilon, delta) / self.longest
        return self.longest * private_end(
            lambda scale: self._loss(scale, epsilon, GRID),
            delta,
            start=start,
            ratio=1 + 2 * NEAR,
            width=WIDTH,
        )

    def roughly(self, epsilon: float, delta: float, grid: float = ROUGH) -> float:
        """`scale` from losses on a grid of one's own, rounded up; raises as that."""
        apart = max(0.5, self.rate * math.sqrt(self.rounds))  # mostly; small scales take long
        start = analytic_gaussian_scale(apart, epsilon=epsilon, delta=delta)
        return self.longest * private_end(
            lambda scale: self._loss(scale, epsilon, grid),
            delta,
            start=start,
            ratio=1.2,
            width=NEAR,
        )

    def _loss(self, scale: float, epsilon: float, grid: float) -> float:
        """Delta at a multiple of the longest column."""
        pair = losses(quotient_above(1.0, scale), self.rate, self.rounds, grid)
        return float(pair.get_delta_for_epsilon(epsilon))


@dataclass(frozen=True, slots=True)
class SampledCurve(PrivacyCurve):
    """What Gaussian noise satisfies with sampling; rho, mu and Renyi privacy without it.

    Attributes:
        step: largest l2 norm of a column over the scale, rounded up.
        rate: probability of a record to be drawn for a step.
        rounds: for how many steps a record can be drawn.
    """

    step: float
    rate: float
    rounds: int

    def delta(self, epsilon: float) -> float:
        """Smallest delta at an epsilon of at least 0."""
        return float(self.deltas(non_negative("epsilon", epsilon)))

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons, an array of their shape."""
        values = doubles(real_numbers("epsilons", epsilons))
        pair = losses(self.step, self.rate, self.rounds)
        found = np.array([pair.get_delta_for_epsilon(value) for value in values.ravel()])
        return np.asarray(np.clip(found.reshape(values.shape), 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon, at least 0, at a delta in (0, 1).

        Raises:
            InvalidInputError: delta out of range, or dp-accounting is not installed.
        """
        delta = probability("delta", delta)
        pair = losses(self.step, self.rate, self.rounds)
        return max(0.0, float(pair.get_epsilon_for_delta(delta)))


@lru_cache(maxsize=32)
def losses(ratio: float, rate: float, rounds: int, grid: float = GRID) -> Any:
    """The distribution of the losses of so many steps together, of dp-accounting.

    Args:
        ratio: D/sigma.
        rate: q.
        rounds: k.
        grid: of the losses.

    Raises:
        InvalidInputError: dp-accounting is not installed.
    """
    require_extra("amplification by sampling", "dp_accounting", "training")
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType

    parts = [
        _of_one_step(ratio, rate, way, grid) for way in (AdjacencyType.REMOVE, AdjacencyType.ADD)
    ]
    return PrivacyLossDistribution(*parts).self_compose(rounds)


def _of_one_step(ratio: float, rate: float, way: Any, grid: float) -> Any:
    """Losses of one step, where a record is removed or added: delta at each epsilon of the grid.

    An event {x <= c} has the largest P - e^eps Q, c where log(P/Q) = eps; that library looks for
    each c in turn, which takes ten times as long.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    scale, sign = math.nextafter(1 / ratio, 0.0), 1 if way is AdjacencyType.REMOVE else -1
    loss = GaussianPrivacyLoss(scale, sampling_prob=rate, adjacency_type=way)
    ends = loss.connect_dots_bounds()
    first, last = math.floor(ends.epsilon_lower / grid), math.ceil(ends.epsilon_upper / grid)
    epsilons = np.arange(first, last + 1) * grid
    with np.errstate(divide="ignore"):  # log 0: every event, or none
        always = np.log1p(np.maximum(np.expm1(sign * epsilons) / rate, -1.0))  # drawn at every step
    cuts = -sign * (0.5 + always * scale**2)
    deltas = loss.mu_upper_cdf(cuts) - np.exp(epsilons + loss.mu_lower_log_cdf(cuts))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        grid, first, last, np.clip(deltas, 0.0, 1.0)
    )
