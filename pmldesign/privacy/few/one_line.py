r"""The slack of Gaussian noise on columns that lie on a line, as all of a single query do: exactly.

As for three columns (`three_columns`) the slack about cell r, for every number of records, is the
largest integral of

    ((1 - e^eps p_r) P_r - e^eps sum_{j != r} p_j P_j)_+,

p_r = alpha_r and the free mass on one of the other cells. With column j at y_j on the line, r at
the origin, in units of sigma, the integrand at s is positive where

    h(s) = sum_j e^eps p_j e^(y_j s - y_j^2/2) < 1 - e^eps p_r.

h is convex, so that this is an interval, and its ends are found by bisection. The integral is a
difference of normal distribution functions; at the ends the integrand is 0, so that what they are
off by does not count. Distances that are not quite those of a line move each law by 0.4 times what
they are off by, in total variation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from pmldesign.privacy.few.three_columns import DIFFERENCE_ROUNDING, FARTHEST, LARGEST_EPSILON
from pmldesign.privacy.priors import free_mass
from pmldesign_solvers.operators.operator import Array

MOST_COLUMNS = 24
"""A millisecond for 8 columns, 20 for 24."""
STRAIGHT = 1e-12
"""What distances may be off by, as part of the largest, on a line."""
NO_PROBABILITY = 1e-300
"""Stands for a cell without any probability."""
REACH, HALVINGS = 40.0, 45
"""Standard deviations about a column, beyond which its law has a mass of 1e-350."""


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

    far = np.full(len(weights), REACH)
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
    """Phi(high) - Phi(low), in the tail where both are."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = scipy.special.log_ndtr(b)
    return np.asarray(-np.exp(upper) * np.expm1(np.minimum(scipy.special.log_ndtr(a) - upper, 0.0)))
