"""Strategies of orthogonal rows: characters, and eigenvectors of A^T A.

Fourier: the constant, a cosine and a sine for each frequency k < n/2 and, for even n, alternating
signs, scaled to norm 1. Hadamard: entries 1 and -1, scaled, of the smallest power of two N >= n, on
its first n columns; for n < N the rows are no longer orthogonal, the columns still are. R^T R is
the identity, so under Gaussian noise both have the error of measuring every cell by itself. They
differ where the l1 sensitivity counts, or a part of their rows is kept.

Prefix sums by group algebra: let C be the circulant matrix of size 2n with first column (1, ..., 1,
0, ..., 0), n ones. Entry (i, j) is 1 if (i - j) mod 2n < n; for i, j < n that is i >= j, so the
first n rows and columns of C are the prefix sums. The characters of the cyclic group of order 2n
diagonalise it,

    lambda_0 = n,    lambda_k = 2/(1 - e^(-i pi k/n)) for odd k,    lambda_k = 0 for other even k,

with abs(lambda_k) = 1/sin(pi k/2n) for odd k. From C = U abs(C), with abs(C) = (C^T C)^(1/2)
circulant and real, C = (U abs(C)^(1/2)) (abs(C)^(1/2)); the first n rows of the one factor and the
first n columns of the other multiply to the prefix sums. All their squared norms are the diagonal
entry of abs(C), which is

    sum_k abs(lambda_k)/(2n) = 1/2 + (1/2n) sum_{j = 1..n} 1/sin((2j - 1) pi/2n),

the bound of Mathias on gamma_2; hence gamma_(p) <= n^(1/p) times this. R has the Gram matrix of
abs(C)^(1/2) on the first n cells, written in the real characters: a row for the total, a cosine
and a sine for each odd k < n, and for odd n the alternating signs. The least-squares reconstruction
is at least as good as the other factor.

The eigen-design measures eigenvectors, each with the best weight. With A^T A = V diag(s) V^T and R
= diag(x)^(1/2) V^T, the squared error at p = 2 of noise scaled to the sensitivity is (sum_i
s_i/x_i) max_j (H x)_j, H_ji = V_ji^2. For cell weights w >= 0 with sum 1, Cauchy-Schwarz gives

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
    Henzinger and Upadhyay, Improved differentially private continual observation using group
    algebra, SODA 2025.
    Mathias, The Hadamard operator norm of a circulant and applications, 1993.
    Barak et al., Privacy, accuracy, and consistency too: a holistic solution to contingency table
    release, 2007 (the Hadamard basis).
    Li and Miklau, An adaptive mechanism for accurate query answering under differential privacy,
    2012.
"""

from __future__ import annotations

import numpy as np
import scipy

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.operators.operator import EPS, Array, Indices

SQUARED_GAP = 1e-5
"""Relative gap of the squared error at which the weights are good enough."""

WEIGHT_STEPS = 5000
"""Each takes two products of an n x n matrix and a vector."""


def eigen_design(workload: Workload) -> Strategy:
    """The eigenvectors of A^T A with the best weights for p = 2.

    Args:
        workload: A, shape (m, n).

    Raises:
        InvalidInputError: A is zero, or n x n is too large to be written out.
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


def henzinger_upadhyay(cells: int) -> Strategy:
    """The group-algebra strategy for prefix sums, n + 1 rows.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'henzinger-upadhyay'", (n + 1, n))
    odd = np.arange(1, n, 2)
    weights = 1 / np.sqrt(n * np.sin(np.pi / (2 * n) * odd))
    last = np.sqrt(1 / (2 * n)) if n % 2 else 0.0
    return Strategy("henzinger-upadhyay", _rows(n, np.sqrt(0.5), odd, 2 * n, weights, last))


def fourier(cells: int) -> Strategy:
    """The orthonormal real Fourier basis of n cells.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'fourier'", (n, n))
    frequencies = np.arange(1, (n + 1) // 2)
    weights = np.full(frequencies.size, np.sqrt(2 / n))
    last = 0.0 if n % 2 else np.sqrt(1 / n)
    return Strategy("fourier", _rows(n, np.sqrt(1 / n), frequencies, n, weights, last))


def hadamard(cells: int) -> Strategy:
    """The first n columns of the orthonormal Hadamard matrix of the next power of two.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    size = 1 << (n - 1).bit_length()
    check_entries("strategy 'hadamard'", (size, size))
    return Strategy("hadamard", scipy.linalg.hadamard(size)[:, :n] / np.sqrt(size))


def _rows(
    n: int, first: float, frequencies: Indices, period: int, weights: Array, last: float
) -> Array:
    """The total, cosines, sines, and alternating signs unless they have no weight."""
    # whole multiples of the angle, reduced to one turn before they are multiplied by it
    angles = 2 * np.pi / period * (frequencies[:, None] * np.arange(n) % period)
    waves = [weights[:, None] * wave(angles) for wave in (np.cos, np.sin)]
    signs = [last * np.where(np.arange(n) % 2, -1.0, 1.0)[None]] if last else []
    return np.vstack([np.full((1, n), first), *waves, *signs])
