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

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.options import SolverOptions
from pmldesign_solvers.norm.solution import Bounds, Callback, Status, Step

CLOSER = 0.9
"""Part of the gap to aim at, for the certificate rounds outwards. Chosen, not measured."""
PATIENCE = 50
"""Steps without a visible change of the gap before the solver calls it a stall. Chosen, not
measured: more than CRAWL and less than FIXED_POINT_STEPS and INTERIOR_STEPS together."""

CandidateT = TypeVar("CandidateT", bound=Bounds)


class Search(Generic[CandidateT]):
    """Takes candidates one by one, keeps the best of each side, and knows when to stop."""

    def __init__(
        self, candidates: Iterator[CandidateT], options: SolverOptions, start: float
    ) -> None:
        self._candidates, self._options, self._start = candidates, options, start
        self.lower = self.upper = next(candidates)
        self.steps = 1
        self._visible_gap, self._visible_step = np.inf, 1

    @property
    def _gap(self) -> float:
        return self.upper.upper / self.lower.lower - 1.0

    def run(self, closer: float = 1.0) -> Status:
        """Search until something says stop, for instance a gap of `closer * rel_gap`."""
        options = self._options
        try:
            while True:
                seconds = time.perf_counter() - self._start
                if options.callback is not None:
                    options.callback(Step(self.steps, self.lower.lower, self.upper.upper, seconds))
                if self._gap <= closer * options.rel_gap:
                    return Status.OPTIMAL
                if self.steps >= options.max_steps:
                    return Status.ITERATION_LIMIT
                if options.time_limit is not None and seconds >= options.time_limit:
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


def best_lower(candidates: Iterator[CandidateT], rel_gap: float, max_steps: int) -> CandidateT:
    """The candidate of the best lower bound, of a search inside another one.

    Raises:
        KeyboardInterrupt: Ctrl-C ends the outer search as well.
    """
    search = Search(candidates, SolverOptions(rel_gap, max_steps), time.perf_counter())
    if search.run() is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return search.lower


def final_status(status: Status, certificate: Certificate, rel_gap: float) -> Status:
    """What the certificate says counts, not what the search believed."""
    if certificate.gap <= rel_gap:
        return Status.OPTIMAL
    return Status.STALLED if status is Status.OPTIMAL else status


def in_units_of(exponent: int, callback: Callback | None) -> Callback | None:
    """The callback of a search for gamma_(p)(2^-exponent A), as that for A."""
    if callback is None or exponent == 0:
        return callback

    def scaled(step: Step) -> None:
        lower, upper = float(np.ldexp(step.lower, exponent)), float(np.ldexp(step.upper, exponent))
        callback(replace(step, lower=lower, upper=upper))

    return scaled
