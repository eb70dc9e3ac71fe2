r"""The rows of C, block by block (`streams.blocks` in the solvers): C x exactly, and C^-1 y back.

K numbers of state, in blocks of rows p ... q with inputs x and outputs y:

    y = T x + R z,        z <- kept z + F^T x.

*C x in integers*, all of a stream that depends on data. C is *defined* by T, R and F as
multiples of 2^-52, kept of 2^-60. Inputs are multiples of 2^-40, z of 2^-92, rounded down once a
block, and R reads z rounded down to 2^-60. As no entry of R, kept and F exceeds 1, each number of z
is off by at most 2^-92 for each block, whatever the data.

*x^ = C^-1 y in floating point*, from the released values only: x^ = T^-1 (y - R z) in each block,
and z <- kept z + F^T x^.

A window of the last w inputs is exact without any of this, and goes back by x^_t = (y_t -
sum_{j < t} C_tj x^_j) / C_tt.

*Many blocks at once*, in integers (`products`). An integer is cut into digits of 20 bits
or 16, a coefficient into two of 26, so that products and their sums are integers below 2^53:
matrix products of floating-point numbers are exact then. Only z goes from block to block, in
Python's integers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from operator import mul
from typing import Any, Generic, TypeVar

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.factor import SIZE, BlockRows, Blocks

Number = TypeVar("Number", int, float)
_Lists = tuple[list[list[int]], list[list[int]], list[int], list[list[int]]]
"""T, R, kept and F^T of a block."""
COEFFICIENT_BITS = 52
KEPT_BITS = 60
INPUT_BITS = 40
STATE_BITS = COEFFICIENT_BITS + INPUT_BITS
READ_BITS = 60
"""Bits of z after the point as R reads it."""
OUTPUT_BITS = COEFFICIENT_BITS + READ_BITS
HALF_BITS, DIGIT_BITS, WORD_BITS = 26, 20, 16
"""Bits per digit of a coefficient, an input and a number of the state."""
STATE_BYTES = 20
"""z has at most 60 + 53 + 24 bits where R reads it: inputs up to 2^53, 2^24 steps."""
LARGEST_OUTPUT = 2.0**58
"""Outputs up to here are added in 64 bits."""


class StatesRows(ABC, Generic[Number]):
    """C of K numbers of state, in blocks of rows."""

    def __init__(self, rows: BlockRows) -> None:
        self._rows = rows
        self.resume(0, [0] * rows.memory)

    def resume(self, time: int, state: list[Number]) -> None:
        """Continue from a saved state; ValueError if it is not valid for this step."""
        count, inside = self._rows.memory, time % SIZE
        require_numbers(state, count + inside)
        self._z: Any = state[:count]
        self._inputs: list[Number] = state[count:]
        self._go_on(time // SIZE)
        if inside:
            self._begin()

    @property
    def state(self) -> list[Number]:
        """Z before the block, and the inputs since."""
        return [*self._z, *self._inputs]

    def _go_on(self, block: int) -> None:
        """Continue with the block of this number."""
        self._block, self._lists = block, self._listed(block)

    @abstractmethod
    def _begin(self) -> None:
        """Prepare the rows of the next block."""

    @abstractmethod
    def _listed(self, block: int) -> Iterator[Any]:
        """T, R, kept and F from a block on."""


def require_numbers(state: list[Any], count: int) -> None:
    """Refuse a saved state with more or fewer numbers."""
    if len(state) != count:
        raise ValueError(f"{count} numbers are needed, got {len(state)}")


class WholeStates(StatesRows[int]):
    """C of K numbers of state."""

    def take(self, x: int) -> int:
        """(C x)_t for the next input: in units of 2^-112 for inputs in units of 2^-40."""
        inputs = self._inputs
        place = len(inputs)
        if not place:
            self._begin()
        inputs.append(x)
        # the sum ends with the inputs, which are fewer than the entries of the row
        y: int = sum(map(mul, self._triangle[place], inputs)) << READ_BITS - INPUT_BITS
        y += self._read[place]
        if place == SIZE - 1:
            self._z = [
                (kept * z >> KEPT_BITS) + sum(map(mul, fading, inputs))
                for kept, z, fading in zip(self._kept, self._z, self._fading, strict=True)
            ]
            self._inputs = []
            self._block += 1
        return y

    def _begin(self) -> None:
        """Prepare the rows of the next block."""
        self._triangle, readings, self._kept, self._fading = next(self._lists)
        seen = [z >> STATE_BITS - READ_BITS for z in self._z]
        self._read = [sum(map(mul, row, seen)) for row in readings]

    def _listed(self, block: int) -> Iterator[_Lists]:
        """T, R, kept and F^T as integers, block after block."""
        for part in self._rows.blocks_from(block):
            fading = part.fading.swapaxes(1, 2)
            triangles, readings, across = (
                multiples(values, COEFFICIENT_BITS)
                for values in (part.triangles, part.readings, fading)
            )
            yield from zip(
                triangles, readings, multiples(part.kept, KEPT_BITS), across, strict=True
            )

    def together(self, inputs: Array, exponent: int) -> list[int] | None:
        """The next rows at once, in units of 2^exponent, off by half a unit and 2^-30 of it.

        Args:
            inputs: integers in units of 2^-40.
            exponent: of the unit.

        Returns:
            None if they have to go one by one.
        """
        if self._inputs or len(inputs) % SIZE:
            return None
        outputs, done, z = [], 0, self._z
        for part in self._rows.blocks_from(self._block, len(inputs) // SIZE):
            stop = done + SIZE * len(part.kept)
            rows, z = products(part, inputs[done:stop].reshape(-1, SIZE, 1), z, exponent)
            if rows is None:
                return None
            outputs += rows
            done = stop
        self._z = z
        self._go_on(self._block + len(inputs) // SIZE)
        return outputs


class WholeWindow:
    """C with w diagonals below the main one, which reads the last w inputs."""

    def __init__(self, matrix: Array, width: int) -> None:
        self._matrix, self._width = matrix, width
        self.resume(0, [])

    def resume(self, time: int, state: list[int]) -> None:
        """As `StatesRows.resume`."""
        require_numbers(state, min(time, self._width))
        self._time, self._inputs = time, list(state)

    @property
    def state(self) -> list[int]:
        """The last inputs."""
        return self._inputs[max(0, len(self._inputs) - self._width) :]

    def take(self, x: int) -> int:
        """As `WholeStates.take`."""
        time, inputs = self._time, [*self.state, x]
        row = self._matrix[time, time + 1 - len(inputs) : time + 1]
        self._time, self._inputs = time + 1, inputs
        y: int = sum(map(mul, multiples(row, COEFFICIENT_BITS), inputs))
        return y << READ_BITS - INPUT_BITS

    def together(self, inputs: Array, exponent: int) -> None:
        """They have to go one by one."""


class StatesDecoder(StatesRows[float]):
    """C of K numbers of state."""

    def take(self, y: float) -> float:
        """(C^-1 y)_t for the next y."""
        inputs = self._inputs
        place = len(inputs)
        if not place:
            self._begin()
        row = self._triangle[place]
        # the sum ends with the inputs, which are fewer than the entries of the row
        x: float = (y - self._read[place] - sum(map(mul, row, inputs))) / row[place]
        inputs.append(x)
        if place == SIZE - 1:
            self._z = self._kept * self._z + inputs @ self._fading
            self._inputs = []
            self._block += 1
        return x

    def _begin(self) -> None:
        """Prepare the rows of the next block."""
        self._triangle, readings, self._kept, self._fading = next(self._lists)
        self._read = (readings @ self._z).tolist()

    def _listed(self, block: int) -> Iterator[tuple[list[list[float]], Array, Array, Array]]:
        """T as lists, R, kept and F, block after block."""
        for part in self._rows.blocks_from(block):
            yield from zip(
                part.triangles.tolist(), part.readings, part.kept, part.fading, strict=True
            )

    def together(self, y: Array) -> Array:
        """The same for several, shape (m,): whole blocks at once, the others one by one."""
        begin = min(-len(self._inputs) % SIZE, len(y))
        count = (len(y) - begin) // SIZE
        results = np.empty(len(y))
        results[:begin] = [self.take(value) for value in y[:begin].tolist()]
        z, done = np.reshape(self._z, (-1, 1)), begin
        for part in self._rows.blocks_from(self._block, count):
            stop = done + SIZE * len(part.kept)
            x, z = part.inputs(y[done:stop].reshape(-1, SIZE, 1), z)
            results[done:stop] = x.ravel()
            done = stop
        if count:
            self._z = z[:, 0]
            self._go_on(self._block + count)
        results[done:] = [self.take(value) for value in y[done:].tolist()]
        return results


class WindowDecoder:
    """C with w diagonals below the main one, which reads the last w of x^."""

    def __init__(self, matrix: Array, width: int) -> None:
        self._matrix, self._width = matrix, width
        self._inputs = np.zeros(len(matrix))
        self.resume(0, [])

    def resume(self, time: int, state: list[float]) -> None:
        """As `StatesRows.resume`."""
        require_numbers(state, min(time, self._width))
        self._time = time
        self._inputs[time - len(state) : time] = state

    @property
    def state(self) -> Array:
        """The last x^."""
        return self._inputs[max(0, self._time - self._width) : self._time]

    def take(self, y: float) -> float:
        """As `StatesDecoder.take`."""
        time, last = self._time, self.state
        row = self._matrix[time, time - len(last) : time + 1]
        x = (y - float(row[:-1] @ last)) / float(row[-1])
        self._inputs[time] = x
        self._time += 1
        return x

    def together(self, y: Array) -> Array:
        """As `StatesDecoder.together`."""
        first, stop = self._time, self._time + len(y)
        x = window_rows(self._matrix, y[:, None], first, self.state[:, None])[:, 0]
        self._inputs[first:stop] = x
        self._time = stop
        return x


def window_rows(matrix: Array, y: Array, first: int, last: Array) -> Array:
    """Rows of C^-1 y from row `first` on, y of shape (m, c), with the last rows before, (w, c)."""
    rows = slice(first, first + len(y))
    rest = y - matrix[rows, first - len(last) : first] @ last
    inputs = scipy.linalg.solve_triangular(matrix[rows, rows], rest, lower=True, check_finite=False)
    return np.asarray(inputs)


def multiples(values: Array, bits: int) -> list[Any]:
    """Lists of multiples of 2^-bits."""
    listed: list[Any] = np.rint(values * 2.0**bits).astype(np.int64).tolist()
    return listed


def products(
    part: Blocks, inputs: Array, z: list[int], exponent: int
) -> tuple[list[int] | None, list[int]]:
    """Outputs of some blocks in units of 2^exponent, None if they are too large; z behind them."""
    digits = list(_digits(inputs))
    added = np.zeros(part.kept.shape, dtype=object)
    total = _Total(inputs.shape[:2])
    for weight, triangles, fading in zip(
        (HALF_BITS, 0), _halves(part.triangles), _halves(part.fading.swapaxes(1, 2)), strict=True
    ):
        for shift, digit in digits:
            total.add((triangles @ digit)[..., 0], weight + shift - STATE_BITS - exponent)
            products = (fading @ digit)[..., 0].astype(np.int64).astype(object)
            added += products << weight + shift
    before = []
    for kept, more in zip(multiples(part.kept, KEPT_BITS), added.tolist(), strict=True):
        before.append(z)
        z = [
            (k * number >> KEPT_BITS) + term for k, number, term in zip(kept, z, more, strict=True)
        ]
    words = _words(before)
    for weight, readings in zip((HALF_BITS, 0), _halves(part.readings), strict=True):
        read = readings @ words
        for word in range(words.shape[2]):
            total.add(read[..., word], weight + WORD_BITS * word - OUTPUT_BITS - exponent)
    return total.rounded(), z


class _Total:
    """A sum of integers times powers of two, as integer and fractional parts."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._whole, self._broken = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self._fits = True

    def add(self, values: Array, exponent: int) -> None:
        if not values.any():
            return
        values = values * 2.0**exponent
        whole = np.floor(values)
        self._fits = self._fits and bool(np.abs(whole).max() < LARGEST_OUTPUT)
        if self._fits:
            self._whole += whole.astype(np.int64)
            self._broken += values - whole

    def rounded(self) -> list[int] | None:
        """The numbers, rounded to the nearest whole ones."""
        if not self._fits:
            return None
        listed: list[int] = (self._whole + np.rint(self._broken).astype(np.int64)).ravel().tolist()
        return listed


