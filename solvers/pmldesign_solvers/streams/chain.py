"""The chain behind running sums: a tridiagonal matrix T = B B^T with bidiagonal B.

Shuffled row by row and column by column, [[0, B], [B^T, 0]] is the adjacency matrix of a path on
which rows and columns of B take turns. All that counts are the squares of its edges,

    running sums A_ts = q_t h_s prod_{s < i <= t} rate_i,   T = W^(-1/2) (A^T U A)^(-1) W^(-1/2):
        row i to column i      1 / (w_i h_i^2 u_i q_i^2)
        column i to row i + 1  rate_{i+1}^2 / (w_{i+1} h_{i+1}^2 u_i q_i^2),
    all ranges at p = 2,       (A^T A)^(-1) = tridiag(-1, 2, -1) / (n + 1):
        both edges of row i    1 / ((n + 1) w_i), with n + 1 columns around the n rows.

So (T + s^2)^(-1) has the diagonal of the rows, (B^T B + s^2)^(-1) that of the columns.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.diagonals import Chain, diagonals, relative_rounding
from pmldesign_solvers.streams.dual import DualProblem
from pmldesign_solvers.streams.nodes import Nodes

SMOOTH = 0.05
"""Mean change of the logarithms of weights from one step to the next, at most."""


class StreamProblem(DualProblem):
    """A workload behind which there is a chain."""

    @abstractmethod
    def chain(self, u: Array, w: Array) -> Chain:
        """The path for weights of queries and cells, both positive."""

    @abstractmethod
    def gram_diagonal(self, u: Array) -> Array:
        """At least diag(A^T U A), shape (n,), but for a relative rounding of 4 n eps."""

    def measured(self, u: Array, w: Array, nodes: Nodes) -> Array:
        """diag(r(T)), shape (n,)."""
        chain = self.chain(u, w)
        return chain.rows(diagonals(chain, nodes))

    def spread(self, u: Array, w: Array, reciprocal: Nodes) -> Array:
        """diag(g(T)), shape (n,)."""
        chain = self.chain(u, w)
        values = chain.rows(diagonals(chain, reciprocal)) + reciprocal.constant
        return np.asarray(values + reciprocal.origin * w * self.gram_diagonal(u))

    def rounding(self, nodes: Nodes) -> float:
        """Of every number of `measured` and of `spread`, relatively, at most."""
        return relative_rounding(2 * self.cells, nodes)

    def spectrum(self, u: Array, w: Array) -> tuple[float, float]:
        """Bounds on the spectrum of T: the trace of T^-1, and the norm of a path."""
        edges = self.chain(u, w).edges
        around = np.zeros(edges.size + 2)
        around[1:-1] = np.sqrt(edges)
        largest = float((around[1:] + around[:-1]).max()) ** 2
        return 1.0 / float(w @ self.gram_diagonal(u)), 1.01 * largest


class RunningSums(StreamProblem):
    """A_ts = queries_t steps_s prod_{s < i <= t} rates_i for s <= t, else 0.

    Args:
        rates: shape (n - 1,), positive.
        query_weights: q, shape (n,), positive.
        step_weights: h, shape (n,), positive.
    """

    def __init__(self, rates: Array, query_weights: Array, step_weights: Array) -> None:
        self.rates = rates
        self.query_squares = query_weights**2
        self.step_squares = step_weights**2
        self.cells = self.queries = len(step_weights)
        logs = (np.log(rates), np.log(query_weights), np.log(step_weights))
        self.smooth = all(np.abs(np.diff(log)).sum() <= SMOOTH * log.size for log in logs)

    @property
    def tells_total(self) -> bool:
        """Whether the last of them is the total of all inputs, weighted: nothing fades."""
        return bool((self.rates == 1.0).all() and (self.step_squares == 1.0).all())

    def chain(self, u: Array, w: Array) -> Chain:
        """The path from the first row to the last column."""
        row, column = 1.0 / (w * self.step_squares), 1.0 / (u * self.query_squares)
        edges = np.empty(2 * self.cells - 1)
        edges[0::2] = row * column
        edges[1::2] = self.rates**2 * row[1:] * column[:-1]
        return Chain(edges, 0)

    def spread(self, u: Array, w: Array, reciprocal: Nodes) -> Array:
        """diag(g(B^T B)) of the queries, shape (n,)."""
        chain = self.chain(u, w)
        values = chain.columns(diagonals(chain, reciprocal)) + reciprocal.constant
        return np.asarray(values + reciprocal.origin * u * self.row_norms(w))

    def gram_diagonal(self, u: Array) -> Array:
        """diag(A^T U A), by sums over later queries."""
        sums = _discounted((u * self.query_squares)[::-1], self.rates[::-1] ** 2)[::-1]
        return np.asarray(self.step_squares * sums)

    def row_norms(self, w: Array) -> Array:
        """diag(A W A^T), sums over earlier cells, but for a relative rounding of 4 n eps."""
        return self.query_squares * _discounted(w * self.step_squares, self.rates**2)

    def coarser(self) -> RunningSums:
        """Every fourth step; what is between them multiplies."""
        kept = np.arange(0, self.cells, 4)
        logs = np.concatenate([[0.0], np.cumsum(np.log(self.rates))])
        rates = np.exp(np.diff(logs[kept]))
        return RunningSums(
            rates, np.sqrt(self.query_squares[kept]), np.sqrt(self.step_squares[kept])
        )


class AllRanges(StreamProblem):
    """All n (n + 1) / 2 intervals of cells, at p = 2."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.queries = 0

    def chain(self, u: Array, w: Array) -> Chain:  # noqa: ARG002
        """The path from the column before the first row to the one behind the last row."""
        return Chain(np.repeat(1.0 / ((self.cells + 1) * w), 2), 1)

    def gram_diagonal(self, u: Array) -> Array:  # noqa: ARG002
        """How many intervals contain each cell."""
        before = np.arange(1.0, self.cells + 1.0)
        return before * before[::-1]

    def coarser(self) -> AllRanges:
        """All intervals of a quarter of the cells."""
        return AllRanges(-(-self.cells // 4))


def _discounted(values: Array, rates: Array) -> Array:
    """y_0 = x_0, y_i = rates_i-1 y_i-1 + x_i, all of them positive; blocks side by side."""
    if (rates == 1.0).all():
        return np.asarray(np.cumsum(values))
    count = max(1, int(np.sqrt(values.size)))
    length = -(-values.size // count)
    terms, factors = np.zeros((2, count * length))
    terms[: values.size], factors[1 : values.size] = values, rates
    sums = np.ascontiguousarray(terms.reshape(count, length).T)
    products = np.ascontiguousarray(factors.reshape(count, length).T)
    for before, after, rate in zip(sums[:-1], sums[1:], products[1:], strict=True):
        after += rate * before
    np.cumprod(products, axis=0, out=products)
    carried = np.zeros(count)
    for block in range(1, count):
        last = products[-1, block - 1] * carried[block - 1]
        carried[block] = sums[-1, block - 1] + last
    return np.asarray((sums + products * carried).T.ravel()[: values.size])
