"""The Newton system of the interior point method, solved without forming it.

In the eigenbasis of (C^T K C)^(1/2), with R, B and s as in `dual_function`, a change of the
weights by x_w and x_u changes the Gram matrix of the strategy by -R^T Z R, where

    Y = R (sum_k x_k v_k v_k^T) R^T - B^T A^T diag(x_u) A B,      Z_ab = Y_ab / (s_a + s_b),

so that minus the Hessian of 2 f takes x to v_k^T R^T Z R v_k and -a_i^T B Z B^T a_i: a few products
of k x k matrices and the two operations of the workload, however many weights there are. The
diagonal of the system preconditions conjugate gradients. It needs sums over a, b of
F_ka^2 F_kb^2 / (s_a + s_b) with F the rows R v_k or A B; as 1/(s_a + s_b) is the integral of
exp(-t (s_a + s_b)), the trapezoidal rule in log t makes them short sums of squares of
v_k^T R^T exp(-t S) R v_k.

Mixing in sigma = sum(w) adds a matrix of ones, and barriers and powers add a diagonal.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.differences import Differences
from pmldesign_solvers.operators import Array, Operator

TOLERANCE = 1e-3
"""Of conjugate gradients, relative: an inexact step costs steps, never correctness."""
MOST_PRODUCTS = 1000
QUADRATURE_STEP = 1.0
"""Of the trapezoidal rule in log t: a relative error of 4e-4."""


class NewtonSystem:
    """A positive definite system in (x_w, x_u), or in x_w alone.

    Args:
        operator: A, shape (m, k).
        differences: the difference vectors v_k.
        strategy, basis, values: R, shape (r, k), B, shape (k, r), and s, shape (r,).
        diagonal: what barriers and powers add; its length says whether x_u is part of it.
        coupled_rows: whether the weights u have a matrix of ones added, as w always have.
    """

    def __init__(
        self,
        operator: Operator,
        differences: Differences,
        strategy: Array,
        basis: Array,
        values: Array,
        diagonal: Array,
        *,
        coupled_rows: bool,
    ) -> None:
        self._operator, self._differences = operator, differences
        self._strategy, self._basis, self._values = strategy, basis, values
        self._diagonal = diagonal
        self._coupled_rows = coupled_rows
        self._preconditioner = 1.0 / self._whole_diagonal()

    def solve(self, right: Array) -> Array:
        """The solution, to a relative TOLERANCE in the residual."""
        from scipy.sparse.linalg import LinearOperator, cg

        shape = (len(right), len(right))
        solution, _ = cg(
            LinearOperator(shape, matvec=self._apply, dtype=np.float64),
            right,
            rtol=TOLERANCE,
            atol=0.0,
            maxiter=MOST_PRODUCTS,
            M=LinearOperator(shape, matvec=lambda x: self._preconditioner * x, dtype=np.float64),
        )
        return np.asarray(solution)

    def _apply(self, x: Array) -> Array:
        cells = self._differences.count
        x_w, x_u = x[:cells], x[cells:]
        inner = self._differences.weighted(self._strategy, x_w)
        if len(x_u):
            inner -= self._basis.T @ self._operator.gram(x_u) @ self._basis
        inner /= self._values[:, None] + self._values
        image = self._diagonal * x
        image[:cells] += self._differences.quadratic(self._strategy, inner) + x_w.sum()
        if len(x_u):
            image[cells:] -= self._operator.row_quadratic(self._basis @ inner @ self._basis.T)
            if self._coupled_rows:
                image[cells:] += x_u.sum()
        return image

    def _whole_diagonal(self) -> Array:
        total = self._diagonal + 1.0
        cells = self._differences.count
        nodes = np.arange(
            -np.log(self._values[-1]) - 9.0, 3.0 - np.log(self._values[0]), QUADRATURE_STEP
        )
        for time in np.exp(nodes):
            root = np.exp(-time / 2 * self._values)
            weight = QUADRATURE_STEP * time
            norms = self._differences.squared_norms(root[:, None] * self._strategy)
            total[:cells] += weight * norms**2
            if len(total) > cells:
                total[cells:] += weight * self._operator.row_norms(self._basis * root) ** 2
        return total
