"""Diagonals of rational functions of a chain, by recurrences of positive numbers.

With beta_i the square of the edge between the places i and i + 1 of the path,

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.nodes import Nodes

ROUNDINGS = 12
"""Roundings behind the square of an edge, at most, in units of 2^-53."""
UNIT = 2.0**-53
"""Largest relative error of a rounded operation."""
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
        first_row: 0 where the path begins with a row, 1 where it begins with a column.
    """

    edges: Array
    first_row: int

    def rows(self, values: Array) -> Array:
        """Those of values of shape (L + 1,) that belong to rows."""
        return values[self.first_row :: 2]

    def columns(self, values: Array) -> Array:
        """Those of values of shape (L + 1,) that belong to columns."""
        return values[1 - self.first_row :: 2]


def diagonals(chain: Chain, nodes: Nodes) -> Array:
    """sum_k c_k / (. + s_k^2) at every place of the path, shape (L + 1,).

    The constant and the term of the origin of the nodes are left to the caller.
    """
    blocks, scale = _blocks(chain)
    count, places = blocks.shape[1], chain.edges.size + 1
    poles, weights = nodes.poles / np.sqrt(scale), nodes.weights / nodes.poles / np.sqrt(scale)
    width = max(1, LANES // count)
    total = np.zeros_like(blocks)
    room = np.empty((len(blocks), min(width, len(poles)), count))
    for start in range(0, len(poles), width):
        part = slice(start, start + width)
        _add(blocks, poles[part], weights[part], total, room)
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
    """Of every number that `diagonals` returns for a path of so many edges, at most."""
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


def _add(blocks: Array, poles: Array, weights: Array, total: Array, room: Array) -> None:
    """Add the terms of some nodes to the diagonal; the room is for the deltas."""
    left, right = _starts(_products(blocks, poles), poles)
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
