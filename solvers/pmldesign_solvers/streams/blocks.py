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
    """Blocks from the last rows to the first, LANES at a time, with the rows that they are of.

    Behind the last row the last block is filled with rows that depend on no others: their diagonal
    is 1, their gains and decays are 0.
    """
    n, together = len(diagonal), SIZE * LANES
    for start in range((n - 1) // together * together, -1, -together):
        rows = slice(start, min(start + together, n))
        more = -(rows.stop - start) % SIZE
        reads, fades = (np.pad(part[rows], [(0, more), (0, 0)]) for part in (gains, decays))
        yield rows, blocks(np.pad(diagonal[rows], (0, more), constant_values=1.0), reads, fades)
