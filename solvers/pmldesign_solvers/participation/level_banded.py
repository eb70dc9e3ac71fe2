"""The best banded strategy with columns of norm 1, for steps that are drawn at random (p = 2).

C is lower triangular with b bands, X = C^T C has b bands on either side and ones on its diagonal,
and F = tr A X^-1 A^T = norm(B)_F^2, B = A C^-1, is convex in X. With C Y = B^T,

    dF = -2 <B^T Y^T, dC>     on the bands, in O(n^2 b),

which is descended over the entries of the bands, each column divided by its norm (L-BFGS).

*Lower bound.* For any W >= 0 that is 0 on the bands next to its diagonal <W, X> = tr W, so that
F >= (tr (A W A^T)^(1/2))^2 / tr W (Cauchy and Schwarz). At the best X the gradient, -V = -Y Y^T,
is 0 there; elsewhere W is V with zeros put there, and as much on the diagonal as makes it W >= 0.

*Many steps.* Toeplitz, c_0 ... c_(b-1) in each column: F norm(c)^2, F = sum_t (n - t) l_t^2, where
l(z) = 1 / ((1 - rate z) c(z)), in O(n log n). The last columns are shorter than 1 then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.participation.scaled_toeplitz import convolved, discounted, reciprocal, root
from pmldesign_solvers.streams.chain import RunningSums

CORRECTIONS, STEPS, LEAST_DECREASE = 20, 200, 1e-8
"""Of L-BFGS: pairs of steps and slopes, steps, and the relative decrease below which it ends."""
EIGENVALUE_UNITS = 16
"""Units of the machine precision, times the size, behind every eigenvalue."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A strategy and a bound.

    Attributes:
        matrix: C, shape (n, n).
        lower: on the root of F of all strategies of so many bands, rounded downwards.
        weights: W, which prove it.
    """

    matrix: Array
    lower: float
    weights: Array


def solve(sums: RunningSums, bands: int, callback: Callable[[float], bool]) -> Level:
    """The best strategy of at most so many bands.

    Args:
        sums: the running sums, n of them.
        bands: b, from 1 to n.
        callback: called with the root of F after every step; True ends the descent.
    """
    n = sums.cells
    inside = np.arange(n) + np.arange(bands)[:, None] < n  # entry h of column j is C_(j + h, j)
    rate = float(np.exp(np.log(sums.rates).mean())) if n > 1 else 1.0
    start = np.where(inside, toeplitz(n, bands, min(rate, 1.0))[:, None], 0.0)

    def loss(x: Array) -> tuple[float, Array]:
        bands_, norms = _columns(x, inside)
        answers = _answers(sums, bands_)
        other = _solved(bands_, answers.T)
        value, slopes = float(np.vdot(answers, answers)), np.zeros_like(bands_)
        turned = np.ascontiguousarray(answers.T)
        for lag in range(bands):
            slopes[lag, : n - lag] = -2.0 * np.einsum("jt,jt->j", turned[lag:], other[: n - lag])
        slopes -= bands_ * (slopes * bands_).sum(axis=0)
        return float(np.log(value)), (slopes / norms)[inside] / value

    found = _descent(loss, start[inside], lambda value: callback(float(np.exp(0.5 * value))))
    bands_, _ = _columns(found, inside)
    matrix = np.zeros((n, n))
    for lag in range(bands):
        matrix[np.arange(lag, n), np.arange(n - lag)] = bands_[lag, : n - lag]
    return Level(matrix, *_bound(sums, bands_))


def toeplitz(cells: int, bands: int, rate: float) -> Array:
    """The best coefficients that are the same in each column, of norm 1, shape (b,)."""
    left = np.arange(cells, 0.0, -1.0)
    first = root(bands)
    size = 2 * cells

    def loss(x: Array) -> tuple[float, Array]:
        impulse = np.zeros(cells)
        impulse[:bands] = np.concatenate([[1.0], x])
        inverse = reciprocal(impulse)
        sums = discounted(inverse, rate)
        both = convolved(sums, inverse)[:cells]
        error = float(left @ sums**2)
        spectra = np.fft.rfft(left * sums, size) * np.conj(np.fft.rfft(both, size))
        slopes = -2.0 * np.fft.irfft(spectra, size)[1:bands] / error
        square = 1.0 + float(x @ x)
        return float(np.log(error * square)), slopes + 2.0 * x / square

    powers = rate ** np.arange(1, bands)
    found = np.concatenate([[1.0], _descent(loss, first[1:] * powers)]) if bands > 1 else first
    return np.asarray(found / np.linalg.norm(found))


def _descent(
    loss: Callable[[Array], tuple[float, Array]],
    start: Array,
    report: Callable[[float], bool] = lambda _: False,
) -> Array:
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of steps too long
        descended = descend(
            loss, start, report=report, maxiter=STEPS, maxcor=CORRECTIONS, ftol=LEAST_DECREASE
        )
    return descended.unless_interrupted()


def _columns(x: Array, inside: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The entries of the bands, columns of norm 1, and their norms before."""
    bands = np.zeros(inside.shape)
    bands[inside] = x
    norms = np.linalg.norm(bands, axis=0)
    return bands / norms, norms


def _solved(bands: Array, right: Array) -> Array:
    """C^-1 times a matrix."""
    solution, _ = scipy.linalg.lapack.dtbtrs(bands, right, uplo="L")
    return np.asarray(solution)


def _answers(sums: RunningSums, bands: Array) -> Array:
    """B = A C^-1."""
    terms = np.sqrt(sums.step_squares)[:, None] * _solved(bands, np.eye(sums.cells))
    for row in range(1, sums.cells):
        terms[row] += sums.rates[row - 1] * terms[row - 1]
    return np.asarray(np.sqrt(sums.query_squares)[:, None] * terms)


def _bound(sums: RunningSums, bands: Array) -> tuple[float, Array]:
    n, unit = sums.cells, np.zeros((1, sums.cells))
    unit[0] = 1.0
    queries = _answers(sums, unit)
    other = _solved(bands, _answers(sums, bands).T)
    weights = other @ other.T
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    weights[(apart > 0) & (apart < len(bands))] = 0.0
    least = float(np.linalg.eigvalsh(weights)[0])
    slack = EIGENVALUE_UNITS * n * EPS
    weights += (max(-least, 0.0) + slack * float(np.linalg.norm(weights))) * np.eye(n)
    image = queries @ weights @ queries.T
    image = 0.5 * (image + image.T)
    rounding = slack * float(np.linalg.norm(queries @ np.abs(weights) @ queries.T))
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(image) - rounding, 0.0))
    value = float(roots.sum()) / np.sqrt(float(np.trace(weights)))
    return float(value * (1.0 - slack)), weights
