"""The privacy profile of Gaussian noise, and the smallest scale that meets (epsilon, delta).

For two Gaussians at distance D with standard deviation s, t = D/s and x = eps/t - t/2,

    delta(s) = sup_E P(E) - e^eps Q(E) = Phi(-x) - e^eps Phi(-x - t)
             = Phi(-x) (1 - exp(eps + log Phi(-x - t) - log Phi(-x))).

For x > 0 the exponential is a ratio of Mills ratios, m(x + t)/m(x) with m(x) = Phi(-x)/phi(x),
because phi(x) = e^eps phi(x + t); so neither term underflows, down to delta = 1e-300.

Every value returned is an upper bound: the rounding of the evaluation is bounded and added. Where
it may be more than a factor e (epsilon above 1e22 or so) the value is 1: such scales are private
and larger than they need to be. Scales are found for D = 1, once for each epsilon and delta.

References:
    Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, Theorem 8.
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Lemma A.12.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import non_negative, positive, probability
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import NARROW, UNIT, private_end, unscaled
from pmldesign_solvers.operators.operator import Array

SMALLEST_FLOAT = math.ulp(0.0)
ULPS = 16.0
"""Units in the last place allowed for each elementary step; checked against 60 digits in tests."""

MARGIN = 5e-10
"""Relative, of scales: sensitivities that are recomputed with bounds on their rounding are above
these by 3e-10 (`pmldesign.verifier`), and the guarantee is to be found with them too."""
SHORTEST, LONGEST, FARTHEST = 1e-150, 1e100, 1e3
"""Limits of t and x beyond which delta is 0 or 1 in float64."""


def gaussian_profile(ratios: ArrayLike, epsilon: ArrayLike) -> Array:
    """Upper bound, tight to rounding, on sup_E P(E) - e^eps Q(E) for Gaussians D apart.

    Args:
        ratios: t = D/s >= 0, any shape.
        epsilon: at least 0, of a shape that broadcasts with t.

    Returns:
        The profile at each t, in [0, 1]; increasing in t, 0 at t = 0.
    """
    t, epsilon = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (ratios, epsilon)))
    result = np.zeros(t.shape)
    apart = t > 0
    t, epsilon = np.clip(t[apart], SHORTEST, LONGEST), epsilon[apart]
    with np.errstate(over="ignore"):
        x = np.minimum(epsilon / t - t / 2, FARTHEST)
    x_plus, near = np.maximum(x, 0.0), x <= 0
    scaled = scipy.special.erfcx(x_plus / math.sqrt(2))
    log_mass = np.log(scaled / 2) - x_plus * x_plus / 2  # log Phi(-x), for x > 0
    ratio = scipy.special.erfcx((x_plus + t) / math.sqrt(2)) / scaled
    if near.any():
        log_mass[near] = scipy.special.log_ndtr(-x[near])
        plain = epsilon[near] + scipy.special.log_ndtr(-x[near] - t[near]) - log_mass[near]
        ratio[near] = np.exp(np.minimum(plain, 0.0))
    # x is off by |x| + t units; the logarithm of delta moves at most x + 1 times as fast
    error = np.abs(log_mass) + (1 + x_plus) * (1 + np.abs(x) + t)
    ratio_error = 1 + np.where(x > 0, 0.0, epsilon + t * t)
    complement = 1 - ratio + ULPS * UNIT * ratio_error * ratio
    error *= ULPS * UNIT
    value = np.exp(log_mass + np.minimum(error, 1.0)) * complement
    # below the normal numbers the exponential and the product are off by a smallest number each
    value = np.where(error > 1, 1.0, value + 2 * SMALLEST_FLOAT)
    result[apart] = np.minimum(np.nextafter(value, 2.0), 1.0)
    return result


def gaussian_delta(sensitivity: float, scale: float, epsilon: float) -> float:
    """Smallest delta for which Gaussian noise is (epsilon, delta)-DP, rounded upwards.

    Args:
        sensitivity: largest l2 distance D between neighbours, at least 0.
        scale: standard deviation of the noise, at least 0.
        epsilon: at least 0.

    Returns:
        delta in [0, 1]; 0 without sensitivity, 1 without noise.

    Raises:
        InvalidInputError: an argument out of range.
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    scale = non_negative("scale", scale)
    epsilon = non_negative("epsilon", epsilon)
    if sensitivity == 0:
        return 0.0
    if scale == 0:
        return 1.0
    ratio = min(sensitivity / scale, LONGEST)
    return float(gaussian_profile(math.nextafter(ratio, math.inf), epsilon))


def analytic_gaussian_scale(sensitivity: float, *, epsilon: float, delta: float) -> float:
    """Smallest standard deviation for (epsilon, delta)-DP, rounded to the private side.

    Args:
        sensitivity: largest l2 distance D between neighbours, at least 0.
        epsilon: positive.
        delta: in (0, 1).

    Returns:
        A scale with gaussian_delta(D, scale, epsilon) <= delta, which a scale smaller by a
        relative 1e-9 violates (as far as delta moves by more than its rounding, which it does
        unless delta is near 1 or epsilon below 1e-3); 0 without sensitivity.

    Raises:
        InvalidInputError: an argument out of range.
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    if sensitivity == 0:
        return 0.0
    distance, exponent = math.frexp(sensitivity)
    scale = distance * _unit_scale(epsilon, delta) * (1 + MARGIN)
    return unscaled("the scale of the noise", scale, exponent)


@lru_cache(maxsize=1024)
def _unit_scale(epsilon: float, delta: float) -> float:
    """For D = 1; every other scale is a multiple, whose rounding is far below the margin."""
    return private_end(lambda s: gaussian_delta(1.0, s, epsilon), delta, start=1.0, width=NARROW)


def classical_gaussian_scale(sensitivity: float, *, epsilon: float, delta: float) -> float:
    """Scale of the classical rule, s^2 = 9 D^2 log(1/delta) / (2 eps^2); for comparison only.

    Args:
        sensitivity: largest l2 distance D between neighbours, at least 0.
        epsilon: in (0, 1]; for large epsilon the rule gives too little noise.
        delta: in (0, 1/2]; near 1 the rule gives too little noise, although [ZLU] states it.

    Raises:
        InvalidInputError: an argument out of range.
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    for name, value, most in (("epsilon", epsilon, 1.0), ("delta", delta, 0.5)):
        if value > most:
            raise InvalidInputError(
                f"{name} must be in (0, {most:g}] for the classical rule, got {value:g}; "
                "use analytic_gaussian_scale"
            )
    return sensitivity * 3 * math.sqrt(-math.log(delta) / 2) / epsilon
