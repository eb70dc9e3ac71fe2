"""Pointwise maximal leakage (PML) of Laplace noise on a strategy.

The strategy R is r x k; Y = R x + b z with z Laplace(1). D_jr = ||R e_j - R e_r||_1. The prior is
any member of Q_alpha: independent records, each in cell j with probability at least alpha_j.

Corollary 1. About any record, whatever the number of records, the output leaks at most

    leakage(b) = max_r -log( sum_j alpha_j e^(-D_jr/b) + (1 - sum alpha) e^(-max_j D_jr/b) ).

By the triangle inequality f(y - R x' - R e_j) >= e^(-D_jr/b) f(y - R x' - R e_r) for the density
f of the noise and any other records x'; average over x', divide, and minimise over the prior.
A single record attains it, at y = R e_r with the free mass on the farthest cell. It decreases in
b and in alpha, from log(1/min alpha) at b = 0 when all columns differ, and tends to max D / b,
the DP parameter under replace, as alpha tends to 0. Of an alpha from a public sample the prior is
minimised over limits and ball (`priors`): a row of masses for each cell.

Extreme outputs: a lower bound on the worst case. Let every coordinate of the output y tend to plus
or minus infinity, with signs s. Then the ratio of densities depends on y no more, and with c_j =
sum_l s_l R_lj the leakage about a record tends, for the worst prior in Q_alpha, to

    log e^(-c_min/b) - log( sum_j alpha_j e^(-c_j/b) + (1 - sum alpha) e^(-c_max/b) ).

[ZSO] states the maximum over s as an upper bound on the leakage (Theorem 2). It is attained in the
limit, so it is a lower bound on the worst case; outputs in between can leak more. Calibration goes
by Corollary 1.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Cor. 1 and
        Theorem 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix, positive
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import factor_above, quotient_above, ratios_above
from pmldesign.privacy.priors import class_probabilities, least_masses, worst_mean
from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array

ULPS = 8.0
"""Units in the last place allowed for an exponential or a logarithm and its uses."""
FARTHEST = 1e3
"""e^-D/b is 0 in float64 from D/b = 746 on."""
MOST_SIGNS = 2**21
"""Sign patterns that are enumerated, those of 21 rows: 2 s for 16 cells, 15 s for 2^24."""


def laplace_leakage_from_distances(distances: Array, least: Array, scale: float) -> float:
    """Corollary 1 from the l1 distances of the columns, shape (k, k), rounded upwards.

    Args:
        distances: symmetric, zero on the diagonal; or its first rows, shape (k', k), if every
            other row has the entries of one of them.
        least: alpha as a vector, shape (k,), or a row for each row of distances.
        scale: b >= 0.
    """
    grow = factor_above(2 * least.shape[-1] + ULPS)
    worst = 0.0
    step = max(1, BLOCK_BYTES // (8 * len(distances)))
    for start in range(0, len(distances), step):
        block = distances[start : start + step]
        masses = least if least.ndim == 1 else least[start : start + step]
        ratios = ratios_above(block, scale, FARTHEST)
        farthest = ratios.max(axis=1)
        kept = float(worst_mean(np.exp(-ratios), masses, np.exp(-farthest)).min())
        if kept < 0.5:
            worst = max(worst, -math.log(kept / grow))
        else:  # 1 - kept without cancellation: the probabilities sum to 1
            lost = float(worst_mean(np.expm1(-ratios), masses, np.expm1(-farthest)).min())
            worst = max(worst, -math.log1p(lost * grow))
    worst *= factor_above(ULPS)
    diameter = float(distances.max())
    if 0 < diameter <= FARTHEST * scale:  # no more than under differential privacy
        worst = min(worst, quotient_above(diameter, scale))
    return worst


def extreme_output_leakage(
    strategy_matrix: ArrayLike, *, scale: float, alpha: float | Iterable[float]
) -> float:
    """Largest leakage in the limit of extreme outputs: never an upper bound, not for calibration.

    Args:
        strategy_matrix: R, shape (r, k). Constant rows do not count; rows that are equal up to
            a constant and a sign are enumerated together, each with its own sign.
        scale: b > 0 of the Laplace noise.
        alpha: in (0, 1/k], or one probability for each cell.

    Returns:
        The right-hand side of Theorem 2 of [ZSO], in nats.

    Raises:
        InvalidInputError: an argument out of range, or more than 2^21 sign patterns.
    """
    matrix = finite_matrix("strategy_matrix", strategy_matrix)
    class_probabilities(alpha, matrix.shape[1])  # refuses another number of cells
    scale = positive("scale", scale)
    rows, counts = _distinct_rows(matrix)
    if len(rows) == 0:
        return 0.0
    patterns = math.prod(int(count) + 1 for count in counts)
    if patterns > MOST_SIGNS:
        raise InvalidInputError(
            f"strategy_matrix must leave at most {MOST_SIGNS} sign patterns (21 distinct rows "
            f"that are not constant), got {len(rows)} rows; take Corollary 1 (`leakage`)"
        )
    worst = 0.0
    block = max(1, BLOCK_BYTES // (8 * matrix.shape[1]))
    for start in range(0, patterns, block):
        numbers = np.arange(start, min(start + block, patterns))
        # a group of `count` rows contributes -count, -count + 2, ..., count
        digits = np.array(np.unravel_index(numbers, counts + 1))
        sums = (2 * digits.T - counts) @ rows
        sums -= sums.min(axis=1, keepdims=True)
        least = least_masses(alpha, sums)
        with np.errstate(over="ignore"):  # inf: columns that far apart have no common output
            sums /= scale
        kept = worst_mean(np.exp(-sums), least, np.exp(-sums.max(axis=1)))
        worst = max(worst, -math.log(kept.min()))
    return worst


def _distinct_rows(matrix: Array) -> tuple[Array, Array]:
    """The rows that are not constant, up to constants and signs, and how often each occurs."""
    shifted = matrix - matrix[:, :1]
    shifted = shifted[shifted.any(axis=1)]
    first = shifted[np.arange(len(shifted)), (shifted != 0).argmax(axis=1)]
    shifted = shifted * np.sign(first)[:, None] + 0.0  # + 0.0 turns -0.0 into 0.0
    # sorting thousands of rows takes seconds, comparing their bytes does not
    counts = Counter(row.tobytes() for row in shifted)
    return np.array([np.frombuffer(row) for row in counts]), np.array([*counts.values()])
