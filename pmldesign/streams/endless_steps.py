"""How an unbounded stream goes through C and back, a step at a time.

    z_m <- d_m z_m + kappa x,      (C x)_t = sum_m rho w_m z_m

in integers: x are multiples of 2^-40, kappa x of 2^-92, z of 2^-128, rounded down at each
step, which leaves (C x)_t off by at most sum_m rho w_m 2^-128 / (1 - d_m) whatever the data. Back
in floating point, from the released values only, with the same coefficients:

    kappa x^ = (y / rho - sum_m w_m d_m z_m) / sum_m w_m,      z_m <- d_m z_m + kappa x^.

`endless_stream` makes a stream of it, for a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.streams.endless_strategy import (
    BUFFERS,
    DECAY_BITS,
    GAIN_BITS,
    STEPS,
    WEIGHT_BITS,
    endless,
    errors,
    least_deviations,
)
from pmldesign.streams.noise import GridNoise
from pmldesign.streams.on_line import OnLine, unit_scale
from pmldesign.streams.rows import INPUT_BITS, OUTPUT_BITS, require_numbers
from pmldesign.streams.stream import Stream
from pmldesign_solvers.operators.operator import Array

STATE_BITS = 128
AHEAD = 64
"""Steps whose standard deviations are computed at a time."""


class _Epochs:
    """Goes from epoch to epoch."""

    def __init__(self) -> None:
        self._strategy = endless()
        self.resume(0, [0] * BUFFERS)

    def resume(self, time: int, state: list[Any]) -> None:
        """Continue from a saved state; ValueError if it is not valid."""
        require_numbers(state, BUFFERS)
        self._time, self._z = time, list(state)
        self._enter(self._strategy.epoch(time + 1))

    @property
    def state(self) -> list[Any]:
        """Z."""
        return self._z

    def _enter(self, epoch: int) -> None:
        """Take the weights of an epoch."""
        starts = self._strategy.starts
        self._epoch = epoch
        self._end = starts[epoch + 1] if epoch + 1 < len(starts) else math.inf

    def _go_on(self) -> None:
        self._time += 1
        if self._time == self._end:
            self._enter(self._epoch + 1)


class WholeExponentials(_Epochs):
    """From x to C x."""

    def take(self, x: int) -> int:
        """(C x)_t in units of 2^-112 for the next input in units of 2^-40."""
        self._go_on()
        added = self._level * x << STATE_BITS - WEIGHT_BITS - INPUT_BITS
        decays = self._strategy.whole_decays
        self._z = [(d * z >> DECAY_BITS) + added for d, z in zip(decays, self._z, strict=True)]
        y: int = sum(map(mul, self._gains, self._z))
        return y >> GAIN_BITS + STATE_BITS - OUTPUT_BITS

    def together(self, inputs: Array, exponent: int) -> None:
        """None: inputs go one by one."""

    def _enter(self, epoch: int) -> None:
        super()._enter(epoch)
        self._level = self._strategy.whole_levels[epoch]
        self._gains = self._strategy.whole_gains(epoch)


class Inverse(_Epochs):
    """From y to C^-1 y."""

    def take(self, y: float) -> float:
        """(C^-1 y)_t for the next y."""
        self._go_on()
        faded = self._decays * self._z
        level = (y / self._fall - float(self._weights @ faded)) / self._total
        self._z = faded + level
        return level / self._level

    def together(self, y: Array) -> Array:
        """The same for several."""
        return np.array([self.take(value) for value in y.tolist()])

    def _enter(self, epoch: int) -> None:
        super()._enter(epoch)
        strategy = self._strategy
        self._decays, self._weights = np.exp(strategy.log_decays), strategy.weights
        self._total = float(self._weights.sum())
        self._fall, self._level = float(strategy.falls[epoch]), float(strategy.levels[epoch])


class Exponentials:
    """C, as `recurrences.States` is one of finite length.

    Attributes:
        cells: how many steps a stream may take.
        memory: numbers that a state has.
    """

    cells, memory = STEPS, BUFFERS

    def encoder(self) -> WholeExponentials:
        """From x to C x, from the first row on."""
        return WholeExponentials()

    def decoder(self) -> Inverse:
        """From y to C^-1 y, from the first row on."""
        return Inverse()

    def drift(self) -> float:
        """How far (C x)_i is off at most before it is rounded to the grid, whatever the inputs."""
        strategy = endless()
        lost = float((strategy.weights / -np.expm1(strategy.log_decays)).sum())
        return (1.0 + 1e-9) * (lost * 2.0**-STATE_BITS + 2.0**-OUTPUT_BITS)


class EndlessSums:
    """The sums of all x^, their standard deviations, and the least ones.

    Args:
        scale: standard deviation of the noise on C x.
        least: the one required at sensitivity 1.
        total: the sum before the first step, 0 or zeros of shape (d,).
    """

    def __init__(self, scale: float, least: float, total: Any = 0.0) -> None:
        self._scale, self._least = scale, least
        self.go_on(0, total)

    def go_on(self, time: int, total: Any) -> None:
        """Continue from a step on, with the sum of all before."""
        self.total, self._following = total, self._deviations_from(time)

    @cached_property
    def identity(self) -> list[float]:
        """The number of steps, both scales, and C."""
        strategy = endless()
        parts = (-np.expm1(strategy.log_decays), strategy.weights, strategy.levels)
        return [STEPS, self._least, self._scale, *np.concatenate(parts).tolist()]

    def take(self, x: Any) -> tuple[Any, float]:
        """The answer of the next step for its x^, and its standard deviation."""
        self.total = self.total + x
        return self.total, next(self._following)

    def together(self, first: int, x: Array) -> tuple[Array, Array]:
        """Answers and deviations of the steps from `first` on, for x^ of shape (m,) or (m, d)."""
        sums = np.cumsum(np.concatenate([np.asarray(self.total)[None], x]), axis=0)[1:]
        deviations = self._deviations(first, len(x))
        if len(sums):
            self.go_on(first + len(x), sums[-1] if sums.ndim > 1 else float(sums[-1]))
        return sums, deviations

    def _deviations_from(self, first: int) -> Iterator[float]:
        while True:
            yield from self._deviations(first, AHEAD).tolist()
            first += AHEAD

    def _deviations(self, first: int, count: int) -> Array:
        """Standard deviations of `count` steps behind the step `first`."""
        strategy, found, step, last = endless(), [np.zeros(0)], first + 1, first + count
        while step <= last:
            epoch = strategy.epoch(step)
            stop = min([step + AHEAD - 1, last, *(s - 1 for s in strategy.starts[epoch + 1 :][:1])])
            steps = np.arange(step, stop + 1, dtype=np.float64)
            found.append(self._scale * np.sqrt(errors().variances(epoch, steps)))
            step = stop + 1
        return np.concatenate(found)


def certified_ratios(identity: list[float], first: int, deviations: Array) -> Array | None:
    """Standard deviations of the steps behind `first` over the least ones, rounded up.

    The least one of step t is that of any Gaussian mechanism for t running sums at the guarantee.

    Args:
        identity: of the stream that answered; None comes out for one that has an end.
        first: how many steps came before.
        deviations: of the steps.
    """
    if identity[0] != STEPS:
        return None
    steps = np.arange(first + 1, first + len(deviations) + 1, dtype=np.float64)
    return np.asarray(deviations / (identity[1] * least_deviations(steps)) * (1.0 + 1e-9))


class Endless(OnLine):
    """The strategy for an unbounded stream, defined by integers."""

    name = "prefix:inf"

    def __init__(self) -> None:
        self.recurrence, self.sensitivity = Exponentials(), endless().sensitivity

    @property
    def distance(self) -> float:
        """The largest distance of the columns in integers."""
        return self.sensitivity

    def response(self, scale: float, least: float, total: Any) -> EndlessSums:
        """The running sums."""
        return EndlessSums(scale, least, total)


def endless_stream(
    guarantee: Guarantee, *, noise: GridNoise | None = None, series: int = 1
) -> Stream:
    """Running sums of any number of inputs; a record changes one of these.

    Args:
        guarantee: of all answers together, under add-remove neighbours.
        noise: its source; None for OpenDP's exact sampler if that is installed, otherwise for
            floating-point noise, which is not for publication.
        series: how many numbers a step has; a record changes one of them.

    Raises:
        InvalidInputError: a guarantee that Gaussian noise does not meet, or replace neighbours.
    """
    require_guarantee(guarantee)
    if guarantee.neighbours is Neighbours.REPLACE:
        raise InvalidInputError(
            f"a stream without an end has add-remove neighbours, not {guarantee!r}: no total is"
            " public that nobody knows"
        )
    return Stream(Endless(), unit_scale(guarantee), noise, series)
