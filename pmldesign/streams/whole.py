"""y = C x in whole numbers: all of a stream that depends on data.

K numbers of state, in blocks of rows p ... q with inputs x and outputs y (`streams.blocks` in the
solvers):

    y = T x + R z,        z <- kept z + F^T x.

C is *defined* by T, R and F as multiples of 2^-52, kept of 2^-60. Inputs are multiples of 2^-40, z
of 2^-92, rounded down once a block, and R reads z rounded down to 2^-60. As no entry of R, kept and
F exceeds 1, each number of z is off by at most 2^-92 for each block, whatever the data.

*Many blocks at once.* A whole number is cut into digits of 20 bits or 16, a coefficient into two of
26, so that products and their sums are whole numbers below 2^53: matrix products of
floating-point numbers are exact then. Only z goes from block to block, in Python's integers.

A window of the last w inputs is exact without any of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from operator import mul
from typing import Any

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.blocks import SIZE, BlockRows, Blocks

COEFFICIENT_BITS = 52
KEPT_BITS = 60
INPUT_BITS = 40
STATE_BITS = COEFFICIENT_BITS + INPUT_BITS
READ_BITS = 60
"""Of z where R reads it."""
OUTPUT_BITS = COEFFICIENT_BITS + READ_BITS
HALF_BITS, DIGIT_BITS, WORD_BITS = 26, 20, 16
"""Of a coefficient, an input and a number of state, where they are cut."""
STATE_BYTES = 20
"""z has at most 60 + 53 + 24 bits where R reads it: inputs up to 2^53, 2^24 steps."""
LARGEST = 2.0**58
"""Outputs up to here are added in 64 bits."""


_Lists = tuple[list[list[int]], list[list[int]], list[int], list[list[int]]]
"""T, R, kept and F^T of a block."""


class WholeRows(ABC):
    """Goes through the rows of C; `state` is what it needs to know of earlier inputs."""

    state: list[int]

    @abstractmethod
    def resume(self, time: int, state: list[int]) -> None:
        """Go on from a saved state; ValueError if it is none for this step."""

    @abstractmethod
    def take(self, x: int) -> int:
        """(C x)_t for the next input: in units of 2^-112 for inputs in units of 2^-40."""

    def together(self, inputs: Array, exponent: int) -> list[int] | None:  # noqa: ARG002
        """The next rows at once, in units of 2^exponent, off by half a unit and 2^-30 of it.

        Args:
            inputs: whole numbers of 2^-40.
            exponent: of the unit.

        Returns:
            None where they have to go one by one.
        """
        return None


class WholeStates(WholeRows):
    """C of K numbers of state."""

    def __init__(self, rows: BlockRows) -> None:
        self._rows = rows
        self.resume(0, [0] * rows.memory)

    def resume(self, time: int, state: list[int]) -> None:
        """As `WholeRows.resume`: z before the block, and the inputs since."""
        count, inside = self._rows.memory, time % SIZE
        if len(state) != count + inside:
            raise ValueError(f"{count + inside} numbers are needed, got {len(state)}")
        self._z, self._inputs = state[:count], state[count:]
        self._block, self._lists = time // SIZE, self._listed(time // SIZE)
        if inside:
            self._begin()

    @property
    def state(self) -> list[int]:  # type: ignore[override]
        """Z before the block, and the inputs since."""
        return self._z + self._inputs

    def take(self, x: int) -> int:
        """As `WholeRows.take`."""
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
        """What the rows of the next block need."""
        self._triangle, readings, self._kept, self._fading = next(self._lists)
        seen = [z >> STATE_BITS - READ_BITS for z in self._z]
        self._read = [sum(map(mul, row, seen)) for row in readings]

    def _listed(self, block: int) -> Iterator[_Lists]:
        """T, R, kept and F^T as whole numbers, block after block."""
        for part in self._rows.blocks_from(block):
            fading = part.fading.swapaxes(1, 2)
            triangles, readings, across = (
                _whole(values, COEFFICIENT_BITS)
                for values in (part.triangles, part.readings, fading)
            )
            yield from zip(triangles, readings, _whole(part.kept, KEPT_BITS), across, strict=True)

    def together(self, inputs: Array, exponent: int) -> list[int] | None:
        """As `WholeRows.together`, for whole blocks."""
        if self._inputs or len(inputs) % SIZE:
            return None
        outputs, done, z = [], 0, self._z
        for part in self._rows.blocks_from(self._block, len(inputs) // SIZE):
            stop = done + SIZE * len(part.kept)
            rows, z = _products(part, inputs[done:stop].reshape(-1, SIZE, 1), z, exponent)
            if rows is None:
                return None
            outputs += rows
            done = stop
        self._block += len(inputs) // SIZE
        self._z, self._lists = z, self._listed(self._block)
        return outputs


class WholeWindow(WholeRows):
    """C with w diagonals below the main one, which reads the last w inputs."""

    def __init__(self, rows: Array, width: int) -> None:
        self._matrix, self._width = rows, width
        self.resume(0, [])

    def resume(self, time: int, state: list[int]) -> None:
        """As `WholeRows.resume`."""
        if len(state) != min(time, self._width):
            raise ValueError(f"{min(time, self._width)} numbers are needed, got {len(state)}")
        self._time, self._inputs = time, list(state)

    @property
    def state(self) -> list[int]:  # type: ignore[override]
        """The last inputs."""
        return self._inputs[max(0, len(self._inputs) - self._width) :]

    def take(self, x: int) -> int:
        """As `WholeRows.take`."""
        time, inputs = self._time, [*self.state, x]
        row = self._matrix[time, time + 1 - len(inputs) : time + 1]
        self._time, self._inputs = time + 1, inputs
        y: int = sum(map(mul, _whole(row, COEFFICIENT_BITS), inputs))
        return y << READ_BITS - INPUT_BITS


def _whole(values: Array, bits: int) -> list[Any]:
    """Lists of multiples of 2^-bits."""
    listed: list[Any] = np.rint(values * 2.0**bits).astype(np.int64).tolist()
    return listed


def _products(
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
    for kept, more in zip(_whole(part.kept, KEPT_BITS), added.tolist(), strict=True):
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
    """A sum of whole numbers times powers of two, as whole and broken parts."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._whole, self._broken = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self._fits = True

    def add(self, values: Array, exponent: int) -> None:
        if not values.any():
            return
        values = values * 2.0**exponent
        whole = np.floor(values)
        self._fits = self._fits and bool(np.abs(whole).max() < LARGEST)
        if self._fits:
            self._whole += whole.astype(np.int64)
            self._broken += values - whole

    def rounded(self) -> list[int] | None:
        """To the nearest whole numbers."""
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
    words[..., -1] -= 2.0**WORD_BITS * (words[..., -1] >= 2.0 ** (WORD_BITS - 1))
    return np.ascontiguousarray(words)
