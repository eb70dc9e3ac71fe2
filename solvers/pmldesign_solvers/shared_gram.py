"""An operator that remembers its last Gram matrix.

The rank of a workload, the steps of a solver and both sides of a certificate ask for
A^T diag(u) A; at p = 2 all of them with equal weights u.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmldesign_solvers.operators import Array, Merged, Operator


class SharedGram:
    """The operator itself but for `gram`, whose last value is kept, read-only."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._weights, self._gram = np.zeros(0), np.zeros((0, 0))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""
        return self._operator.shape

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n); computed when the weights are others than before."""
        if not np.array_equal(self._weights, weights):
            gram = self._operator.gram(weights)
            gram.flags.writeable = False
            self._weights, self._gram = weights.copy(), gram
        return self._gram

    @property
    def gram_rounding(self) -> float:
        """gram(1) is off by at most this times d d^T, d the norms of the columns of A."""
        return self._operator.gram_rounding

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,)."""
        return self._operator.row_quadratic(matrix)

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,)."""
        return self._operator.row_norms(half)

    def matvec(self, x: Array) -> Array:
        """A x."""
        return self._operator.matvec(x)

    def rmatvec(self, y: Array) -> Array:
        """A^T y."""
        return self._operator.rmatvec(y)

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        return self._operator.to_dense()

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns; itself if it has none."""
        merged = self._operator.merge()
        same = merged.operator.shape == self.shape
        return replace(merged, operator=self if same else SharedGram(merged.operator))
