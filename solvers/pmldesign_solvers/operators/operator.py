"""What a solver needs from a workload.

A is an m x n workload. No solver forms anything m x m; in addition to products with A it needs

    gram(u) = A^T diag(u) A   (n x n),      row_quadratic(X) = diag(A X A^T)   (m)
                                    and     row_norms(H) = diag(A H H^T A^T)   (m).

Merging: equal columns of A are one column to every strategy, equal rows are one row that counts
several times, zero rows and columns are nothing. `merge` names the representatives.

Norms: the p-norm of the errors, and its dual for the weights of queries. tr_{p/2}(L L^T)^(1/2) is
the p-norm of the row norms of L. Weights u of queries are on the unit sphere of the dual of the
(p/2)-norm, q = p/(p - 2). Nuclear norms are dual to gamma_(p).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
UNIT = EPS / 2
"""Largest relative error of a rounded operation, 2^-53."""
TINY = float(np.finfo(np.float64).tiny)
DIRECT_ENTRIES = 2**15
"""Largest m * n whose singular values are computed without a Gram matrix, in milliseconds."""
SVD_ENTRIES = 2**18
"""The same if it is done once, or if the Gram matrix of workloads whose queries have weights
over two orders of magnitude would lose their rank: 0.1 s for 512 x 512."""
RANK_CUTOFF = 1e-10
"""Singular values of R below this part of the largest count as zero: the rounding of R^+ R is about
the machine precision over the smallest value kept, 2e-6 at worst."""
COMPLETE = 1e-9
"""A strategy determines the total of its cells if no more of it is missing than this."""
BLOCK_BYTES = 2**25
"""Temporary blocks of a product with a tall workload stay below this size. Chosen, not measured."""


class Operator(ABC):
    """An m x n workload as solvers see it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""

    @property
    def work(self) -> tuple[int, int]:
        """Shape of a matrix on which a step takes as long."""
        return self.shape

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        m, n = self.shape
        return self.matvec(np.eye(n)) if m >= n else self.rmatvec(np.eye(m)).T

    def transposed(self) -> Operator | None:
        """A^T, shape (n, m), where products with it take less time than with its matrix."""
        return None

    @abstractmethod
    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""

    def gram_rounding(self, weights: Array) -> float:
        """gram(u) is off by at most this times d d^T, d_j = norm(diag(u)^(1/2) A e_j)."""
        return np.count_nonzero(weights) * EPS

    @abstractmethod
    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,), for H of shape (n, c): squared norms of the rows of A H.

        More accurate than row_quadratic(H H^T), which squares the condition number of H.
        """
        total = np.zeros(self.shape[0])
        for columns in column_blocks(self.shape[0], half.shape[1]):
            image = self.matvec(np.ascontiguousarray(half[:, columns]))
            total += np.einsum("ij,ij->i", image, image)
        return total

    @abstractmethod
    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""

    def without_offsets(self) -> tuple[Operator, Array]:
        """Queries with equal answers on vectors that sum to zero: rows without common offsets.

        Also, shape (m,), how far apart the entries are at most in rows that count as constant; or
        nothing, shape (0,), without such rows. Operators whose rows have zeros or small whole
        numbers stay as they are.
        """
        return self, np.zeros(0)

    @abstractmethod
    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""

    @abstractmethod
    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The operator on vectors that sum to zero, in the coordinates of all cells but one.

        Columns are a_j - a_n, or a_j as they are if an uncovered cell is not among them. Rows
        may change their sign; zero ones are left out, and the indices are those of the others.
        """


@dataclass(frozen=True, slots=True)
class Merged:
    """A workload without repeated or zero rows and columns, and where each original went.

    Attributes:
        operator: the merged workload.
        row_of: shape (m,), the merged row that stands for each original one, -1 for a zero row.
        column_of: shape (n,), the same for columns.
    """

    operator: Operator
    row_of: Indices
    column_of: Indices


def column_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Split columns so that `rows` x block takes at most BLOCK_BYTES (one column at least)."""
    step = max(1, BLOCK_BYTES // (8 * max(1, rows)))
    for start in range(0, columns, step):
        yield slice(start, min(start + step, columns))


def power_mean(values: Array, power: float, counts: Array | None = None) -> float:
    """(sum_i counts_i values_i^power)^(1/power) for values >= 0, scaled so that nothing overflows.

    tr_q of a matrix with this diagonal; power may be inf.
    """
    top = float(values.max(initial=0.0))
    if top in (0.0, np.inf) or np.isinf(power):
        return top
    scaled = (values / top) ** power
    total = float(scaled.sum() if counts is None else counts @ scaled)
    return float(top * total ** (1.0 / power))


def dual_exponent(p: float) -> float:
    """1/q = (p - 2)/p: 0 at p = 2, 1 at p = inf."""
    return 1.0 if np.isinf(p) else (p - 2.0) / p


def dual_norm(weights: Array, p: float, counts: Array | None = None) -> float:
    """norm(u)_q with q = p/(p - 2)."""
    exponent = dual_exponent(p)
    return power_mean(weights, np.inf if exponent == 0.0 else 1.0 / exponent, counts)


def sum_of_roots(eigenvalues: Array, trace: float, rounding: float) -> float:
    """Lower bound on trace(M)^(1/2) from the eigenvalues of a Gram matrix M.

    Its entries are off by at most `rounding` times the norms of the two columns, M by that times
    its trace, and scaling and eigenvalues by a few eps for every row.
    """
    lowered = eigenvalues - (rounding + (len(eigenvalues) + 8) * EPS) * trace
    return float(np.sqrt(np.maximum(lowered, 0.0)).sum())
