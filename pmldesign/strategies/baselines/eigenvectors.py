"""The eigen-design: eigenvectors of A^T A, each with the best weight.

With A^T A = V diag(s) V^T and R = diag(x)^(1/2) V^T, the squared error at p = 2 of noise scaled to
the sensitivity is (sum_i s_i/x_i) max_j (H x)_j, H_ji = V_ji^2. For cell weights w >= 0 with sum 1,
Cauchy-Schwarz gives

    (sum_i s_i/x_i) max_j (H x)_j >= (sum_i s_i/x_i) (sum_i x_i b_i) >= f(w)^2,
    b = H^T w,    f(w) = sum_i (s_i b_i)^(1/2).

x_i = (s_i/b_i)^(1/2) has the value f(w) max_j (H x)_j, and sum_j w_j (H x)_j = f(w). So each w
gives both bounds, and they meet when (H x)_j = f(w) wherever w_j > 0. With the old w on the right,
Cauchy-Schwarz again gives b_i(v)^(1/2) b_i(w)^(1/2) >= sum_j H_ji (v_j w_j)^(1/2), so that
f(v) >= sum_j (v_j w_j)^(1/2) (H x)_j, with equality at v = w; the right side is largest at
v_j ~ w_j (H x)_j^2, and f never falls. The steps end when the bounds are SQUARED_GAP apart, so that
the error is within half of that of the best weights, or after STEPS.

Eigenvectors of a repeated eigenvalue are not unique; those that LAPACK returns are used. On a
product workload the optimum is the product of the factors' optima, for x as for w.

References:
    Li and Miklau, An adaptive mechanism for accurate query answering under differential privacy,
    2012.
"""

from __future__ import annotations

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.operators.operator import EPS, Array

SQUARED_GAP = 1e-5
"""Relative gap of the squared error at which the weights are good enough."""

WEIGHT_STEPS = 5000
"""Each takes two products of an n x n matrix and a vector."""


def eigen_design(workload: Workload) -> Strategy:
    """The eigenvectors of A^T A with the best weights for p = 2.

    Args:
        workload: A, shape (m, n).

    Raises:
        InvalidInputError: A is zero, or n x n is too large to be materialized.
    """
    m, n = workload.shape
    check_entries("strategy 'eigen-design'", (n, n))
    values, vectors = scipy.linalg.eigh(near_one(workload)[0].gram(np.ones(m)))
    kept = values > n * EPS * max(float(values[-1]), 0.0)
    if not kept.any():
        raise InvalidInputError(
            f"workload {workload.name!r} is zero: its strategy 'eigen-design' measures nothing"
        )
    weights = _best_weights(values[kept], vectors[:, kept] ** 2)
    return Strategy("eigen-design", np.sqrt(weights)[:, None] * vectors[:, kept].T)


def _best_weights(values: Array, squares: Array) -> Array:
    """The x for s = `values` and H = `squares`, shape (n, r); of sensitivity 1."""
    cells = np.full(len(squares), 1 / len(squares))
    lower, upper, best = 0.0, np.inf, values
    for _ in range(WEIGHT_STEPS):
        weights = np.sqrt(values / (squares.T @ cells))
        columns = squares @ weights
        value = float(cells @ columns)
        peak = float(columns.max())
        lower = max(lower, value**2)
        if value * peak < upper:
            upper, best = value * peak, weights / peak
        if upper <= lower * (1 + SQUARED_GAP):
            break
        cells = cells * columns**2
        cells /= cells.sum()
    return best
