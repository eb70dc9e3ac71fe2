"""Lower bounds on gamma_(p) of a union of products, without a matrix of all cells.

The workload is a union of parts A_s = A_s1 x ... x A_sk. Every bound is the value of a feasible
dual point.

One free attribute. The dual weights are constant along all others (`block_dual`), on which the
Gram matrices of the parts have to commute. Where they do not, parts are left out, which lowers the
norm. Where all do and their projections are even, strategies of blocks answer the whole union.

The largest part. gamma_(p)(A) >= gamma_(p)(A_s), the product of its factors' norms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from pmldesign_solvers.norm.options import step_seconds
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.eigenspaces import (
    Eigenspaces,
    common_eigenspaces,
    distinct_columns,
    is_even,
)
from pmldesign_solvers.unions.block_dual import BlockProblem
from pmldesign_solvers.unions.product_basis import Parts

BLOCK_COST = 2**33
"""Largest sum of the cubes of the sizes of the blocks for a lower bound."""
WHOLE_COST = 2**35
"""Likewise where the blocks are the strategy as well."""
EIGENSPACES = 2.0
"""Times that common eigenspaces take as long as a step on a matrix."""
HasTime = Callable[[float], bool]


def _always(_: float) -> bool:
    """No limit."""
    return True


def whole_unions(
    parts: Parts, p: float, shared: float, has_time: HasTime = _always
) -> Iterator[BlockProblem]:
    """The problems with one attribute free whose strategies of blocks answer the whole union.

    Args:
        parts: of the union.
        p: in [2, inf].
        shared: mu, the part of the next weights that all share alike.
        has_time: told how many seconds something takes, whether there is time for it; what there
            is none for is left out.
    """

    @functools.cache
    def common(attribute: int) -> tuple[Eigenspaces, Array] | None:
        if not has_time(_eigenspaces_seconds(parts, attribute)):
            return None
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
            if problem is not None and has_time(problem.seconds):
                yield problem


def free_attribute(
    parts: Parts, order: Iterable[int], index: int, p: float, has_time: HasTime = _always
) -> BlockProblem | None:
    """The problem with this attribute free, for as many of the parts as commute elsewhere.

    Args:
        parts: of the union.
        order: their numbers in the order of preference; the first one is always kept.
        index: of the free attribute.
        p: in [2, inf].
        has_time: as for `whole_unions`.

    Returns:
        None where the blocks are too many to be decomposed, at all or in time.
    """
    others = [j for j in range(len(parts[0])) if j != index]
    kept: list[int] = []
    commuting_spaces: Sequence[tuple[Eigenspaces, Array]] = []
    for s in map(int, order):
        if not has_time(sum(_eigenspaces_seconds(parts, j) for j in others)):
            if kept:
                break
            return None
        spaces = [common_eigenspaces([parts[k][j] for k in [*kept, s]]) for j in others]
        commuting = [space for space in spaces if space is not None]
        if len(commuting) == len(others):
            kept, commuting_spaces = [*kept, s], commuting
    problem = _problem(parts, kept, index, commuting_spaces, p, shared=0.0, cost=BLOCK_COST)
    return problem if problem is not None and has_time(problem.seconds) else None


def _eigenspaces_seconds(parts: Parts, attribute: int) -> float:
    """About how long the common eigenspaces on an attribute take, rather more."""
    size = parts[0][attribute].shape[1]
    return EIGENSPACES * step_seconds(size, size)


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
