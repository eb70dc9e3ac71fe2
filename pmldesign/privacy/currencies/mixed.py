r"""What releases with Gaussian and releases with Laplace noise satisfy together.

They are dominated by one draw of Gaussian noise of ratio s and one of Laplace noise of ratio t
(`composition`), with independent losses. That of the Laplace pair is t with probability 1/2, -t
with probability e^-t/2, and has the density e^((l - t)/2)/4 between. With the profile d of the
Gaussian pair,

    delta(eps) = d(eps - t)/2 + e^-t d(eps + t)/2 + integral over abs(l) < t of d(eps - l) density,

where d(-eps) = 1 - e^-eps (1 - d(eps)). The profile is convex in e^eps, so that on a step from a to
b = a + h it is at most its chord in e^-l, whose mean under the density has the weights
1/(e^(h/2) + 1) on a and the rest on b. Summed up this is above delta, by a part of order h^2.

Rho and Renyi epsilons add up, and so do the squares of mu (an upper bound for Laplace noise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.arguments import non_negative, probability
from pmldesign.privacy.analytic_gaussian import gaussian_profile
from pmldesign.privacy.currencies.curves import PrivacyCurve, least_epsilon, numbers_of
from pmldesign_solvers.operators.operator import Array

STEPS = 4000
"""Of the integral: delta is too large by a relative 1e-6 where both ratios are 1."""
CLOSE = 1e-10
"""Relative width of the bracket of an epsilon."""
UP = 1 + 1e-12
"""Of sums and elementary functions in double precision."""


@dataclass(frozen=True, slots=True)
class MixedCurve:
    """The curve of Gaussian and Laplace noise together; all of it is rounded up.

    Attributes:
        gaussian_part, laplace_part: of all releases with such noise.
    """

    gaussian_part: PrivacyCurve
    laplace_part: PrivacyCurve

    @property
    def pure(self) -> float:
        """Epsilon of pure differential privacy: inf, as of Gaussian noise."""
        return math.inf

    @property
    def rho(self) -> float:
        """Rho of zero-concentrated differential privacy."""
        return (self.gaussian_part.rho + self.laplace_part.rho) * UP

    @property
    def mu(self) -> float:
        """Mu of Gaussian differential privacy."""
        return math.hypot(self.gaussian_part.mu, self.laplace_part.mu) * UP

    def renyi(self, order: float) -> float:
        """Epsilon of Renyi differential privacy of an order above 1; raises as `PrivacyCurve`."""
        return (self.gaussian_part.renyi(order) + self.laplace_part.renyi(order)) * UP

    def delta(self, epsilon: float) -> float:
        """A delta at an epsilon of at least 0.

        Raises:
            InvalidInputError: epsilon out of range.
        """
        epsilon, ratio = non_negative("epsilon", epsilon), self.laplace_part.ratio
        if math.isinf(max(ratio, self.gaussian_part.ratio)):
            return 1.0
        losses = np.linspace(-ratio, ratio, STEPS + 1)
        profile = self._profile(epsilon - losses)
        masses = np.diff(np.exp((losses - ratio) / 2)) / 2
        share = 1 / (math.exp(ratio / STEPS) + 1)
        inner = masses @ (share * profile[:-1] + (1 - share) * profile[1:])
        ends = (profile[-1] + math.exp(-ratio) * profile[0]) / 2
        return min(1.0, float(inner + ends) * UP)

    def _profile(self, epsilons: Array) -> Array:
        """That of the Gaussian pair, at negative epsilon too."""
        above = gaussian_profile(self.gaussian_part.ratio, np.abs(epsilons))
        below = -np.expm1(-np.abs(epsilons)) + np.exp(-np.abs(epsilons)) * above
        return np.where(epsilons < 0, below, above)

    def deltas(self, epsilons: Any) -> Array:
        """`delta` at many epsilons, an array of their shape."""
        return np.array([self.delta(float(epsilon)) for epsilon in epsilons])

    def epsilon(self, delta: float) -> float:
        """An epsilon, at least 0, at a delta in (0, 1).

        Raises:
            InvalidInputError: delta out of range.
        """
        delta = probability("delta", delta)
        if self.delta(0.0) <= delta:
            return 0.0
        if math.isinf(max(self.laplace_part.ratio, self.gaussian_part.ratio)):
            return math.inf
        low, high = 0.0, self.gaussian_part.epsilon(delta) + self.laplace_part.ratio
        while self.delta(high) > delta:  # the rounding of the sum
            high *= UP
        return least_epsilon(self.delta, delta, low, high, CLOSE)

    def to_json(self) -> dict[str, Any]:
        """The numbers that reports show."""
        return numbers_of(self)
