"""When a solver of gamma_(p) stops, and who watches it."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign_solvers.norm.solution import Callback


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """What every solver is told beside the workload.

    Attributes:
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps.
        time_limit: in seconds; None for none. A step is never cut short.
        callback: called after every step. Ctrl-C during the search returns the best so far.
    """

    rel_gap: float = 1e-6
    max_steps: int = 1000
    time_limit: float | None = None
    callback: Callback | None = None


DEFAULTS = SolverOptions()
