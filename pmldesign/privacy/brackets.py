"""Root finding that returns the private end of its bracket, never a two-sided root."""

from __future__ import annotations

import math
from collections.abc import Callable

import scipy

from pmldesign.errors import InvalidInputError

WIDTH = 5e-7
"""Relative width of the final bracket; half of what the tests of a calibration ask for."""
NARROW = 1e-11
"""The same where a loss takes microseconds and is rounded by some 1e-13 at most."""

VANISHED = math.log(math.ulp(0.0)) - 1
"""Logarithm of a loss that is 0 in float64."""
LOWEST, HIGHEST = -700.0, 700.0
"""Logarithms of the scales that are tried: what lies beyond is not reached in float64."""


def private_end(
    loss: Callable[[float], float],
    target: float,
    *,
    start: float,
    ratio: float = 2.0,
    width: float = WIDTH,
) -> float:
    """Smallest noise scale, to a relative width, at which a decreasing privacy loss is met.

    Args:
        loss: privacy loss at a scale, non-negative, decreasing but for rounding.
        target: positive; exceeded at small scales and met at large ones.
        start: positive, where to begin.
        ratio: of the second scale that is tried to the first; above 1.
        width: relative, of the final bracket; above 1e-12.

    Returns:
        A scale with loss(scale) <= target, for which some scale' with
        scale / (1 + width) <= scale' < scale was evaluated and has loss(scale') > target.

    Raises:
        InvalidInputError: no scale between 1e-304 and 1e304 is at the boundary.
    """
    met, violated = math.inf, -math.inf  # logarithms of scales

    def excess(log_scale: float) -> float:
        nonlocal met, violated
        value = loss(math.exp(log_scale))
        if value <= target:
            met = min(met, log_scale)
        else:  # also where the loss is not a number
            violated = max(violated, log_scale)
        return (math.log(value) if value > 0 else VANISHED) - math.log(target)

    log_scale, step = math.log(start), math.log(ratio)
    excess(log_scale)
    while math.isinf(met) or math.isinf(violated):
        if not LOWEST < log_scale < HIGHEST:
            raise InvalidInputError(
                "the scale of the noise that this guarantee needs is out of the range of double "
                "precision; take another epsilon or delta"
            )
        log_scale += step if math.isinf(met) else -step
        log_scale = min(max(log_scale, LOWEST), HIGHEST)
        step *= 2
        excess(log_scale)
    # the logarithms of the loss and of the scale are nearly linear in each other: few steps
    scipy.optimize.brentq(excess, violated, met, xtol=width / 4, rtol=1e-15, disp=False)
    while met > violated + width:
        excess((met + violated) / 2)
    return math.exp(met)
