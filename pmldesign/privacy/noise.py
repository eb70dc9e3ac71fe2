"""Gaussian, Laplace and cube noise: the exact error of a linear reconstruction.

The answers of a matrix mechanism are off by scale * L z, with z of r i.i.d. entries, standard
Gaussian or Laplace(1) (density e^-|z| / 2, variance 2), or of the density proportional to
e^-max|z_j|, the cube. The error does not depend on the data:

    err_p = (E ||scale L z||_p^p)^(1/p) = scale * (sum_i E |(L z)_i|^p)^(1/p),   2 <= p < inf.

Gaussian. With s_i^2 = (L L^T)_ii,  err_p = scale * c_p * (sum_i s_i^p)^(1/p) where
c_p^p = E |N(0, 1)|^p = 2^(p/2) Gamma((p + 1)/2) / sqrt(pi).

Laplace. Laplace(1) = sqrt(2 E) N(0, 1) with E exponential, so with x_j = L_ij^2 and
V = sum_j x_j E_j,

    E |(L z)_i|^p = c_p^p 2^(p/2) E V^(p/2),     E e^(-u V) = prod_j 1/(1 + x_j u),

the second being the characteristic function of (L z)_i at sqrt(u). Its derivatives are
complete homogeneous polynomials h_N: with y_j = x_j / (1 + x_j u),

    E V^N e^(-u V) = N! h_N(y) prod_j 1/(1 + x_j u),     N h_N = sum_{k=1}^N (sum_j y_j^k) h_{N-k}.

An even p is N = p/2, u = 0 (the recursion is the one from cumulants to moments). For other p take
N = floor(p/2) + 3, c = N - p/2 in (2, 3] and integrate

    E V^(p/2) = 1/Gamma(c) * integral over u > 0 of u^(c-1) E V^N e^(-u V) du,

a formula of von Bahr's kind in which every term is positive, so nothing cancels. The trapezoidal
rule in v = log u with step h has a relative error of at most
2 sum_{k >= 1} |Gamma(c + 2 pi i k/h)| / Gamma(c), below 1e-13 at h = 1/4, whatever the row.

Cube. z = G u with G of Gamma(r + 1) and u uniform on [-1, 1]^r, so that entries are uncorrelated
with variance (r + 1)(r + 2)/3. With l row i of L and an even p, from products of power series
without cancellation,

    E |(L z)_i|^p = (r + p)!/r! E (l^T u)^p,     E e^(s l^T u) = prod_j sinh(l_j s)/(l_j s).

It serves epsilon-DP with b = D/epsilon, D the largest l_inf distance of neighbours' measurements,
and is less than Laplace noise for few questions [HT].

Whole numbers. Discrete Laplace noise has P(eta = k) = (1 - q)/(1 + q) q^|k|, q = e^(-1/b), and the
variance 2 q / (1 - q)^2 = 1 / (2 sinh(1 / (2 b))^2) < 2 b^2. The discrete cube is a mixture of
uniform laws on {-r, ..., r}^d, with variance r (r + 1)/3 and weights (2 r + 1)^d e^(-r / b).

p = inf means the largest standard deviation of a query, not E max (err_p itself grows without
bound in p): c_inf = 1.

References:
    [HT] Hardt and Talwar (2010), On the geometry of differential privacy.
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, eq. (1), App. D.
    von Bahr (1965), On the convergence of moments in the central limit theorem.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import exponent, finite_matrix, non_negative
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.columns import Norm
from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array
from pmldesign_solvers.search.cube_moments import unit_error

STEP = 0.25
"""Step of the trapezoidal rule in log u."""

TAIL = 34.0
"""What is cut off at either end of the integral is below e^-TAIL of it."""

LARGEST_EXPONENT = 10_000.0
"""The recursion for Laplace noise takes p^2/8 steps."""

COARSE = 2.0**12
"""Parameters from which the variance of the cube is that of the continuous one, to 1e-7."""

LARGEST_EVEN = 64
"""Largest p of an error of cube noise."""

MOST_MEASURED = 16
"""Measurements up to which designs try cube noise; from ten on Laplace noise is mostly less."""


class Noise(StrEnum):
    """The noise that a mechanism adds; `Noise("laplace")` is `Noise.LAPLACE`."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    CUBE = "cube"

    @classmethod
    def _missing_(cls, value: object) -> Noise:
        raise InvalidInputError(f"noise must be {', '.join(cls)}, got {value!r}")

    @property
    def norm(self) -> Norm:
        """The norm of the distance of neighbours' measurements that its scale goes by."""
        return {Noise.GAUSSIAN: "l2", Noise.LAPLACE: "l1", Noise.CUBE: "linf"}[self]  # type: ignore[return-value]

    def variance(self, measurements: int) -> float:
        """Variance of one noise term at scale 1, with so many measurements."""
        if self is Noise.CUBE:
            return (measurements + 1) * (measurements + 2) / 3
        return 1.0 if self is Noise.GAUSSIAN else 2.0

    def whole_variance(self, scale: float, measurements: int) -> float:
        """Variance of a number of discrete noise; at most the s^2 that Gaussian noise is given."""
        if self is Noise.GAUSSIAN:
            return scale**2
        if self is Noise.LAPLACE:
            return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
        if scale > COARSE:
            return scale**2 * self.variance(measurements)
        r = np.arange(math.ceil((measurements + 60) * (scale + 1)) * 2, dtype=np.float64)
        logs = measurements * np.log(2 * r + 1) - r / scale
        weights = np.exp(logs - logs.max())
        return float(weights @ (r * (r + 1)) / 3 / weights.sum())

    def has_error(self, p: float) -> bool:
        """Whether its error at p is computed."""
        if self is Noise.LAPLACE:
            return p <= LARGEST_EXPONENT or math.isinf(p)
        return self is Noise.GAUSSIAN or math.isinf(p) or (p <= LARGEST_EVEN and p % 2 == 0)


