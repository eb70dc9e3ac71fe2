"""From a guarantee and a strategy to the scale of the noise, always on the private side.

epsilon-DP              Laplace    b = Delta_1/eps
(epsilon, delta)-DP     Gaussian   the analytic Gaussian mechanism
"""

from __future__ import annotations

import math

from pmldesign._arguments import non_negative, positive
from pmldesign.gaussian_profile import (
    analytic_gaussian_scale,
    classical_gaussian_scale,
    gaussian_delta,
)

__all__ = [
    "analytic_gaussian_scale",
    "classical_gaussian_scale",
    "gaussian_delta",
    "laplace_scale",
]


def laplace_scale(sensitivity: float, *, epsilon: float) -> float:
    """Smallest b of Laplace noise for epsilon-DP, rounded so that sensitivity / b <= epsilon.

    Args:
        sensitivity: largest l1 distance between neighbours, at least 0.
        epsilon: positive.

    Raises:
        InvalidInputError: an argument out of range.
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    epsilon = positive("epsilon", epsilon)
    scale = sensitivity / epsilon
    while scale > 0 and sensitivity / scale > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale
