r"""The delta of steps that draw their records at random, from the definition, in double precision.

Records are in b parts, and step t draws those of part t mod b, each with probability q. R is lower
triangular with at most b bands, so that the k steps of a record move rows of their own. With t the
longest column over the scale, a step is as distinct as P = (1 - q) N(0, 1) + q N(t, 1) and
Q = N(0, 1), at most, in either order, and its loss at x is

    l(x) = log(1 - q + q e^(t x - t^2/2)),   x(l) = (log(1 + (e^l - 1)/q) + t^2/2)/t.

On a grid of losses l_i the masses of P and Q between two neighbours go to these so that both are
kept: P' and Q' are at least as distinct, as P and Q are obtained from them by a function and
further randomness. Q carries v to l_(i + 1) and u to l_i, u + v its mass, u e^(l_i) + v e^(l_(i +
1)) that of P. A finer grid with the same points gives less: steps are powers of two, a quarter of
those that suffice elsewhere. For a record that is added P and Q change places.

Every u is rounded to the side of more loss, by what `ndtr` may be off: 4 u (2 + x^2) relatively,
u = 2^-53.

The sum of k losses. Let mu be the masses of one, positive, on a grid, and

    G(s) = sum_i mu_i e^(s l_i),  delta = E (1 - e^(eps - L))_+ <= G(s)^k e^(-s eps) sum_j nu_j g_j,

nu the masses of the sum, which are those of mu_i e^(s l_i)/G(s) by Fourier transforms modulo their
size, and g_j = e^(-s x)(1 - e^-x) at x = L - eps > 0. The mass below the window comes round as a
larger loss; the mass above is at most G(s + a)^k/G(s)^k e^(-a top), for any a. Transforms are off
by at most 8 u log2 of their size times the norm of their argument, powers by k times that. Losses
above eps/2 may be rare: the sums without any, and those with some of them, are then two cases, the
transform of the second being (f + h)^k - f^k, f that of the small and h that of the large ones.
With f and h of sum 1 - r and r, it is off by k times what h is off, and by k (1 - (1 - r)^(k - 1))
times what f is off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

END = 14.2
"""Standard deviations, beyond which there is less than 1e-45."""
GRID = 2**19
"""Points of the losses of a step, or of the window of their sum, about."""
OUTSIDE = -40.0
"""Logarithm of the part of a sum above its window, at most, and below it."""
MODEST = 0.01
"""Expected number of large losses up to which they are a case of their own."""
UNIT = 2.0**-53


class Step(NamedTuple):
    """Losses of a step: the number of the first, the grid, logarithms of masses, and lost mass."""

    first: int
    losses: Any
    logs: Any
    lost: float


class Case(NamedTuple):
    """Sums of losses without large ones, or with some: which losses are large, and their number."""

    step: Step
    large: Any
    rounds: int
    some: bool

    def log_moment(self, s: float) -> float:
        """The logarithm of G^k, or of the part due to large losses."""
        small, more = self.log_sums(s)
        if not self.some:
            return self.rounds * small
        added = self.rounds * float(np.logaddexp(0.0, more - small))
        if added < UNIT:
            return self.rounds * small + math.log(self.rounds) + more - small
        return self.rounds * small + added + math.log(-math.expm1(-added))

    def log_sums(self, s: float) -> tuple[float, float]:
        """The logarithms of G of the small and of the large losses."""
        exponents = self.step.logs + s * self.step.losses
        return _log_sum(exponents[~self.large]), _log_sum(exponents[self.large])


def sampled_delta(ratio: float, rate: float, rounds: int, epsilon: float) -> float:
    """At least the smallest delta.

    Args:
        ratio: t.
        rate: q, in (0, 1).
        rounds: k.
        epsilon: at which it is.
    """
    ever = -math.expm1(rounds * math.log1p(-rate)) * (1 + 8 * UNIT)
    if ratio > 2 * END:  # a draw is seen
        return ever
    ends = [
        float(np.logaddexp(math.log1p(-rate), math.log(rate) + ratio * x - ratio**2 / 2))
        for x in (-END, ratio + END)
    ]
    unit, coarser = 2.0 ** math.ceil(math.log2((ends[1] - ends[0]) / GRID)), 1.0
    while coarser:
        unit *= coarser
        both = _steps(ratio, rate, unit, (math.floor(ends[0] / unit), math.ceil(ends[1] / unit)))
        sums = [
            [(case, _window(case, unit, epsilon)) for case in _cases(step, rounds, epsilon)]
            for step in both
        ]
        points = max((window[2] for cases in sums for _, window in cases), default=0) / (2 * GRID)
        coarser = 2.0 ** math.ceil(math.log2(points)) if points > 1 else 0.0
    deltas = [
        rounds * step.lost
        + math.fsum(_delta(case, unit, epsilon, window) for case, window in cases)
        for step, cases in zip(both, sums, strict=True)
    ]
    return float(min(max(deltas) * (1 + 32 * GRID * UNIT), ever))


def _steps(ratio: float, rate: float, unit: float, ends: tuple[int, int]) -> list[Step]:
    """A record removed, and added."""
    first, last = ends
    losses = unit * np.arange(first, last + 1)
    grown = np.expm1(losses)
    with np.errstate(divide="ignore"):
        x = (np.log1p(np.maximum(grown / rate, -1.0)) + ratio**2 / 2) / ratio
    (Q, off), (moved, moved_off) = _masses(x), _masses(x - ratio)
    grown = grown[:-1]
    up = rate * (moved - Q) - grown * Q
    up_off = rate * (moved_off + off) + abs(grown) * off
    under, over = float(scipy.special.ndtr(x[0])), float(scipy.special.ndtr(-x[-1]))
    found = []
    for more in (up_off, -up_off):
        v = np.clip((up + more) / (np.exp(losses[:-1]) * math.expm1(unit)), 0.0, Q + off)
        q = np.append(Q + off - v, over)
        q[1:] += v
        q[0] += under
        with np.errstate(divide="ignore"):
            found.append(np.log(q))
    lost = (1 - rate) * over + rate * float(scipy.special.ndtr(ratio - x[-1]))
    return [
        Step(first, losses, found[0] + losses, lost),
        Step(-last, -losses[::-1], found[1][::-1], under),
    ]


def _masses(places: Any) -> Any:
    """Masses of N(0, 1) between neighbours, each from the nearer tail; and their largest errors."""
    low, high = places[:-1], places[1:]
    total, off = 0.0, 0.0
    for sign, end in ((1, np.where(low > 0, -low, high)), (-1, np.where(low > 0, -high, low))):
        tail = scipy.special.ndtr(end)
        total += sign * tail
        off += 4 * UNIT * (2 + np.clip(end, -3 * END, 0) ** 2) * tail
    return total, off


def _cases(step: Step, rounds: int, epsilon: float) -> list[Case]:
    """Those that add anything."""
    if rounds * step.losses[-1] <= epsilon:
        return []
    large = step.losses > epsilon / 2
    expected = rounds * float(np.exp(step.logs[large]).sum())
    if not 0 < expected <= MODEST:
        return [Case(step, np.zeros_like(large), rounds, some=False)]
    return [Case(step, large, rounds, some=some) for some in (False, True)]


def _window(case: Case, unit: float, epsilon: float) -> tuple[float, int, int]:
    """s, and the number of the first place of the window and of its places."""
    first, last = (float(case.rounds * case.step.losses[end]) for end in (0, -1))
    s, _ = _least(lambda s: case.log_moment(s) - s * epsilon, last)
    at = case.log_moment(s) + OUTSIDE
    above, below = (
        _least(lambda a, side=side: (case.log_moment(s + side * a) - at) / a, last)[1]  # type: ignore[misc]
        for side in (1, -1)
    )
    start, end = math.floor(max(-below, first) / unit), math.ceil(min(above, last) / unit)
    return s, start, int(scipy.fft.next_fast_len(max(end - start, 0) + 2, real=True))


def _least(value: Callable[[float], float], largest: float) -> tuple[float, float]:
    """Where a function with one dip over (0, inf) is about least, and its value there."""
    found = scipy.optimize.minimize_scalar(
        lambda y: value(2.0**y / largest), bounds=(-8, 40), method="bounded", options={"xatol": 0.1}
    )
    return 2.0 ** float(found.x) / largest, float(found.fun)


def _delta(case: Case, unit: float, epsilon: float, window: tuple[float, int, int]) -> float:
    """E (1 - e^(eps - L))_+ over the sums of a case."""
    s, start, size = window
    nu, error = _sum(case, s, size)
    places = np.arange(start, start + size)
    over = unit * places - epsilon
    g = np.where(over > 0, -np.exp(-s * np.maximum(over, 0)) * np.expm1(-np.maximum(over, 0)), 0.0)
    mean = float(np.maximum(nu[places % size], 0.0) @ g) + error * float(np.linalg.norm(g))
    # exponents of up to 1000 and s times a loss are rounded, in every factor
    rounded = 4 * UNIT * case.rounds * (1000 + s * float(abs(case.step.losses).max()))
    return math.exp(case.log_moment(s) - s * epsilon + rounded) * (mean + math.exp(OUTSIDE))


def _sum(case: Case, s: float, size: int) -> tuple[Any, float]:
    """nu, place i that of sums of i units modulo the size; and how much it is off in norm."""
    step, large, rounds = case.step, case.large, case.rounds
    small, more = case.log_sums(s)
    one = float(np.logaddexp(small, more)) if case.some else small
    exponents = step.logs + s * step.losses - one
    places = (step.first + np.arange(len(exponents))) % size
    usual = np.bincount(places[~large], np.exp(exponents[~large]), size)
    f, off = scipy.fft.rfft(usual), 8 * UNIT * (rounds + 1) * math.log2(2 * size)
    if not case.some:
        return scipy.fft.irfft(f**rounds, size), off * float(np.linalg.norm(usual))
    rare = np.bincount(places[large], np.exp(exponents[large]), size)
    h = scipy.fft.rfft(rare)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        little = f**rounds * scipy.special.expm1(rounds * scipy.special.log1p(h / f))
    power = np.where(2 * abs(h) < abs(f), little, (f + h) ** rounds - f**rounds)
    part = math.exp(rounds * one - case.log_moment(s))
    off *= float(np.linalg.norm(rare)) - math.expm1((rounds - 1) * (small - one))
    return part * scipy.fft.irfft(power, size), part * off


def _log_sum(exponents: Any) -> float:
    top = exponents.max(initial=-math.inf)
    if not math.isfinite(top):
        return -math.inf
    return float(top + math.log(np.exp(exponents - top).sum()))
