r"""What noise satisfies when each step draws at random whose records take part in it.

Records are in b parts. Step t draws from part t mod b, each record with probability q, for itself
and again each time. C is lower triangular with at most b bands, no column longer than D, and noise
has the standard deviation sigma. The steps of a record are b apart, so that C x moves in rows of
its own for each of them. Given what came before, these rows are N(0, sigma^2) or, with probability
q, moved by at most D: all together are at most as distinct as k = ceil(n / b) of the pair

    Q = N(0, 1),        P = (1 - q) N(0, 1) + q N(t, 1),        t = D/sigma,

of Poisson-subsampled Gaussian noise, which one dimension attains [CC, Theorem 4]; (P, Q) if a
record is removed, (Q, P) if it is added. With q = 1 this is k steps without sampling, and b = 1 is
DP-SGD. Without any draw nothing differs: delta is at most 1 - (1 - q)^k at every epsilon.

One step. The loss log(P/Q) at x is l(x) = log(1 - q + q e^(tx - t^2/2)). On a grid of losses l_i
the mass w of Q between two neighbours, and the mass v of P, go to these two so that both are kept:

    Q': w - u at l_i, u at l_(i+1),    e^(l_i) (w - u) + e^(l_(i+1)) u = v,    P' = e^l Q'.

P and Q are functions of P' and Q' and of chance, so that these are no less distinct [DGKKM]. A grid
with more points between gives a smaller delta. Every u is rounded to the side of more loss, up for
a record that is removed and down for one that is added, by what w and v may be off.

k steps. With p_i the masses of P' at losses l_i (of Q' at -l_i for a record that is added), L the
sum of k losses and M(s) = sum_i p_i e^(s l_i), for every s >= 0

    delta(eps) = E (1 - e^(eps - L))_+ = M(s)^k e^(-s eps) E_s e^(-s (L - eps)) (1 - e^(eps - L))_+,

E_s for masses p_i e^(s l_i)/M(s), whose sum a Fourier transform gives with an error of about 1e-16:
with s at the least M(s)^k e^(-s eps) that is little of delta, however small delta is. It would be
much of it where a single large loss is rare and all the same most of delta. Losses above eps/2 are
then taken apart, M = M_0 + M_1: sums of the others have a small M_0(s)^k e^(-s eps), and the rest,
sums with one of these at least, have M^k - M_0^k in place of M^k, of which the transform is

    F_0^k ((1 + F_1/F_0)^k - 1).

Sums above the window of the transform are bounded by a further s (Chernoff).

References:
    [CC] Choquette-Choo and others (2023), (Amplified) banded matrix factorization: a unified
    approach to private training, Section 5.
    [DGKKM] Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), Connect the dots: tighter
    discrete approximations of privacy loss distributions.
    [H] Higham (2002), Accuracy and stability of numerical algorithms, Chapter 24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, non_negative, probability, real_numbers
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import UNIT, private_end, quotient_above, raised
from pmldesign_solvers.operators.operator import Array

POINTS, SHOWN, ROUGH = 2**17, 2**15, 2**13
"""Of a grid for a calibration, for reports and for a first guess. Of 2^17 points the scale is above
the exact one by less than 1e-5 of it."""
NEAR = 1e-3
"""Relative width of the bracket of a scale on the rough grid."""
FAR = 14.2
"""Standard deviations: beyond is a mass below 1e-45."""
SMALLEST = 1e-30
"""Delta that is still far above what is beyond FAR in 10^9 steps."""
CUT = 1e-18
"""Part of what a transform gives, above its window."""
RARE = 0.01
"""Expected number of losses above eps/2, up to which they are taken apart."""
LEVEL = 8 * UNIT
"""Relative error, in norm, of a transform for each doubling of its size: 6.7 u for the doublings,
twiddle factors correct to u [H, Theorem 24.2]."""
PLANNED = 2**9
"""Observations by which s and the window are chosen."""
TILTS = 2.0 ** np.arange(-8, 28, 0.25)
"""What is tried for s, and for the difference to a further s, over the largest loss."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How records are drawn for a strategy.

    Attributes:
        rate: q, in (0, 1).
        rounds: k, for how many steps a record can be drawn.
        longest: D, largest l2 norm of a column.
    """

    rate: float
    rounds: int
    longest: float

    def curve(self, sensitivity: float, scale: float) -> SampledCurve:
        """What noise of a scale satisfies, of `sensitivity` without sampling."""
        whole, step = (quotient_above(length, scale) for length in (sensitivity, self.longest))
        return SampledCurve(Noise.GAUSSIAN, whole, step, self.rate, self.rounds)

    def scale(self, epsilon: float, delta: float) -> float:
        """Smallest standard deviation for (epsilon, delta), rounded to the private side.

        Raises:
            VacuousGuaranteeError: no noise is needed, as hardly any record is ever drawn.
            InvalidInputError: delta is below SMALLEST.
        """
        start = self.roughly(epsilon, delta)
        return private_end(self._loss(epsilon, POINTS), delta, start=start, ratio=1 + NEAR)

    def roughly(self, epsilon: float, delta: float) -> float:
        """`scale` from losses on a coarse grid, rounded up; raises as that."""
        drawn = ever_drawn(self.rate, self.rounds)
        if delta >= drawn:
            raise VacuousGuaranteeError(
                f"a record is drawn with probability {drawn:.3g} in all, so that every mechanism"
                f" satisfies delta {delta:g}; take a smaller delta"
            )
        if delta < SMALLEST:
            raise InvalidInputError(
                f"delta must be at least {SMALLEST:g} for steps that draw their records, which is"
                f" the smallest that can be proved, got {delta:g}"
            )
        loss = self._loss(epsilon, ROUGH)
        return private_end(loss, delta, start=self.longest, ratio=1.3, width=NEAR)

    def _loss(self, epsilon: float, points: int) -> Callable[[float], float]:
        """Delta of noise as a function of its scale."""

        def loss(scale: float) -> float:
            step = quotient_above(self.longest, scale)
            return sampled_delta(step, self.rate, self.rounds, epsilon, points)

        return loss


@dataclass(frozen=True, slots=True)
class SampledCurve(PrivacyCurve):
    """What Gaussian noise satisfies with sampling; rho, mu and Renyi privacy without it.

    Attributes:
        step: largest l2 norm of a column over the scale, rounded up.
        rate: probability of a record to be drawn for a step.
        rounds: for how many steps a record can be drawn.
    """

    step: float
    rate: float
    rounds: int

    def delta(self, epsilon: float) -> float:
        """Smallest delta at an epsilon of at least 0."""
        epsilon = non_negative("epsilon", epsilon)
        return sampled_delta(self.step, self.rate, self.rounds, epsilon, POINTS)

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons, an array of their shape, on a coarser grid."""
        values = doubles(real_numbers("epsilons", epsilons))
        found = [
            sampled_delta(self.step, self.rate, self.rounds, epsilon, SHOWN)
            for epsilon in values.ravel().tolist()
        ]
        return np.array(found).reshape(values.shape)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon, at least 0, at a delta in (0, 1), rounded up by at most 1e-6 of it.

        Raises:
            InvalidInputError: delta out of range.
        """
        delta = probability("delta", delta)

        def loss(epsilon: float, points: int) -> float:
            return sampled_delta(self.step, self.rate, self.rounds, epsilon, points)

        if self.delta(0.0) <= delta:
            return 0.0
        roughly = private_end(partial(loss, points=ROUGH), delta, start=1.0, width=NEAR)
        fine = partial(loss, points=POINTS)
        return private_end(fine, delta, start=roughly, ratio=1 + NEAR)


def ever_drawn(rate: float, rounds: int) -> float:
    """1 - (1 - q)^k."""
    return -math.expm1(rounds * math.log1p(-rate))


def sampled_delta(ratio: float, rate: float, rounds: int, epsilon: float, points: int) -> float:
    """At least the smallest delta of k steps.

    Args:
        ratio: t.
        rate: q, in (0, 1).
        rounds: k.
        epsilon: at least 0.
        points: of the grid, a power of two: with more of them delta is smaller.
    """
    drawn = ever_drawn(rate, rounds)
    if ratio > 2 * FAR:  # an observation shows each draw
        return drawn
    low, high = (float(loss_at(x, ratio, rate)) for x in (-FAR, ratio + FAR))
    step, width, parts = 0.0, high - low, list[list[Part]]()
    while step * points < width:
        step = 2.0 ** math.ceil(math.log2(width / points))
        parts = [parts_of(losses, rounds, epsilon) for losses in on_a_line(ratio, rate, step)]
        width = max([width, *(part.width for way in parts for part in way)])
    found = [
        rounds * losses.lost + math.fsum(part.delta(losses, rounds, epsilon) for part in way)
        for losses, way in zip(one_step(ratio, rate, step), parts, strict=True)
    ]
    return min(raised(max(found), 16.0 * points), drawn)


def loss_at(x: ArrayLike, ratio: float, rate: float) -> Array:
    """l(x)."""
    always = ratio * np.asarray(x) - ratio**2 / 2
    return np.asarray(np.logaddexp(math.log1p(-rate), math.log(rate) + always))


def on_a_line(ratio: float, rate: float, step: float) -> tuple[Losses, Losses]:
    """The losses at PLANNED places x, by which s and the windows are chosen."""
    x = np.linspace(-FAR, ratio + FAR, PLANNED)
    exact = loss_at(x, ratio, rate)
    below = step * np.floor(exact / step)
    values = np.concatenate([below, below + step])
    parts = np.expm1(exact - below) / math.expm1(step)
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate([1 - parts, parts])) - np.tile(x**2 / 2, 2)
    apart = float(x[1] - x[0])
    logs += math.log(apart / math.sqrt(2 * math.pi))
    return (
        Losses(step, 0, values, logs + values, 0.0),
        Losses(step, 0, -values, logs, 0.0),
    )


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of a step, on a grid.

    Attributes:
        step: of the grid.
        first: the smallest loss over the step.
        values: the losses, in order on a grid.
        logs: the logarithms of their masses.
        lost: mass that counts as an infinite loss.
    """

    step: float
    first: int
    values: Array
    logs: Array
    lost: float

    def moments(self, cut: float, s: ArrayLike) -> tuple[Array, Array]:
        """Logarithms of M_0(s) and M_1(s), of losses up to the cut and above it; of s's shape."""
        above = self.values > cut
        exponents = self.logs + np.multiply.outer(np.asarray(s), self.values)
        return log_sums(exponents[..., ~above]), log_sums(exponents[..., above])


