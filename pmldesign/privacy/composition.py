r"""What several releases satisfy together, the choice of each free to depend on those before.

Gaussian noise composes into Gaussian noise: with ratios s_1, s_2, ... of sensitivity over scale all
releases together are exactly those of s^2 = s_1^2 + s_2^2 + ... . Releases with Laplace noise are
dominated by one of t = t_1 + t_2 + ... (`curves`); where of some epsilon alone is known, all of
these together are t-DP (`pure`). Neighbours differ in the same way in all.

Both kinds together are dominated by one draw of either, with independent losses. That of the
Laplace pair is t with probability 1/2, -t with probability e^-t/2, and has the density
e^((l - t)/2)/4 between. With the profile d of the Gaussian pair,

    delta(eps) = d(eps - t)/2 + e^-t d(eps + t)/2 + integral over abs(l) < t of d(eps - l) density,

where d(-eps) = 1 - e^-eps (1 - d(eps)). The profile is convex in e^eps, so that on a step from a to
b = a + h it is at most its chord in e^-l, whose mean under the density has the weights
1/(e^(h/2) + 1) on a and the rest on b. Summed up this is above delta, by a part of order h^2.

Rho and Renyi epsilons add up, and so do the squares of mu (an upper bound for Laplace noise).

References:
    Dong, Roth and Su (2022), Gaussian differential privacy, Corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import non_negative
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.analytic_gaussian import gaussian_profile
from pmldesign.privacy.curves import PrivacyCurve, PureCurve, pure_curve
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import float_above, root_above
from pmldesign_solvers.operators.operator import Array

INTEGRAL_STEPS = 4000
"""Of the integral: delta is too large by a relative 1e-6 if both ratios are 1."""
UP = 1 + 1e-12
"""Of sums and elementary functions in double precision."""


@dataclass(frozen=True, slots=True)
class MixedCurve(PrivacyCurve):
    """The curve of Gaussian noise, with `noise` and `ratio`, and Laplace noise together.

    Attributes:
        laplace_part: of all releases with Laplace noise, or with only an epsilon.
    """

    laplace_part: PrivacyCurve

    @property
    def gaussian_part(self) -> PrivacyCurve:
        """The curve of all releases with Gaussian noise."""
        return PrivacyCurve(self.noise, self.ratio)

    @property
    def ratios(self) -> tuple[float, float]:
        """The ratios of both."""
        return self.ratio, self.laplace_part.ratio

    @property
    def rho(self) -> float:
        """Rho of zero-concentrated differential privacy."""
        return (self.gaussian_part.rho + self.laplace_part.rho) * UP

    @property
    def mu(self) -> float:
        """Mu of Gaussian differential privacy."""
        return math.hypot(self.ratio, self.laplace_part.mu) * UP

    def renyi(self, order: float) -> float:
        """Epsilon of Renyi differential privacy of an order above 1; raises as `PrivacyCurve`."""
        return (self.gaussian_part.renyi(order) + self.laplace_part.renyi(order)) * UP

    def delta(self, epsilon: float) -> float:
        """A delta at an epsilon of at least 0.

        Raises:
            InvalidInputError: epsilon out of range.
        """
        epsilon, ratio = non_negative("epsilon", epsilon), self.laplace_part.ratio
        if math.isinf(max(self.ratios)):
            return 1.0
        if isinstance(self.laplace_part, PureCurve):
            ends = self._profile(epsilon - np.array([ratio, -ratio]))
            truth = 1 / (1 + math.exp(-ratio))
            return min(1.0, float(truth * ends[0] + (1 - truth) * ends[1]) * UP)
        losses = np.linspace(-ratio, ratio, INTEGRAL_STEPS + 1)
        profile = self._profile(epsilon - losses)
        masses = np.diff(np.exp((losses - ratio) / 2)) / 2
        share = 1 / (math.exp(ratio / INTEGRAL_STEPS) + 1)
        inner = masses @ (share * profile[:-1] + (1 - share) * profile[1:])
        ends = (profile[-1] + math.exp(-ratio) * profile[0]) / 2
        return min(1.0, float(inner + ends) * UP)

    def _profile(self, epsilons: Array) -> Array:
        """The profile of the Gaussian pair, at negative epsilon too."""
        above = gaussian_profile(self.ratio, np.abs(epsilons))
        below = -np.expm1(-np.abs(epsilons)) + np.exp(-np.abs(epsilons)) * above
        return np.where(epsilons < 0, below, above)

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons, an array of their shape."""
        return np.asarray(np.vectorize(self.delta, otypes=[float])(epsilons))


def composed(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """The curve of all releases together, rounded up.

    Args:
        curves: of the releases, `Mechanism.privacy`, at least one.

    Raises:
        InvalidInputError: none.
    """
    if not curves:
        raise InvalidInputError("there is nothing to compose; give at least one release")
    gaussian, laplace = ([curve.ratios[kind] for curve in curves] for kind in (0, 1))
    s = t = math.inf
    if math.isfinite(max(gaussian)):
        s = root_above(sum((Fraction(ratio) ** 2 for ratio in gaussian), Fraction(0)))
    if math.isfinite(max(laplace)):
        t = float_above("the sum", sum(map(Fraction, laplace), Fraction(0)))
    pure = any(isinstance(getattr(curve, "laplace_part", curve), PureCurve) for curve in curves)
    alone = pure_curve(t) if pure else PrivacyCurve(Noise.LAPLACE, t)
    if s > 0 and t > 0:
        return MixedCurve(Noise.GAUSSIAN, s, alone)
    return alone if t > 0 else PrivacyCurve(Noise.GAUSSIAN, s)
