r"""What is left of a budget: the largest release that still fits, in each privacy definition.

Laplace noise: the remainder of "pure". Gaussian noise: the largest mu with

    delta_(mu')(epsilon - pure) <= delta,    mu'^2 = mu^2 + the mu^2 spent so far,

by bisection, rounded down; rho = mu^2 / 2, and the epsilon at a delta that mu has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import as_written, at_most, shortest
from pmldesign.releases.costs.budget import Budget, Cost

DOWN = 1 - 1e-9
"""Of mu, so that a release that is calibrated to it fits."""
STEPS = 200
"""Of bisection, at most; 64 are enough for all numbers of a size."""
NOTHING = 1e-12
"""Of the budget: what rounding leaves of it."""
LARGEST = 100.0
"""Of mu."""


@dataclass(frozen=True)
class Left:
    """The largest release that still fits.

    Attributes:
        epsilon: of Laplace noise.
        mu: of Gaussian noise.
        delta: at which `gaussian_epsilon` is; 0 if no Gaussian noise fits.
        gaussian_epsilon: of Gaussian noise.
        plan: the remaining releases of a plan, in words; None without a plan.
    """

    epsilon: float
    mu: float
    delta: float
    gaussian_epsilon: float
    plan: str | None = None

    @property
    def rho(self) -> float:
        """The rho of zCDP that Gaussian noise may have."""
        return self.mu**2 / 2

    def __str__(self) -> str:
        laplace = f"Laplace noise up to epsilon {at_most(self.epsilon)}"
        gaussian = f"Gaussian noise up to epsilon {at_most(self.gaussian_epsilon)} at delta"
        gaussian += f" {shortest(self.delta)} (mu {at_most(self.mu)})"
        fitting = [laplace] * bool(self.epsilon) + [gaussian] * bool(self.gaussian_epsilon)
        return " or ".join(fitting) or "nothing"


def left_of(budget: Budget, spent: Cost, delta: float | None = None) -> Left:
    """What is left of a budget.

    Args:
        budget: the limits.
        spent: the cost of all releases so far.
        delta: for Gaussian noise; None for that of the budget.
    """
    unspent = as_written(budget.pure) - spent.pure
    pure = _float_below(unspent) if unspent > NOTHING * budget.epsilon else 0.0
    mu, at = _largest_mu(budget, spent), delta or budget.delta
    epsilon = PrivacyCurve(Noise.GAUSSIAN, mu).epsilon(at) * DOWN if mu > 0 and at > 0 else 0.0
    return Left(pure, mu, at, epsilon)


def _largest_mu(budget: Budget, spent: Cost) -> float:
    """The largest mu of Gaussian noise that still fits, rounded down."""
    low, high = 0.0, LARGEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        if high - low <= 1e-12 * high or high < 1e-12:
            break
        fits = budget.allows(spent + Cost(Fraction(0), Fraction(middle) ** 2))
        low, high = (middle, high) if fits else (low, middle)
    return low * DOWN


def _float_below(value: Fraction) -> float:
    """The largest float that is at most a fraction as it is written."""
    found = float(value)
    return found if as_written(found) <= value else math.nextafter(found, 0.0)
