r"""Intervals for the answers, from the exact law of their noise.

The error of answer i is V = sum_j l_j eta_j, l row i of L diag(u).

Gaussian. V is Gaussian of standard deviation s norm(l) (to 1e-30 at the scales of a lattice); the
half-width is a quantile. All intervals together: level^(1/m) for each (Sidak).

Laplace. A discrete Laplace number is the difference of two floors of exponentials, so V is within
norm(l)_1 of the same sum of continuous ones, which has the characteristic function
phi(t) = prod_j 1 / (1 + (b l_j t)^2). The midpoint rule of step tau for

    P(|V| <= h) = 2/pi * integral over t > 0 of sin(h t) phi(t) / t dt

is off by at most P(|V| > 2 pi / tau - h) (the sum is a square wave). With tau = pi / (q h) the
terms come in blocks of q with alternating signs, and Euler's summation ends the series. All
intervals together: 1 - (1 - level) / m for each (Bonferroni).

Where L is too large to be written out, products have few kinds of rows, and the law is inverted for
each kind. Otherwise Laplace noise gets an upper bound: for given variance v of V
the moment generating function is largest if one measurement has all of it, hence
P(|V| > h) <= 2 min_x e^(-x h) / (1 - x^2 v / 2).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import comb, ndtri

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.noise import Noise
from pmldesign.release.noise.exact import ExactNoise
from pmldesign.strategies import ProductStrategy
from pmldesign.workloads.union import products_over
from pmldesign_solvers.operators.operator import Array

LARGEST_L = 2**22
"""Entries of L whose laws are inverted: about 5 s of one core."""
BLOCKS, AVERAGED = 14, 12
"""Blocks that are added, and partial sums that Euler's summation averages: 1e-10 in the tests."""
FAR = 24.0
"""Standard deviations from which the midpoint rule may be wrong: e^-33 of a Laplace number."""
STEPS = 7
"""Of the secant method for the half-width; four are enough for 1e-9."""


def half_widths(noise: ExactNoise, level: float, *, simultaneous: bool = False) -> Array:
    """Half of the width of the interval around every answer, shape (m,).

    Args:
        noise: what was added.
        level: the chance that the interval covers the truth, in (0, 1).
        simultaneous: all intervals together, rather than each.

    Raises:
        InvalidInputError: the level is out of range.
    """
    if not 0 < level < 1:
        raise InvalidInputError(f"level must be in (0, 1), got {level}; take for example 0.95")
    made, lattice = noise.mechanism, noise.lattice
    m, r = made.workload.shape[0], lattice.units.size
    miss = 1 - level
    if noise.mechanism.noise is Noise.GAUSSIAN:
        if simultaneous:
            miss = -math.expm1(math.log(level) / m)
        return np.asarray(float(-ndtri(miss / 2)) * deviations(noise))
    if simultaneous:
        miss /= m
    if m * r <= LARGEST_L:
        rows = np.abs(lattice.estimator.reconstruction(made.workload)) * lattice.units
        return np.asarray(laplace_half_widths(rows * noise.scale, miss) + rows.sum(axis=1))
    by_kind = _by_kinds_of_rows(noise, miss)
    return moment_bound(deviations(noise), miss) * (1 + 1e-9) if by_kind is None else by_kind


def _by_kinds_of_rows(noise: ExactNoise, miss: float) -> Array | None:
    """Half-widths for a product without weights: rows with the same entries have the same law.

    None where the strategy is none, or there are too many kinds of rows.
    """
    strategy, queries = noise.lattice.estimator, noise.mechanism.workload
    if not isinstance(strategy, ProductStrategy) or strategy.weights is not None:
        return None
    parts = products_over(queries, strategy.sizes)
    if parts is None:
        return None
    unit, found = float(noise.lattice.units[0]), []
    for part in parts:
        kinds, places = [], np.zeros(1, dtype=np.intp)
        for factor, own in zip(strategy.factors, part, strict=True):
            rows = np.sort(np.abs(factor.reconstruction(own)), axis=1)[:, ::-1]
            distinct, kind = np.unique(rows.round(12), axis=0, return_inverse=True)
            kinds.append(distinct[:, distinct.any(axis=0)])
            places = (places[:, None] * len(distinct) + kind.ravel()).ravel()
        if math.prod(one.size for one in kinds) > LARGEST_L:
            return None
        together = kinds[0] * unit
        for one in kinds[1:]:
            together = np.kron(together, one)
        widths = laplace_half_widths(together * noise.scale, miss) + together.sum(axis=1)
        found.append(widths[places])
    return np.concatenate(found)


