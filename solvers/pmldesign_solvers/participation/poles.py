"""Strategies with K poles for people who take part in several steps, p = 2.

C = diag(rho) T(c) diag(kappa) (`scaled_toeplitz`) with c_0 = 1, c_h = sum_k a_k r_k^(h - 1), a > 0:
a stream with K numbers of state, C_ij = sum_k g_k(i) prod_{j < m <= i} lambda_k(m) for i > j,

    lambda_k(m) = min(1, r_k kappa_{m-1} / kappa_m),    g_k(i) = a_k rho_i kappa_i / r_k,

where 1 is passed, if at all, next to the ends, and costs nothing. Columns overlap. F times a smooth
maximum of the sums over some patterns is descended (L-BFGS), for log rho and the logarithm of
column norms between knots: of each window of b steps if there are few, else from both ends of
the stream. First patterns of steps exactly b apart, then, for steps at least b apart, those as well
that a local search finds to be worse. Points are compared by all patterns (`patterns`), and the
best is kept. One pole comes first, then a further one in addition. Of many steps every
fourth one is solved first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.participation.patterns import class_grams, largest_pattern, largest_window
from pmldesign_solvers.participation.scaled_toeplitz import (
    Scaled,
    by_knots,
    convolved,
    scaled,
    window_knots,
)
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.factor import Factor

MOST_POLES, LEAST_GAIN = 4, 1e-4
"""A fourth gains less than that everywhere it was tried; of the square root, by one more."""
FASTER, SHARE = 4.0, 0.3
"""How much shorter the next pole lasts than the shortest one, and its part of the largest a."""
LOGITS = (-5.0, 16.0)
"""Of r: a pole that lasts a part of a step, and one that lasts 10^7 of them."""
FEW_WINDOWS = 16
"""Up to so many have knots of their own: 4 times 64 steps gain 1%, 52 times 7 nothing."""
SHARPNESS = ((100.0,), (400.0,)), ((100.0,), (400.0,), (400.0,))
"""Of the smooth maximum, by rounds, for the first pole and for others: it is off by log(number of
patterns) over this."""
MEMORY, STEPS, CLOSE = 20, 120, 1e-7
"""Of each descent."""
STARTS = 100
"""Of patterns exactly b apart, and of the local search."""
FINE_CELLS, FINE_SHARPNESS, FINE_STEPS = 512, ((100.0, 400.0),), 20
"""Steps from which on the descent starts from every fourth one."""


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        sums: the running sums, over n steps.
        times: k, at most as many as there are b apart.
        apart: b.
        fixed: whether steps are exactly b apart.
    """

    sums: RunningSums
    times: int
    apart: int
    fixed: bool

    @cached_property
    def knots(self) -> Array:
        """Values at the steps by values at the knots, shape (n, knots)."""
        n, apart = self.sums.cells, self.apart
        few = n <= FEW_WINDOWS * apart and apart > 1
        return window_knots(n, apart) if few else by_knots(n)

    def largest(self, point: Scaled) -> float:
        """F times at least the largest sum over a pattern."""
        matrix = point.matrix
        if self.fixed:
            return point.error * largest_window(class_grams(matrix, self.apart), self.times)
        return point.error * largest_pattern(matrix.T @ matrix, self.times, self.apart)

    def coarser(self) -> Question:
        """The question about every fourth step."""
        sums, apart = self.sums.coarser(), max(1, round(self.apart / 4))
        return Question(sums, min(self.times, -(-sums.cells // apart)), apart, self.fixed)


def solve(question: Question, most: int, callback: Callable[[float], bool]) -> Factor:
    """The best strategy that descents find.

    Args:
        question: the workload.
        most: how many poles it may have, at least 1.
        callback: called with the norm that is reached after every step; True ends the search.
    """
    best, least, x, over = None, np.inf, None, [False]

    def watch(norm: float) -> bool:
        over[0] = over[0] or callback(norm)
        return over[0]

    for _ in range(min(most, MOST_POLES)):
        x, value = _of_poles(question, x, watch)
        gained = 1.0 - value / least
        if value < least:
            best, least = x, value
        if over[0] or gained < LEAST_GAIN:
            break
    assert best is not None
    return _factor(*_strategy(question, best)[:2])


def _of_poles(
    question: Question, fewer: Array | None, watch: Callable[[float], bool]
) -> tuple[Array, float]:
    """The parameters with one more pole than those, and F times the sensitivity squared.

    They are log rho and log d at the knots, the logits of r, and log a.
    """
    n, apart, knots = question.sums.cells, question.apart, question.knots
    rounds: tuple[tuple[float, ...], ...] = SHARPNESS[fewer is not None]
    steps = STEPS
    if fewer is None and n > FINE_CELLS:
        coarse, _ = _of_poles(question.coarser(), None, watch)
        start = _refined(coarse, question)
    else:
        start = _with_another(fewer, 2 * knots.shape[1], apart)
    if n > FINE_CELLS:
        rounds, steps = FINE_SHARPNESS, FINE_STEPS
    count = (start.size - 2 * knots.shape[1]) // 2
    patterns = _equidistant(n, question.times, apart)
    x, best, least = start, start, np.inf
    for sharpnesses in rounds:
        for sharpness in sharpnesses:
            x = _descended(question, x, patterns, sharpness, (count, steps), watch)
        point = _strategy(question, x)[0]
        value = question.largest(point)
        if value < least:
            best, least = x, value
        if not question.fixed:
            sizes = np.abs(point.matrix.T @ point.matrix)
            worse = _worst(sizes, question.times, apart)
            patterns = np.unique(np.vstack([patterns, worse]), axis=0)
    return best, least


def _descended(
    question: Question,
    x: Array,
    patterns: Indices,
    sharpness: float,
    sizes: tuple[int, int],
    watch: Callable[[float], bool],
) -> Array:
    """The end of a descent, from a start."""
    poles, steps = sizes
    knots = question.knots

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # where a step is too long
    def loss(x: Array) -> tuple[float, Array]:
        point, _, slopes = _strategy(question, x)
        value, gradient = _largest(point, patterns, sharpness)
        parts = [a / point.error + b for a, b in zip(point.gradient, gradient, strict=True)]
        by_x = [knots.T @ parts[0], knots.T @ parts[1], slopes @ parts[2]]
        return float(np.log(point.error)) + value, np.concatenate(by_x)

    free = [(None, None)]
    bounds = [*free * 2 * knots.shape[1], *[LOGITS] * poles, *free * poles]
    return descend(
        loss,
        x,
        bounds=bounds,
        report=lambda value: watch(float(np.exp(0.5 * value))),
        maxiter=steps,
        maxcor=MEMORY,
        ftol=CLOSE,
    ).unless_interrupted()


def _strategy(question: Question, x: Array) -> tuple[Scaled, Array, Array]:
    """C, r and a in two rows, and the slopes of c for the logits of r and log a."""
    knots = question.knots
    count, n = knots.shape[1], question.sums.cells
    rows, norms = np.exp(knots @ x[:count]), np.exp(knots @ x[count : 2 * count])
    logits, logs = x[2 * count :].reshape(2, -1, 1)
    decays, sizes = scipy.special.expit(logits), np.exp(logs)
    places = np.arange(n - 1)
    terms = sizes * decays**places
    slopes = np.zeros((2, len(sizes), n))
    slopes[0, :, 1:], slopes[1, :, 1:] = terms * places * (1.0 - decays), terms
    impulse = np.concatenate([[1.0], terms.sum(axis=0)])
    point = scaled(question.sums, rows, norms, impulse)
    return point, np.stack([decays[:, 0], sizes[:, 0]]), slopes.reshape(-1, n)


def _factor(point: Scaled, poles: Array) -> Factor:
    """C by its recurrence (see the module)."""
    rates, sizes = poles
    diagonal, kappa = point.rows * point.columns, point.columns
    decays = np.zeros((kappa.size, rates.size))
    decays[1:] = np.minimum(1.0, (kappa[:-1] / kappa[1:])[:, None] * rates)
    gains = diagonal[:, None] * (sizes / rates)
    gains[0] = 0.0  # nothing comes before
    return Factor(diagonal, gains, decays)


def _with_another(fewer: Array | None, count: int, apart: int) -> Array:
    """A start with one more pole: the first one lasts b steps."""
    if fewer is None:
        lasts = max(2.0, float(apart))
        return np.append(np.zeros(count), [-np.log(np.expm1(1.0 / lasts)), -0.5 * np.log(lasts)])
    logits, logs = fewer[count:].reshape(2, -1)
    power = scipy.special.expit(logits.min()) ** FASTER
    logit = np.clip(scipy.special.logit(power), *LOGITS)
    return np.concatenate(
        [fewer[:count], logits, [logit], logs, [logs.max() + np.log(SHARE)]], dtype=np.float64
    )


def _refined(coarse: Array, question: Question) -> Array:
    """Parameters for four times as many steps: poles last as long, and so do curves."""
    fewer, knots = question.coarser().knots, question.knots
    count, places = fewer.shape[1], knots.argmax(axis=0) / 4.0
    curves = [
        np.interp(places, np.arange(len(fewer)), fewer @ values)
        for values in coarse[: 2 * count].reshape(2, -1)
    ]
    logits, logs = coarse[2 * count :].reshape(2, -1)
    rates = scipy.special.logit(scipy.special.expit(logits) ** 0.25)
    return np.concatenate([*curves, np.clip(rates, *LOGITS), logs - np.log(2.0)])


def _equidistant(n: int, times: int, apart: int) -> Indices:
    """Patterns of steps exactly b apart, some of them; n stands for none."""
    last = max(n - (times - 1) * apart, min(apart, n))
    starts = np.unique(np.linspace(0, last - 1, min(STARTS, last)).astype(int))
    return np.minimum(starts[:, None] + apart * np.arange(times), n)


def _worst(sizes: Array, times: int, apart: int) -> Indices:
    """What a search finds that moves a step at a time, from random patterns."""
    n = len(sizes)
    random = np.random.default_rng(0)
    free = n - (times - 1) * apart
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


def _largest(
    point: Scaled, patterns: Indices, sharpness: float
) -> tuple[float, tuple[Array, Array, Array]]:
    """The logarithm of the smooth maximum, and its gradient for log rho, log d and c."""
    n = point.rows.size
    columns, inverse = np.unique(patterns, return_inverse=True)
    places = inverse.reshape(patterns.shape)
    part = np.pad(point.matrix, [(0, 0), (0, 1)])[:, columns]
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
    by_columns = np.zeros(n + 1)  # for log kappa
    by_columns[columns] = products.sum(axis=0)
    by_columns = by_columns[:n]
    by_rows, by_impulse = products.sum(axis=1), np.zeros(n)
    by_entries *= point.rows[:, None] * np.append(point.columns, 0.0)[columns]
    for column, entries in zip(columns, by_entries.T, strict=True):
        by_impulse[: n - column] += entries[column:]
    # log kappa = (log d - log N) / 2, N = sum_t rho_t^2 c_{t-j}^2
    squares, c = point.rows**2, point.impulse
    sizes = convolved(squares[::-1], c**2)[:n][::-1]
    by_sizes = -0.5 * by_columns / sizes
    by_rows += 2.0 * squares * convolved(by_sizes, c**2)[:n]
    by_impulse += 2.0 * c * convolved(by_sizes[::-1], squares)[n - 1 :][:n]
    return float(np.log(top * value)), (by_rows, 0.5 * by_columns, by_impulse)
