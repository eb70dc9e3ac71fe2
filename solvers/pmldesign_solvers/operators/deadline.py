"""When a computation stops: a deadline on the clock, and a deterministic budget of work.

A time limit is a brake, and nobody predicts what a step takes: every loop asks its `Deadline` once
per iteration, and returns the best so far with bounds that hold.

Searches that could go on for ever stop after so much `Work`: evaluations of their objectives,
weighted by their multiplications. The same search with the same seed and effort returns the same
digits, however busy the machine is.
"""

from __future__ import annotations

import math
import time
from enum import Enum


class Deadline:
    """A point in time after which loops stop.

    Args:
        seconds: from now on; None for never.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @classmethod
    def of(cls, limit: float | Deadline | None) -> Deadline:
        """A deadline, or the one that begins now and ends after so many seconds."""
        return limit if isinstance(limit, Deadline) else cls(limit)

    def over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self._end


NEVER = Deadline()
"""The deadline that does not pass."""


class Effort(Enum):
    """How much work searches do that nothing proves to be complete."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"

    @property
    def work(self) -> float:
        """Units for all searches of one design together: multiplications, roughly."""
        return {"quick": 2e9, "normal": 2e10, "thorough": math.inf}[self.value]


class Work:
    """A budget of work.

    Args:
        units: how many may be spent; inf for no limit.

    Attributes:
        units: the budget.
        spent: how many are spent.
    """

    def __init__(self, units: float = math.inf) -> None:
        self.units, self.spent = units, 0.0

    def spend(self, units: float) -> None:
        """Count work that was done."""
        self.spent += units

    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.spent >= self.units
