"""Tables by sets of attributes, to and from coordinates of their residuals.

Attribute i has n_i - 1 coordinates Y_i x and the sum 1^T x: contrasts for a categorical one, any
that distinguish all vectors of sum 0 for an ordinal one, with (v_i, Psi_i) the inverse of 1^T above
Y_i. A table by S holds the coordinates (x)_{i in T} Y_i of all subsets T of S: after a change to
the sum and the coordinates along every axis, those of T are where the axes outside T have their
sum. Consecutive sets of the same sizes are handled together.

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, groupby, islice
from types import MappingProxyType

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array
from pmldesign_solvers.structure import kronecker

DIRECT_TERMS = 4096
"""Terms of a sum that are added one by one."""
Attributes = tuple[int, ...]


class Contrasts:
    """The rows (1, ..., 1, -k, 0, ..., 0), k = 1 ... n - 1, never materialized.

    Args:
        values: n.

    Attributes:
        lengths: (k (k + 1))^(1/2), their l2 norms, shape (n - 1,).
    """

    def __init__(self, values: int) -> None:
        self.values = values
        k = np.arange(1.0, values)
        self.lengths = np.sqrt(k * (k + 1))

    def __matmul__(self, x: Array) -> Array:
        """The rows times x of shape (n,) or (n, c)."""
        k = np.arange(1.0, self.values).reshape(-1, *[1] * (x.ndim - 1))
        return np.asarray(np.cumsum(x, axis=0)[:-1] - k * x[1:])


def contrasts(x: Array) -> Array:
    """n^(1/2) H x, shape (n - 1, c), for x of shape (n, c)."""
    n, rows = len(x), Contrasts(len(x))
    return np.asarray((rows @ x) * (math.sqrt(n) / rows.lengths)[:, None])


def expand(coefficients: Array) -> Array:
    """The array with a given sum and given contrasts.

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

    Beyond DIRECT_TERMS the terms are (k + 1/2)^-1 + (k + 1/2)^-3 / 8, up to a relative 1e-14.
    """
    k = np.arange(1.0, min(n, DIRECT_TERMS))
    total = math.fsum(1 / np.sqrt(k * (k + 1)))
    if n > DIRECT_TERMS:
        first, last = DIRECT_TERMS + 0.5, n + 0.5
        total += float(scipy.special.digamma(last) - scipy.special.digamma(first))
        total += float(scipy.special.polygamma(2, last) - scipy.special.polygamma(2, first)) / 16
    return total


def coordinates_of_tables(
    sizes: Sequence[int],
    residuals: Sequence[Attributes],
    tables: Iterable[Array],
    rows: Mapping[int, Array] = MappingProxyType({}),
) -> list[Array]:
    """The coordinates of each T from the tables by each T, shape (m_T,) or (m_T, c).

    Args:
        sizes: number of values of each attribute.
        residuals: the sets T.
        tables: by each of them.
        rows: Y of ordered attributes; n^(1/2) H of all others.
    """
    remaining = iter(tables)
    found: list[Array] = []
    for block, shape, ordered in _blocks(sizes, residuals, rows):
        stacked = np.stack(list(islice(remaining, len(block))), axis=-1)
        maps = [contrasts if i is None else rows[i].__matmul__ for i in ordered]
        found += _along_axes(maps, shape, stacked)
    return found


def tables_of_coordinates(
    sizes: Sequence[int],
    subsets: Sequence[Attributes],
    parts: Mapping[Attributes, Array],
    inverses: Mapping[int, Array] = MappingProxyType({}),
) -> list[Array]:
    """The table by each S, shape (m_S,) or (m_S, c), from the coordinates of its subsets.

    Args:
        sizes: number of values of each attribute.
        subsets: the sets S.
        parts: the coordinates of each T, shape (d_T,) or (d_T, c); those that are not there are 0.
        inverses: (v, Psi) of ordered attributes.
    """
    trailing = next(iter(parts.values())).shape[1:]
    wide = [tuple(i for i in subset if sizes[i] > 1) for subset in subsets]
    tables: list[Array] = []
    for block, shape, ordered in _blocks(sizes, wide, inverses):
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
        maps = [expand if i is None else inverses[i].__matmul__ for i in ordered]
        tables += _along_axes(maps, shape, columns)
    return tables


def _along_axes(maps: Sequence[kronecker.Map], shape: Sequence[int], columns: Array) -> list[Array]:
    changed = kronecker.apply(maps, shape, columns)
    return list(np.ascontiguousarray(np.moveaxis(changed, -1, 0)))


def _blocks(
    sizes: Sequence[int], sets: Sequence[Attributes], ordered: Collection[int]
) -> Iterator[tuple[list[Attributes], list[int], list[int | None]]]:
    """Runs of sets of the same sizes and ordered attributes, as long as their tables stay small."""

    def kind(members: Attributes) -> list[tuple[int, int | None]]:
        return [(sizes[i], i if i in ordered else None) for i in members]

    for axes, run in groupby(sets, kind):
        shape = [size for size, _ in axes]
        length = max(1, BLOCK_BYTES // (8 * math.prod(shape)))
        while block := list(islice(run, length)):
            yield block, shape, [i for _, i in axes]
