"""What remains to be measured when the number of records is public.

Under the replace relation x' - x sums to zero and the total N of x is public, so a mechanism may
write x = (N/n) 1 + x0 and measure x0 alone: M(x) = A 1 N/n + L (R x0 + noise). With the projection
P = I - 1 1^T / n, the workload to answer is A P, and every strategy counts as R P, which has the
same sensitivity, as R (e_i - e_j) = R P (e_i - e_j). A query on the total is a zero row of A P.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from pmldesign.workloads.base import MAX_ENTRIES, WRITTEN_CELLS, Workload
from pmldesign_solvers.operators.dense import without_offsets
from pmldesign_solvers.operators.operator import Array

KNOWN = 1e-10
"""A row of A P below this part of its row of A is rounding: the total answers it."""


SAMPLES = 4
"""Random vectors that tell which queries ask for the total."""


class CentredWorkload(Workload):
    """A P: a workload on what differs between the cells, the total being known.

    Args:
        workload: A, shape (m, n).

    Attributes:
        workload: A, but for constants of whole rows that P takes away: they would leave their
            rounding behind.
        asked: A as it was given.
    """

    def __init__(self, workload: Workload) -> None:
        self.asked = workload
        self.workload: Workload = workload.without_offsets()[0]
        if self.workload is not workload:
            self.workload.unweighted = workload.unweighted
        self.name, self._shape = workload.name, workload.shape

    @cached_property
    def _kept(self) -> Array:
        """0 for the queries that the total answers, 1 for the others; shape (m,).

        Beyond WRITTEN_CELLS, products with random vectors that sum to zero tell. Where these are
        too large, the rounding of such answers is left as it is, and 1 stands for all.
        """
        m, n = self.shape
        if SAMPLES * max(m, n) > MAX_ENTRIES // 8:
            return np.ones(1)
        if n > WRITTEN_CELLS:
            vectors = np.random.default_rng(0).standard_normal((n, SAMPLES))
            products = np.abs(self.workload.matvec(vectors - vectors.mean(axis=0))).max(axis=1)
            large = products > KNOWN * math.sqrt(n) * self.workload.row_sizes()
            return np.asarray(large, dtype=np.float64)
        identity = np.eye(self.shape[1])
        rows = self.workload.row_norms(identity)
        centred = self.workload.row_norms(centre(identity))
        return np.asarray(np.where(centred > KNOWN**2 * rows, 1.0, 0.0))

    def gram(self, weights: Array) -> Array:
        """P A^T diag(weights) A P, shape (n, n)."""
        return centre(centre(self.workload.gram(self._kept * weights)).T)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A P X P A^T), shape (m,)."""
        return self._kept * self.workload.row_quadratic(centre(centre(matrix).T))

    def row_norms(self, half: Array) -> Array:
        """diag(A P H H^T P A^T), shape (m,)."""
        return self._kept * self.workload.row_norms(half - half.mean(axis=0))

    def matvec(self, x: Array) -> Array:
        """A P x, for x of shape (n,) or (n, c)."""
        return np.asarray((self._kept * self.workload.matvec(x - x.mean(axis=0)).T).T)

    def rmatvec(self, y: Array) -> Array:
        """P A^T y, for y of shape (m,) or (m, c)."""
        product = self.workload.rmatvec((self._kept * y.T).T)
        return np.asarray(product - product.mean(axis=0))

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        return self._kept[:, None] * centre(self.workload.to_dense())

    def row_label(self, index: int) -> str:
        """How messages and tables call query `index` (from 0)."""
        return self.workload.row_label(index)


def with_total(workload: Workload) -> Workload:
    """A, for A P; any other workload itself."""
    return workload.workload if isinstance(workload, CentredWorkload) else workload


def centre(matrix: Array) -> Array:
    """X P: every row without its mean."""
    matrix, _ = without_offsets(matrix)
    return np.asarray(matrix - matrix.mean(axis=1, keepdims=True))
