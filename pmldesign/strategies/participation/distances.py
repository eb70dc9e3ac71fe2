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
                        X_ij falls as j moves away from i if no decay exceeds 1, so for both
                        schemas at most k max X_ii + 2 sum_l (k - l) max_i X_{i, i - l b}

In l1, for numbers of at most 1 in size, it is at most the largest sum of column norms over a
pattern, and is that sum where R >= 0 or columns b apart meet in no row. Of other matrices all
patterns and signs are tried while they are few; beyond, the sum is taken, a bound.

*A second opinion* on every sensitivity: data that are far apart. With x of entries 1 and -1 in the
steps of a pattern and 0 elsewhere, R x is how far the measurements of two neighbours are apart. No
sensitivity is below the farthest that is found, nor above k times that of one participation. Tried
are steps exactly b apart, from several first steps on, and, for matrices that are not too large,
the result of a greedy search: from several first steps, always the next step and its sign that
lengthen R x most. Strategies for fixed epochs of more than a thousand steps are not measured.

With the rows of a person x has 1 in k cells, one of each of k classes: those of the longest columns
and others, or k in one cell.

References:
    [KL] Kalinin and Lampert, Banded square root matrix factorization for differentially private
    model training, NeurIPS 2024.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.errors import InvalidInputError, VerificationError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.toeplitz import ToeplitzStrategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.person_distances import of_one_row
