"""Lower bounds on gamma_(p) of a union of products, without a matrix of all cells.

The workload is a union of parts A_s = A_s1 x ... x A_sk. Every bound is the value of a feasible
dual point.

One free attribute. The dual weights are constant along all others (`block_dual`), on which the
Gram matrices of the parts have to commute. If they do not, parts are left out, which lowers the
norm. If all do and their projections are even, strategies of blocks answer the whole union.

The largest part. gamma_(p)(A) >= gamma_(p)(A_s), the product of its factors' norms.

Values that may be exchanged, at p = 2, whatever else is asked. Two values of an attribute may be
exchanged if the Gram matrices K_s of all parts on it stay the same. That is an equivalence; with
classes c of k_c values, on the vectors

    that are constant in every class      K_s is the small matrix V^T K_s V,  V = 1_c / k_c^(1/2),
    of class c that sum to zero           K_s is a number, k_c - 1 times.

Some best weights w of cells are alike in products of classes. Then W^(1/2) A^T A W^(1/2) is made of
small blocks, one for each choice of "constant" or a class for each attribute,

    (x) of V^T K_s V and numbers, summed over s, between diag(w)^(1/2), prod (k_c - 1) times,

and the nuclear norm and its slopes are sums over blocks. Weights move by the fixed point
w <- diag(M^(1/2)), M the whole matrix. In the census tables of persons 29,440 cells have 96
blocks of up to 400.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array, Indices
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.eigenspaces import (
    Eigenspaces,
    common_eigenspaces,
    distinct_columns,
    is_even,
)
from pmldesign_solvers.unions.block_dual import BlockProblem
from pmldesign_solvers.unions.product_basis import Parts

MOST_COST = 2**31
"""Largest sum of the cubes of the sizes of blocks (some seconds for a step)."""
MOST_BLOCKS = 2**12
"""Of which the matrices are added up part by part (a second for some 30 parts)."""
MOST_VALUES = 2048
"""Of an attribute, whose Gram matrices are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A matrix that occurs several times.

    Attributes:
        times: how often.
        classes: the products of classes that its rows belong to, shape (N,).
        gram: shape (N, N).
    """

    times: float
    classes: Indices
    gram: Array


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeableCells:
    """A union of products in blocks.

    Attributes:
        labels: the class of every value, for each attribute.
        cells: of each product of classes.
        blocks: without those where nothing is asked.
        rounding: of Gram matrices, as `gram_rounding`.
    """

    labels: Sequence[Indices]
    cells: Array
    blocks: Sequence[Block]
    rounding: float

    @property
    def start(self) -> Array:
        """Equal weights of all cells."""
        return np.full(self.cells.size, 1 / self.cells.sum())

    def step(self, w: Array) -> tuple[float, Array]:
        """The nuclear norm for weights w of single cells, and the next weights.

        It is lowered by a bound on its rounding, including that of its sums.
        """
        w = w / (w @ self.cells)
        trace = math.fsum(b.times * float(b.gram.diagonal() @ w[b.classes]) for b in self.blocks)
        slopes, total = np.zeros_like(w), 0.0
        for block in self.blocks:
            root = np.sqrt(w[block.classes])
            values, vectors = np.linalg.eigh(root[:, None] * block.gram * root)
            off = (self.rounding + (len(values) + 8) * EPS) * trace
            total += block.times * float(np.sqrt(np.maximum(values - off, 0.0)).sum())
            slopes[block.classes] += block.times * (vectors**2 @ np.sqrt(np.maximum(values, 0.0)))
        return total * (1 - 4 * (len(w) + len(self.blocks)) * EPS), slopes / self.cells

    def expand(self, w: Array) -> Array:
        """The weights of all cells, of sum 1."""
        shape = [int(labels.max()) + 1 for labels in self.labels]
        every = (w / (w @ self.cells)).reshape(shape)[np.ix_(*self.labels)]
        return np.ascontiguousarray(every.ravel())


def exchangeable(parts: Parts) -> ExchangeableCells | None:
    """The blocks of a union of products; None if they are too large."""
    attributes = range(len(parts[0]))
    if max(factor.shape[1] for factor in parts[0]) > MOST_VALUES:
        return None
    distinct = {factor for part in parts for factor in part}
    ones = {factor: np.ones(factor.shape[0]) for factor in distinct}
    grams = {factor: factor.gram(ones[factor]) for factor in distinct}
    rounding = max(factor.gram_rounding(ones[factor]) for factor in distinct) * len(parts[0])
    labels = [_classes([grams[part[i]] for part in parts]) for i in attributes]
    counts = [np.bincount(classes).astype(float) for classes in labels]
    choices = [[-1, *np.flatnonzero(sizes > 1).tolist()] for sizes in counts]
    if math.prod(map(len, choices)) > MOST_BLOCKS:
        return None
    pairs = list(zip(choices, counts, strict=True))
    cost = math.prod(float(len(n)) ** 3 + len(kinds) - 1 for kinds, n in pairs)
    if cost > MOST_COST:
        return None
    reduced = [
        [_reduced(grams[part[i]], labels[i], counts[i]) for i in attributes] for part in parts
    ]
    numbers = np.arange(math.prod(map(len, counts))).reshape([len(sizes) for sizes in counts])
    blocks = list(_blocks(reduced, counts, choices, numbers))
    return ExchangeableCells(labels, kronecker.product(counts), blocks, rounding)


def _blocks(
    reduced: Sequence[Sequence[tuple[Array, Array]]],
    counts: Sequence[Array],
    choices: Sequence[Sequence[int]],
    numbers: Indices,
) -> Iterator[Block]:
    for choice in itertools.product(*choices):
        chosen = [
            [
                constant if c < 0 else rest[[[c]]]
                for c, (constant, rest) in zip(choice, part, strict=True)
            ]
            for part in reduced
        ]
        gram = np.asarray(sum(map(kronecker.product, chosen)))
        asked = gram.diagonal() > 0
        if asked.any():
            taken = [slice(None) if c < 0 else slice(c, c + 1) for c in choice]
            times = math.prod(n[c] - 1 for n, c in zip(counts, choice, strict=True) if c >= 0)
            yield Block(times, numbers[tuple(taken)].ravel()[asked], gram[np.ix_(asked, asked)])


def _classes(grams: Sequence[Array]) -> Indices:
    """The class of every value."""
    labels = np.zeros(len(grams[0]), dtype=np.intp)
    firsts: dict[bytes, list[int]] = {}
    count = 0
    for i in range(len(labels)):
        key = b"".join(np.sort(K[i]).tobytes() for K in grams)
        alike = firsts.setdefault(key, [])
        same = next((j for j in alike if all(_may_exchange(K, i, j) for K in grams)), None)
        if same is None:
            labels[i] = count
            alike.append(i)
            count += 1
        else:
            labels[i] = labels[same]
    return labels


def _may_exchange(K: Array, i: int, j: int) -> bool:
    row, other = K[i].copy(), K[j].copy()
    other[[i, j]] = other[[j, i]]
    return np.array_equal(row, other)


def _reduced(K: Array, labels: Indices, counts: Array) -> tuple[Array, Array]:
    """V^T K V, and the number for the rest of each class."""
    V = (labels[:, None] == np.arange(len(counts))) / np.sqrt(counts)
    rest = np.zeros(len(counts))
    for c in np.flatnonzero(counts > 1):
        i, j = np.flatnonzero(labels == c)[:2]
        rest[c] = K[i, i] - K[i, j]
    return V.T @ K @ V, rest


BLOCK_COST = 2**33
"""Largest sum of the cubes of the sizes of the blocks for a lower bound."""
WHOLE_COST = 2**35
"""The same if the blocks are the strategy as well."""


def whole_unions(parts: Parts, p: float, shared: float) -> Iterator[BlockProblem]:
    """The problems with one attribute free whose strategies of blocks answer the whole union.

    Args:
        parts: of the union.
        p: in [2, inf].
        shared: mu, the part of the next weights that all share alike.
    """

    @functools.cache
    def common(attribute: int) -> tuple[Eigenspaces, Array] | None:
        common_spaces = common_eigenspaces([part[attribute] for part in parts])
        return (
            common_spaces
            if common_spaces is not None and is_even(common_spaces[0].diagonals)
            else None
        )

    attributes = range(len(parts[0]))
    for index in attributes:
        spaces = itertools.takewhile(
            lambda space: space is not None, (common(j) for j in attributes if j != index)
        )
        common_spaces = [space for space in spaces if space is not None]
        if len(common_spaces) == len(attributes) - 1:
            problem = _problem(
                parts, range(len(parts)), index, common_spaces, p, shared=shared, cost=WHOLE_COST
            )
            if problem is not None:
                yield problem


def free_attribute(parts: Parts, order: Iterable[int], index: int, p: float) -> BlockProblem | None:
    """The problem with this attribute free, for as many of the parts as commute elsewhere.

    Args:
        parts: of the union.
        order: their numbers in the order of preference; the first one is always kept.
        index: of the free attribute.
        p: in [2, inf].

    Returns:
        None where the blocks are too many to be decomposed.
    """
    others = [j for j in range(len(parts[0])) if j != index]
    kept: list[int] = []
    commuting_spaces: Sequence[tuple[Eigenspaces, Array]] = []
    for s in map(int, order):
        spaces = [common_eigenspaces([parts[k][j] for k in [*kept, s]]) for j in others]
        commuting = [space for space in spaces if space is not None]
        if len(commuting) == len(others):
            kept, commuting_spaces = [*kept, s], commuting
    return _problem(parts, kept, index, commuting_spaces, p, shared=0.0, cost=BLOCK_COST)


def _problem(
    parts: Parts,
    kept: Sequence[int],
    index: int,
    spaces_with_values: Sequence[tuple[Eigenspaces, Array]],
    p: float,
    *,
    shared: float,
    cost: float,
) -> BlockProblem | None:
    """The problem for these parts; None where the blocks are too many to be decomposed."""
    coefficients, pattern = np.ones((len(kept), 1)), np.zeros((), dtype=np.intp)
    for _, values in spaces_with_values:
        product = (coefficients[:, :, None] * values[:, None, :]).reshape(len(kept), -1)
        coefficients, labels = distinct_columns(product)
        pattern = labels.reshape(-1, values.shape[1])[pattern]
        if coefficients.shape[1] * float(parts[0][index].shape[1]) ** 3 > cost:
            return None
    asked = coefficients.any(axis=0)
    numbers = np.where(asked, np.cumsum(asked) - 1, -1)[pattern]
    spaces = [space for space, _ in spaces_with_values]
    return BlockProblem(parts, kept, index, spaces, coefficients[:, asked], numbers, p, shared)
