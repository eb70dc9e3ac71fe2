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
    met, violated = math.inf, -math.inf  # logarithms of scales

    def excess(log_scale: float) -> float:
        nonlocal met, violated
        value = loss(math.exp(log_scale))
        if value <= target:
            met = min(met, log_scale)
        else:
            violated = max(violated, log_scale)
        return math.log(max(value, TINY) / target)

    log_scale, step = math.log(start), math.log(2)
    excess(log_scale)
    while math.isinf(met) or math.isinf(violated):
        log_scale += step if math.isinf(met) else -step
        step *= 2
        excess(log_scale)
    # the logarithms of the loss and of the scale are nearly linear in each other: few steps
    brentq(excess, violated, met, xtol=WIDTH / 4, rtol=1e-15, disp=False)
    while met > violated + WIDTH:
        excess((met + violated) / 2)
    return math.exp(met)
