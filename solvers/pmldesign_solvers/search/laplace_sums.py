r"""Quantiles of weighted sums of Laplace numbers, V = sum_j l_j eta_j.

V has the characteristic function phi(t) = prod_j 1 / (1 + (l_j t)^2). The midpoint rule of step
tau for

    P(|V| <= h) = 2/pi * integral over t > 0 of sin(h t) phi(t) / t dt

is off by at most P(|V| > 2 pi / tau - h) (the sum is a square wave). With tau = pi / (q h) the
terms come in blocks of q with alternating signs, and Euler's summation ends the series.

An independent Gaussian number of standard deviation g multiplies phi(t) by e^(-(g t)^2/2).

A long row keeps its largest weights. The others, all small, count as equal ones with the same sums
of squares and of fourth powers: the law has the same variance and kurtosis, and what differs is of
the order of the sixth powers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array

BLOCKS, AVERAGED = 14, 12
"""Blocks that are added, and partial sums that Euler's summation averages: 1e-10 in the tests."""
FAR = 24.0
"""Standard deviations from which the midpoint rule may be wrong: e^-33 of a Laplace number."""
SECANT_STEPS = 7
"""Of the secant method for the half-width; four are enough for 1e-9."""
LONG, KEPT = 256, 32
"""Weights of a row beyond which it is long, where 4096 rows take two seconds, and of a long one
those that count by themselves."""
CONDENSED = 1e-4
"""Added to half-widths of long rows, relative: in the tests they are off by 2e-5 at most."""


MOST_ENTRIES = 2**26
"""Weights of all rows that are inverted at all: beyond, `moment_bound` takes variances alone."""


def laplace_half_widths(
    rows: Array, miss: float, counts: Array | None = None, gaussian: Array | None = None
) -> Array:
    """The h with P(|V| > h) = miss for V = sum_j rows_ij times Laplace(1), shape (m,).

    Args:
        rows: shape (m, r), non-negative; long ones are condensed.
        miss: in (0, 1).
        counts: how often each weight occurs, shape (m, r); None for once.
        gaussian: standard deviation of a Gaussian number that is added, shape (m,); None for none.
    """
    widths_of = inverted_half_widths if rows.shape[1] <= LONG else condensed_half_widths
    return widths_of(rows, miss, counts, gaussian)


def inverted_half_widths(
    rows: Array, miss: float, counts: Array | None = None, gaussian: Array | None = None
) -> Array:
    """As `laplace_half_widths`, by all weights of every row."""
    times = np.ones_like(rows) if counts is None else counts
    normal = np.zeros(len(rows)) if gaussian is None else gaussian
    spreads = np.sqrt(2 * (times * rows**2).sum(axis=1) + normal**2)
    result = np.zeros(len(rows))
    noisy = np.flatnonzero(spreads > 0)
    scaled, beside = rows[noisy] / spreads[noisy, None], normal[noisy] / spreads[noisy]
    order = np.argsort(-scaled, axis=1, kind="stable")
    kinds = [np.take_along_axis(part, order, axis=1) for part in (scaled.round(12), times[noisy])]
    kinds = kinds if counts is not None else kinds[:1]
    stacked = np.hstack([beside.round(12)[:, None], *kinds])
    distinct, back = np.unique(stacked, axis=0, return_inverse=True)
    if len(distinct):
        values = distinct[:, 1 : 1 + rows.shape[1]]
        used = values.any(axis=0)
        often = distinct[:, 1 + rows.shape[1] :][:, used] if counts is not None else None
        widths = _quantiles(_Sums(values[:, used], often, distinct[:, 0]), miss)
        result[noisy] = widths[back.ravel()] * spreads[noisy]
    return result


class _Sums(NamedTuple):
    """Laplace sums plus Gaussian numbers, together of variance 1: weights, how often, sizes."""

    rows: Array
    counts: Array | None
    gaussian: Array


