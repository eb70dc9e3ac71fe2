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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import StreamProblem
from pmldesign_solvers.streams.diagonals import sides
from pmldesign_solvers.streams.nodes import Nodes

CANCELLED = 1e-8
"""A gain below 0 by no more than this part of the row is rounding."""
CHUNK = 1024
"""Rows whose products of decays are made at a time: 2 MB with 16 numbers of state."""
BLOCK, LANES = 16, 512
"""Rows that are solved together, and blocks whose matrices are made at a time: 3 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """C, lower triangular with a positive diagonal.

    Attributes:
        diagonal: C_ii, shape (n,).
        gains: g_i, shape (n, K).
        decays: lambda(i), shape (n, K); those of the first row are 0.
        squares: squared norms of the columns, shape (n,): C_ii^2 + 1^T P 1, sums of positive
            numbers, within `column_units` of those of the matrix C that the rest describes.
    """

    diagonal: Array
    gains: Array
    decays: Array
    squares: Array

    @property
    def column_units(self) -> int:
        """Roundings, of 2^-53 each, of `squares` and `column_sums` at most.

        A product of gains and a step of P take three, each sum of K numbers K.
        """
        n, count = self.gains.shape
        return int(4 * n + 2 * count + 16)

    def column_sums(self) -> Array:
        """sum_i C_ij, shape (n,): l1 norms of the columns, as C >= 0."""
        sums = self.diagonal.copy()
        state = np.zeros(self.gains.shape[1])
        for i in range(len(sums) - 1, -1, -1):
            sums[i] += state.sum()
            state += self.gains[i]
            state *= self.decays[i]
        return sums

    def multiply(self, x: Array) -> Array:
        """C x, for x of shape (n,) or (n, c)."""
        return self._whole(x, inverse=False)

    def solve(self, y: Array) -> Array:
        """C^-1 y, for y of shape (n,) or (n, c)."""
        return self._whole(y, inverse=True)

    def solve_rows(self, y: Array, first: int, state: Array) -> tuple[Array, Array]:
        """Rows of C^-1 y from row `first` on, for y of shape (m, c), and the state behind them.

        Args:
            y: right-hand sides of these rows.
            first: number of the first one.
            state: z + x of the row before, shape (K, c); 0 before row 0.
        """
        return self._rows(y, first, state, inverse=True)

    def _whole(self, values: Array, *, inverse: bool) -> Array:
        columns: Array = np.asarray(values.reshape(len(values), -1), dtype=np.float64)
        state = np.zeros((self.gains.shape[1], columns.shape[1]))
        return self._rows(columns, 0, state, inverse=inverse)[0].reshape(values.shape)

    def _rows(
        self, values: Array, first: int, state: Array, *, inverse: bool
    ) -> tuple[Array, Array]:
        """Rows of C x or C^-1 y, block by block."""
        results, done = np.zeros(values.shape), 0
        while done < len(values):
            left = len(values) - done
            count, size = (min(left // BLOCK, LANES), BLOCK) if left >= BLOCK else (1, left)
            stop = done + count * size
            triangles, readings, kept, fading = self._blocks(first + done, count, size)
            if inverse:
                triangles = np.asarray(np.linalg.inv(triangles), dtype=np.float64)
            given = values[done:stop].reshape(count, size, -1)
            taken = results[done:stop].reshape(count, size, -1)
            for i, value in enumerate(given):
                if inverse:
                    taken[i] = inputs = triangles[i] @ (value - readings[i] @ state)
                else:
                    taken[i], inputs = triangles[i] @ value + readings[i] @ state, value
                state = kept[i][:, None] * state + fading[i].T @ inputs
            done = stop
        return results, state

    def _blocks(self, first: int, count: int, size: int) -> tuple[Array, Array, Array, Array]:
        """Of `count` blocks of `size` rows from row `first` on.

        Returns:
            The triangle of C within each block, shape (count, size, size); what its rows read from
            the state before it, (count, size, K); what is left of that state, (count, K); and of
            the block's inputs, (count, size, K).
        """
        rows = slice(first, first + count * size)
        decays = self.decays[rows].reshape(count, size, -1)
        gains = self.gains[rows].reshape(count, size, -1)
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
        triangles[:, places, places] = self.diagonal[rows].reshape(count, size)
        return triangles, readings, kept, fading


def factor(problem: StreamProblem, u: Array, w: Array, nodes: Nodes) -> Factor:
    """C for weights and nodes, in O(n K^2).

    Raises:
        ValueError: X is singular to working precision.
    """
    shares, decays = generators(problem, u, w, nodes)
    n, count = shares.shape
    rows, pivots, squares = np.empty_like(shares), np.empty(n), np.empty(n)
    ones, explained, spare = np.ones(count), np.zeros((count, count)), np.empty((count, count))
    raw, sums = np.empty((2, CHUNK, count))
    for start in range((n - 1) // CHUNK * CHUNK, -1, -CHUNK):
        part = slice(start, min(start + CHUNK, n))
        places = range(part.stop - start - 1, -1, -1)
        fading = decays[part, :, None] * decays[part, None, :]
        for i, share, row, fade in zip(
            places, shares[part][::-1], rows[part][::-1], fading[::-1], strict=True
        ):
            explained.dot(ones, out=sums[i])
            np.subtract(share, sums[i], out=raw[i])
            np.maximum(raw[i], 0.0, out=row)  # what is below is rounding: C >= 0
            pivot = float(row.dot(ones))
            if not pivot > 0.0:
                raise ValueError(
                    f"the strategy is singular to working precision at step {start + i}"
                )
            pivots[start + i] = pivot
            np.multiply(row[:, None], row / pivot, out=spare)
            np.add(spare, explained, out=spare)
            np.multiply(spare, fade, out=explained)
        size = part.stop - start
        short = raw[:size].min(axis=1) < -CANCELLED * shares[part].max(axis=1)
        if short.any():
            step = start + int(short.argmax())
            raise ValueError(f"the strategy has an entry below 0 at step {step}")
        squares[part] = pivots[part] + sums[:size].sum(axis=1)
    diagonal = np.sqrt(pivots)
    rows /= diagonal[:, None]
    return Factor(diagonal, rows, decays, squares)


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