def gaussian_moment_root(p: float) -> float:
    """c_p = (E |N(0, 1)|^p)^(1/p), for p in [2, inf); 1 at p = inf (see the module)."""
    p = exponent(p)
    if math.isinf(p):
        return 1.0
    log_gamma = math.lgamma((p + 1) / 2)
    return math.exp(math.log(2) / 2 + (log_gamma - math.log(math.pi) / 2) / p)


def gaussian_error(variances: ArrayLike, *, p: float, scale: float = 1.0) -> float:
    """Exact l_p^p error of Gaussian noise.

    Args:
        variances: shape (m,), the diagonal of L L^T.
        p: in [2, inf]; inf is the largest standard deviation.
        scale: standard deviation of each noise term.

    Returns:
        (E ||scale L z||_p^p)^(1/p).

    Raises:
        InvalidInputError: an argument out of range.
    """
    p, scale = exponent(p), non_negative("scale", scale)
    deviations = np.sqrt(_row_variances(variances))
    largest = float(deviations.max())
    if largest == 0 or math.isinf(p):
        return scale * largest
    norm = largest * math.pow(np.sum((deviations / largest) ** p), 1 / p)
    return scale * gaussian_moment_root(p) * norm


def laplace_error(reconstruction: ArrayLike, *, p: float, scale: float = 1.0) -> float:
    """Exact l_p^p error of Laplace noise.

    Args:
        reconstruction: L, shape (m, r).
        p: in [2, 10000] or inf, which is the largest standard deviation.
        scale: b of Laplace(b), whose variance is 2 b^2.

    Returns:
        (E ||scale L z||_p^p)^(1/p), to a relative error below 1e-12.

    Raises:
        InvalidInputError: an argument out of range.
    """
    p, scale = laplace_exponent(p), non_negative("scale", scale)
    rows = np.abs(finite_matrix("reconstruction", reconstruction))
    if math.isinf(p):
        return scale * math.sqrt(2) * float(np.sqrt(row_norms_squared(rows).max()))
    rows = rows[rows.any(axis=1)]
    if rows.size == 0:
        return 0.0
    largest = rows.max(axis=1)
    single = np.count_nonzero(rows, axis=1) == 1
    log_moments = np.full(
        len(rows), float(scipy.special.gammaln(p + 1))
    )  # E |l xi|^p = |l|^p Gamma(p + 1)
    several = np.flatnonzero(~single)
    if several.size:
        squares = (rows[several] / largest[several, None]) ** 2
        log_moments[several] = p * math.log(math.sqrt(2) * gaussian_moment_root(p))
        log_moments[several] += _log_moments_of_mixture(squares, p / 2)
    return scale * math.exp(float(scipy.special.logsumexp(log_moments + p * np.log(largest))) / p)


