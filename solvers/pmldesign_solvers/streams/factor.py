"""The lower triangular factor C of X = C^T C, a stream with K numbers of state.

X = sum_k c_k Z_k, where Z_k = W^(-1/2) (T + s_k^2)^(-1) W^(-1/2) is the inverse of a tridiagonal
matrix: with Y_k(i) its diagonal and lambda_k(i) = Z_k(i, i-1) / Y_k(i),

    X_ij = sum_k c_k Y_k(i) prod_{j < m <= i} lambda_k(m),      i >= j.

So C_ij = g_i^T prod_{j < m <= i} diag(lambda(m)) 1 for i > j. From the last row to the first, with
P (K x K) the part of X that later rows explain,

    C_ii^2 = X_ii - 1^T P 1,   g_i = (c Y(i) - P 1) / C_ii,
    P <- diag(lambda(i)) (P + g_i g_i^T) diag(lambda(i)).

A stream keeps z = sum_{j < i} (prod_{j < m <= i} diag(lambda(m))) 1 x_j:

    (C x)_i = C_ii x_i + g_i^T z,      z <- lambda(i + 1) (z + x_i).

*Blocks of rows.* For rows p ... q of a
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
import scipy
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.streams.chain import StreamProblem, sides
from pmldesign_solvers.streams.nodes import Nodes

SIZE = 16
"""Rows of a block: 8 to 32 are equally fast."""
LANES = 512
"""Blocks that are made at a time: 3 MB."""
CHUNK = 64
"""The same if they are needed a few at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of equal size that follow one another.

    Attributes:
        triangles: T, shape (count, size, size).
        readings: R, shape (count, size, K).
        kept: decay of the state, shape (count, K).
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
        """Inputs for outputs, in the same way.

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
    """The inverses of lower triangular matrices, row by row for all at once."""
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


CANCELLED = 1e-8
"""A gain below 0 by no more than this part of the row is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """C, lower triangular with a positive diagonal.

    Attributes:
        diagonal: C_ii, shape (n,).
        gains: g_i, shape (n, K).
        decays: lambda(i), shape (n, K); those of the first row are 0.
    """

    diagonal: Array
    gains: Array
    decays: Array

    def scaled(self, size: float) -> Factor:
        """C times a positive number."""
        return Factor(self.diagonal * size, self.gains * size, self.decays)

    @property
    def column_units(self) -> int:
        """Roundings, of 2^-53 each, of `column_squares` and `column_sums` at most.

        Of positive numbers: `kept` has a rounding for each row, twice in a square, a block adds one
        for its sum; in its own block a column has sums of SIZE and K numbers, twice.
        """
        n, count = self.gains.shape
        return int(4 * n + 4 * count + 8 * SIZE)

    def column_squares(self) -> Array:
        """sum_i C_ij^2, shape (n,): squared l2 norms of the columns.

        Later blocks see a column as F_j, and add to P = sum of R^T R, faded.
        """
        squares = np.empty(len(self.diagonal))
        later = np.zeros((self.gains.shape[1],) * 2)
        for rows, part in backwards(self.diagonal, self.gains, self.decays):
            behind = np.empty((len(part.kept), *later.shape))
            added = part.readings.swapaxes(1, 2) @ part.readings
            fade = part.kept[:, :, None] * part.kept[:, None, :]
            for block in range(len(behind) - 1, -1, -1):
                behind[block] = later
                later = fade[block] * later + added[block]
            explained = ((part.fading @ behind) * part.fading).sum(axis=2)
            squares[rows] = ((part.triangles**2).sum(axis=1) + explained).ravel()[
                : rows.stop - rows.start
            ]
        return squares

    def column_sums(self) -> Array:
        """sum_i C_ij, shape (n,): l1 norms of the columns, as C >= 0."""
        sums = np.empty(len(self.diagonal))
        later = np.zeros(self.gains.shape[1])
        for rows, part in backwards(self.diagonal, self.gains, self.decays):
            behind, added = np.empty_like(part.kept), part.readings.sum(axis=1)
            for block in range(len(behind) - 1, -1, -1):
                behind[block] = later
                later = part.kept[block] * later + added[block]
            explained = (part.fading @ behind[:, :, None])[..., 0]
            sums[rows] = (part.triangles.sum(axis=1) + explained).ravel()[: rows.stop - rows.start]
        return sums

    def multiply(self, x: Array) -> Array:
        """C x, for x of shape (n,) or (n, c)."""
        return self._whole(x, inverse=False)

    def solve(self, y: Array) -> Array:
        """C^-1 y, for y of shape (n,) or (n, c)."""
        return self._whole(y, inverse=True)

    def _whole(self, values: Array, *, inverse: bool) -> Array:
        columns: Array = np.asarray(values.reshape(len(values), -1), dtype=np.float64)
        state = np.zeros((self.gains.shape[1], columns.shape[1]))
        results, done = np.zeros(columns.shape), 0
        while done < len(columns):
            left = len(columns) - done
            count, size = (min(left // SIZE, LANES), SIZE) if left >= SIZE else (1, left)
            rows = slice(done, done + count * size)
            part = blocks(self.diagonal[rows], self.gains[rows], self.decays[rows], size)
            given = columns[rows].reshape(count, size, -1)
            taken, state = part.inputs(given, state) if inverse else part.outputs(given, state)
            results[rows] = taken.reshape(count * size, -1)
            done = rows.stop
        return results.reshape(values.shape)


def factor(shares: Array, decays: Array) -> Factor:
    """C from the result of `generators`, in O(n K^2).

    P goes from block to block by a Cholesky factorization each; then the rows of all blocks follow
    side by side.

    Raises:
        ValueError: X is singular to working precision.
    """
    n, count = shares.shape
    gains, pivots = np.empty_like(shares), np.empty(n)
    explained = np.zeros((count, count))
    for rows, part in backwards(shares.sum(axis=1), shares, decays):
        size = rows.stop - rows.start
        more = -size % SIZE
        given, fade = (
            np.pad(values[rows], [(0, more), (0, 0)]).reshape(-1, SIZE, count)
            for values in (shares, decays)
        )
        given.reshape(-1, count)[size:] = 1.0  # no row is singular
        behind, explained = _explained(part, explained, rows.start)
        for i in range(SIZE - 1, -1, -1):
            raw = given[:, i] - behind.sum(axis=2)
            row = np.maximum(raw, 0.0)  # negative values are rounding: C >= 0
            pivot = row.sum(axis=1)
            places = rows.start + i + SIZE * np.arange(len(row))
            _require(pivot > 0.0, places, "is singular to working precision at")
            short = raw.min(axis=1) < -CANCELLED * given[:, i].max(axis=1)
            _require(~short, places, "has an entry below 0 at")
            inside = places < n
            gains[places[inside]], pivots[places[inside]] = row[inside], pivot[inside]
            behind += row[:, :, None] * (row / pivot[:, None])[:, None, :]
            behind *= fade[:, i, :, None] * fade[:, i, None, :]
    diagonal = np.sqrt(pivots)
    gains /= diagonal[:, None]
    return Factor(diagonal, gains, decays)


def _explained(part: Blocks, explained: Array, first: int) -> tuple[Array, Array]:
    """P behind each block, shape (count, K, K), and P before the first one.

    With X of a block in `part.triangles`, its rows from last to first: L L^T = X - F P F^T, and the
    block explains G^T G of earlier columns, L G = R - (F P) kept.
    """
    behind = np.empty((len(part.kept), *explained.shape))
    grams = np.ascontiguousarray(part.triangles[:, ::-1, ::-1].swapaxes(1, 2))
    fading, readings = (
        np.ascontiguousarray(values[:, ::-1]) for values in (part.fading, part.readings)
    )
    fade = part.kept[:, :, None] * part.kept[:, None, :]
    for block in range(len(behind) - 1, -1, -1):
        behind[block] = explained
        seen = fading[block] @ explained
        root, failed = scipy.linalg.lapack.dpotrf(
            grams[block] - seen @ fading[block].T, lower=True, clean=False
        )
        if failed:
            step = first + (block + 1) * SIZE - failed
            raise ValueError(f"the strategy is singular to working precision at step {step}")
        rows, _ = scipy.linalg.lapack.dtrtrs(
            root, readings[block] - seen * part.kept[block], lower=True
        )
        explained = fade[block] * explained + rows.T @ rows
    return behind, explained


def _require(holds: NDArray[np.bool_], places: Indices, what: str) -> None:
    if not holds.all():
        raise ValueError(f"the strategy {what} step {places[int((~holds).argmax())]}")


def generators(problem: StreamProblem, u: Array, w: Array, nodes: Nodes) -> tuple[Array, Array]:
    """c_k Y_k(i) and lambda_k(i), both of shape (n, K)."""
    chain = problem.chain(u, w)
    shares, decays = np.zeros((2, problem.cells, len(nodes.poles)))
    first = chain.first_row
    # from row i - 1 over the column between to row i
    hops = chain.edges[first : first + 2 * problem.cells - 2]
    jumps = np.sqrt(hops[0::2] * hops[1::2]) * np.sqrt(w[1:] / w[:-1])
    for k, (pole, weight) in enumerate(zip(nodes.poles, nodes.weights, strict=True)):
        left, right = sides(chain, float(pole))
        shares[:, k] = weight / (pole * chain.rows(left + right) * w)
        steps = left[first : first + 2 * problem.cells - 1]
        decays[1:, k] = jumps / (steps[0:-1:2] * steps[1::2])
    return shares, decays
