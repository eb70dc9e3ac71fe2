r"""Rows of L of large strategies, without L: few kinds of rows, with few different entries each.

Product without weights. A row of L is a product of rows of the factors' L_i, and only the absolute
values of its entries count, in any order.

Weighted tables (`strategies.tables.weighted`). With P_T the projection on the residual space of T,
lambda_T of the strategy and N cells of the domain, the entry of L for a cell a of the table by S
and a measured cell b of the table by S_k is

    sum over T within S and S_k of  theta_k / (N lambda_T) (A_S P_T M_k^T)_ab,

of which the factor of attribute i is [a_i = b_i] - 1/n_i in T, 1/n_i in S and S_k but not in T, n_i
in neither, and 1 otherwise. It depends on a and b by the set of attributes of S and S_k in which
they agree: all rows of a table are of the same kind.

Weighted products: in `of_products`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmldesign.workloads.base import Workload
from pmldesign.workloads.union import counts_asked
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from pmldesign.strategies.kronecker import ProductStrategy
    from pmldesign.strategies.tables.weighted import WeightedTablesStrategy


@dataclass(frozen=True, eq=False)
class RowKinds:
    """Consecutive rows of L, grouped by kind.

    Attributes:
        chunks: some kinds of rows at a time, absolute values of their entries and how often each
            occurs, both of shape (kinds, entries).
        places: the kind of every row.
    """

    chunks: Iterable[tuple[Array, Array]]
    places: NDArray[np.intp]


def kinds_of_product(
    strategy: ProductStrategy, workload: Workload, most: int
) -> Sequence[RowKinds] | None:
    """The kinds of rows of L, part by part, of at most `most` entries each; None without these."""
    parts = None if strategy.weights is not None else strategy.products(workload)
    kinds = []
    for part in parts or ():
        kind = _of_product(strategy, part, most)
        if kind is None:
            return None
        kinds.append(kind)
    return kinds or None


def kinds_of_tables(
    strategy: WeightedTablesStrategy, workload: Workload
) -> Sequence[RowKinds] | None:
    """The kinds of rows of L, table by table; None for other queries than marginals."""
    queries = counts_asked(workload.inner)
    if queries is None or queries.sizes != strategy.sizes:
        return None
    return [
        _of_table(strategy, subset, weight)
        for subset, weight in zip(queries.subsets, queries.weights.tolist(), strict=True)
    ]


def _of_product(strategy: ProductStrategy, part: Sequence[Workload], most: int) -> RowKinds | None:
    together, places = np.ones((1, 1)), np.zeros(1, dtype=np.intp)
    for factor, queries in zip(strategy.factors, part, strict=True):
        rows = np.sort(np.abs(factor.reconstruction(queries)), axis=1)[:, ::-1]
        distinct, kind = np.unique(rows.round(12), axis=0, return_inverse=True)
        used = distinct[:, distinct.any(axis=0)]
        if together.size * used.size > most:
            return None
        together = np.kron(together, used)
        places = (places[:, None] * len(distinct) + kind.ravel()).ravel()
    return RowKinds([(together, np.ones_like(together))], places)


def _of_table(strategy: WeightedTablesStrategy, subset: tuple[int, ...], weight: float) -> RowKinds:
    sizes, precisions = strategy.sizes, strategy.residual_precisions
    values, counts = [], []
    for theta, measured in zip(strategy.weights.tolist(), strategy.subsets, strict=True):
        common = tuple(i for i in subset if i in measured)
        within = [T for T in _subsets(common) if T in precisions]
        scale = weight * theta / math.prod(sizes[i] for i in {*subset, *measured})
        for agreed in _subsets(common):
            entry = 0.0
            for T in within:
                signs = [(1.0 if i in agreed else 0.0) - 1 / sizes[i] for i in T]
                rest = math.prod(1 / sizes[i] for i in common if i not in T)
                entry += math.prod(signs) * rest / precisions[T]
            values.append(abs(scale * entry))
            others = math.prod(sizes[i] - 1 for i in common if i not in agreed)
            counts.append(others * math.prod(sizes[i] for i in measured if i not in subset))
    rows = math.prod(sizes[i] for i in subset)
    shape = (1, len(values))
    chunk = np.reshape(values, shape), np.reshape(np.array(counts, dtype=np.float64), shape)
    return RowKinds([chunk], np.zeros(rows, dtype=np.intp))


def _subsets(members: tuple[int, ...]) -> list[tuple[int, ...]]:
    sets = (combinations(members, count) for count in range(len(members) + 1))
    return list(chain.from_iterable(sets))
