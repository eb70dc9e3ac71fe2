"""x^ = C^-1 y in floating point, a step at a time or many at once: from what is released alone.

With K numbers of state, x^ = T^-1 (y - R z) in each block of rows (`whole`), and z <- kept z +
F^T x^; with a window of the last w, x^_t = (y_t - sum_{j < t} C_tj x^_j) / C_tt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import mul

import numpy as np
from scipy import linalg

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.blocks import SIZE, BlockRows


class Decoder(ABC):
    """Goes through the rows of C; `state` is what it needs to know of earlier ones."""

    state: list[float]

    @abstractmethod
    def resume(self, time: int, state: list[float]) -> None:
        """Go on from a saved state; ValueError if it is none for this step."""

    @abstractmethod
    def take(self, y: float) -> float:
        """(C^-1 y)_t for the next y."""

    @abstractmethod
    def together(self, y: Array) -> Array:
        """The same for several, shape (m,)."""


class StatesDecoder(Decoder):
    """C of K numbers of state."""

    def __init__(self, rows: BlockRows) -> None:
        self._rows = rows
        self.resume(0, [0.0] * rows.memory)

    def resume(self, time: int, state: list[float]) -> None:
        """As `Decoder.resume`: z before the block, and x^ since."""
        count, inside = self._rows.memory, time % SIZE
        if len(state) != count + inside:
            raise ValueError(f"{count + inside} numbers are needed, got {len(state)}")
        self._z, self._inputs = np.array(state[:count]), state[count:]
        self._block, self._lists = time // SIZE, self._listed(time // SIZE)
        if inside:
            self._begin()

    @property
    def state(self) -> list[float]:  # type: ignore[override]
        """Z before the block, and x^ since."""
        return [*self._z.tolist(), *self._inputs]

    def take(self, y: float) -> float:
        """As `Decoder.take`."""
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
        """As `Decoder.together`: the blocks that are whole at once, the others one by one."""
        begin = min(-len(self._inputs) % SIZE, len(y))
        count = (len(y) - begin) // SIZE
        results = np.empty(len(y))
        results[:begin] = [self.take(value) for value in y[:begin].tolist()]
        z, done = self._z[:, None], begin
        for part in self._rows.blocks_from(self._block, count):
            stop = done + SIZE * len(part.kept)
            x, z = part.inputs(y[done:stop].reshape(-1, SIZE, 1), z)
            results[done:stop] = x.ravel()
            done = stop
        if count:
            self._block += count
            self._z, self._lists = z[:, 0], self._listed(self._block)
        results[done:] = [self.take(value) for value in y[done:].tolist()]
        return results


class WindowDecoder(Decoder):
    """C with w diagonals below the main one."""

    def __init__(self, matrix: Array, width: int) -> None:
        self._matrix, self._width = matrix, width
        self._inputs = np.zeros(len(matrix))
        self.resume(0, [])

    def resume(self, time: int, state: list[float]) -> None:
        """As `Decoder.resume`: the last x^."""
        if len(state) != min(time, self._width):
            raise ValueError(f"{min(time, self._width)} numbers are needed, got {len(state)}")
        self._time = time
        self._inputs[time - len(state) : time] = state

    @property
    def _last(self) -> Array:
        return self._inputs[max(0, self._time - self._width) : self._time]

    @property
    def state(self) -> list[float]:  # type: ignore[override]
        """The last x^."""
        listed: list[float] = self._last.tolist()
        return listed

    def take(self, y: float) -> float:
        """As `Decoder.take`."""
        time, last = self._time, self._last
        row = self._matrix[time, time - len(last) : time + 1]
        x = (y - float(row[:-1] @ last)) / float(row[-1])
        self._inputs[time] = x
        self._time += 1
        return x

    def together(self, y: Array) -> Array:
        """As `Decoder.together`."""
        first, stop = self._time, self._time + len(y)
        x = window_rows(self._matrix, y[:, None], first, self._last[:, None])[:, 0]
        self._inputs[first:stop] = x
        self._time = stop
        return x


def window_rows(matrix: Array, y: Array, first: int, last: Array) -> Array:
    """Rows of C^-1 y from row `first` on, y of shape (m, c), with the last rows before, (w, c)."""
    rows = slice(first, first + len(y))
    rest = y - matrix[rows, first - len(last) : first] @ last
    inputs = linalg.solve_triangular(matrix[rows, rows], rest, lower=True, check_finite=False)
    return np.asarray(inputs)
