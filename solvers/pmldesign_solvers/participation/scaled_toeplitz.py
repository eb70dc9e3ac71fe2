"""Strategies C = diag(rho) T(c) diag(kappa) for running sums, with the gradient of their error.

T(c) is lower triangular and Toeplitz, c_0 = 1. With g the coefficients of 1 / c(z),

    A C^-1 = A diag(1/kappa) T(g) diag(1/rho),      F = norm(A C^-1)_F^2,

and the columns of C have the squared norms d: kappa_j^2 = d_j / N_j, N_j = sum_t rho_t^2
c_{t-j}^2. F and its gradient for log rho, log d and c take O(n^2). Rows, columns and T(c) all
multiply in turn, so that b + 1 or a few numbers of state are enough where c has b coefficients or a
few poles.

*Banded strategies*, for people whose steps are at least b apart (min-sep), p = 2, have c_h = 0 for
h >= b: columns at least b apart
are orthogonal, so that the squared sensitivity is the largest sum of column norms d_i over k steps
at least b apart. With d constant on each window [e b, (e + 1) b) that is exactly the sum of the k
largest of them, as no two such steps are in a window. Constant norms (as of all published banded
mechanisms) lose 2 to 3% by that.

log rho is interpolated between knots in each window, log-spaced from both ends, near which it
changes fastest; c is free. F times the sum of the k largest d is descended (L-BFGS) from the first
coefficients of the square root; or, for many steps, from the best strategy of every fourth step:
rho and d are taken over, and the parts of the square root that its coefficients have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums

DIRECT = 1024
"""Longest series that are multiplied term by term; a transform takes 130 microseconds at least."""
KNOTS = 7
"""Of log rho at each end of a window; 256 steps, 4 times 64 apart: 5 lose 2e-5, 4 lose 2e-4."""
CORRECTIONS = 20
"""Pairs of steps and slopes of L-BFGS. Chosen, not measured."""
DESCENT_STEPS = 400
"""Of the descent, at most; the rest is then below 1e-4."""
FINE_CELLS, FINE_STEPS, FINE_WORK = 512, 8, 2.5e8
"""Steps beyond which a descent starts from every fourth one, which is 3e-3 above its end for 1024
steps, 16 times 64 apart, and 5e-4 for 4 times 256: so many steps of O(n^2) then, at least."""
FINE_APART = 64
"""Shortest windows with which that is tried."""
LEAST_DECREASE = 1e-8
"""Relative decrease of a step below which the descent ends."""


def solve_banded(
    sums: RunningSums, times: int, apart: int, callback: Callable[[float], bool]
) -> Scaled:
    """The best banded strategy that a descent finds.

    Args:
        sums: the running sums, over n > b steps.
        times: k.
        apart: b, at least 2.
        callback: called with the least norm so far after every evaluation; True ends the descent.
    """
    return _descent(sums, times, apart, callback)[1]


def _descent(
    sums: RunningSums, times: int, apart: int, callback: Callable[[float], bool]
) -> tuple[Array, Scaled]:
    """The parameters too: log rho at the knots, log d of the windows, c."""
    n = sums.cells
    windows = np.arange(n) // apart
    count = int(windows[-1]) + 1
    knots = window_knots(n, apart)
    start = np.concatenate(
        [np.zeros(knots.shape[1]), np.linspace(0.2, -0.2, count), root(apart)[1:]]
    )
    steps = DESCENT_STEPS
    if n > FINE_CELLS and sums.smooth and apart % 4 == 0 and apart >= FINE_APART:
        coarse, _ = _descent(sums.coarser(), times, apart // 4, callback)
        start = _refined(coarse, count, apart)
        steps = min(DESCENT_STEPS, max(FINE_STEPS, int(FINE_WORK / n**2)))

    def strategy(x: Array) -> tuple[Scaled, Array]:
        rows = np.exp(knots @ x[: knots.shape[1]])
        norms = np.exp(x[knots.shape[1] : knots.shape[1] + count])
        impulse = np.zeros(n)
        impulse[0], impulse[1:apart] = 1.0, x[knots.shape[1] + count :]
        return scaled(sums, rows, norms[windows], impulse), norms

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # where a step is too long
    def loss(x: Array) -> tuple[float, Array]:
        point, norms = strategy(x)
        largest = np.argsort(-norms)[:times]
        total = norms[largest].sum()
        by_rows, by_norms, by_impulse = point.gradient
        by_windows = np.bincount(windows, by_norms, count) / point.error
        by_windows[largest] += norms[largest] / total
        parts = [knots.T @ by_rows / point.error, by_windows, by_impulse[1:apart] / point.error]
        return float(np.log(point.error) + np.log(total)), np.concatenate(parts)

    found = descend(
        loss,
        start,
        report=lambda value: callback(float(np.exp(0.5 * value))),
        maxiter=steps,
        maxcor=CORRECTIONS,
        ftol=LEAST_DECREASE,
    ).unless_interrupted()
    return found, strategy(found)[0]


def _refined(coarse: Array, count: int, apart: int) -> Array:
    """Parameters for four times as many steps."""
    fewer, places, finer = apart // 4, _places(apart // 4), _places(apart)
    rows = coarse[: count * places.size].reshape(count, -1)
    # a knot next to an end stays as many steps from it, others keep their place in the window
    near = np.minimum(finer, apart - 1.0 - finer)
    scaled_near = np.where(near < 4, near, near * ((fewer - 1.0) / (apart - 1.0)))
    at = np.where(finer < apart / 2, scaled_near, fewer - 1.0 - scaled_near)
    rho = [np.interp(at, places, row) for row in rows]
    parts = coarse[count * places.size + count :] / root(fewer)[1:]
    steps = np.arange(1, apart) / apart
    impulse = np.interp(steps, np.arange(1, fewer) / fewer, parts) * root(apart)[1:]
    norms = coarse[count * places.size :][:count]
    return np.concatenate([*rho, norms, impulse])


def window_knots(n: int, apart: int) -> Array:
    """Values at the steps by values at the knots, shape (n, knots)."""
    return np.asarray(np.kron(np.eye(-(-n // apart)), by_knots(apart))[:n])


def by_knots(apart: int) -> Array:
    """Values at the steps of a window by values at its knots, shape (b, knots)."""
    chosen, places = _places(apart), np.arange(apart)
    return np.stack([np.interp(places, chosen, row) for row in np.eye(chosen.size)], axis=1)


def _places(apart: int) -> Array:
    """Steps of a window that are knots."""
    near = np.round(np.geomspace(1, max(1, apart // 2), KNOTS)) - 1.0
    return np.unique(np.concatenate([near, apart - 1.0 - near]))


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
    logs = sums.log_decays
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
    # the part of each term of the running sums in all later answers
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
    """The coefficients of the product of two polynomials, or of those in the columns of both."""
    if one.ndim == 1 and max(one.size, other.size) <= DIRECT:
        return np.convolve(one, other)
    size = len(one) + len(other) - 1
    fast = scipy.fft.next_fast_len(size, real=True)
    spectra = [scipy.fft.rfft(values, fast, axis=0) for values in (one, other)]
    return np.asarray(scipy.fft.irfft(spectra[0] * spectra[1], fast, axis=0)[:size])


def discounted(values: Array, rate: float) -> Array:
    """y_0 = x_0, y_i = rate y_i-1 + x_i; scipy.signal has that too, and takes 0.6 s to enter."""
    bands = np.repeat([[1.0], [-rate]], values.size, axis=1)
    return np.asarray(scipy.linalg.solve_banded((1, 0), bands, values))


def root(count: int) -> Array:
    """The first coefficients of (1 - z)^(-1/2), whose square sums up."""
    return np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / np.arange(1, count))])


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
