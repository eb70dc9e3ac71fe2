"""Root finding that returns the private end of its bracket, never a two-sided root."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

WIDTH = 5e-7
"""Relative width of the final bracket; half of what the tests of a calibration ask for."""

TINY = 1e-308


def private_end(loss: Callable[[float], float], target: float, *, start: float) -> float:
    """Smallest noise scale, to a relative 5e-7, at which a decreasing privacy loss is met.

    Args:
        loss: privacy loss at a scale, non-negative, decreasing but for rounding.
        target: positive; exceeded at small scales and met at large ones.
        start: positive, where to begin.

    Returns:
        A scale with loss(scale) <= target, for which some scale' with
        scale / (1 + 5e-7) <= scale' < scale was evaluated and has loss(scale') > target.
    """
    met, violated = math.inf, 0.0

    def excess(log_scale: float) -> float:
        nonlocal met, violated
        scale = math.exp(log_scale)
        value = loss(scale)
        if value <= target:
            met = min(met, scale)
        else:
            violated = max(violated, scale)
        return math.log(max(value, TINY) / target)

    log_scale, step = math.log(start), math.log(2)
    excess(log_scale)
    while math.isinf(met) or violated == 0:
        log_scale += step if math.isinf(met) else -step
        step *= 2
        excess(log_scale)
    # the logarithms of the loss and of the scale are nearly linear in each other: few steps
    brentq(excess, math.log(violated), math.log(met), xtol=WIDTH / 4, rtol=1e-15, disp=False)
    while met > violated * (1 + WIDTH):
        excess((math.log(met) + math.log(violated)) / 2)
    return met
