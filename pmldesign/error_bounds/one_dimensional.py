r"""How small the standard deviation, and the p-th moment, of private noise on one number can be.

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

The proofs are in docs/background/lower-bounds.md.

Noise z is added to a number that neighbouring data change by 1, as in `one_dimensional`; each
function returns an s with E |z|^p >= s^p, rounded down. The p-th moment of z_i is at least the
p-th power of its standard deviation, which no private noise attains for p > 2: at epsilon = 1 and
p = 10 this s is 3.3 times the least standard deviation.

Whole steps, (epsilon, delta), exact. With P_ab and its excess d_ab of `one_dimensional`, let

    V_ab = min over c of E_ab |i + c|^p,    i of law P_ab,    c in [-1/2, 1/2].

The least E |z|^p is the value at delta of the lower convex envelope of the points (d_ab, V_ab) with
|a - b| <= 1, and every slope l >= 0 bounds it by min over a, b of V_ab + 2 l (d_ab - delta). V_aa
has c = 0 and c = -C of V_{a+1,a} lies in [-1/2, 0], where E |i + c|^p is convex: the largest of its
tangents at a few c is a lower bound. Supports wider than a table are covered by its last V, which
grows with the support. Without delta, E |z|^p = 2 tanh(eps/2) sum over i >= 1 of i^p e^(-eps i).

Staircase. If every change t in [-1, 1] occurs, epsilon-DP needs, with b = e^-eps,

    E |z|^p >= min over g in [0, 1] of (1 - b)^2 sum_k b^k (k + g)^(p+1) / ((p + 1)(b + (1 - b) g)),

a quotient of a convex and a linear function of g. Proofs: docs/background/lower-bounds.md.

References:
    Geng and Viswanath (2014), The optimal mechanism in differential privacy, Theorem 7 (staircase).
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Section 2.
    Geng and Viswanath (2014), The optimal mechanism in differential privacy (staircase).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.arguments import exponent, positive
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

MARGIN = 1e-9
"""Relative rounding downwards; the sums of a table are good to 2^18 units, 6e-11."""


NEGLIGIBLE_LOGARITHM = 50.0
"""Weights below e^-50 do not change a sum in float64."""

LARGEST_LOGARITHM = 700.0
"""e^700 is still finite."""

HUGE = 1e307
"""A larger bound is given as this."""
TABLE = 2**12
"""Largest support on one side of a law for moments, with a delta."""

LONG_TABLE = 2**18
"""The same without a delta; and of a truncated geometric law, for variances."""

TANGENTS = 2**13
"""How many tangents bound the V_{a+1,a} of a table together."""

NEAREST = 8
"""Points of the envelope on either side of delta whose slopes are tried."""

MOST = 256.0
"""With delta, the moment of a larger p is bounded by that of this one (E |z|^p is log-convex)."""

NEGLIGIBLE = 60.0
"""What is beyond e^-60 of a sum is left out."""


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
    steps = max(1, math.ceil(support / LONG_TABLE))
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


def least_moment_root(p: float, epsilon: float, delta: float = 0.0) -> float:
    """The root of the least p-th absolute moment of (epsilon, delta)-DP noise for whole steps.

    Args:
        p: finite, at least 2.
        epsilon: positive.
        delta: in [0, 1).

    Returns:
        s, rounded down: s^p <= E |z|^p.

    Raises:
        InvalidInputError: an argument out of range.
    """
    p = exponent(p)
    epsilon, delta = privacy(epsilon, delta)
    if delta == 0:
        steps = max(1, math.ceil(_support(p, epsilon) / LONG_TABLE))
        return min(steps * _geometric_root(p, steps * epsilon), HUGE)
    p = min(p, MOST)
    # the first k with d_kk <= delta is below this
    wide = min(1 / delta, math.log1p(1 / delta) / epsilon, _support(p, epsilon))
    steps = max(1, math.ceil(wide / TABLE))
    if steps > 1:
        delta *= math.expm1(steps * epsilon) / math.expm1(epsilon)
    if delta >= 1:
        return 0.0
    return min(steps * _truncated_root(p, steps * epsilon, delta, math.ceil(wide / steps)), HUGE)


def staircase_moment_root(p: float, epsilon: float) -> float:
    """The root of the least p-th moment of epsilon-DP noise for every change t in [-1, 1].

    Args:
        p: finite, at least 2.
        epsilon: positive.

    Returns:
        s, rounded down: s^p <= E |z|^p.

    Raises:
        InvalidInputError: an argument out of range.
    """
    p, epsilon = exponent(p), positive("epsilon", epsilon)
    steps = max(1, math.ceil(_support(p, epsilon) / LONG_TABLE))
    epsilon *= steps
    ratio = math.exp(-epsilon)
    k = np.arange(math.ceil(_support(p, epsilon)) + 1, dtype=np.float64)

    def log_moment(share: float) -> float:
        total = float(
            scipy.special.logsumexp((p + 1) * np.log(np.maximum(k + share, 1e-300)) - epsilon * k)
        )
        return total - math.log(ratio + (1 - ratio) * share)

    found = scipy.optimize.minimize_scalar(
        log_moment, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
    )
    constant = 2 * math.log(-math.expm1(-epsilon)) - math.log(p + 1)
    return min(steps * (1 - MARGIN) * math.exp((float(found.fun) + constant) / p), HUGE)


def _support(p: float, epsilon: float) -> float:
    """A k beyond which i^p e^(-eps i) adds nothing to a sum: its largest term is at p/eps."""
    return min((p + NEGLIGIBLE + math.sqrt(2 * NEGLIGIBLE * p)) / epsilon + 2, 1e300)


def _geometric_root(p: float, epsilon: float) -> float:
    i = np.arange(1, math.ceil(_support(p, epsilon)) + 1, dtype=np.float64)
    total = float(scipy.special.logsumexp(p * np.log(i) - epsilon * i))
    return (1 - MARGIN) * math.exp((total + math.log(2 * math.tanh(epsilon / 2))) / p)


def _truncated_root(p: float, epsilon: float, delta: float, longest: int) -> float:
    excess, moments, log_unit = _points(p, epsilon, longest + 2)
    steepest = moments[1:] / (1 - excess[1:])
    tangent = int(steepest.argmin()) + 1
    if delta >= excess[tangent]:  # the line to (1, 0), without the cancellation of delta near 1
        least = float(min(steepest[tangent - 1], moments[-1])) * (1 - delta)
    else:
        reached = int((excess <= delta).argmax()) if excess[-1] <= delta else len(excess) - 1
        wider, shorter = (
            slice(reached, reached + NEAREST),
            slice(max(reached - NEAREST, 0), reached),
        )
        gaps = np.subtract.outer(excess[shorter], excess[wider])
        rises = np.subtract.outer(-moments[shorter], -moments[wider])
        slopes = rises[(gaps > 0) & (rises > 0)] / gaps[(gaps > 0) & (rises > 0)]
        values = (moments + slopes[:, None] * (excess - delta)).min(axis=1, initial=moments[-1])
        # wider supports than the table has
        values = np.minimum(values, moments[-1] - slopes * delta)
        least = float(values.max(initial=0.0))
    if least <= 0:
        return 0.0
    return (1 - MARGIN) * math.exp((math.log(least) + log_unit) / p)


def _points(p: float, epsilon: float, longest: int) -> tuple[Array, Array, float]:
    """d_ab and V_ab (from below) for (a, b) = (0, 0), (1, 0), (1, 1), ..., (longest, longest).

    V_ab in units of e^u; u comes last.
    """
    i = np.arange(longest + 1, dtype=np.float64)
    weight = np.exp(-epsilon * i)
    log_unit = float((p * np.log(np.maximum(i, 1.0)) - epsilon * i).max())
    values, _ = _sums(p, epsilon, i, np.zeros(1), log_unit)
    both = 1 + 2 * (np.cumsum(weight) - 1)
    total = both[1:] - weight[1:]
    excess, moments = np.empty(2 * longest + 1), np.empty(2 * longest + 1)
    excess[::2], moments[::2] = weight / both, values[0, ::2] / both
    pairs = weight[1:] + weight[:-1]
    excess[1::2] = pairs / (2 * total)
    moments[1::2] = _off_centre(p, epsilon, i, log_unit) / total
    return excess, moments, log_unit


def _off_centre(p: float, epsilon: float, i: Array, log_unit: float) -> Array:
    """A lower bound on min over c of sum over -k ... k + 1 of e^(-eps |i|) |i + c|^p, each k.

    Between two c a convex function is above both tangents, so above their intersection.
    """
    centres = np.linspace(-0.5, 0.0, 1 + TANGENTS // len(i))
    values, slopes = (sums[:, 1::2] for sums in _sums(p, epsilon, i, centres, log_unit))
    width = centres[1] - centres[0]
    first, last, falls, rises = values[:-1], values[1:], slopes[:-1], slopes[1:]
    at = (first - last + rises * width) / np.maximum(rises - falls, 1e-300)
    meet = first + falls * np.clip(at, 0.0, width) - 1e-12 * np.maximum(first, last)
    inside = (falls < 0) & (rises > 0)
    lowest = np.where(inside, meet, np.minimum(first, last)).min(axis=0)
    return np.asarray(np.maximum(lowest, 0.0))


def _sums(
    p: float, epsilon: float, i: Array, centres: Array, log_unit: float
) -> tuple[Array, Array]:
    """Sums of e^(-eps |i|) |i + c|^p over the supports of `_points`, one row for each c <= 0.

    And their derivatives by c.
    """
    c = centres[:, None]
    terms, rises = (
        np.zeros((len(centres), 2 * len(i) - 1)),
        np.zeros((len(centres), 2 * len(i) - 1)),
    )
    for places, reach, sign in (
        (slice(1, None, 2), i[1:] + c, 1.0),
        (slice(2, None, 2), i[1:] - c, -1.0),
    ):
        terms[:, places] = np.exp(p * np.log(reach) - epsilon * i[1:] - log_unit)
        rises[:, places] = sign * p * terms[:, places] / reach
    terms[:, 0] = np.abs(centres) ** p * math.exp(-log_unit)
    rises[:, 0] = -p * np.abs(centres) ** (p - 1) * math.exp(-log_unit)
    return np.cumsum(terms, axis=1), np.cumsum(rises, axis=1)
