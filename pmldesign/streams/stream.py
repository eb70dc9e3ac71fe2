"""The noisy running sums of a stream, a step at a time.

A step encodes y_t = (C x)_t in whole numbers and adds noise on the grid (`encoder`, `noise`). All
that follows depends on y alone: x^_t = (C^-1 y)_t (`decoding`), and the answer A x^ by one number
more. The error is that of scale A C^-1 z, with the exact standard
deviations of the strategy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.streams.encoder import Encoder
from pmldesign.streams.endless.steps import EndlessSums
from pmldesign.streams.endless.strategy import EndlessStrategy
from pmldesign.streams.noise import GridNoise, grid_noise
from pmldesign.streams.owned import Owned
from pmldesign.streams.recurrences import OnLineStrategy
from pmldesign.streams.sums import Sums, require_resumable
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array

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


class Stream(Owned):
    """Running sums of numbers, one at a time; exact but for the source of the noise.

    The state holds raw data: keep it as secret as these. A stream belongs to the process that made
    it (`owned`).

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
        strategy: OnLineStrategy,
        scale: float,
        noise: GridNoise | None = None,
        workload: Workload | None = None,
    ) -> None:
        super().__init__()
        if not 0 < scale < math.inf:
            raise InvalidInputError(f"scale must be positive and finite, got {scale}")
        self.strategy = strategy
        self.encoder = Encoder(strategy)
        self.scale = scale * self.encoder.sensitivity
        self._sums = (
            EndlessSums(self.scale, scale)
            if isinstance(strategy, EndlessStrategy)
            else Sums(strategy, workload, self.scale)
        )
        self.noise = grid_noise() if noise is None else noise
        self._unit = 2.0**self.encoder.grid_exponent
        self._drawn: list[int] = []
        self._decoder = self.encoder.recurrence.decoder()

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
        with self._turn:
            self._draw(1)
            self._turn.begun = True
            y = self.encoder.take(value)
            estimate = self._decoder.take((y + self._drawn.pop()) * self._unit)
            return Answer(*self._sums.take(estimate))

    def steps(self, values: Sequence[float | int]) -> tuple[Array, Array]:
        """Several steps at once, faster.

        Returns:
            The noisy running sums and their standard deviations, a number for each input.

        Raises:
            InvalidInputError: more inputs than steps are left, or one that is no number; then no
                step is taken.
        """
        with self._turn:
            first = self.time
            self.encoder.require_left(len(values))
            self._draw(len(values))
            self._turn.begun = True
            encoded = self.encoder.encode(values)
            outputs = [(y + self._drawn.pop()) * self._unit for y in encoded]
            return self._sums.together(first, self._decoder.together(np.array(outputs)))

    @property
    def identity(self) -> list[float]:
        """What a saved state belongs to: its steps, what they measure, answer, and how noisily."""
        return self._sums.identity

    def _draw(self, needed: int) -> None:
        """Draw noise ahead, before the input counts; the last of the list comes first."""
        missing = needed - len(self._drawn)
        if missing > 0:
            left = min(AHEAD, self.encoder.recurrence.cells - self.time)
            drawn = self.noise.draw(self.scale / self._unit, max(missing, left))
            self._drawn = drawn[::-1] + self._drawn

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as JSON takes it. It holds raw data."""
        with self._turn:
            return {
                "identity": self._sums.identity,
                "time": self.time,
                "encoder": [format(z, "x") for z in self.encoder.state],
                "decoder": [float(z).hex() for z in self._decoder.state],
                "sum": float(self._sums.total).hex(),
            }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, which must not be used twice (`durable`).

        Raises:
            InvalidInputError: steps were taken, the noise has a seed, or the state is of another
                strategy, workload or guarantee.
        """
        seeded = getattr(self.noise, "seeded", False)
        with self._turn:
            time = require_resumable(state, self._sums.identity, self.time, seeded=seeded)
            self._turn.begun = True
            self.encoder.resume(time, [int(z, 16) for z in state["encoder"]])
            self._decoder.resume(time, [float.fromhex(z) for z in state["decoder"]])
            self._sums.go_on(time, float.fromhex(state["sum"]))
