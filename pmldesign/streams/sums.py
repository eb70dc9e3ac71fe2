"""The answers of a stream: A x^ of the estimates x^ = C^-1 y.

Running sums by one number of state. Windows, whose query t sums the steps from a start s_t to t,
are differences of two running sums, S_t - S_{s_t}: the last of these are kept, for as many steps as
the longest window has. The standard deviations are those of the windows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import sums_of
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.workloads.base import Workload
from pmldesign_solvers.intervals.dual import open_sums
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.streams.chain import RunningSums

ROWS = 1024
"""Steps whose numbers are turned into lists at a time."""
COMPARED, AGREEMENT = 16, 1e-9
"""Parts of the steps by which saved states are compared, and how closely: machines round."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The queries of a stream.

    Attributes:
        strategy: C, with the participation of a person.
        sums: the running sums A, or those whose differences are the windows.
        starts: the first step of each window; None for running sums.
        variances: of the answers per unit variance of the noise, shape (n,).
    """

    strategy: Strategy
    sums: RunningSums
    starts: Indices | None
    variances: Array

    def open(self) -> Question:
        """Without the last step, whose sum is public."""
        starts = None if self.starts is None else self.starts[:-1]
        return Question(self.strategy, open_sums(self.sums), starts, self.variances[:-1])


def question_of(strategy: Strategy, workload: Workload | None) -> Question:
    """The queries that a strategy answers.

    Args:
        strategy: C, with the participation of a person.
        workload: A, running sums or windows, given the invariants; None for the running sums that C
            is made for.

    Raises:
        InvalidInputError: other queries, or more or fewer steps than the strategy has.
    """
    whole, starts = without_participation(strategy), None
    sums, variances = sums_of(whole) or (None, None)
    if workload is not None:
        sums, starts = workload.whole.running_sums, window_starts(workload.whole)
    if starts is not None:
        n = starts.size
        sums = RunningSums(np.ones(n - 1), np.ones(n), np.ones(n))
    if sums is None or sums.cells != strategy.cells:
        asked = "no workload" if workload is None else repr(workload.name)
        raise InvalidInputError(
            f"a stream answers running sums or windows over {strategy.cells} steps, such as"
            f" prefix:{strategy.cells}, decay:{strategy.cells},0.99 or"
            f" window:{strategy.cells},7; got {asked}"
        )
    if workload is not None:
        variances = whole.beside(workload.public).variances(workload)
    assert variances is not None
    return Question(strategy, sums, starts, variances)


class Sums:
    """The running sums that a stream answers, with the standard deviations of A C^-1 z.

    Args:
        asked: C and A.
        scale: standard deviation of each entry of z.
        total: the sum before the first step, 0 or zeros of shape (d,).

    Attributes:
        total: the sum; for windows the last ones, along a first axis.
    """

    def __init__(self, asked: Question, scale: float, total: Any = 0.0) -> None:
        self._strategy, sums, self._starts = asked.strategy, asked.sums, asked.starts
        if self._starts is not None:
            self._longest = int((np.arange(sums.cells) + 1 - self._starts).max())
        self._deviations = scale * np.sqrt(asked.variances)
        self._kept = np.concatenate([[0.0], sums.rates])
        self._query, self._step = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
        self._shape = np.shape(total)
        self.go_on(0, total if self._starts is None else np.zeros((1, *self._shape)))

    def go_on(self, time: int, total: Any) -> None:
        """Continue from a step on, with `total` as it was."""
        self._time, self.total, self._weights = time, total, self._weights_from(time)

    @cached_property
    def identity(self) -> list[float]:
        """The identity of saved states: steps, measurements, answers and scale of the noise."""
        measured = self._strategy.measure(1.0 / _ramp(self._strategy.cells))[: self._kept.size]
        sizes = [self._kept.size, math.prod(self._shape)]
        numbers = [self._kept, self._step, self._query, self._deviations, measured]
        windows = [] if self._starts is None else [self._starts.astype(np.float64)]
        return fingerprint(sizes, *numbers, *windows)

    def take(self, x: Any) -> tuple[Any, float]:
        """The answer of the next step for its x^, and its standard deviation."""
        if self._starts is not None:
            values, deviations = self._windows(np.asarray(x)[None])
            return values[0] if values.ndim > 1 else float(values[0]), float(deviations[0])
        keep, weight, query, deviation = next(self._weights)
        self.total = keep * self.total + weight * x
        return query * self.total, deviation

    def together(self, first: int, x: Array) -> tuple[Array, Array]:
        """Answers and deviations of the steps from `first` on, for x^ of shape (m,) or (m, d)."""
        if self._starts is not None:
            return self._windows(x)
        part = slice(first, first + len(x))
        step, query = (
            weights[part].reshape(-1, *[1] * (x.ndim - 1)) for weights in (self._step, self._query)
        )
        sums = self._added(self._kept[part], step * x)
        self.go_on(part.stop, sums[-1] if len(sums) else self.total)
        return query * sums, self._deviations[part]

    def _windows(self, x: Array) -> tuple[Array, Array]:
        """The answers of the next steps, each the difference of two running sums."""
        assert self._starts is not None
        part = slice(self._time, self._time + len(x))
        sums = np.cumsum(np.concatenate([self.total[-1:], x]), axis=0)
        kept = np.concatenate([self.total[:-1], sums])
        before = self._starts[part] + len(self.total) - 1 - self._time
        self.go_on(part.stop, kept[-self._longest :])
        return sums[1:] - kept[before], self._deviations[part]

    def _added(self, kept: Array, sums: Array) -> Array:
        """The sums after each of some steps, for their terms."""
        if not kept.size:
            return sums
        sums[0] += kept[0] * self.total
        if (kept[1:] == 1.0).all():
            return np.asarray(np.cumsum(sums, axis=0))
        total = 0.0
        for t, (keep, term) in enumerate(zip([1.0, *kept[1:].tolist()], sums, strict=True)):
            sums[t] = total = keep * total + term
        return sums

    def _weights_from(self, first: int) -> Iterator[tuple[float, float, float, float]]:
        """Per step: the kept fraction of the sum, weights of input and answer, its deviation."""
        numbers = (self._kept, self._step, self._query, self._deviations)
        for start in range(first, self._kept.size, ROWS):
            lists = (values[start : start + ROWS].tolist() for values in numbers)
            yield from zip(*lists, strict=True)


def fingerprint(sizes: Sequence[float], *numbers: Array) -> list[float]:
    """A fingerprint of the numbers of the steps: sums over parts that depend on every number."""
    ramp = _ramp(len(numbers[0]))
    parts = np.unique(np.linspace(0, ramp.size - 1, COMPARED).astype(int))
    weighed = [np.add.reduceat(ramp * part, parts) for part in numbers]
    found: list[float] = np.concatenate([sizes, *weighed]).tolist()
    return found


def _ramp(count: int) -> Array:
    """Unequal weights of the steps."""
    return np.asarray(1.0 + np.arange(count) / count)


def require_resumable(
    state: Mapping[str, Any], identity: list[float], time: int, *, seeded: bool
) -> int:
    """The step of a saved state, for an object at its beginning with new noise.

    Args:
        state: the saved state, with its own `identity`.
        identity: of the object that continues.
        time: steps that it has taken.
        seeded: whether its noise has a seed.

    Raises:
        InvalidInputError: the stream has begun, its noise has a seed, or the state is not valid, or
            belongs to another strategy, workload or guarantee.
    """
    if time:
        raise InvalidInputError(
            f"{time} steps of this stream are taken; only a new one goes on from a saved state"
        )
    if seeded:
        raise InvalidInputError(
            "a stream that goes on from a saved state takes no seed: it would repeat the noise "
            "of the first steps; leave the seed out"
        )
    require_same(state, "identity", identity)
    return int(state["time"])


@contextmanager
def readable() -> Iterator[None]:
    """Refuse an invalid saved state.

    Raises:
        InvalidInputError: a part of it is missing or invalid.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            "this is no saved state, or one of an earlier version or damaged, which cannot go on"
        ) from None


def require_same(state: Mapping[str, Any], name: str, identity: list[float]) -> None:
    """Refuse a state that is invalid or of another strategy, workload or guarantee.

    Raises:
        InvalidInputError: it is.
    """
    with readable():
        saved, _ = np.asarray(state[name], dtype=np.float64), int(state["time"])
    own = np.array(identity)
    if saved.shape != own.shape or not np.allclose(saved, own, rtol=AGREEMENT, atol=0):
        raise InvalidInputError("the state belongs to another strategy, workload or guarantee")


def window_starts(workload: Workload) -> Indices | None:
    """The first step of every query, where query t sums steps in a row up to t, later ones later.

    None for other queries, and for running sums.
    """
    if workload.ends is None or workload.running_sums is not None:
        return None
    starts, stops = workload.ends
    in_order = np.array_equal(stops, np.arange(workload.shape[1]) + 1)
    return starts if in_order and (np.diff(starts) >= 0).all() else None
