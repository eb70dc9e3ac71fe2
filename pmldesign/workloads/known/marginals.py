r"""A public table of some attributes, and marginals beside it, over a domain of any size.

The table counts the attributes C; all others are open. Neighbours replace a record by one with the
same values of C, and P takes from each cell the mean of all cells with these values. A marginal of
S within C is known; of any other one A_S P is what is left, every column of which has the squared
norm c_S^2 (1 - 1/n), n the number of combinations of values of the open attributes in S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign.workloads.union import counts_asked, tables_asked
from pmldesign_solvers.operators.operator import EPS, Array


@dataclass(frozen=True)
class KnownMargins:
    """A public table of some attributes of a product.

    Attributes:
        name: of the queries whose answers it is.
        sizes: number of values of each attribute.
        counted: whether the table counts this attribute, rather than to sum over it.
    """

    name: str
    sizes: tuple[int, ...]
    counted: tuple[bool, ...]

    @property
    def attributes(self) -> frozenset[int]:
        """Those that the table counts."""
        return frozenset(i for i, counts in enumerate(self.counted) if counts)


class KnownMarginals(Workload):
    """A P, the queries of marginals without what a public table tells.

    Attributes:
        asked: A as it was given.
        counts: A as marginals.
        known: the table.

    Raises:
        InvalidInputError: the table answers all queries.
    """

    def __init__(self, asked: Workload, counts: MarginalsWorkload, known: KnownMargins) -> None:
        self.name, self.asked, self.counts, self.known = asked.name, asked, counts, known
        self._shape = counts.shape
        if all(known.attributes.issuperset(subset) for subset in counts.subsets):
            raise InvalidInputError(
                f"the known answers {known.name!r} answer all queries of {asked.name!r}"
            )
        plain = None if asked.unweighted is None else counts_asked(asked.unweighted)
        if plain is not None:
            self.unweighted = KnownMarginals(plain, plain, known)

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


def known_margins(queries: Workload) -> KnownMargins:
    """The table that public answers on many cells are; others beside it follow from it.

    Raises:
        InvalidInputError: they are no table of some of the attributes with tables that it tells,
            or one of all attributes.
    """
    tables = tables_asked(queries) or []
    subsets = [set(subset) for table in tables for subset in table.subsets]
    largest = max(subsets, key=len, default=set())
    if not tables or not all(subset <= largest for subset in subsets):
        raise InvalidInputError(
            f"known answers on more than {WRITTEN_CELLS} cells are the total or one table, alone or"
            " with tables that follow from it: a product of histograms and totals, such as"
            f" 'histogram:50*total:100'; got {queries.name!r}"
        )
    sizes = tables[0].sizes
    counted = tuple(i in largest or size == 1 for i, size in enumerate(sizes))
    if all(counted):
        raise InvalidInputError(
            f"the answers to {queries.name!r} tell all cells apart: replacing a record would change"
            " them, and nothing would be protected; give known answers that tell less"
        )
    return KnownMargins(queries.name, sizes, counted)
