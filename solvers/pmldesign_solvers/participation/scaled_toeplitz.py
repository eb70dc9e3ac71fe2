"""Strategies C = diag(rho) T(c) diag(kappa) for running sums, with the gradient of their error.

T(c) is lower triangular and Toeplitz, c_0 = 1. With g the coefficients of 1 / c(z),

    A C^-1 = A diag(1/kappa) T(g) diag(1/rho),      F = norm(A C^-1)_F^2,

and the columns of C have the squared norms d: kappa_j^2 = d_j / N_j, N_j = sum_t rho_t^2
c_{t-j}^2. F and its gradient for log rho, log d and c take O(n^2). Rows, columns and T(c) all
multiply in turn, so that b + 1 or a few numbers of state are enough where c has b coefficients or a
few poles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums

DIRECT = 1024
"""Longest series that are multiplied term by term; a transform takes 130 microseconds at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A strategy and its error.

    Attributes:
        rows: rho, shape (n,).
        impulse: c, shape (n,).
        columns: kappa, shape (n,).
        error: F.
        gradient: of F for log rho, log d and c, each of shape (n,).
    """

    rows: Array
    impulse: Array
    columns: Array
    error: float
    gradient: tuple[Array, Array, Array]

    @property
    def matrix(self) -> Array:
        """C, shape (n, n)."""
        toeplitz = np.tril(scipy.linalg.toeplitz(self.impulse))
        return np.asarray(self.rows[:, None] * toeplitz * self.columns)


def scaled(sums: RunningSums, rows: Array, norms: Array, impulse: Array) -> Scaled:
    """C of rho, squared column norms d and c, each of shape (n,), with F and its gradient."""
    n = rows.size
    queries, steps = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
    logs = np.concatenate([[0.0], np.cumsum(np.log(sums.rates))])
    # A = diag(q e^logs) (running sums) diag(h e^-logs)
    before, after = steps * np.exp(-logs), queries * np.exp(logs)
    sizes = convolved(rows[::-1] ** 2, impulse**2)[:n][::-1]  # N
    roots = np.sqrt(sizes / norms)  # 1 / kappa
    inverse = reciprocal(impulse)
    toeplitz = np.tril(scipy.linalg.toeplitz(inverse))
    answers = np.cumsum((before * roots)[:, None] * toeplitz, axis=0)
    answers *= after[:, None] / rows
    error = float(np.vdot(answers, answers))
    by_rows = -2.0 * np.einsum("ts,ts->s", answers, answers)
    # what each term of the running sums adds to all later answers
    answers *= 2.0 * after[:, None]
    np.cumsum(answers[::-1], axis=0, out=answers[::-1])
    answers *= before[:, None] / rows
    by_roots = np.einsum("js,js->j", answers, toeplitz)
    by_inverse = _diagonal_sums(answers * roots[:, None])
    by_sizes = by_roots * roots / (2.0 * sizes)
    by_norms = -0.5 * by_roots * roots
    squares = convolved(by_sizes, impulse**2)[:n]
    by_rows = by_rows + 2.0 * rows**2 * squares
    twice = convolved(inverse, inverse)[:n]
    by_impulse = -convolved(by_inverse[::-1], twice)[:n][::-1]
    by_impulse += 2.0 * impulse * convolved(by_sizes[::-1], rows**2)[n - 1 :][:n]
    return Scaled(rows, impulse, 1.0 / roots, error, (by_rows, by_norms, by_impulse))


def convolved(one: Array, other: Array) -> Array:
    """The coefficients of the product of two polynomials."""
    if max(one.size, other.size) <= DIRECT:
        return np.convolve(one, other)
    return np.asarray(scipy.signal.fftconvolve(one, other))


def reciprocal(impulse: Array) -> Array:
    """The coefficients of 1 / c(z), by Newton's method on power series."""
    n = impulse.size
    inverse = np.array([1.0 / impulse[0]])
    while inverse.size < n:
        size = min(2 * inverse.size, n)
        rest = -convolved(impulse[:size], inverse)[:size]
        rest[0] += 2.0
        inverse = convolved(inverse, rest)[:size]
    return inverse


def _diagonal_sums(matrix: Array) -> Array:
    """sum_j M[j, j - h] for h = 0, 1, ..., shape (n,)."""
    n = len(matrix)
    wide = np.zeros((n, 2 * n))
    wide[:, n:] = matrix
    row, column = wide.strides
    skewed = np.lib.stride_tricks.as_strided(
        wide[:, n:], shape=(n, n), strides=(row + column, -column), writeable=False
    )
    return np.asarray(skewed.sum(axis=0))
