"""The loop around every solver of gamma_(p): the best of each side, and when to stop.

A method offers feasible points one by one, each with a lower and an upper bound. The best of each
side is kept, from any point (`BoundsLoop`). A solver of several parts, whose bounds
need not meet, offers certified bounds of either side whenever it has some (`Stages`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Bounds, Callback, SolverOptions, Status, Step
from pmldesign_solvers.operators.deadline import Deadline, Work

CLOSER = 0.9
"""Part of the gap to aim at, for the certificate rounds outwards. Chosen, not measured."""
PATIENCE = 50
"""Steps without a visible change of the gap before the solver calls it a stall. Chosen, not
measured: more than CRAWL and less than FIXED_POINT_STEPS and INTERIOR_STEPS together."""

CandidateT = TypeVar("CandidateT", bound=Bounds)
StrategyT = TypeVar("StrategyT")


class BoundsLoop(Generic[CandidateT]):
    """Takes candidates one by one, keeps the best of each side, and knows when to stop."""

    def __init__(
        self,
        candidates: Iterator[CandidateT],
        options: SolverOptions | None = None,
        start: float | None = None,
    ) -> None:
        self._candidates, self._options = candidates, options or SolverOptions()
        self._start = time.perf_counter() if start is None else start
        self.lower = self.upper = next(candidates)
        self.steps = 1
        self._visible_gap, self._visible_step = np.inf, 1

    @property
    def seconds(self) -> float:
        """Wall-clock time since the start."""
        return time.perf_counter() - self._start

    @property
    def _gap(self) -> float:
        return self.upper.upper / self.lower.lower - 1.0

    def run(self, closer: float = 1.0) -> Status:
        """Search until something says stop, for instance a gap of `closer * rel_gap`."""
        options = self._options
        with options.deadline.catching():
            for gap in self.gaps():
                if options.callback is not None:
                    lower, upper = self.lower.lower, self.upper.upper
                    options.callback(Step(self.steps, lower, upper, self.seconds))
                if gap <= closer * options.rel_gap:
                    return Status.OPTIMAL
                if self.steps >= options.max_steps:
                    return Status.ITERATION_LIMIT
                if options.deadline.over():
                    break
        return stopped(options.deadline) or Status.STALLED

    def gaps(self) -> Iterator[float]:
        """The gap after each candidate, until the candidates or the progress end."""
        yield self._gap
        while not self._stalled() and self._advance():
            yield self._gap

    def correct(self, certificate: Certificate) -> None:
        """Replace rounded values by certified ones, and continue."""
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


def stopped(deadline: Deadline) -> Status | None:
    """How a deadline ended a search; None if it has not passed."""
    if deadline.interrupted:
        return Status.INTERRUPTED
    return Status.TIME_LIMIT if deadline.over() else None


def ended(work: Work) -> Status | None:
    """How a budget ended its caller; None if some of it remains."""
    return stopped(work.deadline) or (Status.EFFORT if work.over() else None)


class LimitReachedError(Exception):
    """The time or the steps are used up, or nothing is left to be tried."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


@dataclass(slots=True)
class Stages(Generic[StrategyT]):
    """The best certified bounds so far of a solver of several stages.

    Attributes:
        options: when to stop.
        start: of `time.perf_counter`.
        lower, upper: the bounds.
        strategy: that of the upper bound; None before the first.
        steps: of all searches together.
    """

    options: SolverOptions
    start: float = field(default_factory=lambda: time.perf_counter())
    lower: float = 0.0
    upper: float = math.inf
    strategy: StrategyT | None = None
    steps: int = 0

    @property
    def seconds(self) -> float:
        """Wall-clock time since the start."""
        return time.perf_counter() - self.start

    @property
    def done(self) -> bool:
        """Whether the bounds are close enough."""
        return self.upper <= self.lower * (1 + self.options.rel_gap)

    def above(self, value: float, strategy: StrategyT) -> None:
        """An upper bound and its strategy."""
        if value < self.upper:
            self.upper, self.strategy = value, strategy

    def proceed(self) -> bool:
        """Count a step of a search; whether there is anything left for the next."""
        self.steps += 1
        return self.limit() is None

    def limit(self) -> Status | None:
        """The limit of steps or of time that has been reached; None for neither."""
        if self.steps >= self.options.max_steps:
            return Status.ITERATION_LIMIT
        return stopped(self.options.deadline)

    def ask(self) -> None:
        """Asked inside long work that may be given up: end the run if the time is up.

        Raises:
            LimitReachedError: it is.
        """
        if status := stopped(self.options.deadline):
            raise LimitReachedError(status)

    def report(self) -> None:
        """Show the bounds, once there is a strategy."""
        if self.options.callback is not None and self.strategy is not None:
            self.options.callback(Step(self.steps, self.lower, self.upper, self.seconds))

    def run(self, stages: Callable[[], Iterator[None]]) -> tuple[StrategyT, Status]:
        """The best strategy, as far as the gap and the limits ask for, and why it ended.

        Ctrl-C before the first strategy begins the stages once more, to end with that one.
        """
        deadline = self.options.deadline
        with deadline.catching():
            status = self._status_after(stages())
        if deadline.interrupted:
            if self.strategy is None:
                self._status_after(stages())
            status = Status.INTERRUPTED
        assert self.strategy is not None
        if self.done and status is not Status.INTERRUPTED:
            status = Status.OPTIMAL
        return self.strategy, status

    def _status_after(self, stages: Iterator[None]) -> Status:
        try:
            for _ in stages:
                if self.done:
                    break
                self.report()
                limit = self.limit()
                if limit is not None:
                    return limit
        except LimitReachedError as limit_reached:
            return limit_reached.status
        return Status.STRUCTURED


def best_lower(
    candidates: Iterator[CandidateT],
    rel_gap: float,
    max_steps: int,
    deadline: Deadline,
) -> CandidateT:
    """The candidate of the best lower bound, of a search inside another one."""
    search = BoundsLoop(candidates, SolverOptions(rel_gap, max_steps, deadline))
    search.run()
    return search.lower


def final_status(status: Status, certificate: Certificate, rel_gap: float) -> Status:
    """The status by the certificate, not by the search; Ctrl-C ends callers too."""
    if certificate.gap <= rel_gap and status is not Status.INTERRUPTED:
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
