r"""The guarantees of noise in every privacy definition, from one number.

Gaussian noise on measurements of l2 sensitivity D: t = D/sigma. Laplace noise on measurements of l1
sensitivity D: t = D/b. With Phi the normal distribution function,

                        Gaussian                     Laplace
    pure epsilon        none                         t
    delta(eps)          Phi(-x) - e^eps Phi(-x - t)  1 - e^((eps - t)/2) for eps <= t, else 0
    mu of Gaussian DP   t                            -2 Phi^-1(e^(-t/2)/2)
    rho of zCDP         t^2/2                        t + e^-t - 1
    Renyi, order a      a t^2/2                      log(M)/(a - 1)

x = eps/t - t/2, M = (a e^((a-1)t) + (a-1) e^(-at))/(2a-1). The Gaussian column is exact, as some
neighbours are D apart. The Laplace column is exact where some neighbours differ by D in one
measurement, and never too small: steps with l1 norm D leak no more than one step of D. (For two
steps t1 >= t2 with t1 + t2 = t, the integral over the second gives delta(eps) =
1 - e^((eps - t)/2) (1 + t2/2) for abs(eps) <= t1 - t2, and 1 - e^((eps - t)/2) (1 + (t - eps)/4)
from there to t, by symmetry at negative eps: at most that of t for every eps. Domination at every
eps carries over to products [Blackwell], so to any number of steps.) On the line, mu is the largest
of g(s) + g(t - s) over s, where Phi(-g(s)) = e^-s/2; g is concave, so s = t/2. The Renyi divergence
over its order falls in the order, so that rho is its limit at order 1, the divergence of Kullback
and Leibler.

Any noise with t-differential privacy. No pair of laws within e^t of each other is easier to
distinguish than randomized response, which is true with probability P = e^t/(1 + e^t) [Kairouz].
Of it, so of all, exactly:

    delta(eps)          (e^t - e^eps)/(1 + e^t) for eps <= t, else 0
    mu of Gaussian DP   -2 Phi^-1(1 - P)
    rho of zCDP         t tanh(t/2)
    Renyi, order a      log(cosh((a - 1/2) t)/cosh(t/2))/(a - 1)

mu: the trade-off function of randomized response is two lines that meet at (1 - P, 1 - P), and the
convex curve of Gaussian DP through that point and both ends lies below them. rho: log cosh of the
root of u is concave, so that the Renyi divergence at u = (a - 1/2)^2 is below its tangent at
u = 1/4, order 1. Releases with t_1, t_2, ... satisfy t_1 + t_2 + ... together. Composed with
Gaussian noise the loss is t with probability P and -t otherwise. Cube noise has this curve: it
approaches randomized response with the number of measurements that change.

Everything here is rounded up.

References:
    Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy.
    Dong, Roth and Su (2022), Gaussian differential privacy.
    Mironov (2017), Renyi differential privacy, Proposition 6.
    Bun and Steinke (2016), Concentrated differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, non_negative, positive, probability, real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.analytic_gaussian import gaussian_delta, gaussian_profile
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import NARROW, float_above, private_end, quotient_above
from pmldesign.workloads.display import Drawn
from pmldesign_solvers.operators.operator import Array

UP = 1 + 1e-14
"""Of elementary functions in double precision; checked against 50 digits in tests."""
SERIES = 0.05
"""Below, t + e^-t - 1 by ten terms of its series."""
DELTAS = (1e-5, 1e-6, 1e-9)
"""At which reports show epsilon."""
ORDERS = (2.0, 8.0, 32.0)
"""Of Renyi privacy, in JSON."""


def laplace_rho(ratio: float) -> float:
    """Rho of Laplace noise: t + e^-t - 1."""
    if ratio >= SERIES:
        return (ratio + math.expm1(-ratio)) * UP
    terms = [(-ratio) ** k / math.factorial(k) for k in range(2, 12)]
    return math.fsum(terms) * UP


def laplace_mu(ratio: float) -> float:
    """Mu of Laplace noise: -2 Phi^-1(e^(-t/2)/2)."""
    return (
        float(-2 * scipy.special.ndtri_exp(-math.log(2) - ratio / 2)) * UP + 2e-15 if ratio else 0.0
    )


def laplace_renyi(ratio: float, order: float) -> float:
    """Renyi divergence of Laplace noise of an order above 1."""
    if ratio == 0:
        return 0.0
    above, below = (order - 1) * ratio, -order * ratio
    log_moment = np.logaddexp(
        math.log(order / (2 * order - 1)) + above, math.log((order - 1) / (2 * order - 1)) + below
    )
    rounding = 4e-16 * (2 + order * ratio)
    return max(0.0, float(log_moment) + rounding) / (order - 1) * UP


@dataclass(frozen=True, slots=True)
class PrivacyCurve(Drawn):
    """What noise on a strategy satisfies, whatever it was calibrated to.

    Attributes:
        noise: Gaussian or Laplace.
        ratio: t, sensitivity over scale, rounded up; inf without noise.
    """

    noise: Noise
    ratio: float

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.noise is Noise.GAUSSIAN

    @property
    def ratios(self) -> tuple[float, float]:
        """The ratios of Gaussian and of Laplace noise, 0 without such noise."""
        return (self.ratio, 0.0) if self.gaussian else (0.0, self.ratio)

    @property
    def pure(self) -> float:
        """Epsilon of pure differential privacy; inf for Gaussian noise."""
        return math.inf if self.gaussian and self.ratio > 0 else self.ratio

    @property
    def rho(self) -> float:
        """Rho of zero-concentrated differential privacy."""
        if not self.gaussian:
            return laplace_rho(self.ratio)
        return math.inf if math.isinf(self.ratio) else self._gaussian_renyi(Fraction(1))

    @property
    def mu(self) -> float:
        """Mu of Gaussian differential privacy."""
        return self.ratio if self.gaussian else laplace_mu(self.ratio)

    def renyi(self, order: float) -> float:
        """Epsilon of Renyi differential privacy of an order above 1.

        Raises:
            InvalidInputError: the order is not above 1 and finite.
        """
        order = checked_order(order)
        if not self.gaussian:
            return laplace_renyi(self.ratio, order)
        return math.inf if math.isinf(self.ratio) else self._gaussian_renyi(Fraction(order))

    def _gaussian_renyi(self, order: Fraction) -> float:
        """A t^2/2, the next number above."""
        return float_above("the loss", order * Fraction(self.ratio) ** 2 / 2)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at an epsilon of at least 0.

        Raises:
            InvalidInputError: epsilon out of range.
        """
        epsilon = non_negative("epsilon", epsilon)
        if self.gaussian:
            return gaussian_delta(self.ratio, 1.0, epsilon) if self.ratio < math.inf else 1.0
        return -math.expm1(min(0.0, (epsilon - self.ratio) / 2)) * UP

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons, an array of their shape."""
        values = doubles(real_numbers("epsilons", epsilons))
        if self.gaussian:
            return gaussian_profile(self.ratio, values)
        return np.asarray(-np.expm1(np.minimum(0.0, (values - self.ratio) / 2)) * UP)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon, at least 0, at a delta in (0, 1).

        Raises:
            InvalidInputError: delta out of range.
        """
        delta = probability("delta", delta)
        if self.delta(0.0) <= delta:
            return 0.0
        return math.inf if math.isinf(max(self.ratios)) else self._positive_epsilon(delta)

    def _positive_epsilon(self, delta: float) -> float:
        """The same if it is neither 0 nor infinite."""
        if not self.gaussian:
            exact = self.ratio + 2 * math.log1p(-delta)
            return min(self.ratio, exact + 1e-14 * (1 + self.ratio))
        return private_end(self.delta, delta, start=self.ratio, width=NARROW)

    def to_json(self) -> dict[str, Any]:
        """The numbers that reports show; None instead of infinity."""
        return {
            "epsilon": None if math.isinf(self.pure) else self.pure,
            "rho": self.rho,
            "mu": self.mu,
            "renyi": [{"order": order, "epsilon": self.renyi(order)} for order in ORDERS],
            "curve": [{"delta": delta, "epsilon": self.epsilon(delta)} for delta in DELTAS],
        }


def checked_order(order: float) -> float:
    """An order of Renyi divergence as a float.

    Raises:
        InvalidInputError: it is not above 1 and finite.
    """
    order = positive("order", order)
    if not 1 < order < math.inf:
        raise InvalidInputError(f"the order of Renyi privacy must be above 1, got {order:g}")
    return order


@dataclass(frozen=True, slots=True)
class PureCurve(PrivacyCurve):
    """The curve of noise with only a claimed epsilon; `ratio` is epsilon."""

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
        """Smallest delta at an epsilon of at least 0.

        Raises:
            InvalidInputError: epsilon out of range.
        """
        epsilon = non_negative("epsilon", epsilon)
        return float(self.deltas(epsilon))

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons, an array of their shape."""
        values = doubles(real_numbers("epsilons", epsilons))
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
