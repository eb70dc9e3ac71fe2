"""The residual spaces of a collection of marginals: the part that each adds to those below it.

The histograms over attributes of sizes n_1 ... n_d are sums of orthogonal spaces V_T, one for each
set T of attributes: products of vectors that sum to zero over the values of each attribute in T and
are constant over those of the others, of dimension d_T = prod_{i in T} (n_i - 1). The marginal of
the attributes S sees V_T if T is a subset of S, and nothing of it otherwise. So a collection of
marginals needs the subsets of its members. An attribute with one value has no residual, and is left
out of every T.

Subsets are found level by level, |T| = 0, 1, 2, ...: T without its last attribute is a subset of
the level before, whose number and the last attribute together are the key of T.

References:
    Xiao, He, Zhang and Kifer, An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions (ResidualPlanner), NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array, Indices

MAX_INCIDENCES = 2**25
"""Pairs of a marginal and one of its subsets; all of them together take about 2 GiB."""
MAX_REMEMBERED = 2**22
"""The same in the cache for the next call."""
LARGEST_MARGINAL = 1e100
"""Most cells of one marginal."""
LARGEST_SPREAD = 1e60
"""Largest ratio of two c_S / m_S: the squares of both, and what vanishes, stay in range."""


@dataclass(frozen=True, slots=True, eq=False)
class ResidualSpaces:
    """The residual spaces of a collection of K marginals, immutable.

    Attributes:
        residuals: the R sets T, by size and then in lexicographic order.
        dimensions: d_T, shape (R,).
        cells: number of cells of each marginal, shape (K,).
        incidence: scipy CSR array of shape (R, K), 1 where T is a subset of S.
    """

    residuals: tuple[tuple[int, ...], ...]
    dimensions: Array
    cells: Array
    incidence: Any

    def only(self, kept: Indices) -> ResidualSpaces:
        """The spaces of some numbers."""
        residuals = tuple(self.residuals[number] for number in kept.tolist())
        return ResidualSpaces(residuals, self.dimensions[kept], self.cells, self.incidence[kept])


def residual_spaces(sizes: Sequence[int], subsets: Sequence[Sequence[int]]) -> ResidualSpaces:
    """The residual spaces of some marginals.

    Args:
        sizes: number of values of each attribute, at least 1.
        subsets: the attributes of each marginal, in increasing order.

    Raises:
        ValueError: the marginals have over MAX_INCIDENCES subsets, counted one by one, or one of
            them has more cells than float64 can hold.
    """
    pairs = sum(1 << len(subset) for subset in subsets)
    find = _remembered if pairs <= MAX_REMEMBERED else _residual_spaces
    return find(tuple(sizes), tuple(map(tuple, subsets)))


def _residual_spaces(
    sizes: tuple[int, ...], subsets: tuple[tuple[int, ...], ...]
) -> ResidualSpaces:

    groups = _by_length([[i for i in subset if sizes[i] > 1] for subset in subsets])
    pairs = sum(len(group.marginals) << group.length for group in groups)
    if pairs > MAX_INCIDENCES:
        raise ValueError(
            f"the marginals have {pairs} subsets, counted one by one, more than the "
            f"{MAX_INCIDENCES} that are ever listed; take fewer marginals, or of fewer attributes"
        )
    values = np.array(sizes, dtype=np.float64)
    levels, dimensions = [np.zeros((1, 0), dtype=np.int64)], [np.ones(1)]
    rows, columns = [np.zeros(len(subsets), dtype=np.int64)], [np.arange(len(subsets))]
    start = 1
    for level in range(1, max(group.length for group in groups) + 1):
        groups = [group for group in groups if group.length >= level]
        keys = np.concatenate([group.keys(level, len(sizes)).ravel() for group in groups])
        distinct, numbers = np.unique(keys, return_inverse=True)
        prefix, last = np.divmod(distinct, len(sizes))
        levels.append(np.column_stack([levels[-1][prefix], last]))
        dimensions.append(dimensions[-1][prefix] * (values[last] - 1))
        rows.append(start + numbers)
        for group in groups:
            numbers = group.take(numbers)
            columns.append(np.tile(group.marginals, len(group.choices)))
        start += len(distinct)
    incidence = scipy.sparse.csr_array(
        (np.ones(pairs), (np.concatenate(rows), np.concatenate(columns))),
        shape=(start, len(subsets)),
    )
    return ResidualSpaces(
        residuals=tuple(tuple(residual) for level in levels for residual in level.tolist()),
        dimensions=np.concatenate(dimensions),
        cells=np.array([math.prod([float(sizes[i]) for i in subset]) for subset in subsets]),
        incidence=incidence,
    )


_remembered = lru_cache(maxsize=2)(_residual_spaces)
"""A design, its errors and its baselines have the same marginals."""


def check_range(spaces: ResidualSpaces, weights: Array) -> None:
    """Refuse numbers whose squares may overflow or vanish, with a ValueError."""
    if not spaces.cells.max() <= LARGEST_MARGINAL:
        raise ValueError(
            f"a marginal may have up to {LARGEST_MARGINAL:g} cells, "
            f"the largest one has {spaces.cells.max():g}"
        )
    ratio = weights / spaces.cells
    if not ratio.max() <= LARGEST_SPREAD * ratio.min():
        raise ValueError(
            "the weights of the marginals, each divided by its number of cells, may differ by a "
            f"factor of up to {LARGEST_SPREAD:g}; they go from {ratio.min():g} to {ratio.max():g}"
        )


class _Group:
    """The marginals of one length, and the numbers of their subsets of one level.

    Args:
        marginals: their columns in the incidence, shape (N,).
        members: their attributes, shape (N, length).
    """

    def __init__(self, marginals: Indices, members: Indices) -> None:
        self.marginals, self._members = marginals, members
        self.length = members.shape[1]
        self.choices: list[tuple[int, ...]] = [()]  # which members a subset takes
        self._numbers = np.zeros((1, len(marginals)), dtype=np.int64)  # one row for each choice

    def keys(self, level: int, base: int) -> Indices:
        """A number for each subset of the level: that of its prefix, times base, plus the last."""
        place = {choice: row for row, choice in enumerate(self.choices)}
        self.choices = list(combinations(range(self.length), level))
        prefix = self._numbers[[place[choice[:-1]] for choice in self.choices]]
        last = self._members.T[[choice[-1] for choice in self.choices]]
        self._numbers = prefix * base + last
        return self._numbers

    def take(self, numbers: Indices) -> Indices:
        """Take this group's part off the front of the numbers that replace the keys."""
        size = self._numbers.size
        self._numbers = numbers[:size].reshape(self._numbers.shape)
        return numbers[size:]


def _by_length(subsets: Sequence[Sequence[int]]) -> list[_Group]:
    lengths = np.array([len(subset) for subset in subsets])
    groups = []
    for length in np.unique(lengths).tolist():
        marginals = np.flatnonzero(lengths == length)
        members = np.array([subsets[column] for column in marginals.tolist()], dtype=np.int64)
        groups.append(_Group(marginals, members.reshape(len(marginals), length)))
    return groups
