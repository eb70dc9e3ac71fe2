r"""Leakage over all distributions that a public sample leaves possible: limits and an l1 ball.

With probability at least c = confidence the true distribution q lies in the set

    q_j >= L_j for all cells   (`sample`, at (1 + c)/2)
    |q - x/N|_1 <= rho,        rho^2 = (2/N) log( (2^k - 2) / ((1 - c)/2) ),

for counts x of N independent records: each of both fails with probability (1 - c)/2 at most, the
second one by [WOSVW]. The leakage of Laplace noise about cell r is -log of the least
sum_j q_j e^(-D_jr/b) over the set. Moving mass from j to the farthest cell changes the sum by the
difference of both exponentials, so that the least value moves mass from the nearest cells first,
down to L_j, until rho/2 is moved. For every number of records, as Corollary 1 (`laplace_leakage`).

References:
    [GSOS] Grosse, Saeidian, Oechtering and Skoglund (2025), Privacy mechanism design based on
        empirical distributions, arXiv 2509.22428: leakage over sets around an estimate.
    [WOSVW] Weissman, Ordentlich, Seroussi, Verdu and Weinberger (2003), Inequalities for the L1
        deviation of the empirical distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix, positive, probability
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.sample import sampled_alpha
from pmldesign.privacy.neighbours import pairwise_distances
from pmldesign.privacy.outward import factor_above
from pmldesign_solvers.operators.operator import Array

ROUNDING = 2.0**-52
"""Between 1 and the next float64."""
ULPS = 8.0
"""Units in the last place for an exponential, a logarithm, and each term of a sum."""


def sampled_leakage(
    strategy_matrix: ArrayLike, *, scale: float, counts: ArrayLike, confidence: float = 0.99
) -> float:
    """Leakage of Laplace noise about a record of the population that a public sample is from.

    Args:
        strategy_matrix: R, shape (r, k).
        scale: b of the noise, positive.
        counts: how many records of the sample fall into each cell, shape (k,), whole numbers.
        confidence: probability, over samples, with which the leakage is at most the result.

    Returns:
        In nats, rounded upwards; for any number of independent secret records.

    Raises:
        InvalidInputError: an argument out of range.
    """
    matrix = finite_matrix("strategy_matrix", strategy_matrix)
    scale, confidence = positive("scale", scale), probability("confidence", confidence)
    limits = sampled_alpha(counts, (1 + confidence) / 2)
    cells = len(limits)
    if cells != matrix.shape[1]:
        raise InvalidInputError(
            f"counts must be one number for each of the {matrix.shape[1]} cells, got {cells}"
        )
    estimate = np.asarray(counts, dtype=np.float64) / limits.records
    radius = ball_radius(cells, limits.records, (1 - confidence) / 2)
    distances = pairwise_distances(matrix, norm="l1")
    least = min(
        least_sum(np.exp(-row / scale), estimate, np.array(limits), radius) for row in distances
    )
    return max(0.0, -math.log(least)) * factor_above(ULPS) + (cells + ULPS) * ROUNDING


def ball_radius(cells: int, records: int, failure: float) -> float:
    """Rho: the l1 distance that is exceeded with a probability of at most `failure`."""
    return math.sqrt(2 / records * (math.log(2.0) + _log_half(cells) - math.log(failure)))


def _log_half(cells: int) -> float:
    """log(2^(k-1) - 1)."""
    return (cells - 1) * math.log(2.0) + math.log1p(-(2.0 ** (1 - cells)))


def least_sum(values: Array, estimate: Array, limits: Array, radius: float) -> float:
    """The least sum_j q_j v_j over the set.

    Args:
        values: v, shape (k,), not negative.
        estimate: x/N, shape (k,).
        limits: L, shape (k,), at most the estimate.
        radius: rho.
    """
    order = np.argsort(-values, kind="stable")
    available = (estimate - np.minimum(limits, estimate))[order]
    moved = np.diff(np.minimum(np.cumsum(available), radius / 2), prepend=0.0)
    return float(estimate @ values - moved @ (values[order] - values.min()))
