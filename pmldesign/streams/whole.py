"""y = C x in whole numbers: all of a stream that depends on data.

K numbers of state, in blocks of rows p ... q with inputs x and outputs y (`streams.blocks` in the
solvers):

    y = T x + R z,        z <- kept z + F^T x.

C is *defined* by T, R and F as multiples of 2^-52, kept of 2^-60. Inputs are multiples of 2^-40, z
of 2^-92, rounded down once a block, and R reads z rounded down to 2^-60. As no entry of R, kept and
F exceeds 1, each number of z is off by at most 2^-92 for each block, whatever the data.

A window of the last w inputs is exact without any of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import mul

from pmldesign.streams.digits import (
    COEFFICIENT_BITS,
    INPUT_BITS,
    KEPT_BITS,
    READ_BITS,
    STATE_BITS,
    multiples,
    products,
)
from pmldesign.streams.rows import StatesRows, require_numbers
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.blocks import SIZE

_Lists = tuple[list[list[int]], list[list[int]], list[int], list[list[int]]]
"""T, R, kept and F^T of a block."""


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
