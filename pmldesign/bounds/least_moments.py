r"""How small the p-th moment of private noise on one number can be.

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

a quotient of a convex and a linear function of g. The proofs are in docs/bounds.md.

References:
    Geng and Viswanath (2014), The optimal mechanism in differential privacy (staircase).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.arguments import exponent, positive
from pmldesign.bounds.one_dimensional import HUGE, MARGIN, privacy
from pmldesign_solvers.operators.operator import Array

TABLE = 2**12
"""Largest support on one side, where there is delta."""

LONG_TABLE = 2**18
"""Largest support on one side, where there is none."""

TANGENTS = 2**13
"""How many tangents bound the V_{a+1,a} of a table together."""

NEAREST = 8
"""Points of the envelope on either side of delta whose slopes are tried."""

MOST = 256.0
"""With delta, the moment of a larger p is bounded by that of this one (E |z|^p is log-convex)."""

NEGLIGIBLE = 60.0
"""What is beyond e^-60 of a sum is left out."""


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

    Between two c a convex function is above both tangents, so above where they meet.
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
