"""y_t = (C x)_t on a grid: all of a stream that depends on data, in whole numbers.

C is *defined* by C_ii, g_i and lambda(i) (`streams.factor` in the solvers) as multiples of 2^-60:
the columns of this matrix count, not those that were meant. The state z is kept in multiples of
2^-90, rounded down after each step. The gains of a step are not negative and add up to C_ii. z is
a sum of products of numbers in [0, 1], so that each of its entries is off by at most t 2^-90
whatever the data, and (C x)_t by at most 2^-90 (1 + t K), below 2^-58 up to 2^24 steps. Then y_t
is rounded to the grid. So the outputs of neighbours differ by a vector with

    norm <= Delta + 2 n^(1/2) (grid / 2 + 2^-58),          Delta = max_j norm(C e_j).

The grid is the largest power of two with grid n^(1/2) <= 1e-6 Delta. A rounded floating-point state
would not be linear in the data to any proved degree.

*The columns.* Rounding g and lambda to multiples of 2^-60 moves entry (i, j) of C by at most
K (1 + n) 2^-60, and a column by n^(1/2) times that, which is added to Delta. The
columns of the matrix that its recurrence stands for are measured with all their rounding
(`StreamStrategy.measured_length`).

Adaptive inputs are covered: x_t may depend on all earlier outputs, as the shift (C v)_t of step t
depends on earlier differences alone, and its squares sum to at most Delta^2 on every path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import mul

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.participation.distances import sensitivity
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.streams import StreamStrategy
from pmldesign_solvers.operators.operator import Array

COEFFICIENT_BITS, STATE_BITS = 60, 90
"""Whole digits of Python's integers, which have 30 bits."""
FINENESS = 1e-6
"""Part of the sensitivity that rounding to the grid may add; the scale of the noise pays for it."""
LARGEST_INPUT = 2**53
ROWS = 1024
"""Coefficients that are turned into whole numbers at a time."""

Real = float | int
Row = tuple[int, list[int], list[int]]


class Encoder:
    """The exact part of a stream.

    Args:
        strategy: C, scaled to sensitivity 1 or less for one participation.
        participation: how often a person takes part; None for once.

    Attributes:
        time: t, the number of steps that were taken.
        state: z in multiples of 2^-90, one list of K numbers.
        grid_exponent: the grid is 2 to this power.
        sensitivity: an upper bound on the l2 distance of the outputs of neighbours.
    """

    def __init__(
        self, strategy: StreamStrategy, participation: Participation | None = None
    ) -> None:
        n, count = strategy.cells, strategy.buffers
        if strategy.sensitivity > 1.0 + 1e-6:
            raise InvalidInputError(
                f"strategy {strategy.name!r} has sensitivity {strategy.sensitivity:g}; a stream "
                "takes strategies of sensitivity 1: use strategy.normalised()"
            )
        if strategy.factor.decays.max() > 1.0 or strategy.factor.gains.min() < 0.0:
            raise InvalidInputError(
                f"strategy {strategy.name!r} grows along the stream, so that no state of fixed "
                "precision can hold it; take rates of at most 1 and weights that vary less"
            )
        self._factor = strategy.factor
        self.steps = n
        self.time = 0
        self.state = [0] * count
        self.grid_exponent = math.floor(math.log2(FINENESS * strategy.sensitivity / math.sqrt(n)))
        if self.grid_exponent <= -(COEFFICIENT_BITS + STATE_BITS):
            raise InvalidInputError(
                f"strategy {strategy.name!r} has sensitivity {strategy.sensitivity:g}, too little "
                "for the digits of a stream: use strategy.normalised()"
            )
        longest = max(strategy.sensitivity, strategy.measured_length)
        reach = 1
        if participation is not None:
            reach = participation.reach(n)
            repeated = sensitivity(strategy, participation, "l2") / strategy.sensitivity
            longest *= repeated + 2 * reach * strategy.factor.column_units * 2.0**-53
        moved = reach * math.sqrt(n) * count * (1 + n) * 2.0**-COEFFICIENT_BITS
        slack = 2.0 * math.sqrt(n) * (2.0 ** (self.grid_exponent - 1) + 2.0**-58)
        self.sensitivity = (longest + moved + slack) * (1 + 1e-12)
        self._rows = self._coefficients()

    def resume(self, time: int, state: list[int]) -> None:
        """Go on from a saved state."""
        self.time, self.state = time, list(state)
        self._rows = self._coefficients()

    def encode(self, values: Sequence[Real]) -> list[int]:
        """(C x)_t in grid units for the next inputs x_t, all of which are checked beforehand.

        Raises:
            InvalidInputError: the stream is over, or an input is no number of moderate size.
        """
        inputs = [dyadic(value) for value in values]
        if self.time + len(inputs) > self.steps:
            raise InvalidInputError(
                f"the stream has {self.steps} steps, of which {self.time} are taken; got"
                f" {len(inputs)} more: design a longer one"
            )
        state, outputs = self.state, []
        shift = COEFFICIENT_BITS + STATE_BITS + self.grid_exponent
        half = 1 << (shift - 1)
        last = 0  # the input that the state has still to take in
        for x, (diagonal, gains, decays) in zip(inputs, self._rows, strict=False):
            state = [
                decay * (z + last) >> COEFFICIENT_BITS
                for decay, z in zip(decays, state, strict=True)
            ]
            outputs.append((diagonal * x + sum(map(mul, gains, state)) + half) >> shift)
            last = x
        self.state = [z + last for z in state]
        self.time += len(inputs)
        return outputs

    def _coefficients(self) -> Iterator[Row]:
        """The rows of C from step `time` on, in multiples of 2^-60."""
        unit = 2.0**COEFFICIENT_BITS
        for start in range(self.time, self.steps, ROWS):
            rows = slice(start, start + ROWS)
            parts = (self._factor.diagonal, self._factor.gains, self._factor.decays)
            yield from zip(*(_whole(part[rows], unit) for part in parts), strict=True)


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


def _whole(values: Array, unit: float) -> list[int] | list[list[int]]:
    whole: list[int] = np.rint(values * unit).astype(np.int64).tolist()
    return whole
