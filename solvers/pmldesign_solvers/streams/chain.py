"""The chain behind running sums: a tridiagonal matrix T = B B^T with bidiagonal B.

Shuffled row by row and column by column, [[0, B], [B^T, 0]] is the adjacency matrix of a path on
which rows and columns of B take turns. All that counts are the squares of its edges,

    running sums A_ts = q_t h_s prod_{s < i <= t} rate_i,   T = W^(-1/2) (A^T U A)^(-1) W^(-1/2):
        row i to column i      1 / (w_i h_i^2 u_i q_i^2)
        column i to row i + 1  rate_{i+1}^2 / (w_{i+1} h_{i+1}^2 u_i q_i^2),
    all ranges at p = 2,       (A^T A)^(-1) = tridiag(-1, 2, -1) / (n + 1):
        both edges of row i    1 / ((n + 1) w_i), with n + 1 columns around the n rows.

So (T + s^2)^(-1) has the diagonal of the rows, (B^T B + s^2)^(-1) that of the columns.

*Diagonals of rational functions* come by recurrences of positive numbers. With beta_i the square of
the edge between the places i and i + 1 of the path,

    delta_0 = s,    delta_{i+1} = s + beta_i / delta_i,          from the left,
    eta_L = 0,      eta_i = beta_i / (s + eta_{i+1}),            from the right,

the diagonal of (T + s^2)^(-1) at rows, and of (B^T B + s^2)^(-1) at columns, is
1 / (s (delta_i + eta_i)). Only positive numbers are added and divided, so that nothing cancels
however large the condition of T is; an error of one step is damped by those that follow.

*Side by side.* One step maps delta to J D_i delta as fractions, J = [[s, 1], [1, 0]],
D_i = diag(1, beta_i). For a block of steps let G = D_{q-1} J D_{q-2} ... J D_0, a product of
non-negative matrices; then J G takes delta from its start to the start of the next block, and
J G^T takes s + eta back. So all blocks are multiplied at once, their starts follow one after the
other, and all blocks are swept at once.

*Rounding.* A positive fractional map does not increase relative errors, so that those of all
roundings behind a number add up: in a step at most ROUNDINGS for the edge, 3 in the product G and
2 in the sweep. From both ends and with the last sum that is (2 L (ROUNDINGS + 5) + K + 8) u at
most (`relative_rounding`), u = 2^-53.

*What a solver asks of a workload* (`DualProblem`), of this kind or another, are such diagonals of
T = S^(-1), S = W^(1/2) A^T U A W^(1/2) = M^T M for positive weights u of queries and w of cells; r
and g are sums over poles (`nodes`), and all that is returned is a sum of positive numbers with a
relative rounding that is known (`rounding`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators.operator import UNIT, Array
from pmldesign_solvers.streams.nodes import Nodes


class DualProblem(ABC):
    """A workload whose diagonals take O(n) for every pole.

    Attributes:
        cells: n.
        queries: length of the weights u; 0 where u is all ones and p = 2, as for all ranges.
        smooth: whether neighbouring cells are so alike that a coarser workload helps.
    """

    cells: int
    queries: int
    smooth: bool = True

    def even(self, p: float) -> tuple[Array, Array]:  # noqa: ARG002
        """Weights u and w to start from: equal ones, not normalised."""
        return np.ones(self.queries or self.cells), np.ones(self.cells)

    @abstractmethod
    def measured(self, u: Array, w: Array, nodes: Nodes) -> Array:
        """diag(r(T)), shape (n,)."""

    def trace(self, u: Array, w: Array, nodes: Nodes) -> float:
        """The trace of r(T)."""
        return math.fsum(self.measured(u, w, nodes))

    @abstractmethod
    def spread(self, u: Array, w: Array, reciprocal: Nodes) -> Array:
        """U times the variances of the strategy W^(-1/2) r(T) W^(-1/2), from g = 1 / (x r(x)).

        Shape (m,) with weights of queries; else (n,), of the same sum. The part of the
        origin of g is off by 4 n eps at most.
        """

    @abstractmethod
    def rounding(self, nodes: Nodes) -> float:
        """The relative rounding of every number of `measured`, `trace` and `spread`, at most."""

    @abstractmethod
    def spectrum(self, u: Array, w: Array) -> tuple[float, float]:
        """The least and the largest eigenvalue of T, about."""

    def coarser(self) -> DualProblem:
        """The same kind of workload on a quarter of the cells, to start from; itself if none is."""
        return self


ROUNDINGS = 12
"""Roundings behind the square of an edge, at most, in units of 2^-53."""
LANES = 2**13
"""Numbers that one NumPy operation takes; 2^13 to 2^15 are equally fast, beyond L2 it slows."""
BLOCKS = 2048
"""At most so many blocks side by side."""
RESCALE = 6
"""Steps after which products are scaled back: edges span up to 1e40."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The path of rows and columns.

    Attributes:
        edges: squares of its edges, all positive, shape (L,).
        first_row: 0 if the path begins with a row, 1 if it begins with a column.
    """

    edges: Array
    first_row: int

    def rows(self, values: Array) -> Array:
        """The values, of shape (L + 1,), that belong to rows."""
        return values[self.first_row :: 2]

    def columns(self, values: Array) -> Array:
        """The values, of shape (L + 1,), that belong to columns."""
        return values[1 - self.first_row :: 2]


def diagonals(chain: Chain, nodes: Nodes) -> Array:
    """sum_k c_k / (. + s_k^2) at every place of the path, shape (L + 1,).

    The constant and the term of the origin of the nodes are left to the caller.
    """
    blocks, scale = _blocks(chain)
    count, places = blocks.shape[1], chain.edges.size + 1
    poles, weights = nodes.poles / np.sqrt(scale), nodes.weights / nodes.poles / np.sqrt(scale)
    width = max(1, LANES // count)
    parts = [slice(start, start + width) for start in range(0, len(poles), width)]
    products = np.concatenate([_products(blocks, poles[part]) for part in parts], axis=2)
    left, right = _starts(products, poles)  # one after the other: for all nodes at once
    total = np.zeros_like(blocks)
    room = np.empty((len(blocks), min(width, len(poles)), count))
    for part in parts:
        _add(blocks, poles[part], weights[part], (left[part], right[part]), total, room)
    return np.ascontiguousarray(total.T).ravel()[:places]


def sides(chain: Chain, pole: float) -> tuple[Array, Array]:
    """Delta and eta of one node at every place of the path, each of shape (L + 1,)."""
    blocks, scale = _blocks(chain)
    poles = np.array([pole / np.sqrt(scale)])
    starts, ends = _starts(_products(blocks, poles), poles)
    left, right = np.empty_like(blocks), np.empty_like(blocks)
    left[0] = starts[0]
    for edge, delta, after in zip(blocks[:-1], left[:-1], left[1:], strict=True):
        np.divide(edge, delta, out=after)
        after += poles[0]
    behind = np.asarray(ends[0])
    for edge, eta in zip(blocks[::-1], right[::-1], strict=True):
        np.divide(edge, behind, out=eta)
        behind = eta + poles[0]
    places = chain.edges.size + 1
    unit = float(np.sqrt(scale))
    delta, eta = (unit * np.ascontiguousarray(side.T).ravel()[:places] for side in (left, right))
    return delta, eta


def relative_rounding(edges: int, nodes: Nodes) -> float:
    """The rounding of every number that `diagonals` returns for so many edges, at most."""
    steps = edges * (ROUNDINGS + 5)
    return (2 * steps + len(nodes.poles) + 16) * UNIT * 1.01


def _blocks(chain: Chain) -> tuple[Array, float]:
    """Edges in units in which nothing overflows, a column for each block, and that unit."""
    places = chain.edges.size + 1
    count = min(BLOCKS, max(1, places // 256))
    length = -(-places // count)
    scale = float(np.exp(np.log(chain.edges).mean())) if chain.edges.size else 1.0
    edges = np.zeros(count * length)
    edges[: places - 1] = chain.edges / scale
    return np.ascontiguousarray(edges.reshape(count, length).T), scale


def _add(
    blocks: Array,
    poles: Array,
    weights: Array,
    starts: tuple[Array, Array],
    total: Array,
    room: Array,
) -> None:
    """Add the terms of some nodes to the diagonal; the room is for the deltas."""
    left, right = starts
    s = poles[:, None]
    deltas = room[:, : len(poles)]
    deltas[0] = left
    for edge, delta, after in zip(blocks[:-1], deltas[:-1], deltas[1:], strict=True):
        np.divide(edge, delta, out=after)
        after += s
    eta, terms = right, np.empty_like(right)  # right holds s + eta at the start of the next block
    for edge, delta, sums in zip(blocks[::-1], deltas[::-1], total[::-1], strict=True):
        np.divide(edge, eta, out=eta)
        np.add(delta, eta, out=terms)
        np.reciprocal(terms, out=terms)
        sums += weights @ terms
        eta += s


def _products(blocks: Array, poles: Array) -> Array:
    """The matrices G, shape (2, 2, K, blocks), up to a factor."""
    s = poles[:, None]
    now, before = np.zeros((2, 2, len(poles), blocks.shape[1]))
    now[0] = before[1] = 1.0
    spare = np.empty_like(now)
    for index, edge in enumerate(blocks[:-1]):
        before *= edge
        np.multiply(now, s, out=spare)
        spare += before
        now, before, spare = spare, now, before
        if index % RESCALE == RESCALE - 1:
            factor = 1.0 / (now + before).sum(axis=0)
            now *= factor
            before *= factor
    before *= blocks[-1]
    return np.stack([now, before])


def _starts(products: Array, poles: Array) -> tuple[Array, Array]:
    """Delta at the start of each block, and s + eta at the start of the block behind it."""
    count = products.shape[-1]
    left = np.empty((count, len(poles)))
    right = np.empty((count, len(poles)))
    maps = np.ascontiguousarray(np.moveaxis(products, -1, 0))
    value = poles
    for block in range(count):
        left[block] = value
        (a, b), (c, d) = maps[block]
        value = poles + (c * value + d) / (a * value + b)
    value = poles
    for block in range(count - 1, -1, -1):
        right[block] = value
        (a, b), (c, d) = maps[block]
        value = poles + (b * value + d) / (a * value + c)
    return np.ascontiguousarray(left.T), np.ascontiguousarray(right.T)


SMOOTH = 0.05
"""Mean change of the logarithms of weights from one step to the next, at most."""


class StreamProblem(DualProblem):
    """A workload behind which there is a chain."""

    @abstractmethod
    def chain(self, u: Array, w: Array) -> Chain:
        """The path for weights of queries and cells, both positive."""

    @abstractmethod
    def gram_diagonal(self, u: Array) -> Array:
        """At least diag(A^T U A), shape (n,), up to a relative rounding of 4 n eps."""

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
        """The relative rounding of every number of `measured` and of `spread`, at most."""
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

    @cached_property
    def log_decays(self) -> Array:
        """Logarithms of the weight of the first input at every step, shape (n,)."""
        return np.concatenate([[0.0], np.cumsum(np.log(self.rates))])

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
        """diag(A W A^T), sums over earlier cells, up to a relative rounding of 4 n eps."""
        return self.query_squares * _discounted(w * self.step_squares, self.rates**2)

    def coarser(self) -> RunningSums:
        """Every fourth step; the rates between them multiply."""
        kept = np.arange(0, self.cells, 4)
        rates = np.exp(np.diff(self.log_decays[kept]))
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
