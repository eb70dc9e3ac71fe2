r"""How small the standard deviation of private noise on one number can be.

Noise z is added to a number that neighbouring data change by 1. Privacy is then a statement about
the laws of z and z + 1 alone, and each function returns an s with Var z >= s^2, rounded down.

Least variance, (epsilon, delta), exact. Let P_ab be the law on {-b, ..., a} with weights
e^(-eps |i|)/Z and |a - b| <= 1, V its variance and d = (e^(-eps a) + e^(-eps b)) / (2 Z) its mean
excess over the two directions. The least variance is the lower convex envelope of the points
(d, V) at delta; for every slope l >= 0

    Var z >= min over a, b of (V + 2 l d) - 2 l delta,

so rounding or a badly chosen l can make the bound smaller but not wrong. From delta = 1/2 on, the
envelope is the line to (d, V) = (1, 0): (1 - delta) min over a + b > 0 of V / (1 - d). At delta = 0
it is that of the two-sided geometric law, 2 e^-eps / (1 - e^-eps)^2. A number that changes by n
under n steps gives n s(n eps, delta (e^(n eps) - 1)/(e^eps - 1)) <= s(eps, delta), which keeps the
table short when eps and delta are tiny.

Staircase. If every change t in [-1, 1] occurs (data of real values), epsilon-DP needs

    Var z >= (2^(-2/3) e^(-2 eps/3) (1 + e^-eps)^(2/3) + e^-eps) / (1 - e^-eps)^2.

Total variation. n steps have total variation tau_n <= 1 - 2 (1 - d_n)/(e^(n eps) + 1),
d_n = delta (e^(n eps) - 1)/(e^eps - 1), and a shift by n needs tau_n >= n^2/(n^2 + 4 Var z). Never
above the least variance.

The proofs are in docs/bounds.md.

References:
    Geng and Viswanath (2014), The optimal mechanism in differential privacy, Theorem 7 (staircase).
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Section 2.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.arguments import positive
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

MARGIN = 1e-9
"""Relative rounding downwards; the sums of a table are good to 2^18 units, 6e-11."""

TABLE = 2**18
"""Largest support of a truncated geometric law that is tabulated."""

NEGLIGIBLE_LOGARITHM = 50.0
"""Weights below e^-50 do not change a sum in float64."""

LARGEST_LOGARITHM = 700.0
"""e^700 is still finite."""

HUGE = 1e307
"""A larger bound is given as this."""


def least_deviation(epsilon: float, delta: float = 0.0) -> float:
    """Least standard deviation of (epsilon, delta)-DP noise when data change by whole steps.

    Args:
        epsilon: positive.
        delta: in [0, 1).

    Returns:
        s, rounded down by a relative 1e-9; there is noise that attains it (with grouped steps, for
        epsilon below 4e-4 and delta below 4e-6, nearly).

    Raises:
        InvalidInputError: an argument out of range.
    """
    epsilon, delta = privacy(epsilon, delta)
    if delta == 0:
        return (1 - MARGIN) * math.sqrt(2) * math.exp(-epsilon / 2) / -math.expm1(-epsilon)
    support = min(1 / delta, 2 * NEGLIGIBLE_LOGARITHM / epsilon, 1e300)
    steps = max(1, math.ceil(support / TABLE))
    if steps > 1:
        delta *= math.expm1(steps * epsilon) / math.expm1(epsilon)
        epsilon *= steps
    if delta >= 1:
        return 0.0
    excess, variance, slopes = _truncated_geometric(epsilon, math.ceil(support / steps) + 2)
    if delta >= excess[1]:  # the line to (1, 0), without the cancellation of delta near 1
        steepest = min(float((variance[1:] / (1 - excess[1:])).min()), float(variance[-1]))
        return steps * (1 - MARGIN) * math.sqrt(steepest * (1 - delta))
    met = excess <= delta
    slope = slopes[max(int(met.argmax()) - 1, 0) if met.any() else -1]
    # wider supports than the table has are covered by its last variance: it grows with the support
    least = min(
        float((variance + slope * (excess - delta)).min()), float(variance[-1]) - slope * delta
    )
    return steps * (1 - MARGIN) * math.sqrt(max(least, 0.0))


def staircase_deviation(epsilon: float) -> float:
    """Least standard deviation of epsilon-DP noise when every change t in [-1, 1] occurs.

    Args:
        epsilon: positive.

    Returns:
        s, rounded down by a relative 1e-9.

    Raises:
        InvalidInputError: an argument out of range.
    """
    epsilon = positive("epsilon", epsilon)
    ratio = math.exp(-epsilon)
    total = 2 ** (-2 / 3) * math.exp(-2 * epsilon / 3) * (1 + ratio) ** (2 / 3) + ratio
    return (1 - MARGIN) * math.sqrt(total) / -math.expm1(-epsilon)


def total_variation_deviation(epsilon: float, delta: float = 0.0) -> float:
    """Standard deviation that (epsilon, delta)-DP noise needs by the total variation of n steps.

    Args:
        epsilon: positive.
        delta: in [0, 1).

    Returns:
        s, the best over n, rounded down by a relative 1e-9; about 0.569/epsilon for small epsilon.

    Raises:
        InvalidInputError: an argument out of range.
    """
    epsilon, delta = privacy(epsilon, delta)
    furthest = min(max(1.0, 20 / epsilon), 1e300)
    n = np.unique(np.floor(np.geomspace(1, furthest, 2000)))
    steps = np.expm1(-n * epsilon) / math.expm1(-epsilon)  # before delta, which may underflow
    excess = delta * np.exp((n - 1) * epsilon) * steps
    both = 2 * scipy.special.expit(-n * epsilon)
    overlap = both * np.maximum(1 - excess, 0.0)
    distance = np.tanh(n * epsilon / 2) + both * np.minimum(excess, 1.0)  # 1 - overlap
    shifts = np.minimum(np.sqrt(overlap) / np.sqrt(distance), 2 * HUGE / n)
    return (1 - MARGIN) / 2 * float((n * shifts).max())


def _truncated_geometric(epsilon: float, longest: int) -> tuple[Array, Array, Array]:
    """Mean excess d and variance V of P_ab for (a, b) = (0, 0), (1, 0), (1, 1), ... (longest, ..).

    Also the slope -dV/dd to the next one, without cancellation: the new value, at distance y from
    the mean and with mass w, adds w ((1 - w) y^2 - V) to V and takes w (2 d + e^eps - 1)/2 from d.
    """
    i = np.arange(longest + 1, dtype=np.float64)
    weight = np.exp(-epsilon * i)
    sums, firsts, seconds = (
        np.cumsum(np.where(i > 0, weight * i**power, 0.0)) for power in range(3)
    )
    a = np.repeat(np.arange(longest + 1), 2)[1:-1]
    b = np.repeat(np.arange(longest + 1), 2)[:-2]
    total = 1 + sums[a] + sums[b]
    mean = (firsts[a] - firsts[b]) / total
    variance = (seconds[a] + seconds[b]) / total - mean**2
    excess = (weight[a] + weight[b]) / (2 * total)
    added = weight[b + 1]
    rise = total / (total + added) * (b + 1 + mean) ** 2 - variance
    return excess, variance, 2 * rise / (2 * excess + math.expm1(min(epsilon, LARGEST_LOGARITHM)))


def privacy(epsilon: float, delta: float) -> tuple[float, float]:
    """The two numbers of (epsilon, delta)-DP, checked."""
    epsilon = positive("epsilon", epsilon)
    if not 0 <= delta < 1:
        raise InvalidInputError(f"delta must be in [0, 1), got {delta}")
    return epsilon, float(delta)
