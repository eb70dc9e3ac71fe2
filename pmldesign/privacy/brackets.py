"""Root finding that returns the private end of its bracket, never a two-sided root."""

from __future__ import annotations

import math
from collections.abc import Callable

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
    # logarithms of scales, and by how much those of their losses are above that of the target
    (met, below), (violated, above) = (math.inf, 0.0), (-math.inf, 0.0)

    def evaluate(log_scale: float) -> None:
        nonlocal met, violated, below, above
        value = loss(math.exp(log_scale))
        excess = (math.log(value) if value > 0 else VANISHED) - math.log(target)
        if value <= target:
            met, below = log_scale, excess
        else:  # also where the loss is not a number
            violated, above = log_scale, excess

    log_scale, step = math.log(start), math.log(ratio)
    evaluate(log_scale)
    while math.isinf(met) or math.isinf(violated):
        if not LOWEST < log_scale < HIGHEST:
            raise InvalidInputError(
                "the scale of the noise that this guarantee needs is out of the range of double "
                "precision; take another epsilon or delta"
            )
        log_scale += step if math.isinf(met) else -step
        log_scale = min(max(log_scale, LOWEST), HIGHEST)
        step *= 2
        evaluate(log_scale)
    # the logarithms of the loss and of the scale are nearly linear in each other: few secants, for
    # which an end that stays again counts half as much (Illinois); every fourth step halves
    turn, stays = 0, None
    while met > violated + width:
        log_scale, turn, before, stayed = (met + violated) / 2, turn + 1, met, stays
        secant = (violated * below - met * above) / ((below - above) or math.nan)
        if turn % 4 and violated <= secant <= met:
            log_scale = min(max(secant, violated + width / 2), met - width / 2)
        evaluate(log_scale)
        stays = "violated" if met < before else "met"
        if stays == stayed == "violated":
            above /= 2
        elif stays == stayed:
            below /= 2
    return math.exp(met)
