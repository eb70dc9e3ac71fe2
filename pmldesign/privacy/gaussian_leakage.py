"""PML of Gaussian noise on a strategy: additive slack, and failure probability.

The strategy R is r x k; Y = R x + sigma z with z standard Gaussian. d_jr = ||R e_j - R e_r||_2,
P_j is the law of the output when the record is in cell j, P_Y = sum_j p_j P_j with p in Q_alpha.
HS_e(t) is the privacy profile of two Gaussians at distance t (`analytic_gaussian`).

Slack (psi_2 of [SPP]): delta(eps) = sup over r, events E and priors of P_r(E) - e^eps P_Y(E).
As (1 - e^eps p_r) P_r - e^eps sum_{j != r} p_j P_j is linear in p and an optimal E has more mass
under P_r than under some P_j, p_r = alpha_r and the free mass lies on one other cell i. With
e^eps'_r = e^eps (1 - alpha_r)/(1 - e^eps alpha_r) and the joint convexity of the divergence,

    delta(eps) <= max_r bound_r(eps),
    bound_r(eps) = (1 - e^eps alpha_r)/(1 - alpha_r) * sum_{j != r} q_j HS_eps'_r(d_jr/sigma),

with q = alpha + (1 - sum alpha) on the farthest cell; 0 where e^eps alpha_r >= 1. Equality holds
for two cells and one record. Convexity over the other records gives every number of records.
Cells with equal columns have the same P_j: they are one cell, whose probability is their sum. Of
few columns on a line, as those of a single query, the slack is exact, and of three different
columns it is closer than that (`few_columns`).

Envelope: V = e^leakage(Y). A post-processing Z has V_Z <= E[V | Z], hence for c < e^eps

    P(leakage of Z > eps) <= E (V - c)_+ / (e^eps - c),     E (V - c)_+ <= sum_r bound_r(log c),

to be minimised over c in [1, e^eps); every such c gives a valid bound. The mean is convex in c, so
that the bound has one minimum.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information leakage envelopes, Sec. III and IV.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pmldesign.privacy.analytic_gaussian import LONGEST, SMALLEST_FLOAT, gaussian_profile
from pmldesign.privacy.few_columns import (
    MOST_COLUMNS,
    places_on_a_line,
    slack_of_three,
    slack_on_a_line,
)
from pmldesign.privacy.outward import UNIT, factor_above, ratios_above
from pmldesign.privacy.priors import worst_mean
from pmldesign_solvers.operators.operator import BLOCK_BYTES, EPS, Array, Indices

ULPS = 8.0
"""Units in the last place allowed for each elementary step, as in `analytic_gaussian`."""
VACUOUS = 1e100
"""Stands for every bound on a probability that is at least this."""
MANY_PAIRS, POINTS = 2**24, 2**20
"""Of more pairs of columns the profiles, 0.3 us each, are those of so many distances: at most 1e-6
of the largest above the distance itself."""
SAMPLE = 64
"""With more cells than this, so many of them choose c in the envelope bound."""
GRIDS = (1.0, 5), (0.3, 2), (0.03, 2)
"""Steps of log(e^eps - c), and how many on each side, in the search for c: most often within 1e-7
of the smallest bound."""


def slack_from_distances(distances: Array, least: Array, scale: float, epsilon: float) -> float:
    """Upper bound on the slack delta with P(E | D_i = d) <= e^epsilon P(E) + delta for every E.

    Args:
        distances: of the different columns in the l2 norm, shape (k, k); or of some of them, its
            first ones, from all, shape (k', k).
        least: probabilities of all, shape (k,), or a row for each of these columns (`priors`).
        scale: standard deviation of the noise, at least 0.
        epsilon: positive.
    """
    every = np.arange(len(distances))
    ratios = ratios_above(distances, scale, LONGEST)
    parts = _bounds(ratios, least, np.full(len(every), epsilon), every)
    return float(_closest(parts, ratios, least, epsilon).max())


def envelope_from_distances(
    distances: Array, least: Array, scale: float, epsilon: float, *, repeats: float = 1.0
) -> float:
    """Upper bound on the probability that any function of the output leaks more than epsilon.

    Args:
        distances: as for `slack_from_distances`; of some columns if every other one has the
            distances of one of them.
        least: likewise.
        scale: standard deviation of the noise, at least 0.
        epsilon: positive.
        repeats: how many columns each of them stands for.
    """
    if epsilon >= -math.log(least.min()):
        return 0.0
    ratios = ratios_above(distances, scale, LONGEST)
    span = math.expm1(epsilon)
    every = np.arange(len(ratios))
    # any c gives a bound: it is chosen for a sample of cells, those farthest from others, which
    # count most
    sample = np.sort(np.argsort(-ratios.max(axis=1), kind="stable")[:SAMPLE])
    if len(ratios) == least.shape[-1] <= MOST_COLUMNS and places_on_a_line(ratios) is not None:
        sample = every

    def bounds(places: Array, cells: Indices) -> Array:
        """The bounds at c about e^eps - e^place (e^eps - 1), summed over some cells r."""
        shares: Array = -np.expm1(places)
        at = np.log1p(shares * span)
        parts = _bounds(ratios, least, np.repeat(at, len(cells)), np.tile(cells, len(at)))
        parts = parts.reshape(len(at), -1)
        if cells is every:
            rows = zip(parts, at.tolist(), strict=True)
            parts = np.array([_closest(row, ratios, least, one) for row, one in rows])
        # e^eps - c, less what c may be above its value by rounding
        room = (1 - shares - ULPS * UNIT * (1 + epsilon)) * span
        with np.errstate(over="ignore"):
            mass = repeats * parts.sum(axis=1) * factor_above(len(cells) + ULPS)
            result = np.full(len(at), VACUOUS)
            np.divide(mass, room, out=result, where=mass < VACUOUS * room)
        return result

    place = _lowest(lambda places: np.log(np.maximum(bounds(places, sample), SMALLEST_FLOAT)))
    return min(float(bounds(np.array([place]), every)[0]), 1.0)


def _lowest(values_at: Callable[[Array], Array]) -> float:
    """Near the lowest value at a place of at most 0, of values with one minimum.

    On finer and finer grids, each about the minimum of a parabola through the values next to it.
    """
    middle = 0.0
    for step, count in GRIDS:
        middle = min(middle, -step * count)
        places = middle + step * np.arange(-float(count), count + 1)
        values = values_at(places)
        best = int(values.argmin())
        middle = float(places[best])
        if 0 < best < 2 * count:
            left, right = values[best - 1] - values[best], values[best + 1] - values[best]
            middle += step * (left - right) / (2 * (left + right) or 1.0)
    return middle


def _closest(parts: Array, ratios: Array, least: Array, epsilon: float) -> Array:
    """The bounds of all cells, lowered where columns on a line, or three of them, allow it."""
    count = len(ratios)
    if ratios.shape != (count, count) or not 3 <= count <= MOST_COLUMNS:
        return parts
    least = _own(least)  # the least probability under every distribution
    line = places_on_a_line(ratios)
    if line is not None:
        return np.asarray(np.minimum(parts, slack_on_a_line(*line, least, epsilon)))
    return (
        parts
        if count > 3
        else np.asarray(np.minimum(parts, slack_of_three(ratios, least, epsilon)))
    )


def _bounds(ratios: Array, least: Array, epsilon: Array, cells: Indices) -> Array:
    """bound_r(epsilon) for some cells r, each at its epsilon >= 0, from t_jr = d_jr/sigma.

    Rounded upwards: eps'_r down, the weights and their sum up.
    """
    result = np.zeros(len(cells))
    own = _own(least)[cells]
    log_own = np.log(own)
    # 1 - e^eps alpha_r, up: alpha_r and its logarithm are rounded, and so is the sum
    below = epsilon + log_own - ULPS * UNIT * (1 + epsilon - log_own)
    kept = -np.expm1(np.minimum(below, 0.0))
    active = np.flatnonzero((kept > 0) & (ratios.max(axis=1) > 0)[cells])
    grow = factor_above(least.shape[-1] + ULPS)
    own, kept, epsilon, cells = own[active], kept[active], epsilon[active], cells[active]
    shares = np.log1p(-own), np.log(kept)
    error = ULPS * UNIT * (1 + epsilon - shares[0] - shares[1])
    shifted = np.maximum(epsilon + shares[0] - shares[1] - error, epsilon)
    profile_of: Callable[[Array, Array], Array] = gaussian_profile
    if len(active) * ratios.shape[1] > MANY_PAIRS and (shifted == shifted[0]).all():
        profile_of = _tabulated(float(ratios.max()), float(shifted[0]))
    step = max(1, BLOCK_BYTES // (32 * ratios.shape[1]))
    for start in range(0, len(active), step):
        block = slice(start, start + step)
        masses = least if least.ndim == 1 else least[cells[block]]
        profile = profile_of(ratios[cells[block]], shifted[block, None])
        total = worst_mean(profile, masses, profile.max(axis=1))
        result[active[block]] = kept[block] / (1 - own[block]) * total * grow
    return result


def _tabulated(longest: float, epsilon: float) -> Callable[[Array, Array], Array]:
    """The profile at one epsilon, taken at the next of many distances up to the longest."""
    steps = POINTS / longest
    values = gaussian_profile(np.arange(POINTS + 2) * (longest / POINTS) * (1 + EPS), epsilon)

    def look_up(ratios: Array, _: Array) -> Array:
        # one further than rounding may have taken away; 0 stays 0
        places = np.ceil(ratios * steps * (1 + 4 * EPS)).astype(np.int32)
        return np.asarray(values[places])

    return look_up


def _own(least: Array) -> Array:
    """The least probability of every column itself."""
    return least if least.ndim == 1 else least.diagonal()
