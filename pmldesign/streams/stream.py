"""The noisy running sums of a stream, a step at a time.

A step encodes y_t = (C x)_t in whole numbers and adds noise on the grid (`encoder`, `noise`). All
that follows depends on y alone: x^_t = (C^-1 y)_t (`decoding`), and the answer A x^ by one number
more. The error is that of scale A C^-1 z, with the exact standard
deviations of the strategy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.strategies.streams import StreamStrategy
from pmldesign.streams.encoder import Encoder
from pmldesign.streams.noise import GridNoise, grid_noise
from pmldesign.streams.recurrences import recurrence_of
from pmldesign.workloads.base import Workload
from pmldesign.workloads.running import stream_problem
from pmldesign_solvers.operators.operator import Array

ROWS = 1024
"""Steps whose numbers are turned into lists at a time."""
AHEAD = 512
"""Numbers of noise that are drawn at a time."""


@dataclass(slots=True)
class Answer:
    """What a step releases: a noisy running sum.

    Attributes:
        value: the running sum with noise.
        standard_deviation: of that noise, which does not depend on the data.
    """

    value: float
    standard_deviation: float


_Weights = tuple[float, float, float, float]
"""What a step keeps of the sum, the weights of its input and answer, and its deviation."""


class _Sums:
    """The running sums that a stream answers, with the variances of C^-1 z in them.

    Raises:
        InvalidInputError: no running sums, or more or fewer steps than the strategy has.
    """

    def __init__(self, strategy: Strategy, workload: Workload | None) -> None:
        whole, sums = with_participation(strategy, None), None
        if workload is not None:
            sums = stream_problem(workload)
        elif isinstance(whole, StreamStrategy | EpochStrategy):
            sums = whole.sums
        if sums is None or sums.cells != strategy.cells:
            asked = "no workload" if workload is None else repr(workload.name)
            raise InvalidInputError(
                f"a stream answers running sums over {strategy.cells} steps, such as"
                f" prefix:{strategy.cells} or decay:{strategy.cells},0.99; got {asked}"
            )
        self.variances: Array
        if workload is not None:
            self.variances = whole.variances(workload)
        else:
            assert isinstance(whole, StreamStrategy | EpochStrategy)
            self.variances = whole.sums_variances
        self.kept = np.concatenate([[0.0], sums.rates])
        self.query, self.step = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)

    def added(self, part: slice, terms: Array, total: float | Array) -> Array:
        """The sums after each step of a part, for terms of shape (m,) or (m, d) and what was."""
        kept, sums = self.kept[part], np.array(terms)
        if not kept.size:
            return sums
        sums[0] += kept[0] * total
        if (kept[1:] == 1.0).all():
            return np.asarray(np.cumsum(sums, axis=0))
        total = 0.0
        for t, (keep, term) in enumerate(zip([1.0, *kept[1:].tolist()], sums, strict=True)):
            sums[t] = total = keep * total + term
        return sums


class Stream:
    """Running sums of numbers, one at a time; exact but for the source of the noise.

    The state holds raw data: keep it as secret as these.

    Args:
        strategy: lower triangular, of sensitivity 1, with the participation of a person.
        scale: standard deviation of the noise on C x that the guarantee asks for at sensitivity 1.
        noise: where it comes from; None for `grid_noise()`.
        workload: running sums; None for those that the strategy is made for.

    Raises:
        InvalidInputError: a strategy that no state of fixed precision can hold, or no running sums.
    """

    def __init__(
        self,
        strategy: Strategy,
        scale: float,
        noise: GridNoise | None = None,
        workload: Workload | None = None,
    ) -> None:
        if not 0 < scale < math.inf:
            raise InvalidInputError(f"scale must be positive and finite, got {scale}")
        self.strategy = strategy
        self._sums = _Sums(strategy, workload)
        self.encoder = Encoder(strategy)
        self.scale = scale * self.encoder.sensitivity
        self.noise = grid_noise() if noise is None else noise
        self._unit = 2.0**self.encoder.grid_exponent
        self._deviations = self.scale * np.sqrt(self._sums.variances)
        self._drawn: list[int] = []
        self._decoder = self.encoder.recurrence.decoder()
        self._total = 0.0
        self._weights = self._weights_from(0)

    @property
    def time(self) -> int:
        """How many steps were taken."""
        return self.encoder.time

    @property
    def publishable(self) -> bool:
        """Whether the noise is exact; False for floating-point noise."""
        return self.noise.publishable

    def step(self, value: float | int) -> Answer:
        """Take in x_t and release the running sum.

        Raises:
            InvalidInputError: the stream is over, or the input is no number.
        """
        y = self.encoder.take(value)
        if not self._drawn:
            self._draw(1)
        estimate = self._decoder.take((y + self._drawn.pop()) * self._unit)
        keep, weight, query, deviation = next(self._weights)
        self._total = keep * self._total + weight * estimate
        return Answer(query * self._total, deviation)

    def steps(self, values: Sequence[float | int]) -> tuple[Array, Array]:
        """Several steps at once, faster.

        Returns:
            The noisy running sums and their standard deviations, a number for each input.

        Raises:
            InvalidInputError: more inputs than steps are left, or one that is no number; then no
                step is taken.
        """
        first = self.time
        encoded = self.encoder.encode(values)
        part = slice(first, self.time)
        if len(self._drawn) < len(encoded):
            self._draw(len(encoded) - len(self._drawn))
        outputs = [(y + self._drawn.pop()) * self._unit for y in encoded]
        terms = self._sums.step[part] * self._decoder.together(np.array(outputs))
        sums = self._sums.added(part, terms, self._total)
        self._total = float(sums[-1]) if sums.size else self._total
        self._weights = self._weights_from(self.time)
        return self._sums.query[part] * sums, self._deviations[part]

    def _draw(self, needed: int) -> None:
        """Draw noise ahead; the last of the list comes first."""
        left = min(AHEAD, self.encoder.recurrence.cells - self.time)
        drawn = self.noise.draw(self.scale / self._unit, max(needed, left))
        self._drawn = drawn[::-1] + self._drawn

    def _weights_from(self, first: int) -> Iterator[_Weights]:
        """The weights of step after step, from step `first` on."""
        sums = self._sums
        numbers = (sums.kept, sums.step, sums.query, self._deviations)
        for start in range(first, sums.kept.size, ROWS):
            lists = (values[start : start + ROWS].tolist() for values in numbers)
            yield from zip(*lists, strict=True)

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as JSON takes it. It holds raw data."""
        return {
            "time": self.time,
            "encoder": [format(z, "x") for z in self.encoder.state],
            "decoder": [z.hex() for z in self._decoder.state],
            "sum": self._total.hex(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, which must not be used twice (`journal`)."""
        time = int(state["time"])
        self.encoder.resume(time, [int(z, 16) for z in state["encoder"]])
        self._decoder.resume(time, [float.fromhex(z) for z in state["decoder"]])
        self._total = float.fromhex(state["sum"])
        self._weights = self._weights_from(time)


class VectorStream:
    """Running sums of vectors of d values, such as gradients, in floating point.

    The l2 norm of what a person adds to a step is at most 1. A step costs O(K d) for a state of K
    numbers, O(w d) for a strategy whose state is the last w inputs. Noise and state are
    floating-point numbers: not for publication.

    Args:
        strategy: lower triangular, of sensitivity 1, with the participation of a person.
        scale: standard deviation of the noise on each entry of C x.
        width: d.
        seed: of the noise; None for one from the operating system.
        workload: running sums; None for those that the strategy is made for.

    Raises:
        InvalidInputError: as `Stream`.
    """

    publishable = False

    def __init__(
        self,
        strategy: Strategy,
        scale: float,
        width: int,
        *,
        seed: int | None = None,
        workload: Workload | None = None,
    ) -> None:
        self.strategy, self.scale, self.time = strategy, scale * strategy.sensitivity, 0
        self.width = whole("width", width)
        self._sums, self._recurrence = _Sums(strategy, workload), recurrence_of(strategy)
        self._generator = np.random.default_rng(seed)
        self._state = self._recurrence.start(width)
        self._total = np.zeros(width)
        self._errors = np.zeros((0, width))
        self._deviations = self.scale * np.sqrt(self._sums.variances)

    def step(self, vector: ArrayLike) -> tuple[Array, float]:
        """The noisy running sum, shape (d,), and the standard deviation of each of its entries.

        Raises:
            InvalidInputError: the stream is over, or the vector has another length.
        """
        sums, deviations = self.steps(np.asarray(vector, dtype=np.float64)[None])
        return sums[0], float(deviations[0])

    def steps(self, vectors: ArrayLike) -> tuple[Array, Array]:
        """Several steps at once: sums of shape (t, d) for vectors of that shape, deviations (t,).

        Raises:
            InvalidInputError: as `step`; then no step is taken.
        """
        x, first = np.asarray(vectors, dtype=np.float64), self.time
        if x.shape[1:] != (self.width,) or not np.isfinite(x).all():
            raise InvalidInputError(
                f"a step takes {self.width} finite numbers, got an array of shape {x.shape[1:]}"
            )
        if first + len(x) > self._recurrence.cells:
            raise InvalidInputError(
                f"the stream has {self._recurrence.cells} steps, and all are taken; design a"
                " longer one"
            )
        self.time += len(x)
        part = slice(first, self.time)
        terms = self._sums.step[part, None] * (x + self._next_errors(len(x)))
        sums = self._sums.added(part, terms, self._total)
        self._total = sums[-1] if len(sums) else self._total
        return self._sums.query[part, None] * sums, self._deviations[part]

    def _next_errors(self, count: int) -> Array:
        """C^-1 z for the next steps: it does not depend on data, and is made ahead."""
        known = len(self._errors)
        if known < count:
            begin = self.time - count + known
            left = min(AHEAD // self.width, self._recurrence.cells - begin)
            draws = self._generator.standard_normal((max(count - known, left), self.width))
            more, self._state = self._recurrence.solve_rows(self.scale * draws, begin, self._state)
            self._errors = np.concatenate([self._errors, more])
        errors, self._errors = self._errors[:count], self._errors[count:]
        return errors