def cube_error(reconstruction: ArrayLike, *, p: float, scale: float = 1.0) -> float:
    """Exact l_p^p error of cube noise.

    Args:
        reconstruction: L, shape (m, r).
        p: an even number up to LARGEST_EVEN, or inf, which is the largest standard deviation.
        scale: b; a noise term has the variance b^2 (r + 1)(r + 2)/3.

    Returns:
        (E ||scale L z||_p^p)^(1/p).

    Raises:
        InvalidInputError: an argument out of range.
    """
    p, scale = exponent(p), non_negative("scale", scale)
    if not Noise.CUBE.has_error(p):
        raise InvalidInputError(
            f"p must be an even number up to {LARGEST_EVEN}, or inf, for cube noise, got {p};"
            " use such a p, or `noise='laplace'`"
        )
    return scale * unit_error(finite_matrix("reconstruction", reconstruction), p)


def laplace_exponent(p: float) -> float:
    """The p of an error of Laplace noise, as a float in [2, 10000] or inf.

    Raises:
        InvalidInputError: outside that range, or NaN.
    """
    p = exponent(p)
    if not Noise.LAPLACE.has_error(p):
        raise InvalidInputError(
            f"p must be at most {LARGEST_EXPONENT:.0f} or inf for Laplace noise, got {p}; use inf,"
            " or `noise='gaussian'`"
        )
    return p


def row_norms_squared(rows: Array) -> Array:
    """The diagonal of L L^T, shape (m,)."""
    squares: Array = np.einsum("ij,ij->i", rows, rows)
    return squares


def _row_variances(variances: Any) -> Array:
    values = np.asarray(variances, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values >= 0)).all():
        raise InvalidInputError(
            "variances must be a non-empty vector of finite numbers, none of them negative"
        )
    return values


def _log_moments_of_mixture(squares: Array, power: float) -> Array:
    """Logarithm of E V^power for each row x of `squares`, whose largest entry is 1; power >= 1."""
    if power == int(power):
        order, log_nodes, log_factor = int(power), np.zeros(0), 0.0
    else:
        order = int(power) + 3
        c = order - power
        low = -TAIL / c - math.log(order * squares.shape[1])
        log_nodes = np.arange(low, TAIL / (power + 1) + 1 + STEP, STEP)
        log_factor = math.log(STEP) - float(scipy.special.gammaln(c))
    result = np.empty(len(squares))
    width = max(1, log_nodes.size) * max(order, squares.shape[1])
    block = max(1, BLOCK_BYTES // (16 * width))
    for start in range(0, len(squares), block):
        rows = squares[start : start + block]
        if log_nodes.size:
            result[start : start + block] = _log_integral(rows, order, order - power, log_nodes)
        else:
            result[start : start + block] = _log_homogeneous(rows, order)
    return result + log_factor + float(scipy.special.gammaln(order + 1))


def _log_integral(squares: Array, order: int, c: float, log_nodes: Array) -> Array:
    """Logarithm of the sum over u of u^c h_order(y) prod_j 1/(1 + x_j u), for each row x."""
    nodes = np.exp(log_nodes)[:, None]
    scaled = squares[:, None, :] * nodes
    log_transform = -np.log1p(scaled).sum(axis=2)
    # x/(1 + x u) is largest at x = 1; divided by that, its largest entry is 1 again
    ratios = squares[:, None, :] * (1 + nodes) / (1 + scaled)
    log_polynomial = _log_homogeneous(ratios, order) - order * np.log1p(nodes[:, 0])
    total: Array = scipy.special.logsumexp(c * log_nodes + log_transform + log_polynomial, axis=1)
    return total


def _log_homogeneous(values: Array, order: int) -> Array:
    """Logarithm of h_order of the last axis, whose entries are in [0, 1] with largest entry 1."""
    log_power_sums = np.empty((order, *values.shape[:-1]))
    powers = values.copy()
    for k in range(order):
        log_power_sums[k] = np.log(powers.sum(axis=-1))
        powers *= values
    log_h = np.zeros((order + 1, *values.shape[:-1]))
    for n in range(1, order + 1):
        terms = log_power_sums[:n] + log_h[n - 1 :: -1]
        log_h[n] = scipy.special.logsumexp(terms, axis=0) - math.log(n)
    last: Array = log_h[order]
    return last