def log_sums(exponents: Array) -> Array:
    """The logarithm of the sum of e^x along the last axis; -inf of nothing."""
    top = np.maximum(exponents.max(axis=-1, initial=-np.inf), -1e300)
    with np.errstate(divide="ignore"):
        sums = np.log(np.exp(exponents - top[..., None]).sum(axis=-1))
    return np.asarray(top + sums)


@lru_cache(maxsize=8)
def one_step(ratio: float, rate: float, step: float) -> tuple[Losses, Losses]:
    """The losses if a record is removed, and if it is added."""
    first = math.floor(float(loss_at(-FAR, ratio, rate)) / step)
    last = math.ceil(float(loss_at(ratio + FAR, ratio, rate)) / step)
    values = np.asarray(step * np.arange(first, last + 1), dtype=np.float64)
    with np.errstate(divide="ignore"):  # log 0 at losses that no x has
        always = np.log1p(np.maximum(np.expm1(values) / rate, -1.0))  # tx - t^2/2
    x = (always + ratio**2 / 2) / ratio
    (without, off), (drawn, drawn_off) = _between(x), _between(x - ratio)
    gained = np.expm1(values[:-1])
    up = rate * (drawn - without) - gained * without
    up_off = rate * (drawn_off + off) + np.abs(gained) * off
    lifts = np.exp(values[:-1]) * math.expm1(step)
    below, beyond = float(scipy.special.ndtr(x[0])), float(scipy.special.ndtr(-x[-1]))
    with np.errstate(divide="ignore"):
        removed, added = (
            np.log(_spread(without + off, (up + side * up_off) / lifts, below, beyond))
            for side in (1, -1)
        )
    lost = (1 - rate) * beyond + rate * float(scipy.special.ndtr(ratio - x[-1]))
    return (
        Losses(step, first, values, removed + values, lost),
        Losses(step, -last, -values[::-1], added[::-1], below),
    )


