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
import scipy
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.streams.blocks import LANES, SIZE, Blocks, backwards, blocks
from pmldesign_solvers.streams.chain import StreamProblem
from pmldesign_solvers.streams.diagonals import sides
from pmldesign_solvers.streams.nodes import Nodes

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
    """C for what `generators` returns, in O(n K^2).

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
            row = np.maximum(raw, 0.0)  # what is below is rounding: C >= 0
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
