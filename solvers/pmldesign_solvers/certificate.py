"""Both bounds on gamma_(p)(A), recomputed from the workload and a solver's output alone.

gamma_(p)(A) = min over L R = A of  tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2.

Upper bound. Any R and any n x r matrix B give L = A B with A = L R + E, E = A (I - B R), where E is
zero but for rounding. gamma_(p) is a norm and gamma_(p)(E) <= (sum_i norm(E_i)_2^p)^(1/p) (measure
every cell), so
    gamma_(p)(A) <= tr_{p/2}(L L^T)^(1/2) max_j norm(R e_j)_2 + (sum_i norm(E_i)_2^p)^(1/p)
holds whatever the solver did.

Lower bound. For u, w >= 0 with norm(u)_q <= 1, q = p/(p-2), and sum(w) <= 1,
    gamma_(p)(A) >= nuclear_norm( diag(u)^(1/2) A diag(w)^(1/2) ).
The singular values of a small matrix are computed directly and lowered by n * eps * (the largest
one), more than a backward stable method can be off (Weyl). Those of a large one are square roots of
eigenvalues of its Gram matrix, lowered likewise before the root.

Both bounds are then moved outwards by the relative rounding error of their last sums. Squares that
may have underflowed enter the upper bound with the smallest normal number added.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3 and
    the dual in the proof of Lemma 2.10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators import BLOCK_BYTES, Array, DenseOperator, Operator

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
DIRECT_ENTRIES = 2**16
"""Largest m * n whose singular values are computed without a Gram matrix."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two-sided bound on gamma_(p)(A), recomputed from the workload and the factors alone.

    Attributes:
        lower: rounded down.
        upper: rounded up; the value of the returned factorization.
    """

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """Relative gap, upper / lower - 1."""
        return self.upper / self.lower - 1.0 if self.lower > 0 else float("inf")


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


def lower_bound(operator: Operator, u: Array, w: Array, p: float) -> float:
    """Certified lower bound on gamma_(p)(A) from any dual weights.

    Args:
        operator: the m x n workload.
        u: shape (m,), non-negative, not all zero; scaled here to norm(u)_q = 1.
        w: shape (n,), non-negative, not all zero; scaled here to sum 1.
        p: in [2, inf].
    """
    m, n = operator.shape
    u = np.asarray(u / dual_norm(u, p))
    w = np.asarray(w / w.sum())
    if m < n:
        operator, u, w = DenseOperator(np.ascontiguousarray(operator.to_dense().T)), w, u
    root = np.sqrt(w)
    if m * n <= DIRECT_ENTRIES:
        values = np.linalg.svd(np.sqrt(u)[:, None] * operator.to_dense() * root, compute_uv=False)
        nuclear = float(np.maximum(values - len(root) * EPS * values[0], 0.0).sum())
        return nuclear * (1.0 - (m + n) * EPS)
    eigenvalues = np.linalg.eigvalsh(root[:, None] * operator.gram(u) * root)
    allowance = len(root) * EPS * max(float(eigenvalues[-1]), 0.0)
    nuclear = float(np.sqrt(np.maximum(eigenvalues - allowance, 0.0)).sum())
    return nuclear * (1.0 - (m + n) * EPS)


def upper_bound(operator: Operator, strategy: Array, basis: Array, p: float) -> float:
    """Certified upper bound on gamma_(p)(A) from any factorization, exact or nearly so.

    Args:
        operator: the m x n workload.
        strategy: R, shape (r, n).
        basis: B, shape (n, r); the reconstruction is L = A B.
        p: in [2, inf].
    """
    m, n = operator.shape
    sensitivity = float(np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max() + TINY))
    variances = squared_row_norms(operator, basis) + TINY
    residual = squared_row_norms(operator, np.eye(n) - basis @ strategy) + TINY
    value = np.sqrt(power_mean(variances, p / 2)) * sensitivity
    value += np.sqrt(power_mean(residual, p / 2))
    return float(value) * (1.0 + (m + n) * EPS)


def squared_row_norms(operator: Operator, matrix: Array) -> Array:
    """diag(A X X^T A^T) for X of shape (n, c), without anything m x c at once."""
    m, _ = operator.shape
    total = np.zeros(m)
    step = max(1, BLOCK_BYTES // (8 * m))
    for start in range(0, matrix.shape[1], step):
        block = operator.matvec(np.ascontiguousarray(matrix[:, start : start + step]))
        total += np.einsum("ij,ij->i", block, block)
    return total


def certify(
    operator: Operator, strategy: Array, basis: Array, u: Array, w: Array, p: float
) -> Certificate:
    """Both bounds, from the original workload and the returned arrays alone."""
    return Certificate(
        lower=lower_bound(operator, u, w, p), upper=upper_bound(operator, strategy, basis, p)
    )
