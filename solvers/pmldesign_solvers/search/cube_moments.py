"""Moments of cube noise: the error of a reconstruction, and slopes for a descent.

Noise of the density proportional to e^-max|z_j| on k measurements is G u, with G of Gamma(k + 1)
and u uniform on [-1, 1]^k. For a row l of L and even p

    E |l^T z|^p = (k + p)!/k! E (l^T u)^p,     E (l^T u)^p / p! = [s^p] g_l(s),
    g_l(s) = prod_j sinh(l_j s)/(l_j s),

where [s^p] is the coefficient of s^p. Exactly, it is that of a product of power series without
cancellation (`unit_error`). With slopes in l, it is Cauchy's integral on a circle |s| = rho by the
trapezoidal rule in s^2 (`log_moments`); the slope of log(sinh(t)/t) is coth(t) - 1/t. All
coefficients of g_l are positive, and where rho is near the saddle point of g_l(s)/s^p little
cancels: rho is the larger of its lower bounds sqrt(3 p)/|l|_2 and p/|l|_1, from
t coth(t) - 1 <= min(t^2/3, t).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array

SPARE = 12
"""Points beyond p/2 of the rule: a relative error of 1e-10 at most, up to k = 17 and p = 64."""
SMALL = 1e-3
"""|t| up to which sinh(t)/t and its slope are their series."""


def unit_error(rows: Array, p: float) -> float:
    """Err_p of cube noise with b = 1 on k measurements: exact at even p, and at inf.

    Args:
        rows: L, shape (m, k).
        p: an even number, or inf for the largest standard deviation.
    """
    k, largest = rows.shape[1], float(np.abs(rows).max(initial=0.0))
    if largest == 0:
        return 0.0
    scaled = np.abs(rows) / largest
    if math.isinf(p):
        unit = math.sqrt((k + 1) * (k + 2) / 3)
        return unit * largest * float(np.linalg.norm(scaled, axis=1).max())
    half = int(p) // 2
    log_factorials = scipy.special.gammaln(2 * np.arange(half + 1) + 2)
    series = np.zeros((len(rows), half + 1))
    series[:, 0] = 1.0
    for column in scaled.T:
        factor = column[:, None] ** (2 * np.arange(half + 1)) * np.exp(-log_factorials)
        series = np.stack(
            [(series[:, : n + 1] * factor[:, n::-1]).sum(axis=1) for n in range(half + 1)], axis=1
        )
    gammaln = scipy.special.gammaln
    log_radial = float(gammaln(k + 1 + p) - gammaln(k + 1) + gammaln(p + 1))
    return largest * math.exp((log_radial + math.log(float(series[:, half].sum()))) / p)


def log_moments(rows: Array, p: float) -> tuple[Array, Array]:
    """Logarithms of E (l^T u)^p / p! for every row l, and their gradients in l.

    Args:
        rows: L, shape (m, k), no row 0.
        p: an even number.
    """
    half = int(p) // 2
    points = half + SPARE | 1  # odd, so that none is on the imaginary axis, where g_l has its zeros
    turns = np.arange(points // 2 + 1)  # the others are conjugate
    weights = np.where(turns == 0, 1, 2) * np.exp(-2j * np.pi * half * turns / points) / points
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / sizes
    radii = np.maximum(math.sqrt(3 * p), p / np.abs(unit).sum(axis=1, keepdims=True))
    s = radii * np.exp(1j * np.pi * turns / points)
    t = unit[:, :, None] * s[:, None, :]
    small = np.abs(t) < SMALL
    safe = np.where(small, 1.0, t)
    up = np.exp(safe)
    down = 1 / up
    values = np.where(small, 1 + t**2 / 6, (up - down) / (2 * safe)).prod(axis=1) * weights
    log_slopes = np.where(small, t / 3, (up + down) / (up - down) - 1 / safe)  # of sinh(t)/t
    moments = values.real.sum(axis=1)
    gradient = (log_slopes @ (values * s)[:, :, None]).real[:, :, 0]
    logs = np.log(moments) + p * np.log(sizes / radii)[:, 0]
    return logs, gradient / (moments[:, None] * sizes)
