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
        values = x.reshape(len(x), -1)
        product = np.empty_like(values, dtype=np.float64)
        state = np.zeros((self.gains.shape[1], values.shape[1]))
        for i, value in enumerate(values):
            state *= self.decays[i][:, None]
            product[i] = self.diagonal[i] * value + self.gains[i] @ state
            state += value
        return product.reshape(x.shape)

    def solve(self, y: Array) -> Array:
        """C^-1 y, for y of shape (n,) or (n, c)."""
        values = y.reshape(len(y), -1)
        solution = np.empty_like(values, dtype=np.float64)
        state = np.zeros((self.gains.shape[1], values.shape[1]))
        for i, value in enumerate(values):
            state *= self.decays[i][:, None]
            solution[i] = (value - self.gains[i] @ state) / self.diagonal[i]
            state += solution[i]
        return solution.reshape(y.shape)


def factor(problem: StreamProblem, u: Array, w: Array, nodes: Nodes) -> Factor:
    """C for weights and nodes, in O(n K^2).

    Raises:
        ValueError: X is singular to working precision.
    """
    shares, decays = generators(problem, u, w, nodes)
    n, count = shares.shape
    rows, pivots, squares = np.empty_like(shares), np.empty(n), np.empty(n)
    ones, explained = np.ones(count), np.zeros((count, count))
    spare, sums = np.empty_like(explained), np.empty(count)
    for i in range(n - 1, -1, -1):
        row, decay = rows[i], decays[i]
        np.dot(explained, ones, out=sums)
        np.subtract(shares[i], sums, out=row)
        if not row.min() >= -CANCELLED * shares[i].max():
            raise ValueError(f"the strategy has an entry below 0 at step {i}")
        np.maximum(row, 0.0, out=row)  # what is below is rounding: C >= 0
        pivot = float(np.dot(ones, row))
        if not pivot > 0.0:
            raise ValueError(f"the strategy is singular to working precision at step {i}")
        pivots[i] = pivot
        squares[i] = pivot + np.dot(ones, sums)
        np.multiply(row[:, None], row / pivot, out=spare)
        explained += spare
        explained *= decay
        explained *= decay[:, None]
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
