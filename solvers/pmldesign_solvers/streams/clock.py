"""Limits of time and Ctrl-C before the first bounds and between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")


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

    def completed(self, work: Callable[[], Result]) -> Result:
        """What some work returns without which there is no answer: after Ctrl-C it is done again.

        A second Ctrl-C ends it.
        """
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupted = True
            return work()

    def begun(self, steps: Callable[[], Iterator[Result]]) -> Iterator[Result]:
        """Steps of which the first one is taken whatever happens."""

        def first() -> tuple[Result, Iterator[Result]]:
            points = steps()
            return next(points), points

        point, points = self.completed(first)
        yield point
        yield from points
