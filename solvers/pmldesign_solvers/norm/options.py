"""When a solver of gamma_(p) stops, and who watches it."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign_solvers.norm.solution import Callback

LATE = 1.2, 3.0
"""Part of a time limit, and seconds on top of it, within which everything should end."""

BEYOND = 1.0
"""Seconds beyond the limit that what cannot be stopped may take: small workloads always can."""

CUBES = 7e8
"""Cubes of sizes a second: one step and its certificate take n^3 / 10^9 s for an n x n workload on
one core of 2023; for m x n, m > n, less than m n^2 / 10^9 s. Slower cores do three quarters."""


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
        if limit is None:
            return False
        return seconds >= limit or seconds + 2 * step > LATE[0] * limit + LATE[1]

    def affords(self, seconds: float) -> bool:
        """Whether what takes so long can come after a search that uses up the limit."""
        limit = self.time_limit
        return limit is None or limit + seconds <= LATE[0] * limit + LATE[1]

    def allows(self, seconds: float) -> bool:
        """Whether there is time for what cannot be stopped and is estimated to take so long."""
        return self.time_limit is None or seconds <= self.time_limit + BEYOND


DEFAULTS = SolverOptions()


def step_seconds(m: int, n: int) -> float:
    """About how long one step and its certificate take for an m x n workload, rather more."""
    return float(max(m, n)) * min(m, n) ** 2 / CUBES
