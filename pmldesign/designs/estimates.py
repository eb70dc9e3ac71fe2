"""Estimates of seconds that are still asked for around a design, with a limit in seconds."""

from __future__ import annotations

import math

from pmldesign.designs.options import DesignOptions

LATE, BEYOND = (1.2, 3.0), 1.0
"""Part of a time limit and seconds on top of it; seconds that may always be taken."""
ANSWERED = 1e-10
"""Seconds for each entry of a wide strategy and query, to see that L R = A."""


def limit_of(options: DesignOptions) -> float | None:
    """The limit, in seconds; None for none."""
    limit = options.time_limit
    return float(limit) if isinstance(limit, float | int) else None


def late(options: DesignOptions, seconds: float) -> bool:
    """Whether what ends after so long ends far too late."""
    limit = limit_of(options)
    return limit is not None and seconds > LATE[0] * limit + LATE[1]


def allows(options: DesignOptions, seconds: float) -> bool:
    """Whether there is time for what is estimated to take so long."""
    limit = limit_of(options)
    return limit is None or seconds <= limit + BEYOND


def require(options: DesignOptions, seconds: float, what: str, remedy: str) -> None:
    """Refuse what takes so long that it ends far too late.

    Raises:
        ValueError: it does.
    """
    if late(options, seconds):
        raise ValueError(
            f"{what} about {math.ceil(seconds)} s, far beyond the time limit; allow"
            f" {math.ceil(2 * seconds)} s or more, or {remedy}"
        )
