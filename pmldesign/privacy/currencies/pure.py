r"""What any noise with epsilon-differential privacy satisfies in every currency.

No pair of laws within e^t of each other is easier to tell apart than randomized response, which
tells the truth with probability P = e^t/(1 + e^t) [Kairouz]. Of it, so of all, exactly:

    delta(eps)          (e^t - e^eps)/(1 + e^t) for eps <= t, else 0
    mu of Gaussian DP   -2 Phi^-1(1 - P)
    rho of zCDP         t tanh(t/2)
    Renyi, order a      log(cosh((a - 1/2) t)/cosh(t/2))/(a - 1)

mu: the trade-off function of randomized response is two lines that meet at (1 - P, 1 - P), and the
convex curve of Gaussian DP through that point and both ends lies below them. rho: log cosh of the
root of u is concave, so that the Renyi divergence at u = (a - 1/2)^2 is below its tangent at
u = 1/4, order 1. Releases with t_1, t_2, ... satisfy t_1 + t_2 + ... together. Beside Gaussian
noise the loss is t with probability P and -t otherwise. Cube noise has this curve: it comes near to
randomized response as measurements that all change become more.

References:
    Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy.
    Dong, Roth and Su (2022), Gaussian differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.privacy.currencies.curves import UP, PrivacyCurve, checked_order
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import quotient_above
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, slots=True)
class PureCurve(PrivacyCurve):
    """The curve of noise of which epsilon alone is claimed; `ratio` is epsilon."""

    @property
    def rho(self) -> float:
        """Rho of zero-concentrated differential privacy."""
        return self.ratio * math.tanh(self.ratio / 2) * UP

    @property
    def mu(self) -> float:
        """Mu of Gaussian differential privacy."""
        if self.ratio == 0:
            return 0.0
        return float(-2 * scipy.special.ndtri_exp(-np.logaddexp(0.0, self.ratio))) * UP + 2e-15

    def renyi(self, order: float) -> float:
        """Epsilon of Renyi differential privacy of an order above 1; raises as `PrivacyCurve`."""
        order, t = checked_order(order), self.ratio
        if math.isinf(t):
            return math.inf
        # log cosh x = x + log(1 + e^(-2x)) - log 2
        grown = (order - 1) * t + np.log1p(math.exp(-(2 * order - 1) * t)) - np.log1p(math.exp(-t))
        return max(0.0, float(grown) + 4e-16 * (2 + order * t)) / (order - 1) * UP

    def delta(self, epsilon: float) -> float:
        """Smallest delta at an epsilon of at least 0."""
        return float(self.deltas(epsilon))

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons, an array of their shape."""
        values = np.asarray(epsilons, dtype=np.float64)
        fallen = -np.expm1(np.minimum(0.0, values - self.ratio))
        return np.asarray(fallen / (1 + math.exp(-self.ratio)) * UP)

    def _positive_epsilon(self, delta: float) -> float:
        exact = self.ratio + math.log1p(-delta * (1 + math.exp(-self.ratio)))
        return min(self.ratio, exact + 1e-14 * (1 + self.ratio))


def pure_curve(epsilon: float) -> PureCurve:
    """The curve of whatever is epsilon-DP."""
    return PureCurve(Noise.LAPLACE, epsilon)


def curve_of(noise: Noise, sensitivity: float, scale: float) -> PrivacyCurve:
    """The curve of noise of a scale on measurements of a sensitivity in its norm."""
    kind = PureCurve if noise is Noise.CUBE else PrivacyCurve
    if sensitivity == 0:
        return kind(noise, 0.0)
    if scale == 0:
        return kind(noise, math.inf)
    return kind(noise, quotient_above(sensitivity, scale))
