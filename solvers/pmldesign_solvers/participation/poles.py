"""Strategies with a few poles for people whose steps are at least b apart (min-sep), p = 2.

C = diag(rho) T(c) diag(kappa) (`scaled_toeplitz`) with c_0 = 1 and c_h = sum_k a_k r_k^(h - 1): a
stream with a few numbers of state, best where k b is far below n and b is short. Columns overlap.
F times
a smooth maximum of the sums over some patterns is descended (L-BFGS), for log rho and the logarithm
of column norms between knots from both ends of the stream; first over patterns of steps exactly b
apart, then over those as well that a local search finds to be worse. What is reported is measured
over all patterns (`patterns.largest_pattern`), and the best of all rounds is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.participation.banded import by_knots
from pmldesign_solvers.participation.patterns import largest_pattern
from pmldesign_solvers.participation.scaled_toeplitz import Scaled, scaled
from pmldesign_solvers.streams.chain import RunningSums

POLES = 2
"""A third gains 1e-4 for 365 steps, 4 times 7 apart, and takes twice as long."""
SHARPNESS = ((20.0, 100.0), (100.0, 400.0), (400.0,), (400.0,))
"""Of the smooth maximum, by rounds: it is off by log(number of patterns) over this."""
MEMORY, STEPS, CLOSE = 20, 120, 1e-7
"""Of each descent."""
STARTS = 100
"""Of patterns exactly b apart, and of the local search."""


def solve(sums: RunningSums, times: int, apart: int, callback: Callable[[float], bool]) -> Scaled:
    """The best strategy with poles that a descent finds; arguments as for `banded.solve`."""
    n = sums.cells
    knots = by_knots(n)
    count = knots.shape[1]

    def strategy(x: Array) -> tuple[Scaled, Array]:
        rows, norms = np.exp(knots @ x[:count]), np.exp(knots @ x[count : 2 * count])
        impulse, slopes = _impulse(x[2 * count :], n)
        return scaled(sums, rows, norms, impulse), slopes

    def losses(x: Array, patterns: Indices, sharpness: float) -> tuple[float, Array]:
        point, slopes = strategy(x)
        value, gradient = _largest(point, patterns, sharpness)
        parts = [a / point.error + b for a, b in zip(point.gradient, gradient, strict=True)]
        by_x = [knots.T @ parts[0], knots.T @ parts[1], slopes @ parts[2]]
        return float(np.log(point.error)) + value, np.concatenate(by_x)

    def watch(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        if callback(float(np.exp(0.5 * intermediate_result.fun))):
            raise StopIteration

    patterns = _equidistant(n, times, apart)
    x, best, least = np.concatenate([np.zeros(2 * count), _start(apart)]), None, np.inf
    for sharpnesses in SHARPNESS:
        for sharpness in sharpnesses:
            loss = partial(losses, patterns=patterns, sharpness=sharpness)
            x = scipy.optimize.minimize(
                loss,
                x,
                jac=True,
                method="L-BFGS-B",
                callback=watch,
                options={"maxiter": STEPS, "maxcor": MEMORY, "ftol": CLOSE},
            ).x
        point, _ = strategy(x)
        matrix = point.matrix
        gram = matrix.T @ matrix
        value = point.error * largest_pattern(gram, times, apart)
        if best is None or value < least:
            best, least = point, value
        patterns = np.unique(np.vstack([patterns, _worst(np.abs(gram), patterns, apart)]), axis=0)
    assert best is not None
    return best


def _equidistant(n: int, times: int, apart: int) -> Indices:
    """Patterns of steps exactly b apart, some of them."""
    last = n - (times - 1) * apart
    starts = np.unique(np.linspace(0, last - 1, min(STARTS, last)).astype(int))
    return np.asarray(starts[:, None] + apart * np.arange(times))


def _worst(sizes: Array, patterns: Indices, apart: int) -> Indices:
    """What a search finds that moves a step at a time, from random patterns and from those."""
    n, times = len(sizes), patterns.shape[1]
    random = np.random.default_rng(0)
    free = n - (times - 1) * (apart)
    starts = np.sort(random.integers(0, free, size=(STARTS, times)), axis=1)
    starts += apart * np.arange(times)
    for steps in starts:
        moving = True
        while moving:
            moving = False
            for place in range(times):
                low = steps[place - 1] + apart if place else 0
                high = steps[place + 1] - apart if place + 1 < times else n - 1
                others = np.delete(steps, place)
                gains = 2.0 * sizes[others, low : high + 1].sum(axis=0)
                gains += sizes.diagonal()[low : high + 1]
                step = low + int(gains.argmax())
                if gains[step - low] > gains[steps[place] - low] * (1.0 + 1e-9):
                    steps[place], moving = step, True
    return starts


def _start(apart: int) -> Array:
    """Logits of r, then a: decays over a step or two and over three distances."""
    lengths = np.geomspace(1.5, max(3.0 * apart, 6.0), POLES)
    decays = np.exp(-1.0 / lengths)
    return np.concatenate([np.log(decays / (1.0 - decays)), 0.25 / np.sqrt(lengths)])


def _impulse(x: Array, n: int) -> tuple[Array, Array]:
    """c, and its slopes for the logits of r and for a, shape (2 K, n)."""
    logits, sizes = x[:POLES, None], x[POLES:, None]
    decays = scipy.special.expit(logits)
    places = np.arange(n - 1)
    powers = decays**places
    impulse = np.concatenate([[1.0], (sizes * powers).sum(axis=0)])
    slopes = np.zeros((2 * POLES, n))
    slopes[:POLES, 1:] = sizes * places * powers * (1.0 - decays)
    slopes[POLES:, 1:] = powers
    return impulse, slopes


def _largest(
    point: Scaled, patterns: Indices, sharpness: float
) -> tuple[float, tuple[Array, Array, Array]]:
    """The logarithm of the smooth maximum, and its gradient for log rho, log d and c."""
    n = point.rows.size
    columns, inverse = np.unique(patterns, return_inverse=True)
    places = inverse.reshape(patterns.shape)
    part = point.matrix[:, columns]
    gram = part.T @ part
    rows, others = places[:, :, None], places[:, None, :]
    sums = np.abs(gram[rows, others]).sum(axis=(1, 2))
    top = float(sums.max())
    weights = np.exp(sharpness * (sums / top - 1.0))
    total = float(weights.sum())
    value = 1.0 + np.log(total) / sharpness
    weights /= total
    # the largest one counts through the unit of the others as well
    weights[sums.argmax()] += value - float(weights @ sums) / top
    pairs = np.zeros_like(gram)
    np.add.at(pairs, (rows, others), (weights / (top * value))[:, None, None])
    by_entries = 2.0 * (part @ (pairs * np.sign(gram)))
    products = by_entries * part
    by_columns = np.zeros(n)  # for log kappa
    by_columns[columns] = products.sum(axis=0)
    by_rows, by_impulse = products.sum(axis=1), np.zeros(n)
    by_entries *= point.rows[:, None] * point.columns[columns]
    for column, entries in zip(columns, by_entries.T, strict=True):
        by_impulse[: n - column] += entries[column:]
    # log kappa = (log d - log N) / 2, N = sum_t rho_t^2 c_{t-j}^2
    squares, c = point.rows**2, point.impulse
    sizes = scipy.signal.fftconvolve(squares[::-1], c**2)[:n][::-1]
    by_sizes = -0.5 * by_columns / sizes
    by_rows += 2.0 * squares * scipy.signal.fftconvolve(by_sizes, c**2)[:n]
    by_impulse += 2.0 * c * scipy.signal.fftconvolve(by_sizes[::-1], squares)[n - 1 :][:n]
    return float(np.log(top * value)), (by_rows, 0.5 * by_columns, by_impulse)
