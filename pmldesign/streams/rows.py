r"""The rows of C, block by block (`streams.blocks` in the solvers): C x exactly, and C^-1 y back.

K numbers of state, in blocks of rows p ... q with inputs x and outputs y:

    y = T x + R z,        z <- kept z + F^T x.

*C x in whole numbers*, all of a stream that depends on data. C is *defined* by T, R and F as
multiples of 2^-52, kept of 2^-60. Inputs are multiples of 2^-40, z of 2^-92, rounded down once a
block, and R reads z rounded down to 2^-60. As no entry of R, kept and F exceeds 1, each number of z
is off by at most 2^-92 for each block, whatever the data.

*x^ = C^-1 y in floating point*, from what is released alone: x^ = T^-1 (y - R z) in each block, and
z <- kept z + F^T x^.

A window of the last w inputs is exact without any of this, and goes back by x^_t = (y_t -
sum_{j < t} C_tj x^_j) / C_tt. Rows are taken a step at a time, or many at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import mul
from typing import Any, Generic, TypeVar

import numpy as np
import scipy

from pmldesign.streams.digits import (
    COEFFICIENT_BITS,
    INPUT_BITS,
    KEPT_BITS,
    READ_BITS,
    STATE_BITS,
    multiples,
    products,
)
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.blocks import SIZE, BlockRows

Number = TypeVar("Number", int, float)
_Lists = tuple[list[list[int]], list[list[int]], list[int], list[list[int]]]
"""T, R, kept and F^T of a block."""


class StatesRows(ABC, Generic[Number]):
    """C of K numbers of state, in blocks of rows."""

    def __init__(self, rows: BlockRows) -> None:
        self._rows = rows
        self.resume(0, [0] * rows.memory)

    def resume(self, time: int, state: list[Number]) -> None:
        """Go on from a saved state; ValueError if it is none for this step."""
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
        """With the block of this number."""
        self._block, self._lists = block, self._listed(block)

    @abstractmethod
    def _begin(self) -> None:
        """What the rows of the next block need."""

    @abstractmethod
    def _listed(self, block: int) -> Iterator[Any]:
        """T, R, kept and F from a block on."""


def require_numbers(state: list[Any], count: int) -> None:
    """Refuse a saved state of more or fewer."""
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
        """What the rows of the next block need."""
        self._triangle, readings, self._kept, self._fading = next(self._lists)
        seen = [z >> STATE_BITS - READ_BITS for z in self._z]
        self._read = [sum(map(mul, row, seen)) for row in readings]

    def _listed(self, block: int) -> Iterator[_Lists]:
        """T, R, kept and F^T as whole numbers, block after block."""
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
            inputs: whole numbers of 2^-40.
            exponent: of the unit.

        Returns:
            None where they have to go one by one.
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
        """What the rows of the next block need."""
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
