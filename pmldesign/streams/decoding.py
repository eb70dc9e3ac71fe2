"""x^ = C^-1 y in floating point, a step at a time or many at once: from what is released alone.

With K numbers of state, x^ = T^-1 (y - R z) in each block of rows (`whole`), and z <- kept z +
F^T x^; with a window of the last w, x^_t = (y_t - sum_{j < t} C_tj x^_j) / C_tt.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import mul

import numpy as np
import scipy

from pmldesign.streams.rows import StatesRows, require_numbers
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.blocks import SIZE


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
