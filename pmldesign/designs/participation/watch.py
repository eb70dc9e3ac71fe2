"""The clock of a design of several stages: one limit of time, one count of steps, both bounds."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from pmldesign.designs.options import DesignOptions
from pmldesign_solvers.norm.solution import Step


class Watch:
    """Counts steps, reports them, and says when time is over.

    Args:
        options: the limit of time is for all stages together; the callback gets their steps.
    """

    def __init__(self, options: DesignOptions) -> None:
        self._options, self._begin = options, time.perf_counter()
        self.number, self.over = 0, False
        self._lower, self._upper = 0.0, math.inf

    @property
    def options(self) -> DesignOptions:
        """What was asked for, with the time that is left."""
        limit = self._options.time_limit
        left = None if limit is None else max(limit - self.seconds, 1e-9)
        return replace(self._options, time_limit=left)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._begin

    def bounded(self, lower: float) -> bool:
        """A step with a lower bound on the norm; True where time is over."""
        self._lower = max(self._lower, lower)
        return self._stepped()

    def reached(self, norm: float) -> bool:
        """A step with a strategy of this norm; True where time is over."""
        self._upper = min(self._upper, norm)
        return self._stepped()

    def _stepped(self) -> bool:
        self.number += 1
        if self._options.callback is not None:
            step = Step(self.number, self._lower, self._upper, self.seconds)
            self._options.callback(step)
        limit = self._options.time_limit
        self.over = limit is not None and self.seconds >= limit
        return self.over
