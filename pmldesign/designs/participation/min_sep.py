"""Searches for strategies of people whose steps are at least b apart: banded ones, and with poles.

Both descend F times the squared sensitivity (`pmldesign_solvers.participation`), until the limit of
time or Ctrl-C.
"""

from __future__ import annotations

import time

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import Participation
from pmldesign_solvers.norm.solution import Status, Step
from pmldesign_solvers.participation import banded, poles
from pmldesign_solvers.streams.chain import RunningSums

BANDED_CELLS = 2048
"""Steps up to which banded strategies are searched: O(n^2) a step, 10 s for 1024."""
POLES_CELLS = 512
"""Likewise with poles: O(n^3) a step, 5 s for 365."""
RANGE = 300.0
"""Logarithm of what rates may multiply to: the search multiplies and divides by it."""


class _Watch:
    """Counts steps, reports them, and says when time is over."""

    def __init__(self, options: DesignOptions, lower: float) -> None:
        self.options, self.lower = options, lower
        self.begin, self.number, self.over = time.perf_counter(), 0, False

    def __call__(self, norm: float) -> bool:
        seconds, self.number = time.perf_counter() - self.begin, self.number + 1
        if self.options.callback is not None:
            self.options.callback(Step(self.number, self.lower, norm, seconds))
        limit = self.options.time_limit
        self.over = self.over or (limit is not None and seconds >= limit)
        return self.over


def searched(
    sums: RunningSums, participation: Participation, options: DesignOptions, lower: float
) -> tuple[dict[str, Strategy], Status]:
    """The strategies that searches find, by what they are, and why the searches ended.

    Args:
        sums: the running sums.
        participation: min-sep.
        options: the limit of time is for these searches; the callback gets their steps.
        lower: bound on the norm, for the callback.
    """
    strategies: dict[str, Strategy] = {}
    watch, times, apart = _Watch(options, lower), participation.times, participation.apart
    widest = float(np.abs(np.cumsum(np.log(sums.rates))).max())
    if apart < 2 or sums.cells > BANDED_CELLS or widest > RANGE:
        return strategies, Status.OPTIMAL
    try:
        banded_point = banded.solve(sums, times, apart, watch)
        strategies["banded, rows and columns scaled"] = Strategy("design", banded_point.matrix)
        if sums.cells <= POLES_CELLS and times * apart <= sums.cells and not watch.over:
            poles_point = poles.solve(sums, times, apart, watch)
            strategies[f"{poles.POLES} poles, rows and columns scaled"] = Strategy(
                "design", poles_point.matrix
            )
    except KeyboardInterrupt:
        return strategies, Status.INTERRUPTED
    return strategies, Status.TIME_LIMIT if watch.over else Status.OPTIMAL