def deviations(noise: ExactNoise) -> Array:
    """Standard deviation of every answer, shape (m,)."""
    unit = math.sqrt(noise.mechanism.noise.variance) * noise.noise_scale
    return np.asarray(unit * np.sqrt(noise.factorization.variances))


def laplace_half_widths(rows: Array, miss: float) -> Array:
    """The h with P(|V| > h) = miss for V = sum_j rows_ij times Laplace(1), shape (m,).

    Args:
        rows: shape (m, r), non-negative.
        miss: in (0, 1).
    """
    spreads = np.sqrt(2 * (rows**2).sum(axis=1))
    result = np.zeros(len(rows))
    some = np.flatnonzero(spreads > 0)
    scaled = np.sort(rows[some] / spreads[some, None], axis=1)[:, ::-1]
    distinct, back = np.unique(scaled.round(12), axis=0, return_inverse=True)
    kept = distinct[:, distinct.any(axis=0)] if len(distinct) else distinct
    if len(kept):
        result[some] = _quantiles(kept, miss)[back.ravel()] * spreads[some]
    return result


def moment_bound(spreads: Array, miss: float) -> Array:
    """Upper bound on h from the variance of V alone."""
    x = np.linspace(0.001, 0.999, 4000) * math.sqrt(2)
    bounds = (math.log(2 / miss) - np.log1p(-(x**2) / 2)) / x
    return np.asarray(spreads * bounds.min())


def _quantiles(rows: Array, miss: float) -> Array:
    """Half-widths where V has variance 1; secant steps on the logarithm of the tail."""
    gaussian, single = float(-ndtri(miss / 2)), -math.log(miss) / math.sqrt(2)
    low = np.full(len(rows), min(gaussian, single))
    high = np.full(len(rows), max(gaussian, single, min(gaussian, single) * 1.01))
    target = math.log(miss)
    f_low, f_high = (np.log(_tail(rows, h)) - target for h in (low, high))
    for _ in range(STEPS):
        slope = f_high - f_low
        moving = np.abs(slope) > 1e-13
        step = np.where(moving, f_high * (high - low) / np.where(moving, slope, 1.0), 0.0)
        low, f_low = high, f_high
        high = np.clip(high - step, low / 2, 2 * low)
        f_high = np.log(_tail(rows, high)) - target
    return high


def _tail(rows: Array, h: Array) -> Array:
    """P(|V| > h) for V of variance 1, shape (m,), at least 1e-14."""
    q = math.ceil((FAR / float(h.min()) + 1) / 2)
    k = np.arange(q * (BLOCKS + AVERAGED)) + 0.5
    t = np.multiply.outer(np.pi / (q * h), k)
    product = np.ones_like(t)
    with np.errstate(over="ignore"):  # an infinite product is a phi of 0
        for column in rows.T:
            product *= 1 + (column[:, None] * t) ** 2
        terms = np.sin(np.pi * k / q) / (k * product)
    partial = np.cumsum(terms.reshape(len(h), -1, q).sum(axis=2), axis=1)[:, BLOCKS - 1 :]
    weights = comb(AVERAGED, np.arange(AVERAGED + 1)) / 2.0**AVERAGED
    inside = (2 / np.pi) * (partial @ weights)
    return np.asarray(np.maximum(1 - inside, 1e-14))
