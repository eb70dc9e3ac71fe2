"""Unconstrained descent (L-BFGS) that may be stopped before every evaluation."""

from __future__ import annotations

from collections.abc import Callable

from pmldesign_solvers.operators import lbfgs
from pmldesign_solvers.operators.operator import Array

CORRECTIONS = 50
"""Pairs of steps and slopes; 10 took twice as many steps on couplings."""


def descend(
    objective: lbfgs.Value, start: Array, *, steps: int, proceed: Callable[[], bool]
) -> Array:
    """The best point that was tried.

    Args:
        objective: the value and its slopes.
        start: where to begin.
        steps: at most so many.
        proceed: asked before every evaluation whether to go on.
    """
    return lbfgs.descend(
        objective,
        start,
        proceed=proceed,
        maxiter=steps,
        maxfun=3 * steps,
        maxcor=CORRECTIONS,
        ftol=1e-12,
    ).unless_interrupted()
