"""Numbers that are balls: sums, maxima, norms, and their ends as floats.

References:
    Johansson (2017), Arb: efficient arbitrary-precision midpoint-radius interval arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from flint import arb

HIDDEN = 2.0**-100
"""What exact arithmetic would round away: the root of a ball around 4 is not exactly 2."""


def total(values: Iterable[Any]) -> Any:
    """The sum."""
    result = arb(0)
    for value in values:
        result += value
    return result


def largest(values: Iterable[Any]) -> Any:
    """The largest of non-negative values."""
    result = arb(0)
    for value in values:
        result = result.max(value)
    return result


def root(square: Any) -> Any:
    """The root of a ball that may reach below 0 by rounding."""
    return square.nonnegative_part().sqrt()


def power_norm(squares: Sequence[Any], p: float) -> Any:
    """(sum_i s_i^p)^(1/p) from s_i^2; the largest s_i at p = inf."""
    if math.isinf(p):
        return root(largest(squares))
    return power(total(power(square, arb(p) / 2) for square in squares), 1 / arb(p))


def power(value: Any, exponent: Any) -> Any:
    """A power of a ball that may reach below 0 by rounding; of one around 0 all from 0 on."""
    value = value.nonnegative_part()
    return value**exponent if bool(value > 0) else arb(value.upper() ** exponent).union(arb(0))


def dual_norm(values: Sequence[float], p: float) -> Any:
    """norm(u)_q with q = p/(p - 2): the largest at p = 2, the sum at p = inf."""
    positive = [arb(value) for value in values if value > 0]
    if p == 2:
        return largest(positive)
    if math.isinf(p):
        return total(positive)
    q = arb(p) / (arb(p) - 2)
    return total(value**q for value in positive) ** (1 / q)


def above(value: Any) -> float:
    """The smallest float that is at least everything in the ball, but for 2^-100 of it."""
    upper = float(value.upper())
    certain = bool(arb(upper) + abs(value) * HIDDEN >= value)
    return upper if certain else math.nextafter(upper, math.inf)


def below(value: Any) -> float:
    """The largest float that is at most everything in the ball, but for 2^-100 of it."""
    lower = float(value.lower())
    certain = bool(arb(lower) - abs(value) * HIDDEN <= value)
    return lower if certain else math.nextafter(lower, -math.inf)


def normal(x: Any) -> Any:
    """Phi(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def free_mass(alpha: Sequence[Any]) -> Any:
    """What alpha leaves free, at least 0."""
    return (1 - total(alpha)).max(arb(0))


def laplacian_root(w: Any) -> Any:
    """F with F F^T the Laplacian of symmetric weights, floats or balls: elimination, only sums."""
    left, root = w.copy(), np.zeros((len(w), len(w) - 1), dtype=w.dtype)
    for cell in range(len(w) - 1):
        below = left[cell + 1 :, cell]
        degree = below.sum()
        if bool(degree > 0):
            size = degree.sqrt() if isinstance(degree, arb) else math.sqrt(degree)
            root[cell, cell] = size
            root[cell + 1 :, cell] = -below / size
            left[cell + 1 :, cell + 1 :] += np.outer(below, below / degree)
    return root
