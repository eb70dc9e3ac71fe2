"""Tables by sets of attributes, to and from the contrasts of residuals.

A table by S holds the residuals of all subsets T of S: after a change to the sum and the contrasts
along every axis, those of T are where the axes outside T have their sum. Consecutive sets of the
same sizes are handled together.

Contrasts of n values are an orthonormal basis H of the vectors that sum to zero. Row k = 1 ... n -
1 of H compares value k with all values before it,

    H_k = (1, ..., 1, -k, 0, ..., 0) / (k (k + 1))^(1/2)      (k ones),

so that H x and H^T y are cumulative sums, O(n) each. In column j the absolute values add up to
(j / (j + 1))^(1/2) + sum_{k > j} (k (k + 1))^(-1/2), the most for j = 0: from column j to j + 1 the
sum changes by ((j + 1)/(j + 2))^(1/2) - (j/(j + 1))^(1/2) - ((j + 1)(j + 2))^(-1/2), which is 0 at
j = 0 and negative after that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, groupby, islice

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array
from pmldesign_solvers.structure import kronecker

DIRECT_TERMS = 4096
"""Terms of a sum that are added one by one."""
Attributes = tuple[int, ...]


def contrasts(x: Array) -> Array:
    """n^(1/2) H x, shape (n - 1, c), for x of shape (n, c)."""
    n = len(x)
    k = np.arange(1.0, n)[:, None]
    return np.asarray((np.cumsum(x, axis=0)[:-1] - k * x[1:]) * np.sqrt(n / (k * (k + 1))))


def expand(coefficients: Array) -> Array:
    """What has a given sum and given contrasts.

    Args:
        coefficients: shape (n, c), 1^T x first and then n^(1/2) H x.

    Returns:
        x, shape (n, c): (1 1^T x + H^T (n^(1/2) H x) n^(1/2)) / n.
    """
    n = len(coefficients)
    k = np.arange(1.0, n)[:, None]
    scaled = coefficients[1:] / np.sqrt(n * k * (k + 1))
    x = np.zeros_like(coefficients)
    x[:-1] = np.cumsum(scaled[::-1], axis=0)[::-1]
    x[1:] -= k * scaled
    return np.asarray(x + coefficients[0] / n)


def largest_column(n: int) -> float:
    """The largest l1 norm of a column of H: sum_{k < n} (k (k + 1))^(-1/2).

    Beyond DIRECT_TERMS the terms are (k + 1/2)^-1 + (k + 1/2)^-3 / 8, but for a relative 1e-14.
    """
    k = np.arange(1.0, min(n, DIRECT_TERMS))
    total = math.fsum(1 / np.sqrt(k * (k + 1)))
    if n > DIRECT_TERMS:
        first, last = DIRECT_TERMS + 0.5, n + 0.5
        total += float(scipy.special.digamma(last) - scipy.special.digamma(first))
        total += float(scipy.special.polygamma(2, last) - scipy.special.polygamma(2, first)) / 16
    return total


def residual_contrasts(
    sizes: Sequence[int], residuals: Sequence[Attributes], tables: Iterable[Array]
) -> list[Array]:
    """The contrasts of each T from the tables by each T, shape (m_T,) or (m_T, c)."""
    remaining = iter(tables)
    residuals_contrasts: list[Array] = []
    for block, shape in _blocks(sizes, residuals):
        stacked = np.stack(list(islice(remaining, len(block))), axis=-1)
        residuals_contrasts += _along_axes(contrasts, shape, stacked)
    return residuals_contrasts


def tables_of_residuals(
    sizes: Sequence[int], subsets: Sequence[Attributes], parts: Mapping[Attributes, Array]
) -> list[Array]:
    """The table by each S, shape (m_S,) or (m_S, c), from the contrasts of its subsets.

    Args:
        sizes: number of values of each attribute.
        subsets: the sets S.
        parts: the contrasts of each T, shape (d_T,) or (d_T, c); those that are not there are 0.
    """
    trailing = next(iter(parts.values())).shape[1:]
    wide = [tuple(i for i in subset if sizes[i] > 1) for subset in subsets]
    tables: list[Array] = []
    for block, shape in _blocks(sizes, wide):
        coefficients = np.zeros((*shape, *trailing, len(block)))
        axes = range(len(shape))
        for chosen in chain.from_iterable(combinations(axes, k) for k in range(len(shape) + 1)):
            place = tuple(slice(1, None) if axis in chosen else 0 for axis in axes)
            spread = [shape[axis] - 1 for axis in chosen]
            nothing = np.zeros((math.prod(spread), *trailing))
            columns_of_part = [parts.get(tuple(S[axis] for axis in chosen), nothing) for S in block]
            coefficients[place] = np.stack(columns_of_part, axis=-1).reshape(
                *spread, *trailing, len(block)
            )
        columns = coefficients.reshape(math.prod(shape), *trailing, len(block))
        tables += _along_axes(expand, shape, columns)
    return tables


def _along_axes(transform: kronecker.Map, shape: Sequence[int], columns: Array) -> list[Array]:
    changed = kronecker.apply([transform] * len(shape), shape, columns)
    return list(np.ascontiguousarray(np.moveaxis(changed, -1, 0)))


def _blocks(
    sizes: Sequence[int], sets: Sequence[Attributes]
) -> Iterator[tuple[list[Attributes], list[int]]]:
    """Runs of sets of the same sizes, with these sizes, as long as their tables stay small."""
    for shape, run in groupby(sets, lambda members: [sizes[i] for i in members]):
        length = max(1, BLOCK_BYTES // (8 * math.prod(shape)))
        while block := list(islice(run, length)):
            yield block, shape