from pmldesign.strategies.participation.persons import ANY, PersonRows
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
        InvalidInputError: the norm of cube noise, or the strategy is too large.
    """
    if norm == Noise.CUBE.norm:
        raise InvalidInputError(
            "cube noise is for one participation of each record; take Gaussian or Laplace noise"
        )
    if norm == "l1":
        return _l1(strategy, participation)
    if participation.reach(strategy.cells) == 1:
        return strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l2")
    if isinstance(strategy, EpochStrategy) and participation == strategy.designed_for:
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
    if not written and isinstance(strategy, IdentityAndRows):
        return _identity_and_rows(strategy, participation)
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


def _identity_and_rows(strategy: IdentityAndRows, participation: Participation) -> float:
    """The rows are moved by no more than the norms of their columns together."""
    reach, apart = participation.reach(strategy.cells), participation.apart
    size = max(float(strategy.diagonal.max()), float(np.abs(strategy.rows).max(initial=0.0)))

    def largest(values: Array) -> float:
        return largest_sum(values, reach, apart, fixed=participation.fixed)

    square = largest((strategy.diagonal / size) ** 2)
    square += largest(np.linalg.norm(strategy.rows / size, axis=0)) ** 2
    return raised(size * math.sqrt(square), 2 * reach + len(strategy.rows) + 8)


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
    elif isinstance(strategy, IdentityAndRows) and (strategy.rows >= 0).all():
        norms = strategy.diagonal + strategy.rows.sum(axis=0)
        units = len(strategy.rows) + 1 + strategy.entry_units
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


STARTS = 8
"""First steps that are tried, in addition to that of the longest column."""
SEARCHED_ENTRIES = 2**20
"""Entries of R up to which patterns are searched: 0.1 s for 16 participations. Of more of them
fewer entries."""
MEASURED_CELLS = 2**20
"""Cells up to which the rows of a person are measured."""
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}
ROUNDING = 1e-6
"""Relative, of measurements and of both sensitivities: far more than theirs."""


def require_plausible(
    strategy: Strategy, participation: Participation, norm: Norm, value: float
) -> None:
    """Refuse a sensitivity that measurements contradict.

    Raises:
        VerificationError: neighbours are farther apart, or k times count more than k times one.
    """
    once = strategy.sensitivity_under(Neighbours.ADD_REMOVE, norm)
    found = max(once, _farthest(strategy, participation, norm))
    most = participation.reach(strategy.cells) * once
    if not found * (1 - ROUNDING) <= value <= most * (1 + ROUNDING):
        raise VerificationError(
            f"strategy {strategy.name!r} with participation {participation}: the {norm} sensitivity"
            f" {value!r} is not between {found!r}, which measurements of neighbours show, and"
            f" {most!r}; this is an error of pmldesign, please report it"
        )


def require_plausible_rows(
    strategy: Strategy, rows: PersonRows, neighbours: Neighbours, norm: Norm, value: float
) -> None:
    """Refuse a sensitivity for the rows of a person that measurements contradict.

    Raises:
        VerificationError: people are farther apart, or k rows count more than k times one.
    """
    once = of_one_row(strategy, neighbours, norm)
    found, cells, most = once, strategy.cells, rows.reach(strategy.cells)
    if neighbours is Neighbours.ADD_REMOVE and cells <= MEASURED_CELLS:
        labels = rows.classes(cells)
        order = np.argsort(labels, kind="stable")
        numbers = np.bincount(labels)
        begins = np.cumsum(numbers) - numbers
        changes = np.zeros((cells, STARTS))
        for column, start in enumerate(np.linspace(0, numbers.max() - 1, STARTS).astype(int)):
            first = start % max(1, len(numbers) - most + 1)
            chosen = np.arange(first, min(first + most, len(numbers)))
            changes[order[begins[chosen] + start % numbers[chosen]], column] = 1.0
        if rows.one_per == ANY:
            changes = most * np.eye(cells, STARTS)
        moved = strategy.measure(changes)
        found = float(np.linalg.norm(moved, ord=ORDERS[norm], axis=0).max())
    if not found * (1 - ROUNDING) <= value <= most * once * (1 + ROUNDING):
        raise VerificationError(
            f"strategy {strategy.name!r} with participation {rows}: the {norm} sensitivity"
            f" {value!r} is not between {found!r}, which measurements of people show, and"
            f" {most * once!r}; this is an error of pmldesign, please report it"
        )


def _farthest(strategy: Strategy, participation: Participation, norm: Norm) -> float:
    """Largest norm of R x that is found."""
    rows, cells = strategy.shape
    reach, apart = participation.reach(cells), participation.apart
    spread = np.linspace(0, cells - (reach - 1) * apart - 1, STARTS)
    starts = np.unique(spread.astype(int))
    differences = np.zeros((cells, starts.size))
    for column, start in zip(differences.T, starts, strict=True):
        column[start::apart][:reach] = 1.0
    if rows * cells * max(reach / 16, 1) <= SEARCHED_ENTRIES:
        searched = _searched(strategy.matrix, participation)
        differences = np.concatenate([differences, searched], axis=1)
    elif isinstance(strategy, EpochStrategy):
        return 0.0  # it would be materialized, in O(n^3)
    moved = strategy.measure(differences)
    return float(np.linalg.norm(moved, ord=2 if norm == "l2" else 1, axis=0).max())


def _searched(matrix: Array, participation: Participation) -> Array:
    """Differences of neighbours, shape (n, N), each from another first step."""
    cells, apart = matrix.shape[1], participation.apart
    squares = np.einsum("ij,ij->j", matrix, matrix)
    spread = np.linspace(0, cells - 1, STARTS).astype(int)
    chosen = np.unique(np.append(spread, squares.argmax()))
    every, signs = np.arange(cells)[:, None], np.ones(chosen.size)
    differences = np.zeros((cells, chosen.size))
    allowed = np.ones(differences.shape, dtype=bool)
    places = np.arange(chosen.size)
    for _ in range(participation.reach(cells)):
        open_ = allowed[chosen, places]
        differences[chosen[open_], places[open_]] = signs[open_]
        distance = np.abs(every - chosen)
        near = distance < apart
        if participation.fixed:
            near |= (distance % apart > 0) | (distance > (participation.times - 1) * apart)
        allowed &= ~near
        products = matrix.T @ (matrix @ differences)
        gains = np.where(allowed, squares[:, None] + 2.0 * np.abs(products), -1.0)
        chosen = gains.argmax(axis=0)
        signs = np.where(products[chosen, places] < 0, -1.0, 1.0)
    return differences
