"""Leakage of Laplace noise at extreme outputs: a lower bound on the worst case.

Let every coordinate of the output y tend to plus or minus infinity, with signs s. Then the ratio
of densities depends on y no more, and with c_j = sum_l s_l R_lj the leakage about a record tends,
for the worst prior in Q_alpha, to

    log e^(-c_min/b) - log( sum_j alpha_j e^(-c_j/b) + (1 - sum alpha) e^(-c_max/b) ).

[ZSO] states the maximum over s as an upper bound on the leakage (Theorem 2). It is attained in the
limit, so it is a lower bound on the worst case; outputs in between can leak more. Calibrate with
`pmldesign.privacy.laplace_leakage.laplace_leakage_bound` instead.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Thm 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix, positive
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.ball import least_masses
from pmldesign.privacy.priors import class_probabilities, worst_mean
from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array

MOST_SIGNS = 2**21
"""Sign patterns that are enumerated, those of 21 rows: 2 s for 16 cells, 15 s for 2^24."""


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
            f"that are not constant), got {len(rows)} rows; use laplace_leakage_bound (Corollary 1)"
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
        with np.errstate(over="ignore"):  # inf: what is that far apart has no common output
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
