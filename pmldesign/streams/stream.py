"""The noisy running sums of a stream, a step at a time.

A step encodes y_t = (C x)_t in integers and adds noise on the grid (`encoder`, `noise`). All
that follows depends on y alone: x^_t = (C^-1 y)_t (`rows`), and the answer A x^ by one number
more. The error is that of scale A C^-1 z, with the exact standard
deviations of the strategy. Several series are measured by the same C, each with noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.arguments import shown
from pmldesign.errors import InvalidInputError
from pmldesign.streams.encoder import Encoder, Real, dyadic
from pmldesign.streams.noise import GridNoise, Owned, grid_noise
from pmldesign.streams.on_line import OnLine
from pmldesign.streams.sums import readable, require_resumable
from pmldesign.workloads.display import Displayed, Facts
from pmldesign_solvers.operators.operator import Array

Input = Real | Sequence[Real]
"""Of a step: a number, or one for each series."""
AHEAD = 512
"""Numbers of noise that are drawn at a time."""


@dataclass(slots=True)
class Answer:
    """What a step releases: a noisy running sum.

    Attributes:
        value: the running sum with noise, or that of each of several series.
        standard_deviation: of that noise, which does not depend on the data.
    """

    value: float | tuple[float, ...]
    standard_deviation: float

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of it in a row."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return *values, self.standard_deviation


def answers(values: Array, deviations: Array) -> list[Answer]:
    """The result of `Stream.steps` as an answer for each step."""
    listed = values.tolist() if values.ndim == 1 else map(tuple, values.tolist())
    return [Answer(*pair) for pair in zip(listed, deviations.tolist(), strict=True)]


class Stream(Owned, Displayed):
    """Running sums of numbers, one at a time; exact except for the source of the noise.

    The state holds raw data: keep it as secret as these. A stream belongs to the process that made
    it (`noise.Owned`).

    Args:
        strategy: the online strategy, of sensitivity 1.
        scale: standard deviation of the noise on C x that the guarantee requires at sensitivity 1.
        noise: its source; None for `grid_noise()`.
        series: how many numbers a step has; a record changes one of them.

    Raises:
        InvalidInputError: a strategy of another sensitivity, or for other queries.
    """

    def __init__(
        self,
        strategy: OnLine,
        scale: float,
        noise: GridNoise | None = None,
        series: int = 1,
    ) -> None:
        super().__init__()
        if not 0 < scale < math.inf:
            raise InvalidInputError(f"scale must be positive and finite, got {scale}")
        if strategy.single and series > 1:
            raise InvalidInputError(
                f"beside a public total a stream has one series, got {series}: a record that moves"
                " from one to another changes both of their totals"
            )
        self.strategy, self.series = strategy, series
        self.encoder = Encoder(strategy, series)
        self.scale = scale * self.encoder.sensitivity
        total = np.zeros(series) if series > 1 else 0.0
        self._sums = strategy.response(self.scale, scale, total)
        self.noise = grid_noise() if noise is None else noise
        if not hasattr(self.noise, "draw"):
            raise InvalidInputError(
                f"noise must be a source such as FloatingGaussian(), or None, got {shown(noise)}"
            )
        self._unit = 2.0**self.encoder.grid_exponent
        self._drawn: list[int] = []
        self._encoders = [self.encoder, *(self.encoder.another() for _ in range(series - 1))]
        self._decoders = [self.encoder.recurrence.decoder() for _ in range(series)]

    @property
    def time(self) -> int:
        """How many steps were taken."""
        return self.encoder.time

    def _display(self) -> tuple[str, Facts]:
        title = f"Stream of {self.strategy.name!r}: {self.time} steps taken"
        facts = [("noise of scale", f"{self.scale:.6g}")]
        if self.series > 1:
            facts.append(("series", str(self.series)))
        return title, [*facts, ("exact noise", "yes" if self.publishable else "no")]

    @property
    def publishable(self) -> bool:
        """Whether the noise is exact; False for floating-point noise."""
        return self.noise.publishable

    def step(self, value: Input) -> Answer:
        """Take in x_t and release the running sum.

        Raises:
            InvalidInputError: the stream is over, or the input is not a number, or not one for each
                series.
        """
        if self.series > 1:
            return answers(*self.steps([value]))[0]
        with self._turn:
            self._draw(1)
            self._turn.begun = True
            y = self.encoder.take(value)  # type: ignore[arg-type]
            estimate = self._decoders[0].take((y + self._drawn.pop()) * self._unit)
            return Answer(*self._sums.take(estimate))

    def steps(self, values: Sequence[Input]) -> tuple[Array, Array]:
        """Several steps at once, faster.

        Returns:
            The noisy running sums, of shape (t,) or (t, series), and their standard deviations,
            (t,).

        Raises:
            InvalidInputError: more inputs than remaining steps, or one that is not a number, or not
                one for each series; then no step is taken.
        """
        if not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
            raise InvalidInputError(
                f"steps takes a list of inputs, got {values!r:.40}; one alone is for step"
            )
        with self._turn:
            first = self.time
            self.encoder.require_left(len(values))
            columns = self._columns(values)
            self._draw(len(values) * self.series)
            self._turn.begun = True
            estimates = []
            for encoder, decoder, inputs in zip(
                self._encoders, self._decoders, columns, strict=True
            ):
                outputs = [(y + self._drawn.pop()) * self._unit for y in encoder.encode(inputs)]
                estimates.append(decoder.together(np.array(outputs)))
            x = estimates[0] if self.series == 1 else np.stack(estimates, axis=1)
            return self._sums.together(first, x)

    def _columns(self, values: Sequence[Any]) -> Sequence[Sequence[Real]]:
        """The inputs of each series; those of several are all checked before one counts."""
        if self.series == 1:
            return [values]
        for row in values:
            if not isinstance(row, Sequence | np.ndarray) or len(row) != self.series:
                raise InvalidInputError(f"a step takes {self.series} numbers, got {row!r}")
            for value in row:
                dyadic(value)
        return [[row[number] for row in values] for number in range(self.series)]

    @property
    def identity(self) -> list[float]:
        """The identity of saved states: steps, measurements, answers and scale of the noise."""
        return self._sums.identity

    def _draw(self, needed: int) -> None:
        """Draw noise ahead, before the input counts; the last of the list comes first."""
        missing = needed - len(self._drawn)
        if missing > 0:
            left = min(AHEAD, (self.encoder.recurrence.cells - self.time) * self.series)
            drawn = self.noise.draw(self.scale / self._unit, max(missing, left))
            self._drawn = drawn[::-1] + self._drawn

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as JSON takes it. It holds raw data."""
        with self._turn:
            return {
                "identity": self._sums.identity,
                "time": self.time,
                "encoder": [[format(z, "x") for z in one.state] for one in self._encoders],
                "decoder": [[float(z).hex() for z in one.state] for one in self._decoders],
                "sum": np.asarray(self._sums.total).tolist(),
            }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, which must not be used twice (`log`).

        Raises:
            InvalidInputError: steps were taken, the noise has a seed, or the state is damaged, or
                of another strategy, workload or guarantee; with a damaged one no step can be taken.
        """
        seeded = getattr(self.noise, "seeded", False)
        with readable(), self._turn:
            time = require_resumable(state, self._sums.identity, self.time, seeded=seeded)
            self._turn.begun = True
            for encoder, whole in zip(self._encoders, state["encoder"], strict=True):
                encoder.resume(time, [int(z, 16) for z in whole])
            for decoder, estimates in zip(self._decoders, state["decoder"], strict=True):
                decoder.resume(time, [float.fromhex(z) for z in estimates])
            total = np.array(state["sum"], dtype=np.float64)
            self._sums.go_on(time, total if total.ndim else float(total))
