"""Exact even moments of a linear reconstruction with Laplace noise, and their gradient.

For z with i.i.d. Laplace(1) entries, a row l of L and an even p = 2 N,

    E |l^T z|^p = p! h_N(y),     y_j = l_j^2,

with h_N the complete homogeneous symmetric polynomial: E e^(s l^T z) = prod_j 1/(1 - y_j s^2). From
the power sums, N h_N = sum_{k=1}^N (sum_j y_j^k) h_{N-k}; and d h_N / d y_j = h_{N-1} with y_j
taken twice, which is g_{N-1} of the recursion g_k = h_k + y_j g_{k-1}.

The error depends on the strategy R through L = A R^+. With F the gradient in L, W = A^T F and
P = R R^+, the gradient in R is  (I - P) W^T R^+ R^+^T - R^+^T W R^+^T  (`strategy_gradient`).
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign_solvers.operators import Array

LARGEST_EXACT = 64
"""Largest even p treated exactly; h_N of a row scaled to 1 stays in range, and costs N steps."""


def is_exact(p: float) -> bool:
    """Whether `log_moment` serves this p."""
    return p <= LARGEST_EXACT and p % 2 == 0


def log_moment(reconstruction: Array, p: float, counts: Array) -> tuple[float, Array]:
    """Logarithm of err_p = (sum_i counts_i E |l_i^T z|^p)^(1/p), and its gradient in L.

    Args:
        reconstruction: L, shape (m, r), not zero.
        p: even, at most LARGEST_EXACT.
        counts: shape (m,), how often each row counts.
    """
    half = int(p) // 2
    size = np.abs(reconstruction).max(axis=1, initial=0.0)
    kept = size > 0
    rows = reconstruction[kept] / size[kept, None]
    squares = rows**2
    h = np.ones((half + 1, len(rows)))
    power_sums = np.empty((half, len(rows)))
    powers = squares.copy()
    for k in range(half):
        power_sums[k] = powers.sum(axis=1)
        powers *= squares
    for n in range(1, half + 1):
        h[n] = np.einsum("ki,ki->i", power_sums[:n], h[n - 1 :: -1]) / n
    slope = np.ones_like(squares)
    for n in range(1, half):
        slope = h[n][:, None] + squares * slope
    logs = np.log(h[half]) + p * np.log(size[kept]) + np.log(counts[kept])
    top = float(logs.max())
    shares = np.exp(logs - top)
    total = float(shares.sum())
    gradient = np.zeros_like(reconstruction)
    factor = shares / total / p / h[half] / size[kept]
    gradient[kept] = 2 * rows * slope * factor[:, None]
    return (math.lgamma(p + 1) + top + math.log(total)) / p, gradient


def strategy_gradient(strategy: Array, inverse: Array, workload_gradient: Array) -> Array:
    """The gradient in R, shape (r, n), from R, R^+ and W = A^T F, both of shape (n, r)."""
    spare = workload_gradient.T - strategy @ (inverse @ workload_gradient.T)
    turned: Array = spare @ inverse @ inverse.T
    return turned - inverse.T @ workload_gradient @ inverse.T
