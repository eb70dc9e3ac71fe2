"""When coarse levels end, which a solver works through before its first bounds."""

from __future__ import annotations

import math
import time


class Clock:
    """Ends the steps on coarse levels: when time is over, or at Ctrl-C.

    Args:
        begin: `time.perf_counter()` at the start of the solver.
        limit: in seconds; None for none.

    Attributes:
        interrupted: whether Ctrl-C came.
    """

    def __init__(self, begin: float, limit: float | None) -> None:
        self._end = math.inf if limit is None else begin + limit
        self.interrupted = False

    @property
    def over(self) -> bool:
        """Whether coarse levels should end."""
        return self.interrupted or time.perf_counter() >= self._end
