r"""The slack of Gaussian noise on few different columns, closer than in general.

With one record the slack about cell r is the largest integral of

    ((1 - e^eps p_r) P_r - e^eps sum_{j != r} p_j P_j)_+

over the priors p in Q_alpha (`gaussian_leakage`). It is convex in p, so that p_r = alpha_r and the
free mass lies on one of the other cells. On a line, and of three columns, this is the slack for
every number of records.

On a line, as all columns of a single query are, exactly. With column j at y_j, r at the origin, in
units of sigma, the integrand at s is positive where

    h(s) = sum_j e^eps p_j e^(y_j s - y_j^2/2) < 1 - e^eps p_r.

h is convex, so that this is an interval, and its ends are found by bisection. The integral is a
difference of normal distribution functions; at the ends the integrand is 0, so that their error
does not count. Distances that are not quite those of a line move each law by 0.4 times their
error, in total variation.

Three columns, to any accuracy. Records other than the one in question only mix shifted
copies of all three laws, which the integral, convex too, does not exceed. They lie in a plane. With
r at the origin, another one at (d, 0) and the third one at (x, y), y >= 0, in units of sigma, the
integrand at (s, t) is positive where

    W_1(s) + W_2(s) e^(y t) < 1 - e^eps p_r,      W_1(s) = e^eps p_1 e^(d s - d^2/2),
                                                  W_2(s) = e^eps p_2 e^(x s - (x^2 + y^2)/2),

a half line t < t(s) for each s. On a strip of s each W is replaced by its smallest value there,
which can only increase the integral; along t all of it is normal distribution functions. With
STRIPS strips the result is 0.1 to 1% above the exact slack.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from pmldesign.privacy.priors import free_mass
from pmldesign_solvers.operators.operator import Array

STRIPS = 4096
"""Twice as many halve the distance to the exact value."""
REACH = 9.0
"""Standard deviations beyond all columns: the mass farther out is 1e-19."""
FARTHEST = 1e3
"""Distances over sigma; beyond it exponentials overflow."""
LARGEST_EPSILON = 700.0
"""The slack falls as epsilon grows; a larger one, whose exponential overflows, has no more."""
DIFFERENCE_ROUNDING = 1e-14
"""More than the rounding of differences of probabilities, which are at most 1."""
FLAT = 1e-12
"""Smallest y: the integral is even in y, so that this moves it by 1e-24."""
MOST_COLUMNS = 24
"""A millisecond for 8 columns, 20 for 24."""
STRAIGHT = 1e-12
"""What distances may be off by, as part of the largest, on a line."""
NO_PROBABILITY = 1e-300
"""Stands for a cell without any probability."""
LINE_REACH, HALVINGS = 40.0, 45
"""Standard deviations about a column, beyond which its law has a mass of 1e-350."""


def slack_of_three(ratios: Array, least: Array, epsilon: float) -> Array:
    """Upper bound on the slack about each of three cells.

    Args:
        ratios: distances of the columns over sigma, shape (3, 3), symmetric.
        least: alpha, shape (3,).
        epsilon: at least 0.

    Returns:
        Shape (3,), rounded upwards; 1 where distances are out of the range of exponentials.
    """
    if not 0 < ratios.max() <= FARTHEST:
        return np.where(ratios.max(axis=1) > 0, 1.0, 0.0)
    growth, free = math.exp(min(epsilon, LARGEST_EPSILON)), free_mass(least)
    result = np.zeros(3)
    for r in range(3):
        kept = 1.0 - growth * least[r]
        others = [j for j in range(3) if j != r]
        if kept > 0:
            sides = ratios[r, others[0]], ratios[r, others[1]], ratios[others[0], others[1]]
            masses = [growth * (least[others] + free * np.eye(2)[i]) for i in range(2)]
            result[r] = max(_integral(sides, mass, kept) for mass in masses)
    return result


def _integral(sides: tuple[float, float, float], masses: Array, kept: float) -> float:
    """The integral of the positive part, from above.

    Args:
        sides: distances of the two other columns from the origin, and from each other.
        masses: e^eps p_j of both.
        kept: 1 - e^eps p_r.
    """
    first, second, between = sides
    x = (first**2 + second**2 - between**2) / (2 * first)
    y = max(math.sqrt(max(second**2 - x**2, 0.0)), FLAT)
    reach = REACH + max(first, abs(x))
    edges = np.linspace(-reach, reach, STRIPS + 1)
    low, high = edges[:-1], edges[1:]
    strip = np.where(
        low > 0,
        scipy.special.ndtr(-low) - scipy.special.ndtr(-high),
        scipy.special.ndtr(high) - scipy.special.ndtr(low),
    )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        taken = masses[0] * np.exp(first * low - first**2 / 2)
        log_second = math.log(masses[1]) + x * (low if x > 0 else high) - x**2 / 2
        ends = (np.log(kept - taken) - log_second + y**2 / 2) / y
        inside = (kept - taken) * scipy.special.ndtr(ends) - np.exp(
            log_second
        ) * scipy.special.ndtr(ends - y)
    positive = np.where(taken < kept, np.maximum(np.nan_to_num(inside, nan=0.0), 0.0), 0.0)
    total = float((strip * positive).sum())
    return min(
        1.0,
        total * (1 + DIFFERENCE_ROUNDING)
        + 2.0 * float(scipy.special.ndtr(-reach))
        + DIFFERENCE_ROUNDING,
    )


def places_on_a_line(ratios: Array) -> tuple[Array, float] | None:
    """Where columns lie, and what distances are off by; None for columns that are on no line.

    Args:
        ratios: distances of the columns over sigma, shape (k, k), symmetric.
    """
    end = int(np.argmax(ratios[0]))
    places = ratios[end]
    off = float(np.abs(np.abs(places[:, None] - places) - ratios).max())
    widest = float(ratios.max())
    return (places, off) if off <= STRAIGHT * widest and 0 < widest <= FARTHEST else None


def slack_on_a_line(places: Array, off: float, least: Array, epsilon: float) -> Array:
    """Upper bound on the slack about each cell.

    Args:
        places: of the columns, over sigma, shape (k,).
        off: what distances are off by.
        least: alpha, shape (k,).
        epsilon: at least 0.

    Returns:
        Shape (k,), rounded upwards.
    """
    count, growth = len(places), math.exp(min(epsilon, LARGEST_EPSILON))
    kept, free = 1.0 - growth * least, free_mass(least)
    open_cells = np.flatnonzero(kept > 0)
    result, others = np.zeros(count), ~np.eye(count, dtype=bool)
    if not open_cells.size:
        return result
    y = np.array([(places - places[r])[others[r]] for r in open_cells])
    masses = [growth * (least[others[r]] + free * np.eye(count - 1)) for r in open_cells]
    log_kept = np.log(kept[open_cells])
    rows = np.repeat(np.arange(len(y)), count - 1)  # a row for each cell and place of the free mass
    log_masses = np.log(np.maximum(np.vstack(masses), NO_PROBABILITY))
    values = _integrals(y[rows], log_masses, log_kept[rows])
    largest = values.reshape(len(y), -1).max(axis=1)
    result[open_cells] = np.minimum(
        largest + (DIFFERENCE_ROUNDING + 0.4 * off) * (1.0 + growth), 1.0
    )
    return result


def _integrals(y: Array, log_masses: Array, log_kept: Array) -> Array:
    """The integral of the positive part for each row, y and masses of shape (v, k - 1)."""
    weights = log_masses - y**2 / 2

    def falls(s: Array) -> Array:
        terms = weights + y * s[:, None]
        return np.asarray((y * np.exp(terms - terms.max(axis=1)[:, None])).sum(axis=1) < 0)

    def positive(s: Array) -> Array:
        terms = weights + y * s[:, None] - log_kept[:, None]
        return np.asarray(np.exp(np.minimum(terms, 1.0)).sum(axis=1) < 1)

    far = np.full(len(weights), LINE_REACH)
    lowest = _switch(falls, -far, far)[0]
    low = _switch(lambda s: np.logical_not(positive(s)), -far, lowest)[1]
    high = _switch(positive, lowest, far)[0]
    inside = _between(low, high) * np.exp(log_kept)
    taken = (np.exp(log_masses) * _between(low[:, None] - y, high[:, None] - y)).sum(axis=1)
    return np.where(positive(lowest), np.maximum(inside - taken, 0.0), 0.0)


def _switch(before: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Where a condition that holds from the left ends, between both results."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        left = before(middle)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return low, high


def _between(low: Array, high: Array) -> Array:
    """Phi(high) - Phi(low), computed in the tail that contains both."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = scipy.special.log_ndtr(b)
    return np.asarray(-np.exp(upper) * np.expm1(np.minimum(scipy.special.log_ndtr(a) - upper, 0.0)))
