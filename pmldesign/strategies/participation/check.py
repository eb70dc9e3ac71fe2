"""A second opinion on every sensitivity for several participations: data that are far apart.

With x of entries 1 and -1 in the steps of a pattern and 0 elsewhere, R x is how far the
measurements of two neighbours are apart. No sensitivity is below the farthest that is found, nor
above k times that of one participation. Tried are steps exactly b apart, from several first steps
on, and, for matrices that are not too large, what a greedy search finds: from several first steps,
always the next step and its sign that lengthen R x most. Strategies for fixed epochs of more than
a thousand steps are not measured.

With the rows of a person x has 1 in k cells, one of each of k classes: those of the longest columns
and others, or k in one cell.
"""

from __future__ import annotations

import numpy as np

from pmldesign.errors import VerificationError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.person_distances import of_one_row
from pmldesign.strategies.participation.persons import ANY, PersonRows
from pmldesign.strategies.participation.schema import Participation
from pmldesign_solvers.operators.operator import Array

STARTS = 8
"""First steps that are tried, besides that of the longest column."""
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
        return 0.0  # it would be written out, in O(n^3)
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
