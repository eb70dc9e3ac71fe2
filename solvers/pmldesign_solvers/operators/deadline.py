"""When a computation stops: a deadline on the clock, and a deterministic budget of work.

A time limit is a brake, and steps are not predicted: every loop asks its `Deadline` once
per iteration, and returns the best so far with bounds that hold. Ctrl-C brings the deadline
forward to now.

Searches that could go on for ever stop after so much `Work`: evaluations of their objectives,
weighted by their multiplications. The same search with the same seed and effort returns the same
digits, however busy the machine is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

LEAST_SECONDS = 1e-9
"""For a library's own limit once the deadline has passed."""

Result = TypeVar("Result")


class Deadline:
    """A point in time after which loops stop, or Ctrl-C if it comes earlier.

    All parts of one computation share one deadline.

    Args:
        seconds: from now on; None for never.

    Attributes:
        interrupted: whether Ctrl-C came.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self.interrupted = False

    @classmethod
    def of(cls, limit: float | Deadline | None) -> Deadline:
        """A deadline, or the one that begins now and ends after so many seconds."""
        return limit if isinstance(limit, Deadline) else cls(limit)

    def over(self) -> bool:
        """Whether it has passed."""
        return self.interrupted or time.monotonic() >= self._end

    def left(self) -> float | None:
        """Seconds until then, for libraries with a limit of their own; None for never.

        Positive, as SCS takes 0 for none. Nothing else may depend on it.
        """
        if self.over():
            return LEAST_SECONDS
        return None if math.isinf(self._end) else max(self._end - time.monotonic(), LEAST_SECONDS)

    def interrupt(self) -> None:
        """Ctrl-C came: the deadline is now."""
        self.interrupted = True

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Work that Ctrl-C may end early, because it has stored its result so far."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupt()

    def completed(self, work: Callable[[], Result]) -> Result:
        """Result of necessary work: after Ctrl-C it is done again.

        A second Ctrl-C ends it.
        """
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupt()
            return work()

    def begun(self, steps: Callable[[], Iterator[Result]]) -> Iterator[Result]:
        """Steps, the first one in any case."""

        def first() -> tuple[Result, Iterator[Result]]:
            points = steps()
            return next(points), points

        point, points = self.completed(first)
        yield point
        yield from points


class _Never(Deadline):
    def interrupt(self) -> None:
        raise KeyboardInterrupt


NEVER = _Never()
"""The deadline that does not pass. Many share it, so that Ctrl-C ends the caller as well."""


class Effort(StrEnum):
    """How much work searches do that nothing proves to be complete."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"

    @property
    def work(self) -> float:
        """Units for one search: some 2 and 20 seconds, or until nothing is gained."""
        return {"quick": 2e10, "normal": 2e11, "thorough": math.inf}[self.value]

    @property
    def least_gain(self) -> float:
        """A search ends where the later half of its work has gained less, relatively."""
        return 0.0 if self is Effort.THOROUGH else 1e-3


ENTRY, SPARSE, SOLVED, DECOMPOSED, CALL = 30.0, 15.0, 3.0, 15.0, 5e6
"""Units of an elementary function of an entry, of a product with an entry of a sparse array or of a
matrix that meets a vector, of n^3 where a system is solved and where a matrix is decomposed, and of
calling an objective once."""


class Work:
    """A budget of work, in multiplications of a product of matrices.

    Other operations count as many of these as take as long, about: searches of all kinds do 0.6 to
    1.4e10 units in a second of one core (benchmarks/work.py: OpenBLAS with one thread, where a
    product of two matrices does 1.8e10). Deadlines end the work as well.

    Args:
        units: how many may be spent; inf for no limit.
        deadline: ends it earlier; None if only Ctrl-C does.
        whole: that contains this part.

    Attributes:
        units: the budget.
        spent: how many are spent.
        deadline: ends it earlier.
    """

    def __init__(
        self,
        units: float = math.inf,
        deadline: Deadline | None = None,
        whole: Work | None = None,
    ) -> None:
        self.units, self.spent, self._whole = units, 0.0, whole
        self.deadline = Deadline() if deadline is None else deadline

    @property
    def left(self) -> float:
        """What is left to be spent."""
        return max(self.units - self.spent, 0.0)

    def spend(self, units: float) -> None:
        """Count work that was done."""
        self.spent += units
        if self._whole is not None:
            self._whole.spend(units)

    def over(self) -> bool:
        """Whether the budget is spent, or the deadline has passed."""
        return self.spent >= self.units or self.deadline.over()

    def step(self, units: float) -> bool:
        """Spend units; whether any are left."""
        self.spend(units)
        return not self.over()

    def part(self, share: float) -> Work:
        """A share of the remaining budget; its expenses count for the whole."""
        return Work(self.left * share, self.deadline, self)
