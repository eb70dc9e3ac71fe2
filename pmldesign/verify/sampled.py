r"""The delta of steps that draw their records at random, from the definition, in double precision.

Records are in b parts, and step t draws those of part t mod b, each with probability q. R is lower
triangular with at most b bands, so that the k steps of a record move rows of their own. With t the
longest column over the scale, a step is as distinct as P = (1 - q) N(0, 1) + q N(t, 1) and
Q = N(0, 1), at most, in either order, and its loss at x is

    l(x) = log(1 - q + q e^(t x - t^2/2)),   x(l) = (log((e^l - 1 + q)/q) + t^2/2)/t.

On a grid of losses l_i the masses of P and Q between two neighbours go to these so that both are
kept: P' and Q' are no less distinct, as what they came from is a function of them and of further
chance. Q carries v to l_(i + 1) and u to l_i, u + v its mass, u e^(l_i) + v e^(l_(i + 1)) that of
P. What lies beyond the grid counts as lost. k steps are the k-th power of a Fourier transform; what
of their sum lies above its window is bounded by the least moment (Chernoff), and counts as lost;
what lies below comes round as a larger loss. For a record that is added P and Q change places.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

GRID = 5e-5
"""Of the losses."""
TAIL, ROUNDING = 1e-15, 1e-13
"""Mass beyond the grid of a step, over the number of steps; and what transforms are off by."""
MOST = 2**24
"""Points of a grid."""
POWERS = np.geomspace(0.05, 500.0, 24)
"""Of moments."""


def sampled_delta(ratio: float, rate: float, rounds: int, epsilon: float) -> float | None:
    """At least the smallest delta; None where the grid would be too large.

    Args:
        ratio: t.
        rate: q, in (0, 1).
        rounds: k.
        epsilon: at which it is.
    """
    far = -float(scipy.special.ndtri(TAIL / rounds))
    top = np.logaddexp(math.log1p(-rate), math.log(rate) + ratio * (ratio + far) - ratio**2 / 2)
    bottom = np.logaddexp(math.log1p(-rate), math.log(rate) - ratio * far - ratio**2 / 2)
    first, last = math.floor(bottom / GRID), math.ceil(top / GRID)
    if last - first > MOST:
        return None
    losses = GRID * np.arange(first, last + 1)
    inside = np.expm1(losses) + rate
    with np.errstate(divide="ignore"):
        places = np.where(
            inside > 0, (np.log(np.maximum(inside, 0) / rate) + ratio**2 / 2) / ratio, -np.inf
        )
    without = _masses(places)
    drawn = (1 - rate) * without + rate * _masses(places - ratio)
    grown = np.exp(losses)
    up = (drawn - grown[:-1] * without) / np.diff(grown)
    up = np.clip(up, 0.0, without)
    q = np.append(without - up, 0.0) + np.append(0.0, up)
    removed = _composed(losses, q * grown, rounds, epsilon)
    added = _composed(-losses[::-1], q[::-1], rounds, epsilon)
    if removed is None or added is None:
        return None
    return max(removed, added)


def _masses(places: Any) -> Any:
    """Of N(0, 1) between neighbours, each from the nearer tail."""
    low, high = places[:-1], places[1:]
    return np.where(
        low > 0,
        scipy.special.ndtr(-low) - scipy.special.ndtr(-high),
        scipy.special.ndtr(high) - scipy.special.ndtr(low),
    )


def _composed(losses: Any, masses: Any, rounds: int, epsilon: float) -> float | None:
    """Sum of masses of k steps at losses above epsilon, times 1 - e^(epsilon - loss)."""
    lost = rounds * max(0.0, 1.0 - math.fsum(masses))
    moments = {
        sign: np.array([scipy.special.logsumexp(sign * p * losses, b=masses) for p in POWERS])
        for sign in (1, -1)
    }
    ends = {
        sign: float(((rounds * values - math.log(TAIL)) / POWERS).min())
        for sign, values in moments.items()
    }
    start, stop = (
        math.floor(max(-ends[-1], rounds * losses[0]) / GRID),
        math.ceil(min(ends[1], rounds * losses[-1]) / GRID),
    )
    size = scipy.fft.next_fast_len(max(stop - start, losses.size) + 2, real=True)
    if size > MOST:
        return None
    first = round(losses[0] / GRID)
    together = scipy.fft.irfft(scipy.fft.rfft(masses, size) ** rounds, size)
    # place i holds losses first k + i modulo the size
    at = GRID * (start + (np.arange(size) + rounds * first - start) % size)
    above = at > epsilon
    gained = np.maximum(together[above], 0.0) * -np.expm1(epsilon - at[above])
    return float(gained.sum()) + lost + TAIL + ROUNDING