def condensed_half_widths(
    rows: Array, miss: float, counts: Array | None = None, gaussian: Array | None = None
) -> Array:
    """As `inverted_half_widths` for long rows, a little wider."""
    times = np.ones_like(rows) if counts is None else counts
    largest = np.argpartition(-rows, KEPT - 1, axis=1)[:, :KEPT]
    values, often_kept = (np.take_along_axis(part, largest, axis=1) for part in (rows, times))
    kept = _square_and_fourth_powers(values, often_kept)
    squares, fourths = (
        np.maximum(whole - part, 0.0)
        for whole, part in zip(_square_and_fourth_powers(rows, times), kept, strict=True)
    )
    uncertain = (fourths > 0) & (squares > 1e-14 * kept[0])
    rest = np.sqrt(np.divide(fourths, squares, where=uncertain, out=np.zeros_like(squares)))
    often = np.divide(squares**2, fourths, where=uncertain, out=np.zeros_like(squares))
    weights = np.hstack([often_kept, often[:, None]])
    widths = inverted_half_widths(np.hstack([values, rest[:, None]]), miss, weights, gaussian)
    return widths * (1 + CONDENSED)


def _square_and_fourth_powers(rows: Array, times: Array) -> tuple[Array, Array]:
    """Sums over the entries of each row, counted as often as they occur."""
    squares = rows * rows
    return np.einsum("ij,ij->i", times, squares), np.einsum("ij,ij,ij->i", times, squares, squares)


def moment_bound(spreads: Array, miss: float) -> Array:
    """Upper bound on h, only from the variance of V."""
    x = np.linspace(0.001, 0.999, 4000) * math.sqrt(2)
    bounds = (math.log(2 / miss) - np.log1p(-(x**2) / 2)) / x
    return np.asarray(spreads * bounds.min())


def _quantiles(sums: _Sums, miss: float) -> Array:
    """Half-widths where V has variance 1; secant steps on the logarithm of the tail."""
    rows = sums.rows
    gaussian, single = float(-scipy.special.ndtri(miss / 2)), -math.log(miss) / math.sqrt(2)
    low = np.full(len(rows), min(gaussian, single))
    high = np.full(len(rows), max(gaussian, single, min(gaussian, single) * 1.01))
    target = math.log(miss)
    f_low, f_high = (np.log(_tail(sums, h)) - target for h in (low, high))
    for _ in range(SECANT_STEPS):
        slope = f_high - f_low
        moving = np.abs(slope) > 1e-13
        step = np.where(moving, f_high * (high - low) / np.where(moving, slope, 1.0), 0.0)
        low, f_low = high, f_high
        high = np.clip(high - step, low / 2, 2 * low)
        f_high = np.log(_tail(sums, high)) - target
    return high


def _tail(sums: _Sums, h: Array) -> Array:
    """P(|V| > h) for V of variance 1, shape (m,), at least 1e-14."""
    rows, counts, gaussian = sums
    q = math.ceil((FAR / float(h.min()) + 1) / 2)
    k = np.arange(q * (BLOCKS + AVERAGED)) + 0.5
    t = np.multiply.outer(np.pi / (q * h), k)
    with np.errstate(over="ignore"):  # an infinite product is a phi of 0
        product = np.exp((gaussian[:, None] * t) ** 2 / 2)
        for j, column in enumerate(rows.T):
            factor = 1 + (column[:, None] * t) ** 2
            product *= factor
            if counts is not None:
                several = np.flatnonzero(counts[:, j] != 1)
                product[several] *= factor[several] ** (counts[several, j, None] - 1)
        terms = np.sin(np.pi * k / q) / (k * product)
    partial = np.cumsum(terms.reshape(len(h), -1, q).sum(axis=2), axis=1)[:, BLOCKS - 1 :]
    weights = scipy.special.comb(AVERAGED, np.arange(AVERAGED + 1)) / 2.0**AVERAGED
    inside = (2 / np.pi) * (partial @ weights)
    return np.asarray(np.maximum(1 - inside, 1e-14))
