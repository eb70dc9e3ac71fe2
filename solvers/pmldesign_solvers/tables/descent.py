"""Unconstrained descent (L-BFGS) that may be stopped before every evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from pmldesign_solvers.operators.operator import Array

MEMORY = 50
"""Pairs of steps and slopes; 10 took twice as many steps on couplings."""


def descend(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    *,
    steps: int,
    proceed: Callable[[], bool],
) -> Array:
    """The best point that was tried.

    Args:
        objective: the value and its slopes.
        start: where to begin.
        steps: at most so many.
        proceed: asked before every evaluation whether to go on.
    """
    from scipy.optimize import minimize

    best = (math.inf, start)

    def value(x: Array) -> tuple[float, Array]:
        nonlocal best
        if not proceed():
            raise _StopError
        result, slopes = objective(x)
        if result < best[0]:
            best = result, x.copy()
        return result, slopes

    with suppress(_StopError):
        minimize(
            value,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxfun": 3 * steps, "maxcor": MEMORY, "ftol": 1e-12},
        )
    return best[1]


class _StopError(Exception):
    """No more steps are wanted."""