def _halves(values: Array) -> tuple[Array, Array]:
    """The upper and the lower 26 bits of coefficients."""
    upper = np.floor(values * 2.0**HALF_BITS)
    return upper, np.rint((values - upper * 2.0**-HALF_BITS) * 2.0**COEFFICIENT_BITS)


def _digits(values: Array) -> Iterator[tuple[int, Array]]:
    """Digits of 20 bits, the last with a sign, with their shifts; without those that are all 0."""
    shift = 0
    while values.any():
        rest = np.floor(values * 2.0**-DIGIT_BITS)
        if np.abs(values).max() < 2.0**DIGIT_BITS:
            rest = np.zeros_like(values)
        digit = values - rest * 2.0**DIGIT_BITS
        if digit.any():
            yield shift, digit
        values, shift = rest, shift + DIGIT_BITS


def _words(states: list[list[int]]) -> Array:
    """Digits of 16 bits of z as R reads it, the last with a sign, shape (count, K, digits)."""
    shift = STATE_BITS - READ_BITS
    cut = b"".join(
        (z >> shift).to_bytes(STATE_BYTES, "little", signed=True)
        for z in chain.from_iterable(states)
    )
    words = np.frombuffer(cut, dtype="<u2").reshape(len(states), len(states[0]), -1).astype(float)
    last = words[..., -1]
    last -= 2.0**WORD_BITS * (last >= 2.0 ** (WORD_BITS - 1))
    return np.ascontiguousarray(words)
