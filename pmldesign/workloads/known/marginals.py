r"""Marginals beside a public table, over a domain of any size.

The table counts the attributes C; all others are open. Neighbours replace a record by one with the
same values of C, and P takes from each cell the mean of all cells with these values. A marginal of
S within C is known; of any other one A_S P is what is left, every column of which has the squared
norm c_S^2 (1 - 1/n), n the number of combinations of values of the open attributes in S.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import EPS, Workload
from pmldesign.workloads.known.table import KnownMargins
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign.workloads.tables.workload import TablesWorkload
from pmldesign.workloads.union import UnionWorkload, as_marginals
from pmldesign_solvers.operators.operator import Array


class KnownMarginals(Workload):
    """A P, the queries of marginals without what a public table tells.

    Args:
        asked: A.
        counts: A as marginals.
        known: the table.

    Attributes:
        asked: A as it was given.
        counts: A as marginals.
        known: the table.

    Raises:
        InvalidInputError: the table answers all queries.
    """

    def __init__(self, asked: Workload, counts: MarginalsWorkload, known: KnownMargins) -> None:
        self.name, self.asked, self.counts, self.known = asked.name, asked, counts, known
        if all(known.attributes.issuperset(subset) for subset in counts.subsets):
            raise InvalidInputError(
                f"the known answers {known.name!r} answer all queries of {asked.name!r}"
            )
        plain = None if asked.unweighted is None else counts_asked(asked.unweighted)
        if plain is not None:
            self.unweighted = KnownMarginals(plain, plain, known)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n, as large as they may be."""
        return self.counts.shape

    def gram(self, weights: Array) -> Array:
        """P A^T diag(weights) A P, shape (n, n); refused if too large."""
        return self._within(self._within(self.counts.gram(weights)).T)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A P X P A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return self.counts.row_quadratic(self._within(self._within(matrix).T))

    def matvec(self, x: Array) -> Array:
        """A P x, for x of shape (n,) or (n, c)."""
        return self.counts.matvec(self._within(x))

    def rmatvec(self, y: Array) -> Array:
        """P A^T y, for y of shape (m,) or (m, c); refused if too large."""
        return self._within(self.counts.rmatvec(y))

    def column_squares(self) -> Array:
        """The squared norms of the columns, all alike, shape (n,)."""
        return np.full(self.shape[1], self.longest_column())

    def longest_column(self) -> float:
        """Squared norm of a column, rounded up; there may be any number of cells."""
        total = 0.0
        for subset, scale in zip(self.counts.subsets, self.counts.weights.tolist(), strict=True):
            sizes = [self.counts.sizes[i] for i in subset if i not in self.known.attributes]
            total += scale**2 * (1 - 1 / math.prod(sizes))
        return total * (1 + (len(self.counts.subsets) + 4) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns that the table counts alike, rounded up."""
        known, sizes = self.known.attributes, self.counts.sizes
        told = [all(i in known or sizes[i] == 1 for i in S) for S in self.counts.subsets]
        squares = float((self.counts.weights**2).sum(where=~np.array(told)))
        return 2 * squares * (1 + len(told) * EPS)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row of A, shape (m,)."""
        return self.counts.row_sizes()

    def row_label(self, index: int) -> str:
        """How messages and tables call query `index` (from 0)."""
        return self.asked.row_label(index)

    def _within(self, x: Array) -> Array:
        """P x: every cell without the mean of those that the table counts with it."""
        tensor = x.reshape(*self.counts.sizes, *x.shape[1:])
        axes = tuple(i for i in range(len(self.counts.sizes)) if i not in self.known.attributes)
        return np.asarray((tensor - tensor.mean(axis=axes, keepdims=True)).reshape(x.shape))


def counts_asked(workload: Workload) -> MarginalsWorkload | None:
    """The marginals that a workload consists of; None if it has other queries, or any twice."""
    if isinstance(workload, TablesWorkload):
        return workload.as_marginals() if workload.is_plain else None
    return as_marginals(workload.parts if isinstance(workload, UnionWorkload) else (workload,))
