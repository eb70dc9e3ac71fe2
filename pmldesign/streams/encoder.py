"""y_t = (C x)_t on a grid: all of a stream that depends on data, in whole numbers.

C is *defined* by multiples of 2^-60 (`recurrences`): the columns of this matrix count, not those
that were meant. Inputs and state are kept in multiples of 2^-90, rounded down. Where the state is
the last inputs themselves nothing else is rounded. Where it has K numbers, the gains of a step are
not negative and add up to at most C_ii, and z is a sum of products of numbers in [0, 1], so that
each of its entries is off by at most t 2^-90 whatever the data, and (C x)_t by at most
2^-90 (1 + t K). Then y_t is rounded to the grid. So the outputs of neighbours differ by a vector
with

    norm <= Delta + 2 n^(1/2) (grid / 2 + 2^-90 (1 + n K)),

Delta the largest distance of C x over neighbours x. The grid is the largest power of two with
grid n^(1/2) <= 1e-6 Delta. A rounded floating-point state would not be linear in the data to any
proved degree.

*The columns.* Rounding g and lambda to multiples of 2^-60 moves entry (i, j) of C by at most
K (1 + n) 2^-60, entries of a matrix by 2^-61, and a column by n^(1/2) times that, for each step
that a person takes part in; it is added to Delta. The columns of the matrix that a recurrence
stands for are measured with all their rounding (`StreamStrategy.measured_length`).

Adaptive inputs are covered: x_t may depend on all earlier outputs, as the shift (C v)_t of step t
depends on earlier differences alone, and its squares sum to at most Delta^2 on every path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.strategies.streams import StreamStrategy
from pmldesign.streams.recurrences import COEFFICIENT_BITS, recurrence_of

STATE_BITS = 90
FINENESS = 1e-6
"""Part of the sensitivity that rounding to the grid may add; the scale of the noise pays for it."""
LARGEST_INPUT = 2**53
"""Whole numbers up to here are floats without rounding."""

Real = float | int


class Encoder:
    """The exact part of a stream.

    Args:
        strategy: C, lower triangular, of sensitivity 1 or less, with its participation.

    Attributes:
        recurrence: the rows of C.
        time: t, the number of steps that were taken.
        state: in multiples of 2^-90.
        grid_exponent: the grid is 2 to this power.
        sensitivity: an upper bound on the l2 distance of the outputs of neighbours.
    """

    def __init__(self, strategy: Strategy) -> None:
        n = strategy.cells
        self.recurrence = recurrence_of(strategy)
        if strategy.sensitivity > 1.0 + 1e-6:
            raise InvalidInputError(
                f"strategy {strategy.name!r} has sensitivity {strategy.sensitivity:g}; a stream "
                "takes strategies of sensitivity 1: use strategy.normalised()"
            )
        self.grid_exponent = math.floor(math.log2(FINENESS * strategy.sensitivity / math.sqrt(n)))
        if self.grid_exponent <= -(COEFFICIENT_BITS + STATE_BITS):
            raise InvalidInputError(
                f"strategy {strategy.name!r} has sensitivity {strategy.sensitivity:g}, too little "
                "for the digits of a stream: use strategy.normalised()"
            )
        off = 2.0 ** (self.grid_exponent - 1) + self.recurrence.drift() * 2.0**-STATE_BITS
        apart = _distance(strategy) + self._rounded(strategy) + 2.0 * math.sqrt(n) * off
        self.sensitivity = apart * (1 + 1e-12)
        self.resume(0, [])

    def _rounded(self, strategy: Strategy) -> float:
        participation = participation_of(strategy)
        reach = 1 if participation is None else participation.reach(strategy.cells)
        return reach * self.recurrence.moved()

    def resume(self, time: int, state: list[int]) -> None:
        """Go on from a saved state, or from the beginning."""
        self.time = time
        self.state = list(state) if time else [0] * len(self.recurrence.start(1))
        self._rows = self.recurrence.rows(time, whole=True)

    def encode(self, values: Sequence[Real]) -> list[int]:
        """(C x)_t in grid units for the next inputs x_t, all of which are checked beforehand.

        Raises:
            InvalidInputError: the stream is over, or an input is no number of moderate size.
        """
        inputs = [dyadic(value) for value in values]
        steps = self.recurrence.cells
        if self.time + len(inputs) > steps:
            raise InvalidInputError(
                f"the stream has {steps} steps, of which {self.time} are taken; got"
                f" {len(inputs)} more: design a longer one"
            )
        state, outputs, encode = self.state, [], self.recurrence.encode
        shift = COEFFICIENT_BITS + STATE_BITS + self.grid_exponent
        half = 1 << (shift - 1)
        for x, row in zip(inputs, self._rows, strict=False):
            y, state = encode(row, state, x)
            outputs.append((y + half) >> shift)
        self.state = state
        self.time += len(inputs)
        return outputs


def _distance(strategy: Strategy) -> float:
    """How far apart C x is for neighbours x, at most, C as its recurrence gives it."""
    whole, participation = with_participation(strategy, None), participation_of(strategy)
    if not isinstance(whole, StreamStrategy):
        return strategy.sensitivity
    single = whole.sensitivity
    repeated = strategy.sensitivity / single
    if participation is not None:
        reach = participation.reach(whole.cells)
        repeated += 2 * reach * whole.factor.column_units * 2.0**-53
    return max(single, whole.measured_length) * repeated


def dyadic(value: Real) -> int:
    """A number as a multiple of 2^-90, rounded down.

    Raises:
        InvalidInputError: it is no finite number, or larger than LARGEST_INPUT in size.
    """
    try:
        numerator, denominator = value.as_integer_ratio()
    except (AttributeError, OverflowError, ValueError):
        raise InvalidInputError(f"an input of a stream must be a number, got {value!r}") from None
    if abs(numerator) > LARGEST_INPUT * denominator:
        raise InvalidInputError(
            f"an input of a stream must be at most 2^53 in size, got {value!r}; rescale the data"
        )
    return (int(numerator) << STATE_BITS) // int(denominator)
