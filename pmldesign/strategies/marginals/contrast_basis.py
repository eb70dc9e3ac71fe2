"""Contrasts of n values: an orthonormal basis of the vectors that sum to zero.

Row k = 1 ... n - 1 of H compares value k with all values before it,

    H_k = (1, ..., 1, -k, 0, ..., 0) / (k (k + 1))^(1/2)      (k ones),

so that H x and H^T y are cumulative sums, O(n) each. In column j the absolute values add up to
(j / (j + 1))^(1/2) + sum_{k > j} (k (k + 1))^(-1/2), the most for j = 0: from column j to j + 1 the
sum changes by ((j + 1)/(j + 2))^(1/2) - (j/(j + 1))^(1/2) - ((j + 1)(j + 2))^(-1/2), which is 0 at
j = 0 and negative after that.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array

DIRECT_TERMS = 4096
"""Terms of a sum that are added one by one."""


def contrasts(x: Array) -> Array:
    """n^(1/2) H x, shape (n - 1, c), for x of shape (n, c)."""
    n = len(x)
    k = np.arange(1.0, n)[:, None]
    return np.asarray((np.cumsum(x, axis=0)[:-1] - k * x[1:]) * np.sqrt(n / (k * (k + 1))))


def expand(coefficients: Array) -> Array:
    """What has a given sum and given contrasts.

    Args:
        coefficients: shape (n, c), 1^T x first and then n^(1/2) H x.

    Returns:
        x, shape (n, c): (1 1^T x + H^T (n^(1/2) H x) n^(1/2)) / n.
    """
    n = len(coefficients)
    k = np.arange(1.0, n)[:, None]
    scaled = coefficients[1:] / np.sqrt(n * k * (k + 1))
    x = np.zeros_like(coefficients)
    x[:-1] = np.cumsum(scaled[::-1], axis=0)[::-1]
    x[1:] -= k * scaled
    return np.asarray(x + coefficients[0] / n)


def largest_column(n: int) -> float:
    """The largest l1 norm of a column of H: sum_{k < n} (k (k + 1))^(-1/2).

    Beyond DIRECT_TERMS the terms are (k + 1/2)^-1 + (k + 1/2)^-3 / 8, but for a relative 1e-14.
    """
    k = np.arange(1.0, min(n, DIRECT_TERMS))
    total = math.fsum(1 / np.sqrt(k * (k + 1)))
    if n > DIRECT_TERMS:
        first, last = DIRECT_TERMS + 0.5, n + 0.5
        total += float(scipy.special.digamma(last) - scipy.special.digamma(first))
        total += float(scipy.special.polygamma(2, last) - scipy.special.polygamma(2, first)) / 16
    return total