def _spread(masses: Array, up: Array, below: float, beyond: float) -> Array:
    """Q': the masses between neighbours, u of each at the upper one, and what is outside."""
    up = np.clip(up, 0.0, masses)
    spread = np.append(masses - up, beyond)
    spread[1:] += up
    spread[0] += below
    return spread


def _between(x: Array) -> tuple[Array, Array]:
    """The mass of N(0, 1) between neighbours, from the nearer tail, and by how much it is off.

    `ndtr` is off by a relative 4 u (2 + x^2) below 0, and 8 u above it.
    """
    low, high = x[:-1], x[1:]
    ends = (np.where(low > 0, -low, high), np.where(low > 0, -high, low))
    larger, smaller = (scipy.special.ndtr(end) for end in ends)
    squares = [np.clip(end, -3 * FAR, 0) ** 2 for end in ends]
    return larger - smaller, 4 * UNIT * ((2 + squares[0]) * larger + (2 + squares[1]) * smaller)


def parts_of(losses: Losses, rounds: int, epsilon: float) -> list[Part]:
    """The sums that are composed apart: those with a loss above eps/2, if these are rare."""
    if rounds * losses.values.max() <= epsilon:
        return []
    rare = rounds * math.exp(float(losses.moments(epsilon / 2, 0.0)[1]))
    if rare > RARE:
        return [_part(losses, rounds, epsilon, math.inf, with_large=False)]
    kinds = (False, True) if rare > 0 else (False,)
    return [_part(losses, rounds, epsilon, epsilon / 2, with_large=large) for large in kinds]


