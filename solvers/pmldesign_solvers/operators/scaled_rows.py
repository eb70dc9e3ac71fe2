"""Operators with a weight for each query: diag(c) A, for A of any form.

gram(u) = A^T diag(c^2 u) A, row_quadratic(X) = c^2 diag(A X A^T): whatever A does fast, diag(c) A
does as fast.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import Array, Operator


class ScaledRows(Operator):
    """What diag(c) A makes of A.

    Attributes:
        operator: A, shape (m, n).
        weights: c > 0, shape (m,).
    """

    def __init__(self, operator: Operator, weights: Array) -> None:
        self.operator, self.weights = operator, weights

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""
        return self.operator.shape

    @property
    def work(self) -> tuple[int, int]:
        """Shape of a matrix on which a step takes as long."""
        return self.operator.work

    def gram(self, weights: Array) -> Array:
        """A^T diag(c^2 weights) A, shape (n, n), for weights of shape (m,)."""
        return self.operator.gram(self.weights**2 * weights)

    def gram_rounding(self, weights: Array) -> float:
        """gram(u) is off by at most this times d d^T, d_j = norm(diag(u)^(1/2) c A e_j)."""
        return self.operator.gram_rounding(self.weights**2 * weights)

    def row_quadratic(self, matrix: Array) -> Array:
        """c^2 diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return self.weights**2 * self.operator.row_quadratic(matrix)

    def row_norms(self, half: Array) -> Array:
        """c^2 diag(A H H^T A^T), shape (m,)."""
        return self.weights**2 * self.operator.row_norms(half)

    def matvec(self, x: Array) -> Array:
        """C A x, for x of shape (n,) or (n, k)."""
        return np.asarray((self.weights * self.operator.matvec(x).T).T)

    def rmatvec(self, y: Array) -> Array:
        """A^T c y, for y of shape (m,) or (m, k)."""
        return self.operator.rmatvec((self.weights * y.T).T)

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        return np.asarray(self.weights[:, None] * self.operator.to_dense())

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return self.weights * self.operator.row_sizes()
