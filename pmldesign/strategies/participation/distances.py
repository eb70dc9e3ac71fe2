"""The sensitivity of a strategy when one person takes part in several steps.

Neighbours differ in the steps of a pattern, in each by a contribution of norm at most 1. In l2 the
squared sensitivity is at most the largest sum of abs(X_ij) over a pattern, X = R^T R, and is that
sum where X >= 0 (`pmldesign_solvers.participation.patterns`):

    matrices            fixed epochs: that sum; min-sep: at least it, in O(n^2 k)
    no row with entries b apart
                        columns b apart are orthogonal: the largest sum of squared column norms
    Toeplitz, r >= 0    the pattern 0, b, 2b, ..., exact, in O(n k): of fixed epochs, as later ones
                        lack the last rows; for min-sep where r falls [KL, Theorem 2]
    streams, C >= 0, too long for a matrix
                        X_ij falls as j moves away from i where no decay exceeds 1, so for both
                        schemas at most k max X_ii + 2 sum_l (k - l) max_i X_{i, i - l b}

In l1, for numbers of at most 1 in size, it is at most the largest sum of column norms over a
pattern, and is that sum where R >= 0 or columns b apart meet in no row. Of other matrices all
patterns and signs are tried while they are few; beyond, the sum is taken, a bound.

References:
    [KL] Kalinin and Lampert, Banded square root matrix factorization for differentially private
    model training, NeurIPS 2024.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.toeplitz import ToeplitzStrategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.recurrent import FactorStrategy, RecurrentStrategy
from pmldesign.strategies.streams import StreamStrategy
from pmldesign.workloads.display import count_text
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation.patterns import (
    class_grams,
    largest_pattern,
    largest_signed_sum,
    largest_sum,
    largest_window,
    meet_nowhere,
)

MATRIX_CELLS = 2048
"""Steps up to which min-sep takes the Gram matrix: 2 s with 16 participations."""
MATRIX_ENTRIES = 2**26
"""Entries of R up to which fixed epochs take the matrix (512 MiB)."""


def sensitivity(strategy: Strategy, participation: Participation, norm: Norm) -> float:
    """Largest distance of the measurements of neighbours, or a bound above it.

    Raises:
        InvalidInputError: the strategy is too large.
    """
    if norm == "l1":
        return _l1(strategy, participation)
    if participation.reach(strategy.cells) == 1:
        return strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l2")
    if isinstance(strategy, EpochStrategy) and participation == strategy.participation:
        return strategy.epoch_sensitivity
    if isinstance(strategy, ToeplitzStrategy):
        coefficients = strategy.coefficients
        if participation.fixed or (np.diff(coefficients) <= 0).all():
            return _toeplitz(coefficients, participation)
    rows, cells = strategy.shape
    if isinstance(strategy, StreamStrategy | FactorStrategy) and cells > MATRIX_CELLS:
        return _stream(strategy, participation)
    written = rows * cells <= MATRIX_ENTRIES
    if written and not participation.fixed and cells > MATRIX_CELLS:
        written = meet_nowhere(strategy.matrix, participation.apart)
    if not written:
        raise InvalidInputError(
            f"the sensitivity of strategy {strategy.name!r} on {count_text(cells)} steps for"
            f" participation {participation} would take a matrix; take fewer steps"
        )
    return _matrix(strategy, participation)


def _matrix(strategy: Strategy, participation: Participation) -> float:
    matrix = strategy.matrix
    size = float(np.abs(matrix).max())
    matrix = matrix / size
    if participation.fixed:
        grams = class_grams(matrix, participation.apart)
        square = largest_window(grams, participation.times)
    elif meet_nowhere(matrix, participation.apart):
        squares = (matrix**2).sum(axis=0)
        square = largest_sum(squares, participation.times, participation.apart, fixed=False)
    else:
        square = largest_pattern(matrix.T @ matrix, participation.times, participation.apart)
    reach = participation.reach(strategy.cells)
    longest = float((matrix**2).sum(axis=0).max())
    # inner products are off by so many units of the product of the norms
    units = len(matrix) + 2.0 * strategy.entry_units + 8.0
    square += 1.1 * units * UNIT * reach**2 * longest
    return raised(size * math.sqrt(square), reach**2 + 8)


def _toeplitz(coefficients: Array, participation: Participation) -> float:
    total = coefficients.copy()
    for time in range(1, participation.reach(coefficients.size)):
        total[time * participation.apart :] += coefficients[: -time * participation.apart]
    square = math.fsum(total**2)
    return raised(math.sqrt(square), 2 * participation.reach(coefficients.size) + 8)


def _stream(strategy: StreamStrategy | FactorStrategy, participation: Participation) -> float:
    """From X_ij = sum_k c_k Y_k(i) prod_{j < m <= i} lambda_k(m)."""
    reach, apart = participation.reach(strategy.cells), participation.apart
    longest = strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l2")
    shares, decays = strategy.generators
    if decays.max() > 1.0:
        return raised(reach * longest, 2)
    with np.errstate(divide="ignore"):
        logs = np.cumsum(np.log(decays[1:]), axis=0)  # log prod_{0 < m <= i}
    logs = np.concatenate([np.zeros((1, logs.shape[1])), logs])
    square = reach * longest**2
    for lag in range(1, reach):
        later, earlier = logs[lag * apart :], logs[: -lag * apart]
        off = 2.0 * UNIT * lag * apart * np.abs(later)  # of the sums of logarithms
        products = shares[lag * apart :] * np.exp(later - earlier + off)
        square += 2.0 * (reach - lag) * float(products.sum(axis=1).max())
    slack = 1.0 + 8.0 * UNIT * strategy.cells
    return raised(math.sqrt(square * slack), 8)


def _l1(strategy: Strategy, participation: Participation) -> float:
    times, apart, fixed = (
        participation.reach(strategy.cells),
        participation.apart,
        participation.fixed,
    )
    if isinstance(strategy, ToeplitzStrategy):
        norms, units = np.cumsum(strategy.coefficients)[::-1], float(strategy.cells)
    elif isinstance(strategy, RecurrentStrategy):
        norms, units = strategy.factor.column_sums(), float(strategy.factor.column_units)
    else:
        matrix = strategy.matrix
        norms = np.abs(matrix).sum(axis=0)
        units = len(matrix) + strategy.entry_units
        if (matrix < 0).any() and not meet_nowhere(matrix, apart):
            reach = participation.reach(strategy.cells)
            exact = largest_signed_sum(matrix, reach, apart, fixed)
            if exact is not None:  # no less than the sum of the norms over the reach
                return raised(exact, reach * (units + reach) + 2)
    return raised(largest_sum(norms, times, apart, fixed=fixed), units + times)