def _part(losses: Losses, rounds: int, epsilon: float, cut: float, *, with_large: bool) -> Part:
    """A part with its s and window."""
    part = Part(cut, with_large)

    tilts = TILTS / float(losses.values.max())
    s = float(tilts[np.argmin(part.log_moment(losses, rounds, tilts) - tilts * epsilon)])
    at = part.log_moment(losses, rounds, s) + math.log(CUT)
    up, down = (part.log_moment(losses, rounds, s + sign * tilts) - at for sign in (1, -1))
    part = Part(cut, with_large, s, *(float(tilts[np.argmin(y / tilts)]) for y in (up, down)))
    low, high = part.window(losses, rounds)
    return replace(part, width=high - low)


@dataclass(frozen=True, slots=True)
class Part:
    """Sums of k losses up to a cut, or sums with one above it at least.

    Attributes:
        cut: of the losses.
        with_large: whether these are the sums with a loss above it.
        s: for which they are transformed.
        up: what is added to s for the bound on what is above the window.
        down: what is taken from it for that on what is below.
        width: of the window, about.
    """

    cut: float
    with_large: bool
    s: float = 0.0
    up: float = 1.0
    down: float = 1.0
    width: float = 0.0

    def log_moment(self, losses: Losses, rounds: int, s: ArrayLike) -> Array:
        """The logarithm of M_0(s)^k, or of M(s)^k - M_0(s)^k, of the shape of s."""
        near, large = losses.moments(self.cut, s)
        if not self.with_large:
            return rounds * near
        more = rounds * np.logaddexp(0.0, large - near)  # M^k = M_0^k e^more
        with np.errstate(divide="ignore"):
            some = more + np.log(-np.expm1(-more))
        few = math.log(rounds) + large - near  # e^more - 1, before it underflows
        return np.asarray(rounds * near + np.where(more < UNIT, few, some))

    def window(self, losses: Losses, rounds: int) -> tuple[float, float]:
        """Ends between which all but the part CUT lies, on either side."""
        tilts = self.s + np.array([0.0, self.up, -self.down])
        at, above, below = self.log_moment(losses, rounds, tilts).tolist()
        low = max((at - below + math.log(CUT)) / self.down, rounds * float(losses.values.min()))
        high = min((above - at - math.log(CUT)) / self.up, rounds * float(losses.values.max()))
        return low, max(low, high)

    def delta(self, losses: Losses, rounds: int, epsilon: float) -> float:
        """E (1 - e^(eps - L))_+ over these sums, from above."""
        step, s = losses.step, self.s
        low, high = self.window(losses, rounds)
        start, end = math.floor(low / step), math.ceil(high / step)
        size = scipy.fft.next_fast_len(end - start + 2, real=True)
        at = float(self.log_moment(losses, rounds, s))
        masses, error = self._composed(losses, rounds, at, size)
        places = np.arange(start, start + size)
        over = step * places - epsilon
        kept = over > 0
        shares = -np.exp(-s * over[kept]) * np.expm1(-over[kept])
        mean = float(np.maximum(masses[places[kept] % size], 0.0) @ shares)
        mean += CUT + error * float(np.linalg.norm(shares))
        sizes = 1000 + s * float(np.abs(losses.values).max())  # of the exponents, k times
        return math.exp(at - s * epsilon + 4 * UNIT * rounds * sizes) * mean

    def _composed(self, losses: Losses, rounds: int, at: float, size: int) -> tuple[Array, float]:
        """Masses of the sums under E_s, place i those of sums of i steps modulo the size.

        With F_0(0) + F_1(0) = 1 and g = F_1(0), the derivatives of (F_0 + F_1)^k - F_0^k are at
        most k and k (1 - (1 - g)^(k - 1)).

        Returns:
            The masses, shape (size,), and the norm of their error at most.
        """
        near, more = (float(moment) for moment in losses.moments(self.cut, self.s))
        total = float(np.logaddexp(near, more)) if self.with_large else near
        exponents = losses.logs + self.s * losses.values - total
        places = (losses.first + np.arange(exponents.size)) % size
        large = losses.values > self.cut
        one = np.bincount(places[~large], np.exp(exponents[~large]), size)
        F = scipy.fft.rfft(one)
        error = LEVEL * (rounds + 1) * math.log2(2 * size)
        if not self.with_large:
            return scipy.fft.irfft(F**rounds, size), error * float(np.linalg.norm(one))
        other = np.bincount(places[large], np.exp(exponents[large]), size)
        G = scipy.fft.rfft(other)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            small = F**rounds * scipy.special.expm1(rounds * scipy.special.log1p(G / F))
        whole = np.where(np.abs(G) < np.abs(F) / 2, small, (F + G) ** rounds - F**rounds)
        scale, without_last = math.exp(rounds * total - at), (rounds - 1) * (near - total)
        error *= float(np.linalg.norm(other)) - math.expm1(without_last)
        return scale * scipy.fft.irfft(whole, size), scale * error
