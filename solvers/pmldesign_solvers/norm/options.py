"""When a solver of gamma_(p) stops, and who watches it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pmldesign_solvers.norm.solution import Callback

LATE = 1.2, 3.0
"""Part of a time limit, and seconds on top of it, within which everything should end."""

BEYOND = 1.0
"""Seconds beyond the limit that what cannot be stopped may take: small workloads always can."""

CUBES, PRODUCTS = 7e8, 2e9
"""Cubes of sizes a second: one step and its certificate take n^3 / 10^9 s for an n x n workload on
one core of 2023, and k n^2 / 3e9 s for k rows or columns more, which take part in products of
matrices alone. Slower cores do three quarters."""


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """What every solver is told beside the workload.

    Attributes:
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps.
        time_limit: in seconds; None for none. A step is never cut short, but none is begun that
            would end far too late.
        callback: called after every step. Ctrl-C during the search returns the best so far.
    """

    rel_gap: float = 1e-6
    max_steps: int = 1000
    time_limit: float | None = None
    callback: Callback | None = None

    def over(self, seconds: float, step: float = 0.0) -> bool:
        """Whether the time is up, or will be by far after another step and a certificate.

        Args:
            seconds: since the start.
            step: how long the last step took; both of those are taken to last as long.
        """
        limit = self.time_limit
        return limit is not None and (seconds >= limit or self.late(seconds + 2 * step))

    def late(self, seconds: float) -> bool:
        """Whether what ends after so long ends far too late."""
        limit = self.time_limit
        return limit is not None and seconds > LATE[0] * limit + LATE[1]

    def affords(self, seconds: float) -> bool:
        """Whether what takes so long can come after a search that uses up the limit."""
        return self.time_limit is None or not self.late(self.time_limit + seconds)

    def allows(self, seconds: float) -> bool:
        """Whether there is time for what cannot be stopped and is estimated to take so long."""
        return self.time_limit is None or seconds <= self.time_limit + BEYOND

    def before(self, seconds: float) -> SolverOptions:
        """The options of a search before what cannot be stopped and takes about so long."""
        if self.time_limit is None:
            return self
        left = LATE[0] * self.time_limit + LATE[1] - BEYOND - seconds
        return replace(self, time_limit=max(min(self.time_limit, left), 0.0))


DEFAULTS = SolverOptions()


def step_seconds(m: int, n: int) -> float:
    """About how long one step and its certificate take for an m x n workload, rather more."""
    short, long = min(m, n), max(m, n)
    return short**2 * (short / CUBES + (long - short) / PRODUCTS)
