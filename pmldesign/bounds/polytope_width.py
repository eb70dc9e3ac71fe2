r"""kappa(A), the least width of the sensitivity polytope A B_1.

kappa(A) = min over unit theta of 2 norm(A^T theta)_inf, and 2/kappa(A) is the largest norm of a
theta with norm(A^T theta)_inf <= 1: computing it maximises a convex function. What bounds need of
it is a lower bound.

As norm(y)_inf >= norm(y)_2 / sqrt(n), kappa(A) >= 2 sigma_min(A^T) / sqrt(n); 0 if the rows are
dependent, and then kappa(A) = 0. Equality holds for parity queries and for every square A with
orthogonal rows of equal norm.

Prefix sums: with s = A^T theta in the cube, theta_i = s_i - s_{i+1} (s_{n+1} = 0), so the largest
norm(theta)^2 is that of alternating signs, 4 (n - 1) + 1, and kappa = 2/sqrt(4n - 3).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, eq. (3), Lemma 2.5
    and Lemma C.1. Lemma 2.14 (kappa = 2 for prefix sums) does not hold for n >= 2.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import EPS

MOST_ENTRIES = 2**21
"""Most entries of a workload that is decomposed."""

LARGEST_NUMBER = float(np.finfo(np.float64).max)


def is_prefix(workload: Workload) -> bool:
    """Whether row t sums the cells 0 ... t, for t = 0 ... n - 1."""
    m, n = workload.shape
    if m != n:
        return False
    if workload.ends is not None:
        return workload.running_sums is not None
    return m * n <= MOST_ENTRIES and np.array_equal(workload.to_dense(), np.tri(n))


def kappa(workload: Workload) -> float:
    """Lower bound on min over unit theta of 2 norm(A^T theta)_inf, rounded down.

    Args:
        workload: m x n. Beyond LARGEST entries only prefix sums are known; others get 0.
    """
    m, n = workload.shape
    if is_prefix(workload):
        return 2 / math.sqrt(4 * n - 3) * (1 - 2 * EPS)
    if m > n or m * n > MOST_ENTRIES:
        return 0.0
    matrix = workload.to_dense()
    exponent = math.frexp(float(np.abs(matrix).max()))[1]  # its largest entry becomes about 1
    singular = np.linalg.svd(np.ldexp(matrix, -exponent), compute_uv=False)
    smallest = max(float(singular[-1] - n * EPS * singular[0]), 0.0)
    with np.errstate(over="ignore"):
        lower = np.ldexp(2 * smallest / math.sqrt(n) * (1 - 4 * EPS), exponent)
    return min(float(np.nextafter(lower, 0.0)), LARGEST_NUMBER)
