"""Blocks of rows of a lower triangular matrix with K numbers of state.

C_ij = g_i^T prod_{j < m <= i} diag(lambda(m)) 1 for i > j, and C_ii apart. For rows p ... q of a
block, with x their inputs, y their outputs and z the state before row p,

    y = T x + R z,        z <- kept z + F^T x,

    T_ij = C_ij,          R_i = g_i prod_{p <= m <= i} lambda(m),
    kept = prod_{p <= m <= q} lambda(m),      F_j = prod_{j < m <= q} lambda(m).

All of them are products and sums of the generators, without differences. Many blocks are made side
by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array

SIZE = 16
"""Rows of a block: 8 to 32 are equally fast."""
LANES = 512
"""Blocks that are made at a time: 3 MB."""
CHUNK = 64
"""Likewise where they are wanted a few at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of equal size that follow one another.

    Attributes:
        triangles: T, shape (count, size, size).
        readings: R, shape (count, size, K).
        kept: what is left of the state, shape (count, K).
        fading: F, shape (count, size, K).
    """

    triangles: Array
    readings: Array
    kept: Array
    fading: Array

    def __getitem__(self, part: slice) -> Blocks:
        """Some of the blocks."""
        return Blocks(self.triangles[part], self.readings[part], self.kept[part], self.fading[part])

    def outputs(self, inputs: Array, state: Array) -> tuple[Array, Array]:
        """Outputs for inputs of shape (count, size, c), and z behind them, shape (K, c)."""
        states = np.empty((len(inputs), *state.shape))
        added = self.fading.swapaxes(1, 2) @ inputs
        for before, kept, term in zip(states, self.kept[..., None], added, strict=True):
            before[:] = state
            state = kept * state + term
        return self.triangles @ inputs + self.readings @ states, state

    def inputs(self, outputs: Array, state: Array) -> tuple[Array, Array]:
        """Inputs for outputs, likewise.

        x = T^-1 (y - R z), so that z <- (kept - F^T T^-1 R) z + F^T T^-1 y.
        """
        inverses = _inverses(self.triangles)
        readings, inputs = inverses @ self.readings, inverses @ outputs
        across = self.fading.swapaxes(1, 2)
        steps, added = -(across @ readings), across @ inputs
        places = np.arange(len(state))
        steps[:, places, places] += self.kept
        states = np.empty((len(inputs), *state.shape))
        for before, step, term in zip(states, steps, added, strict=True):
            before[:] = state
            state = step @ state + term
        return inputs - readings @ states, state


def _inverses(triangles: Array) -> Array:
    """Of lower triangular matrices, row by row for all at once."""
    inverses = np.zeros_like(triangles)
    for i in range(triangles.shape[1]):
        inverses[:, i, :i] = (-triangles[:, None, i, :i] @ inverses[:, :i, :i])[:, 0]
        inverses[:, i, i] = 1.0
        inverses[:, i] /= triangles[:, i, i, None]
    return inverses


class BlockRows:
    """The rows of C in blocks from any one on, always made in the same way, CHUNK at a time.

    Args:
        diagonal: C_ii, shape (n,).
        gains: g_i, shape (n, K).
        decays: lambda(i), shape (n, K).
    """

    def __init__(self, diagonal: Array, gains: Array, decays: Array) -> None:
        self._parts = diagonal, gains, decays
        self.cells, self.memory = gains.shape
        self._number, self._chunk = -1, Blocks(*(np.zeros(0),) * 4)

    def blocks_from(self, first: int, count: int | None = None) -> Iterator[Blocks]:
        """Blocks from number `first` on, so many of them or all."""
        last = -(-self.cells // SIZE) if count is None else first + count
        while first < last:
            chunk, place = divmod(first, CHUNK)
            if chunk != self._number:
                start = chunk * CHUNK * SIZE
                self._chunk = _filled(*self._parts, slice(start, start + CHUNK * SIZE))
                self._number = chunk
            part = self._chunk[place : place + last - first]
            yield part
            first += len(part.kept)


def blocks(diagonal: Array, gains: Array, decays: Array, size: int = SIZE) -> Blocks:
    """The blocks of some rows, whose number is a multiple of the size.

    Args:
        diagonal: C_ii, shape (m,).
        gains: g_i, shape (m, K).
        decays: lambda(i), shape (m, K).
        size: rows of a block.
    """
    count = len(diagonal) // size
    gains, decays = (values.reshape(count, size, -1) for values in (gains, decays))
    triangles = np.zeros((count, size, size))
    kept, fading = np.ones_like(decays[:, 0]), np.zeros_like(decays)
    readings = np.empty_like(decays)
    for i in range(size):
        kept = kept * decays[:, i]
        readings[:, i] = gains[:, i] * kept
        fading[:, :i] *= decays[:, i, None]
        triangles[:, i, :i] = (fading[:, :i] @ gains[:, i, :, None])[..., 0]
        fading[:, i] = 1.0
    places = np.arange(size)
    triangles[:, places, places] = diagonal.reshape(count, size)
    return Blocks(triangles, readings, kept, fading)


def backwards(diagonal: Array, gains: Array, decays: Array) -> Iterator[tuple[slice, Blocks]]:
    """Blocks from the last rows to the first, LANES at a time, with the rows that they are of."""
    n, together = len(diagonal), SIZE * LANES
    for start in range((n - 1) // together * together, -1, -together):
        rows = slice(start, min(start + together, n))
        yield rows, _filled(diagonal, gains, decays, rows)


def _filled(diagonal: Array, gains: Array, decays: Array, rows: slice) -> Blocks:
    """The blocks of some rows.

    The last block is filled with rows that depend on no others: their diagonal is 1, their gains
    and decays are 0.
    """
    more = -len(diagonal[rows]) % SIZE
    reads, fades = (np.pad(part[rows], [(0, more), (0, 0)]) for part in (gains, decays))
    return blocks(np.pad(diagonal[rows], (0, more), constant_values=1.0), reads, fades)
