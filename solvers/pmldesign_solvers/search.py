"""The loop around every solver of gamma_(p): the best of each side, and when to stop.

A method offers feasible points one by one, each with a lower and an upper bound. The best of each
side is kept, whichever point it came from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from pmldesign_solvers.certificate import Certificate
from pmldesign_solvers.solution import Bounds, Callback, Status, Step

PATIENCE = 50
"""Steps without a visible change of the gap before the solver calls it a stall."""

Found = TypeVar("Found", bound=Bounds)


class Search(Generic[Found]):
    """Takes candidates one by one, keeps the best of each side, and knows when to stop."""

    def __init__(
        self, candidates: Iterator[Found], callback: Callback | None, start: float
    ) -> None:
        self._candidates = candidates
        self._callback = callback
        self._start = start
        self.lower = self.upper = next(candidates)
        self.steps = 1
        self._visible_gap, self._visible_step = np.inf, 1

    @property
    def _gap(self) -> float:
        return self.upper.upper / self.lower.lower - 1.0

    def run(self, rel_gap: float, max_steps: int, time_limit: float | None) -> Status:
        """Search until something says stop."""
        try:
            while True:
                seconds = time.perf_counter() - self._start
                if self._callback is not None:
                    self._callback(Step(self.steps, self.lower.lower, self.upper.upper, seconds))
                if self._gap <= rel_gap:
                    return Status.OPTIMAL
                if self.steps >= max_steps:
                    return Status.ITERATION_LIMIT
                if time_limit is not None and seconds >= time_limit:
                    return Status.TIME_LIMIT
                if self._stalled() or not self._advance():
                    return Status.STALLED
        except KeyboardInterrupt:
            return Status.INTERRUPTED

    def correct(self, certificate: Certificate) -> None:
        """Put certified values in place of what rounding made of them, and go on from there."""
        self.lower = replace(self.lower, lower=certificate.lower)
        self.upper = replace(self.upper, upper=certificate.upper)

    def _advance(self) -> bool:
        candidate = next(self._candidates, None)
        if candidate is None:
            return False
        self.steps += 1
        if candidate.lower > self.lower.lower:
            self.lower = candidate
        if candidate.upper < self.upper.upper:
            self.upper = candidate
        return True

    def _stalled(self) -> bool:
        if self._gap < 0.99 * self._visible_gap:
            self._visible_gap, self._visible_step = self._gap, self.steps
        return self.steps - self._visible_step >= PATIENCE


def final_status(status: Status, certificate: Certificate, rel_gap: float) -> Status:
    """What the certificate says counts, not what the search believed."""
    if certificate.gap <= rel_gap:
        return Status.OPTIMAL
    return Status.STALLED if status is Status.OPTIMAL else status
