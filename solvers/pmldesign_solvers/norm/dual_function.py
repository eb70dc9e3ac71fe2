"""The dual function, whose maximum the interior point method seeks: value, gradient, factors.

With K = A^T diag(u) A and W = sum_k w_k v_k v_k^T = C C^T, let C^T K C = Q S^2 Q^T. Then

    f(u, w) = trace(S),      R = S^(1/2) Q^T C^-1,      B = C Q S^(-1/2),
    2 df/dw_k = d_k = norm(R v_k)^2,                    2 df/du_i = norm(B^T a_i)^2,

and L = A B, R are a factorization of A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.operators.dense import jacobi_svd
from pmldesign_solvers.operators.norms import dual_norm, power_mean
from pmldesign_solvers.operators.operator import EPS, SVD_ENTRIES, Array
from pmldesign_solvers.operators.reduce import ReducedWorkload

JACOBI_BELOW = 1e-9
"""Singular values below this part of the largest one are computed by Jacobi rotations: others have
seven digits. Chosen, not measured."""
NO_GRAM_BELOW = 1e-4
"""Once a singular value is below this part of the largest one, none come from a Gram matrix: its
square is 1e-8, the root of eps. As many steps with 1e-6 and 1e-2 (benchmarks/constants.py)."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """The bounds and factors at one pair of weights.

    Attributes:
        u, w: shapes (m,) and (N,); u counts all copies of a merged row together.
        each: u of one copy.
        lower, upper: both bounds.
        rows, columns: v, shape (m,), and d, shape (N,).
        values: the diagonal of S.
        strategy, right_inverse: R, shape (r, k), and B, shape (k, r), with L = A B.
    """

    u: Array
    w: Array
    each: Array
    lower: float
    upper: float
    rows: Array
    columns: Array
    values: Array
    strategy: Array
    right_inverse: Array

    def scaled(self, a: float, b: float) -> Iterate:
        """The same at weights a u and b w."""
        ratio = (a / b) ** 0.25
        return replace(
            self,
            u=a * self.u,
            w=b * self.w,
            each=a * self.each,
            rows=self.rows / ratio**2,
            columns=self.columns * ratio**2,
            values=self.values * np.sqrt(a * b),
            strategy=self.strategy * ratio,
            right_inverse=self.right_inverse / ratio,
        )


class DualFunction:
    """The dual function of one workload.

    Attributes:
        operator: the workload, in the coordinates of the differences.
        differences: the difference vectors.
        counts: shape (m,), how many original rows each row stands for.
        p: in [2, inf].
        decompositions: so far.
    """

    def __init__(self, problem: ReducedWorkload, p: float) -> None:
        self.operator, self.differences = problem.operator, problem.differences
        self.counts, self.p = problem.row_copies, p
        self._rank, self._direct, self._rotated = problem.rank, False, False
        self.decompositions = 0

    def evaluate(self, u: Array, w: Array) -> Iterate:
        """Both bounds and the factors at positive weights."""
        root = self.differences.root(w)
        values, vectors = self._decompose(u, root)
        right_inverse, rank = np.asarray(root @ vectors / np.sqrt(values)), len(values)
        if rank == len(root):
            strategy = np.asarray(np.linalg.solve(root.T, vectors * np.sqrt(values)).T)
        else:
            # the same, made of rows of A so that it spans them even where weights vanish
            weighted = u[:, None] * self.operator.matvec(right_inverse)
            strategy = np.asarray(self.operator.rmatvec(weighted).T / values[:, None])
        columns = self.differences.squared_norms(strategy)
        rows = self.operator.row_norms(right_inverse)
        each = u / self.counts
        dual = dual_norm(each, self.p, self.counts) * float(w.sum())
        primal = power_mean(rows, self.p / 2, self.counts) * float(columns.max())
        return Iterate(
            u=u,
            w=w,
            each=each,
            lower=float(values.sum()) / float(np.sqrt(dual)),
            upper=float(np.sqrt(primal)) if rank == self._rank else np.inf,
            rows=rows,
            columns=columns,
            values=values,
            strategy=strategy,
            right_inverse=right_inverse,
        )

    def _decompose(self, u: Array, root: Array) -> tuple[Array, Array]:
        """S and Q of diag(u)^(1/2) A C = P S Q^T, without the zeros of S."""
        if not self._direct:
            gram = root.T @ self.operator.gram(u) @ root
            self.decompositions += 1
            eigenvalues, vectors = np.linalg.eigh((gram + gram.T) / 2)
            values = np.sqrt(np.maximum(eigenvalues, 0.0))
            floor = np.sqrt(len(root) * EPS) * values[-1]
            small = values[-self._rank] < NO_GRAM_BELOW * values[-1]
            self._direct = bool(small) and len(u) * len(root) <= SVD_ENTRIES
        if self._direct:
            # without a Gram matrix S has twice the digits: it tends to 0 where the optimum has a
            # smaller rank than A
            product = np.sqrt(u)[:, None] * self.operator.to_dense() @ root
            self.decompositions += 1
            if not self._rotated:
                values, vectors = np.linalg.svd(product, full_matrices=False)[1:]
                values, vectors = values[::-1], vectors[::-1].T
                floor = len(product) * EPS * values[-1]
                small = values[-self._rank] < JACOBI_BELOW * values[-1]
                self._rotated = bool(small) and len(product) >= len(root)
            if self._rotated:
                values, vectors = jacobi_svd(product, self._rank)
                values, vectors, floor = values[::-1], vectors[:, ::-1], 0.0
        kept = min(self._rank, int((values > floor).sum()))
        return values[-kept:], vectors[:, -kept:]
