"""The queries of a workload measured themselves, R = A.

Products and tables keep their structure. Of other queries G = A^T A comes from the structure of the
workload, and is inverted. That squares the condition number of A, so it is done up to a condition
number of G of 1 / LEAST_CONDITION; beyond, and for fewer queries than cells, the pseudo-inverse is
taken, or they are measured without it (`written_queries`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache, partial

import numpy as np
import scipy

from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import root_above
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.elementary import product_strategy
from pmldesign.strategies.baselines.regular import CONSTANT, LEAST_CONDITION, RegularStrategy
from pmldesign.strategies.baselines.written_queries import (
    BinaryQueries,
    RunningQueries,
    as_matrix,
)
from pmldesign.strategies.total import varying
from pmldesign.workloads.base import Workload
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Flags, Indices

FEW_CELLS = 256
"""Up to so many cells numpy inverts G, in 5 ms; scipy.linalg takes 0.3 s to load."""
INVERTED_CELLS = 4096
"""Up to so many cells G is inverted: Cholesky and the inverse take 6 s of one core there."""
KEPT = 2**20
"""Counts with more entries than this (8 MiB) are materialized only when that is asked for."""


class QueriesStrategy(RegularStrategy):
    """The queries of a workload of full column rank, R = A.

    Args:
        workload: A, shape (m, n).
        gram: A^T A.
        invert: to be called for G^-1.
        matrix: A as a matrix; None writes it out when that is asked for.
    """

    workload: Workload

    def __init__(
        self, workload: Workload, gram: Array, invert: Callable[[], Array], matrix: Array | None
    ) -> None:
        self.name = "workload"
        self.workload = workload
        self._written = matrix
        self._gram = gram
        self.shape = workload.shape
        self._invert = invert
        self._distances = {}

    @cached_property
    def gram(self) -> Array:
        """G = A^T A, shape (n, n)."""
        return read_only(self._gram)

    @cached_property
    def matrix(self) -> Array:
        """A, shape (m, n), float64, read-only; refused if too large."""
        return as_matrix(self.workload) if self._written is None else self._written

    def measure(self, x: Array) -> Array:
        """A x, shape (m,) or (m, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.workload.matvec(np.asarray(x, dtype=np.float64))

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up."""
        if not self.workload.binary:
            return Strategy.sensitivity_under(self, neighbours, norm)
        squares = self._gram.diagonal()  # integers, which float64 holds
        if neighbours == Neighbours.REPLACE:
            largest = float((squares[:, None] + squares - 2 * self._gram).max())
        else:
            largest = float(squares.max())
        return largest if norm == "l1" else root_above(largest)

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Distances of all pairs of columns, those of counts from G."""
        counts = self._counts
        return super().pair_distances(norm) if counts is None else counts.pair_distances(norm)

    @cached_property
    def _counts(self) -> BinaryQueries | None:
        """The queries without their inverse, if they are counts."""
        return BinaryQueries(self.workload) if self.workload.binary else None

    def column_labels(self) -> Indices:
        """All columns differ: they are linearly independent."""
        return np.arange(self.cells)


def workload_strategy(workload: Workload) -> Strategy:
    """The queries of the workload themselves, R = A: a product, tables, or as m x n.

    An n x n factor of A^T A would serve Gaussian noise as well; the rows of A are kept because
    the l1 sensitivity, which Laplace noise needs, is theirs alone.

    Raises:
        InvalidInputError: A is zero, or has no such structure and is too large to be materialized.
    """
    measured = _structured(workload) or _whole(workload)
    measured._queries = workload
    return measured


def _structured(workload: Workload) -> Strategy | None:
    """A as products or tables that are never materialized, if it is that."""
    large = workload.shape[1] > MAX_PRODUCT_CELLS
    if len(workload.factors) > 1 and not large:
        return product_strategy([workload_strategy(factor) for factor in workload.factors])
    if isinstance(workload, TermsWorkload) and workload.counts and not workload.repeats:
        from pmldesign.strategies.tables.weighted import WeightedTablesStrategy

        return WeightedTablesStrategy(
            "workload", workload.domain, workload.subsets, workload.weights
        )
    return large_union(workload)


@lru_cache(maxsize=2)  # asked for a time before it is measured
def large_union(workload: Workload) -> Strategy | None:
    """Queries of products together by their structure, on many cells; None without it."""
    if not WRITTEN_CELLS < workload.shape[1] <= MAX_PRODUCT_CELLS:
        return None
    from pmldesign.strategies.baselines.product_queries import union_queries

    return union_queries(workload)


def _whole(workload: Workload) -> Strategy:
    """A as m x n, materialized only if that helps."""
    m, n = workload.shape
    # squares that leave float64 have no Gram matrix
    regular = n <= min(m, INVERTED_CELLS) and near_one(workload)[1] == 0
    matrix = None if regular and workload.binary and m * n > KEPT else as_matrix(workload)
    if regular:
        gram = workload.gram(np.ones(m))
        invert = _by_numpy(gram) if n <= FEW_CELLS else _by_cholesky(gram)
        if invert is not None:
            return QueriesStrategy(workload, gram, invert, matrix)
    if workload.binary and m * n > KEPT:
        return BinaryQueries(workload)
    sums = workload.running_sums
    if sums is not None and sums.smooth and m * n > KEPT:
        return RunningQueries(workload)
    return Strategy("workload", as_matrix(workload) if matrix is None else matrix)


def _by_numpy(gram: Array) -> Callable[[], Array] | None:
    """A function that returns the inverse for few cells; None if it loses too many digits."""
    try:
        inverse = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return None
    condition = np.linalg.norm(gram, 1) * np.linalg.norm(inverse, 1)
    return (lambda: (inverse + inverse.T) / 2) if condition <= 1 / LEAST_CONDITION else None


def _by_cholesky(gram: Array) -> Callable[[], Array] | None:
    """A function that inverts G by its lower triangle; None if that loses too many digits."""
    factor, failed = scipy.linalg.lapack.dpotrf(gram, lower=1)
    if failed:
        return None
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.abs(gram).sum(axis=0).max(), uplo="L")
    return partial(_inverse, np.asarray(factor)) if reciprocal >= LEAST_CONDITION else None


def _inverse(factor: Array) -> Array:
    """G^-1 from the factor of G, whose diagonal is positive."""
    inverse = np.tril(scipy.linalg.lapack.dpotri(factor, lower=1)[0])
    return np.asarray(inverse + np.tril(inverse, -1).T)


@varying.register
def _(strategy: QueriesStrategy) -> Flags:
    """Which queries ask for more than the total, shape (m,); all of them on one cell."""
    n = strategy.cells
    squares = strategy.workload.row_quadratic(np.eye(n))
    kept = strategy.workload.row_quadratic(np.eye(n) - 1 / n) > CONSTANT * squares
    return kept if kept.any() else ~kept
