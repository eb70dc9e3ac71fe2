"""The noisy running sums of a stream, a step at a time.

A step encodes y_t = (C x)_t exactly and adds noise on the grid (`encoder`, `noise`). All that
follows depends on y alone: x^_t = (C^-1 y)_t by the same state as C x has (`recurrences`), and the
answer A x^ by one number more. The error is that of scale A C^-1 z, with the exact standard
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
from pmldesign.streams.recurrences import ROWS, Row, recurrence_of
from pmldesign.workloads.base import Workload
from pmldesign.workloads.running import stream_problem
from pmldesign_solvers.operators.operator import Array

TOGETHER = 64
"""Steps from which on they are decoded as arrays; fewer go one by one."""
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


_Decoding = tuple[float, float, float, float, Row]
"""What a step keeps of the sum, the weights of its input and answer, its deviation, and its row."""


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
        self._state: list[float] = self.encoder.recurrence.start(1).ravel().tolist()
        self._total = 0.0
        self._rows: Iterator[_Decoding] | None = None

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
        first = self.time
        (answer,) = self._one_by_one(self._outputs([value]), first)
        return answer

    def steps(self, values: Sequence[float | int]) -> tuple[Array, Array]:
        """Several steps at once, faster.

        Returns:
            The noisy running sums and their standard deviations, a number for each input.

        Raises:
            InvalidInputError: more inputs than steps are left, or one that is no number; then no
                step is taken.
        """
        first = self.time
        outputs = self._outputs(values)
        if len(outputs) >= TOGETHER:
            sums = self._together(outputs, first)
        else:
            sums = np.array([answer.value for answer in self._one_by_one(outputs, first)])
        return sums, self._deviations[first : self.time]

    def _outputs(self, values: Sequence[float | int]) -> list[float]:
        """The noisy y: all that depends on the data."""
        encoded = self.encoder.encode(values)
        if len(self._drawn) < len(encoded):
            left = min(AHEAD, self.encoder.recurrence.cells - self.time)
            count = max(len(encoded) - len(self._drawn), left)
            drawn = self.noise.draw(self.scale / self._unit, count)
            self._drawn = drawn[::-1] + self._drawn
        return [(y + self._drawn.pop()) * self._unit for y in encoded]

    def _one_by_one(self, outputs: list[float], first: int) -> list[Answer]:
        if self._rows is None:
            self._rows = self._decoding(first)
        answers, solve = [], self.encoder.recurrence.solve
        for y, (keep, weight, query, deviation, row) in zip(outputs, self._rows, strict=False):
            estimate, self._state = solve(row, self._state, y)
            self._total = keep * self._total + weight * estimate
            answers.append(Answer(query * self._total, deviation))
        return answers

    def _decoding(self, first: int) -> Iterator[_Decoding]:
        """What decodes step after step, from step `first` on."""
        sums, rows = self._sums, self.encoder.recurrence.rows(first, whole=False)
        numbers = (sums.kept, sums.step, sums.query, self._deviations)
        for start in range(first, sums.kept.size, ROWS):
            lists = (values[start : start + ROWS].tolist() for values in numbers)
            yield from zip(*lists, rows, strict=False)

    def _together(self, outputs: list[float], first: int) -> Array:
        """Noisy sums from y as arrays."""
        self._rows, part = None, slice(first, first + len(outputs))
        y, state = np.array(outputs)[:, None], np.array(self._state)[:, None]
        estimates, state = self.encoder.recurrence.solve_rows(y, first, state)
        self._state = state.ravel().tolist()
        terms = self._sums.step[part] * estimates[:, 0]
        total, sums = self._total, []
        for keep, term in zip(self._sums.kept[part].tolist(), terms.tolist(), strict=True):
            total = keep * total + term
            sums.append(total)
        self._total = total
        return np.asarray(self._sums.query[part] * sums)

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as JSON takes it. It holds raw data."""
        return {
            "time": self.time,
            "encoder": [format(z, "x") for z in self.encoder.state],
            "decoder": [z.hex() for z in self._state],
            "sum": self._total.hex(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, which must not be used twice (`journal`)."""
        self.encoder.resume(int(state["time"]), [int(z, 16) for z in state["encoder"]])
        self._state = [float.fromhex(z) for z in state["decoder"]]
        self._total = float.fromhex(state["sum"])
        self._rows = None


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
        for keep, term in zip(self._sums.kept[part].tolist(), terms, strict=True):
            self._total *= keep
            self._total += term
            term[:] = self._total
        return self._sums.query[part, None] * terms, self._deviations[part]

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
