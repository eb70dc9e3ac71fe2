r"""kappa(A), the least width of the sensitivity polytope A B_1.

kappa(A) = min over unit theta of 2 norm(A^T theta)_inf, and 2/kappa(A) is the largest norm of a
theta with norm(A^T theta)_inf <= 1, so that computing it maximises a convex function.

Upper bound: any theta. Lower bound: norm(y)_inf >= norm(y)_2 / sqrt(n), hence
kappa(A) >= 2 sigma_min(A^T) / sqrt(n); 0 if the rows are dependent, and then kappa(A) = 0.
The two meet for parity queries and for every square A with orthogonal rows of equal norm.

Prefix sums: with s = A^T theta in the cube, theta_i = s_i - s_{i+1} (s_{n+1} = 0), so the largest
norm(theta)^2 is that of alternating signs, 4 (n - 1) + 1, and kappa = 2/sqrt(4n - 3).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, eq. (3), Lemma 2.5
    and Lemma C.1. Lemma 2.14 (kappa = 2 for prefix sums) does not hold for n >= 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign_solvers.operators.operator import Array

LARGEST = 2**21
"""Most entries of a workload that is decomposed."""

SEARCHED = 2**13
"""Most entries of a workload for which the upper bound is searched by linear programs."""

STARTS, ROUNDS = 8, 20

UNDERFLOW = 2.0**-1000
"""More than all entries that vanish where the largest is brought near 1 change a width by."""

EPS = float(np.finfo(np.float64).eps)
LARGEST_NUMBER = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Kappa:
    """Certified interval for kappa(A), rounded outwards.

    Attributes:
        lower: at least 0.
        upper: the width at the best direction found; inf where nothing was computed.
    """

    lower: float
    upper: float


def is_prefix(workload: Workload) -> bool:
    """Whether row t sums the cells 0 ... t, for t = 0 ... n - 1."""
    m, n = workload.shape
    if m != n:
        return False
    if isinstance(workload, RangeWorkload):
        return not workload.starts.any() and np.array_equal(workload.stops, np.arange(n) + 1)
    return m * n <= LARGEST and np.array_equal(workload.to_dense(), np.tri(n))


def kappa(workload: Workload) -> Kappa:
    """Interval for min over unit theta of 2 norm(A^T theta)_inf.

    Args:
        workload: m x n. Beyond LARGEST entries only prefix sums are known; others get [0, inf].
    """
    m, n = workload.shape
    if is_prefix(workload):
        exact = 2 / math.sqrt(4 * n - 3)
        return Kappa(exact * (1 - 2 * EPS), exact * (1 + 2 * EPS))
    if m > n:
        return Kappa(0.0, 0.0)
    if m * n > LARGEST:
        return Kappa(0.0, math.inf)
    matrix, exponent = _scaled(workload.to_dense())
    left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    smallest = max(float(singular[-1] - n * EPS * singular[0]), 0.0)
    lower = 2 * smallest / math.sqrt(n) * (1 - 4 * EPS)
    starts = np.vstack([left[:, -1], np.eye(m)[np.abs(matrix).max(axis=1).argmin()]])
    widths = [_width(matrix, theta) for theta in starts]
    if smallest > 0 and matrix.size <= SEARCHED:
        seeds = np.random.default_rng(0).standard_normal((STARTS, m))
        widths += [_width(matrix, _climb(matrix, theta)) for theta in [*starts, *seeds]]
    with np.errstate(over="ignore"):  # inf is an upper end
        ends = np.ldexp([lower, max(min(widths), lower)], exponent)
        highest = np.nextafter(ends[1], np.inf)
    return Kappa(min(float(np.nextafter(ends[0], 0.0)), LARGEST_NUMBER), float(highest))


def _scaled(matrix: Array) -> tuple[Array, int]:
    """The matrix over 2^e, its largest entry in [1/2, 1), and e."""
    exponent = math.frexp(float(np.abs(matrix).max()))[1]
    return np.ldexp(matrix, -exponent), exponent


def _width(matrix: Array, theta: Array) -> float:
    """2 norm(A^T theta)_inf / norm(theta)_2, rounded up."""
    theta = theta / np.abs(theta).max()
    reach = np.abs(matrix.T) @ np.abs(theta)
    peak = float((np.abs(matrix.T @ theta) + len(theta) * EPS * reach).max()) + UNDERFLOW
    return 2 * peak / float(np.linalg.norm(theta)) * (1 + (len(theta) + 4) * EPS)


def _climb(matrix: Array, theta: Array) -> Array:
    """Increase norm(theta) over norm(A^T theta)_inf <= 1, one linear program at a time."""
    best: Array = theta / np.abs(matrix.T @ theta).max()
    sides = np.vstack([matrix.T, -matrix.T])
    for _ in range(ROUNDS):
        solution = linprog(-best, A_ub=sides, b_ub=np.ones(len(sides)), bounds=(None, None))
        if solution.x is None or np.linalg.norm(solution.x) <= np.linalg.norm(best) * (1 + 1e-9):
            break
        best = solution.x
    return best
