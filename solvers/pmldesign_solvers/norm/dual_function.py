"""The dual function, whose maximum the interior point method seeks: with its derivatives.

With K = A^T diag(u) A and W = sum_k w_k v_k v_k^T = C C^T, let C^T K C = Q S^2 Q^T. Then

    f(u, w) = trace(S),      R = S^(1/2) Q^T C^-1,      B = C Q S^(-1/2),
    2 df/dw_k = d_k = norm(R v_k)^2,                    2 df/du_i = norm(B^T a_i)^2,

and L = A B, R are a factorization of A.

*The Newton system* is solved without forming it. In the eigenbasis of (C^T K C)^(1/2), with s the
diagonal of S, a change of the
weights by x_w and x_u changes the Gram matrix of the strategy by -R^T Z R, where

    Y = R (sum_k x_k v_k v_k^T) R^T - B^T A^T diag(x_u) A B,      Z_ab = Y_ab / (s_a + s_b),

so that minus the Hessian of 2 f takes x to v_k^T R^T Z R v_k and -a_i^T B Z B^T a_i: a few products
of k x k matrices and the two operations of the workload, however many weights there are. Where
there are not many more queries than cells the rows of A B are kept instead.

Mixing in sigma = sum(w) adds a matrix of ones, and barriers and powers add a diagonal.

The diagonal of the system preconditions conjugate gradients. It needs sums over a, b of
F_ka^2 F_kb^2 / (s_a + s_b), with F the rows R v_k or A B. For any poles t_1, t_2 ...

    1 / (s_a + s_b)  =  sum_l g_l(s_a) g_l(s_b)  +  h(s_a) h(s_b) / (s_a + s_b),
    g_l(s) = (2 t_l)^(1/2) / (s + t_l) * product over j < l of (s - t_j) / (s + t_j),
    h(s)   = product over all j of (s - t_j) / (s + t_j),

and a few poles between the smallest and the largest s make h small: the sums become short ones of
squares of v_k^T R^T diag(g_l) R v_k. Where the system is small, all of it is written out in this
way, sum_l of squares of the entries of F diag(g_l) F^T, and its Cholesky factor preconditions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from pmldesign_solvers.operators.coordinates import ReducedWorkload
from pmldesign_solvers.operators.deadline import NEVER, Deadline
from pmldesign_solvers.operators.dense import jacobi_svd
from pmldesign_solvers.operators.differences import Differences
from pmldesign_solvers.operators.lbfgs import StoppedError
from pmldesign_solvers.operators.operator import (
    EPS,
    SVD_ENTRIES,
    Array,
    Operator,
    dual_norm,
    power_mean,
)

MOST_PRODUCTS = 1000
"""Of conjugate gradients for a direction. Chosen, not measured."""
FEW = 4
"""Up to so many queries for each cell the rows of A B are kept. Chosen: no difference on small
matrices (benchmarks/constants.py)."""
FACTORED = 1400
"""Largest system that is materialized: prefix:256 with weights over two orders of magnitude at
p = inf takes 12 products for a direction instead of several hundred, 0.1 s instead of 0.4 s."""
RATIO = 8.0
"""Of neighbouring poles, at most: a relative error of the diagonal of 5%. 368 steps for pairs, as
with 2; 372 with 64 (benchmarks/constants.py)."""


class NewtonSystem:
    """A positive definite system in (x_w, x_u), or only in x_w.

    Args:
        operator: A, shape (m, k).
        differences: the difference vectors v_k.
        strategy, right_inverse, values: R, shape (r, k), B, shape (k, r), and s, shape (r,),
            ascending.
        diagonal: the terms of barriers and powers; its length says whether x_u is part of it.
        coupled_rows: whether the weights u have a matrix of ones added, as w always have.
        deadline: asked after every product of `solve`; a StoppedError once it has passed.
    """

    def __init__(
        self,
        operator: Operator,
        differences: Differences,
        strategy: Array,
        right_inverse: Array,
        values: Array,
        diagonal: Array,
        *,
        coupled_rows: bool,
        deadline: Deadline = NEVER,
    ) -> None:
        self._operator, self._differences = operator, differences
        self._strategy, self._right_inverse, self._values = strategy, right_inverse, values
        self._diagonal, self._deadline = diagonal, deadline
        self._sums = values[:, None] + values
        self._moves_rows, self._coupled_rows = len(diagonal) > differences.count, coupled_rows
        m, k = operator.shape
        self._rows = operator.matvec(right_inverse) if self._moves_rows and m <= FEW * k else None
        self._scale = 1.0 / np.sqrt(self._whole_diagonal())
        self._factor = self._factored() if len(diagonal) <= FACTORED else None

    def solve(self, right: Array, tolerance: float, start: Array | None = None) -> Array:
        """The solution of the system by conjugate gradients, to a tolerance.

        The residual is measured with every entry divided by the root of that of the diagonal:
        weights that vanish, whose entries are large, say nothing about the others.

        Args:
            right: the right-hand side.
            tolerance: of the residual, relative to the right-hand side.
            start: a guess; zero if None.

        Raises:
            StoppedError: the time is up.
        """
        scale = self._scale
        shape = len(right), len(right)
        system = scipy.sparse.linalg.LinearOperator(
            shape, lambda x: scale * self._apply(scale * x), dtype=np.float64
        )
        solution, _ = scipy.sparse.linalg.cg(
            system,
            scale * right,
            None if start is None else start / scale,
            rtol=tolerance,
            atol=0.0,
            maxiter=MOST_PRODUCTS,
            M=self._preconditioner(len(right)),
            callback=self._unless_time_is_up,
        )
        return np.asarray(scale * solution)

    def _unless_time_is_up(self, _: Array) -> None:
        if self._deadline.over():
            raise StoppedError

    def _preconditioner(self, size: int) -> scipy.sparse.linalg.LinearOperator | None:
        """The inverse of nearly the scaled system, if it is small enough to be materialized."""
        if self._factor is None:
            return None
        factor = self._factor
        return scipy.sparse.linalg.LinearOperator(
            (size, size),
            matvec=lambda x: scipy.linalg.cho_solve((factor, False), x),
            dtype=np.float64,
        )

    def _factored(self) -> Array | None:
        """Cholesky factor of the system with the sums of its diagonal; None without one."""
        if self._moves_rows and self._rows is None:
            return None
        rows = self._differences.vectors() @ self._strategy.T
        signs = np.ones(len(rows))
        if self._rows is not None:
            signs = np.concatenate([signs, -np.ones(len(self._rows))])
            rows = np.concatenate([rows, self._rows])
        system = np.zeros((len(rows), len(rows)))
        for factor in _cauchy_factors(self._values):
            system += ((rows * factor) @ rows.T) ** 2
        system *= signs[:, None] * signs
        cells = self._differences.count
        system[:cells, :cells] += 1.0
        if self._coupled_rows:
            system[cells:, cells:] += 1.0
        system[np.diag_indices_from(system)] += self._diagonal
        system *= self._scale[:, None] * self._scale
        try:
            return np.asarray(np.linalg.cholesky(system).T)
        except np.linalg.LinAlgError:
            return None

    def _apply(self, x: Array) -> Array:
        cells = self._differences.count
        x_w, x_u = x[:cells], x[cells:]
        inner = self._differences.weighted(self._strategy, x_w)
        if self._moves_rows:
            inner -= self._row_gram(x_u)
        inner /= self._sums
        image = self._forms(inner)
        image[:cells] += x_w.sum()
        if self._coupled_rows:
            image[cells:] += x_u.sum()
        image += self._diagonal * x
        return image

    def _row_gram(self, weights: Array) -> Array:
        """B^T A^T diag(x_u) A B."""
        if self._rows is not None:
            return np.asarray(self._rows.T @ (weights[:, None] * self._rows))
        return np.asarray(
            self._right_inverse.T @ self._operator.gram(weights) @ self._right_inverse
        )

    def _forms(self, inner: Array) -> Array:
        """v_k^T R^T X R v_k, then -a_i^T B X B^T a_i, for a symmetric X or the diagonal of one."""
        forms = self._differences.products(self._strategy, _times(self._strategy.T, inner).T)
        if not self._moves_rows:
            return forms
        if self._rows is not None:
            rows = np.einsum("ij,ij->i", _times(self._rows, inner), self._rows)
        else:
            rows = self._operator.row_quadratic(
                _times(self._right_inverse, inner) @ self._right_inverse.T
            )
        return np.concatenate([forms, -rows])

    def _whole_diagonal(self) -> Array:
        total = self._diagonal + 1.0
        for factor in _cauchy_factors(self._values):
            total += self._forms(factor) ** 2
        return total


def _times(matrix: Array, inner: Array) -> Array:
    """M X for a symmetric matrix X or the diagonal of one."""
    return np.asarray(matrix * inner if inner.ndim == 1 else matrix @ inner)


def _cauchy_factors(values: Array) -> Array:
    """g_l(s_a) for ascending s, a row for each pole."""
    low, high = float(values[0]), float(values[-1])
    count = 1 + int(np.ceil(np.log(high / low) / np.log(RATIO)))
    poles = np.geomspace(low, high, count)[:, None]
    factors = np.sqrt(2.0 * poles) / (values + poles)
    factors[1:] *= np.cumprod((values - poles) / (values + poles), axis=0)[:-1]
    return np.asarray(factors)


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
