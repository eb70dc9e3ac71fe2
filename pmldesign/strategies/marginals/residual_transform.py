"""Tables by sets of attributes, to and from the contrasts of residuals (`contrast_basis`).

A table by S holds the residuals of all subsets T of S: after a change to the sum and the contrasts
along every axis, those of T are where the axes outside T have their sum. Consecutive sets of the
same sizes are handled together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, groupby, islice

import numpy as np

from pmldesign.strategies.marginals.contrast_basis import contrasts, expand
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array

Attributes = tuple[int, ...]


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


def _along_axes(transform: mode_products.Map, shape: Sequence[int], columns: Array) -> list[Array]:
    changed = mode_products.apply([transform] * len(shape), shape, columns)
    return list(np.ascontiguousarray(np.moveaxis(changed, -1, 0)))


def _blocks(
    sizes: Sequence[int], sets: Sequence[Attributes]
) -> Iterator[tuple[list[Attributes], list[int]]]:
    """Runs of sets of the same sizes, with these sizes, as long as their tables stay small."""
    for shape, run in groupby(sets, lambda members: [sizes[i] for i in members]):
        length = max(1, BLOCK_BYTES // (8 * math.prod(shape)))
        while block := list(islice(run, length)):
            yield block, shape
