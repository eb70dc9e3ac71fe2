r"""The slack of Gaussian noise on three different columns, as closely as wanted.

With one record the slack about cell r is the largest integral of

    ((1 - e^eps p_r) P_r - e^eps sum_{j != r} p_j P_j)_+

over the priors p in Q_alpha (`gaussian_leakage`). It is convex in p, so that p_r = alpha_r and the
free mass lies on one of the two other cells; records beside that one only mix shifted copies of
all three laws, which the integral, convex too, does not exceed. So the maximum over r and over
that cell is the slack for every number of records.

Three columns lie in a plane. With r at the origin, another one at (d, 0) and the third one at
(x, y), y >= 0, in units of sigma, the integrand at (s, t) is positive where

    W_1(s) + W_2(s) e^(y t) < 1 - e^eps p_r,      W_1(s) = e^eps p_1 e^(d s - d^2/2),
                                                  W_2(s) = e^eps p_2 e^(x s - (x^2 + y^2)/2),

a half line t < t(s) for each s. On a strip of s each W is replaced by its smallest value there,
which can only increase the integral; along t all of it is normal distribution functions. With
STRIPS strips the result is 0.1 to 1 % above the exact slack.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.privacy.priors import free_mass
from pmldesign_solvers.operators.operator import Array

STRIPS = 4096
"""Twice as many halve the distance to the exact value."""
REACH = 9.0
"""Standard deviations beyond all columns: what lies farther out has a mass of 1e-19."""
FARTHEST = 1e3
"""Distances over sigma; beyond it exponentials overflow."""
LARGEST_EPSILON = 700.0
"""The slack falls as epsilon grows; a larger one, whose exponential overflows, has no more."""
DIFFERENCE_ROUNDING = 1e-14
"""More than the rounding of differences of probabilities, which are at most 1."""
FLAT = 1e-12
"""Smallest y: the integral is even in y, so that this moves it by 1e-24."""


def slack_of_three(ratios: Array, least: Array, epsilon: float) -> Array:
    """Upper bound on the slack about each of three cells.

    Args:
        ratios: distances of the columns over sigma, shape (3, 3), symmetric.
        least: alpha, shape (3,).
        epsilon: at least 0.

    Returns:
        Shape (3,), rounded upwards; 1 where distances are out of the range of exponentials.
    """
    if not 0 < ratios.max() <= FARTHEST:
        return np.where(ratios.max(axis=1) > 0, 1.0, 0.0)
    growth, free = math.exp(min(epsilon, LARGEST_EPSILON)), free_mass(least)
    result = np.zeros(3)
    for r in range(3):
        kept = 1.0 - growth * least[r]
        others = [j for j in range(3) if j != r]
        if kept > 0:
            sides = ratios[r, others[0]], ratios[r, others[1]], ratios[others[0], others[1]]
            masses = [growth * (least[others] + free * np.eye(2)[i]) for i in range(2)]
            result[r] = max(_integral(sides, mass, kept) for mass in masses)
    return result


def _integral(sides: tuple[float, float, float], masses: Array, kept: float) -> float:
    """The integral of the positive part, from above.

    Args:
        sides: distances of the two other columns from the origin, and from each other.
        masses: e^eps p_j of both.
        kept: 1 - e^eps p_r.
    """
    first, second, between = sides
    x = (first**2 + second**2 - between**2) / (2 * first)
    y = max(math.sqrt(max(second**2 - x**2, 0.0)), FLAT)
    reach = REACH + max(first, abs(x))
    edges = np.linspace(-reach, reach, STRIPS + 1)
    low, high = edges[:-1], edges[1:]
    strip = np.where(
        low > 0,
        scipy.special.ndtr(-low) - scipy.special.ndtr(-high),
        scipy.special.ndtr(high) - scipy.special.ndtr(low),
    )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        taken = masses[0] * np.exp(first * low - first**2 / 2)
        log_second = math.log(masses[1]) + x * (low if x > 0 else high) - x**2 / 2
        ends = (np.log(kept - taken) - log_second + y**2 / 2) / y
        inside = (kept - taken) * scipy.special.ndtr(ends) - np.exp(
            log_second
        ) * scipy.special.ndtr(ends - y)
    positive = np.where(taken < kept, np.maximum(np.nan_to_num(inside, nan=0.0), 0.0), 0.0)
    total = float((strip * positive).sum())
    return min(
        1.0,
        total * (1 + DIFFERENCE_ROUNDING)
        + 2.0 * float(scipy.special.ndtr(-reach))
        + DIFFERENCE_ROUNDING,
    )
