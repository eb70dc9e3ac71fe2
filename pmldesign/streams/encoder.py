"""y_t = (C x)_t on a grid: all of a stream that depends on data, in integers.

C is *defined* by integers (`rows`): the sensitivity is that of its rounded columns, not of the
intended ones. Inputs are multiples of 2^-40, rounded down; inputs that differ by at most 1 still do
so. Before y_t is rounded to the grid, it is off by at most `drift` plus 2^-30 times the grid,
whatever the data. So the outputs of neighbours differ by a vector with

    norm <= Delta + 2 (c n)^(1/2) ((1 / 2 + 2^-30) grid + drift),

Delta the largest distance of C x over neighbours x, c the number of series that a person may be in:
one for each step that the person takes part in. (Contributions to several series are vectors,
which do not increase Delta, `strategies.participation.distances`.) The grid is the largest power of
two with grid n^(1/2) <= 1e-6 Delta. A rounded floating-point state would not be linear in the data
to any proved degree.

*The columns.* Rounding to integers moves a column by at most `moved`, for each step that a
person takes part in; it is added to Delta. The columns of the matrix that a recurrence stands for
are measured with all their rounding.

Adaptive inputs are covered: x_t may depend on all earlier outputs, as the shift (C v)_t of step t
depends on earlier differences alone, and its squares sum to at most Delta^2 on every path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from operator import index

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.streams.on_line import OnLine
from pmldesign.streams.rows import INPUT_BITS, OUTPUT_BITS
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.factor import SIZE

FINENESS = 1e-6
"""Fraction of the sensitivity that rounding to the grid may add; the noise scale covers it."""
LARGEST_INPUT = 2**53
"""Integers up to here are floats without rounding."""

Real = float | int | Fraction


class Encoder:
    """The exact part of a stream.

    Args:
        strategy: C, of sensitivity 1 or less, with its participation.
        series: how many series there are; a record changes one of them in a step.

    Attributes:
        recurrence: the rows of C.
        time: t, the number of steps that were taken.
        state: the part of earlier inputs that the rows need, as integers.
        grid_exponent: the grid is 2 to this power.
        sensitivity: an upper bound on the l2 distance of the outputs of neighbours.
    """

    def __init__(self, strategy: OnLine, series: int = 1) -> None:
        self.recurrence, self._remedy = strategy.recurrence, strategy.remedy
        n = self.recurrence.cells
        if strategy.sensitivity > 1.0 + 1e-6:
            raise InvalidInputError(
                f"strategy {strategy.name!r} has sensitivity {strategy.sensitivity:g}; a stream "
                "takes strategies of sensitivity 1: use strategy.normalised()"
            )
        self.grid_exponent = math.floor(math.log2(FINENESS * strategy.sensitivity / math.sqrt(n)))
        if self.grid_exponent <= -OUTPUT_BITS:
            raise InvalidInputError(
                f"strategy {strategy.name!r} has sensitivity {strategy.sensitivity:g}, too little "
                "for the digits of a stream: use strategy.normalised()"
            )
        off = 2.0**self.grid_exponent * (0.5 + 2.0**-30) + self.recurrence.drift()
        apart = strategy.distance + 2.0 * math.sqrt(n * min(strategy.reach, series)) * off
        self.sensitivity = apart * (1 + 1e-12)
        self.time = 0
        self._rows = self.recurrence.encoder()
        self._shift = OUTPUT_BITS + self.grid_exponent
        self._half = 1 << (self._shift - 1)

    def another(self) -> Encoder:
        """One of another series, at its beginning."""
        other = copy(self)
        other.time, other._rows = 0, self.recurrence.encoder()
        return other

    @property
    def state(self) -> list[int]:
        """The part of earlier inputs that the rows need, as integers."""
        whole: list[int] = self._rows.state
        return whole

    def resume(self, time: int, state: list[int]) -> None:
        """Continue from a saved state; ValueError if it is not valid for this step."""
        if not 0 <= time <= self.recurrence.cells:
            raise ValueError(f"the stream has {self.recurrence.cells} steps, got step {time}")
        self._rows.resume(time, state)
        self.time = time

    def take(self, value: Real) -> int:
        """(C x)_t in grid units for the next input x_t.

        Raises:
            InvalidInputError: the stream is over, or the input is not a number of moderate size.
        """
        plain = type(value) is int and -LARGEST_INPUT <= value <= LARGEST_INPUT
        x = value << INPUT_BITS if plain else dyadic(value)  # type: ignore[operator]
        if self.time == self.recurrence.cells:
            self.require_left(1)
        y: int = self._rows.take(x)
        self.time += 1
        return (y + self._half) >> self._shift

    def encode(self, values: Sequence[Real]) -> list[int]:
        """As `take` for several inputs, which are all checked first."""
        inputs = _together(values)
        if inputs is None:
            return self._one_by_one([dyadic(value) for value in values])
        self.require_left(len(inputs))
        begin = min(-self.time % SIZE, len(inputs))
        stop = len(inputs) - (len(inputs) - begin) % SIZE
        outputs = self._one_by_one(_listed(inputs[:begin]))
        rows = self._rows.together(inputs[begin:stop], self.grid_exponent)
        if rows is None:
            stop = begin
        else:
            outputs += rows
            self.time += stop - begin
        return outputs + self._one_by_one(_listed(inputs[stop:]))

    def _one_by_one(self, inputs: list[int]) -> list[int]:
        self.require_left(len(inputs))
        take, half, shift = self._rows.take, self._half, self._shift
        outputs = [(take(x) + half) >> shift for x in inputs]
        self.time += len(inputs)
        return outputs

    def require_left(self, count: int) -> None:
        """Refuse more inputs than there are steps left."""
        steps = self.recurrence.cells
        if self.time + count > steps:
            raise InvalidInputError(
                f"the stream has {steps} steps, of which {self.time} are taken; got"
                f" {count} more: {self._remedy}"
            )


def dyadic(value: Real) -> int:
    """A number as a multiple of 2^-40, rounded down.

    Raises:
        InvalidInputError: it is not a finite number, or exceeds LARGEST_INPUT in absolute value.
    """
    if isinstance(value, np.float32 | np.float16):
        value = float(value)
    try:
        finite = not isinstance(value, np.ndarray) and math.isfinite(value)
        small = finite and -LARGEST_INPUT <= value <= LARGEST_INPUT
        if small:
            if isinstance(value, float):
                return math.floor(value * 2.0**INPUT_BITS)
            if isinstance(value, Fraction):
                return (value.numerator << INPUT_BITS) // value.denominator
            return index(value) << INPUT_BITS
    except (TypeError, OverflowError):
        finite = False
    if not finite:
        raise InvalidInputError(f"an input of a stream must be a number, got {value!r}")
    raise InvalidInputError(
        f"an input of a stream must be at most 2^53 in size, got {value!r}; rescale the data"
    )


def _together(values: Sequence[Real]) -> Array | None:
    """Inputs as floating-point integers in units of 2^-40; None if each needs its own check."""
    if len(values) < SIZE or np.ma.is_masked(values):
        return None
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype not in (np.float64, np.int64):
        return None
    if not ((array >= -LARGEST_INPUT) & (array <= LARGEST_INPUT)).all():
        return None
    return np.asarray(np.floor(array * 2.0**INPUT_BITS))


def _listed(inputs: Array) -> list[int]:
    return [int(x) for x in inputs.tolist()]
