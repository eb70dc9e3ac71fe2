"""The queries of a workload measured themselves, R = A, without an inverse of their own.

Their distances come from the structure of the workload. Where all entries are 0 or 1, abs(a - b) =
(a - b)^2, so squared l2 distances are l1 distances, and both follow from A^T A.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import cached_property

import numpy as np

from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import UNIT, factor_above, size, unscaled
from pmldesign.strategies.arguments import read_only, strategy_matrix
from pmldesign.strategies.base import Strategy, measured_queries
from pmldesign.workloads.base import Workload, check_entries
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import Array, Indices, column_blocks


class WrittenQueries(Strategy):
    """The queries of a workload, R = A, materialized only when that is asked for.

    Args:
        workload: A, shape (m, n).
    """

    workload: Workload

    def __init__(self, workload: Workload) -> None:
        self.name, self.workload = "workload", workload
        self.shape = workload.shape

    @cached_property
    def matrix(self) -> Array:
        """A, shape (m, n), float64, read-only; refused if too large."""
        return as_matrix(self.workload)

    def measure(self, x: Array) -> Array:
        """A x, shape (m,) or (m, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.workload.matvec(np.asarray(x, dtype=np.float64))

    def _of_matrix(self, neighbours: Neighbours, norm: Norm) -> float:
        many = self.cells**2 > MAX_ENTRIES  # the largest distance is then that of the matrix
        if neighbours == Neighbours.ADD_REMOVE or norm == "linf" or many:
            return super()._of_matrix(neighbours, norm)
        distances, _, exponent = self.pair_distances(norm)
        return unscaled("the sensitivity", float(distances.max()), exponent)

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Distances of all pairs of different columns, rounded upwards; refused if too many."""
        if norm == "linf":
            return super().pair_distances(norm)
        if norm not in self._pairs:
            check_entries("the distances of all pairs of cells", (self.cells, self.cells))
            self._pairs[norm] = self._between(norm)
        return self._pairs[norm]

    @cached_property
    def _pairs(self) -> dict[Norm, tuple[Array, Indices | None, int]]:
        return {}

    @abstractmethod
    def _between(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """The distances, in the l1 or l2 norm."""


class BinaryQueries(WrittenQueries):
    """Queries whose entries are all 0 or 1."""

    def _between(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        return distances_of_counts(self._apart, norm)

    @cached_property
    def _apart(self) -> Array:
        """In how many queries any two cells differ, integers which float64 holds."""
        return differing_queries(self.workload.gram(np.ones(self.shape[0])))


def differing_queries(gram: Array) -> Array:
    """In how many queries any two cells differ, from A^T A, computed in place: integers."""
    squares = gram.diagonal().copy()
    gram *= -2
    gram += squares
    gram += squares[:, None]
    return read_only(gram)


def distances_of_counts(apart: Array, norm: Norm) -> tuple[Array, Indices | None, int]:
    """Distances of different cells from how many queries they differ in, as `distances_between`."""
    cells = len(apart)
    first, cell_of = np.unique((apart == 0).argmax(axis=1), return_inverse=True)
    apart = apart if len(first) == cells else apart[np.ix_(first, first)]
    distances = apart if norm == "l1" else np.sqrt(apart) * factor_above(1)
    exponent = size(float(distances.max()))
    return np.ldexp(distances, -exponent), None if len(first) == cells else cell_of, exponent


class RunningQueries(WrittenQueries):
    """Running sums that forget: from row s' on column s is k_ss' = A_s's / A_s's' times column s'.

    The p-th powers of what two columns s < s' differ by add up to

        sum of A_ts^p over s <= t < s', and |k_ss' - 1|^p times the sum of A_ts'^p over t >= s'.
    """

    def _between(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        n, power = self.cells, 1 if norm == "l1" else 2
        exponent = size(float(self.matrix.max()))
        columns = np.ldexp(self.matrix.T, -exponent)
        shares = np.abs(columns / columns.diagonal() - 1.0) ** power
        sums = np.cumsum(columns**power, axis=1)
        norms = sums[:, -1].copy()
        apart = np.triu(shares * norms, 1)
        apart[:, 1:] += np.triu(sums[:, :-1])
        lengths = norms ** (1 / power)
        distances = apart + apart.T
        if norm == "l2":
            np.sqrt(distances, out=distances)
        # entries are off by 3 n roundings, k by twice as many, and sums of positive terms by n
        distances += (16 * n + 64) * UNIT * (lengths + lengths[:, None])
        np.fill_diagonal(distances, 0.0)
        return distances, None, exponent


def in_pairs(strategy: Strategy) -> Strategy:
    """The same with the distances of all pairs of columns, however many; of counts from A^T A."""
    queries = measured_queries(strategy)
    if queries is not None and queries.binary:
        other: Strategy = BinaryQueries(queries)
    elif isinstance(strategy, WrittenQueries):
        other = copy(strategy)
    else:
        other = Strategy(strategy.name, strategy.matrix)
    other.all_pairs = True
    return other


def as_matrix(workload: Workload) -> Array:
    """A as a read-only float64 matrix that is a strategy.

    Raises:
        InvalidInputError: A is zero or too large to be materialized.
    """
    m, n = workload.shape
    check_entries("strategy 'workload'", (m, n))
    if m < n:
        matrix = np.array(workload.to_dense())
    else:
        matrix = np.empty((m, n))
        for columns in column_blocks(m, n):
            unit = np.zeros((n, columns.stop - columns.start))
            np.fill_diagonal(unit[columns], 1.0)
            matrix[:, columns] = workload.matvec(unit)
    matrix.flags.writeable = False  # so that it is kept without a copy
    return strategy_matrix("workload", matrix)
