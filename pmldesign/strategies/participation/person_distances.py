"""How far apart the measurements are without one person and all of their rows (`persons`).

With X = R^T R the squared distance is v^T X v.

    any cells       a convex function on the simplex of size k: k max norm(r_j), exact in every norm
    one for each    of Y classes of cells. With M_yz the largest max(X_ij, 0) for cells i of class y
    of Y classes    and j of class z, at most the sum of the k largest q_y, q_y the sum of M_yy and
                    of the k - 1 largest other M_yz; different cells are n classes of one cell. In
                    l1 at most the sum over the k classes with the longest columns
    G_1 x ... x G_m the entries of a product X are at most products of entries, rows of it products
                    of rows: of each factor the largest first, second ... entry of a row in size

Under replace v - v' sums to 0, so that X may have any constant added to all entries, and is at
most k times the distance of two columns, twice the bound above, or that of the k + k cells of v and
v', with abs(X_ij) instead of max(X_ij, 0).
"""

from __future__ import annotations

import math
import operator
from itertools import accumulate

import numpy as np

from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.participation.persons import ANY, CELL, PersonRows
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Indices

SMALL_ENTRIES = 2**23
"""Entries of R up to which its Gram matrix is formed."""


def person_sensitivity(
    strategy: Strategy, rows: PersonRows, neighbours: Neighbours, norm: Norm
) -> float:
    """Largest distance of the measurements of neighbours, or a bound above it, rounded up.

    Raises:
        InvalidInputError: the participation is for another number of cells.
    """
    count = rows.reach(strategy.cells)
    value = raised(count * of_one_row(strategy, neighbours, norm), 2)
    if count == 1 or rows.one_per == ANY or norm == "linf":
        return value
    replace = neighbours is Neighbours.REPLACE
    if replace and is_small(strategy) and not strategy.public.name:
        twice = person_sensitivity(strategy, rows, Neighbours.ADD_REMOVE, norm)
        value = min(value, raised(2 * twice, 2))
    if norm == "l2":
        square = _squared(strategy, rows, replace=replace)
        return value if square is None else min(value, square)
    return value if replace or not is_small(strategy) else min(value, _l1(strategy, rows, count))


def of_one_row(strategy: Strategy, neighbours: Neighbours, norm: Norm) -> float:
    """The same for a single row."""
    if norm == Noise.CUBE.norm:
        return strategy.sensitivity_for(neighbours, Noise.CUBE)
    return strategy.sensitivity_under(neighbours, norm)


def _l1(strategy: Strategy, rows: PersonRows, count: int) -> float:
    labels = rows.classes(strategy.cells)
    norms = np.zeros(labels.max() + 1)
    np.maximum.at(norms, labels, np.abs(strategy.matrix).sum(axis=0))
    total = math.fsum(np.sort(norms)[::-1][:count])
    return raised(total, strategy.shape[0] + strategy.entry_units + 4)


def _squared(strategy: Strategy, rows: PersonRows, *, replace: bool) -> float | None:
    """The root of the bound on v^T X v; None if every Gram matrix is large."""
    factors = gram_factors(strategy)
    if factors is None:
        return None
    exponent = sum(math.frexp(float(np.abs(gram).max()))[1] // 2 for gram in factors)
    grams = [np.ldexp(g, -2 * (math.frexp(float(np.abs(g).max()))[1] // 2)) for g in factors]
    longest = math.prod(float(gram.diagonal().max()) for gram in grams)
    cells = strategy.cells
    count = rows.reach(cells)
    if replace:  # v and v' lie in different cells, those that they share cancel
        rows, count = PersonRows(2 * count, CELL), min(2 * count, cells)
    if len(grams) == 1:
        entries = _one_sided(grams[0], replace=replace)
        square = _largest(_by_class(entries, rows.classes(cells)), count)
        longest *= 2
    elif rows.one_per == CELL:
        square = _of_cells(grams, count)
    else:
        told = _of_classes(grams, rows, count)
        if told is None:
            return None
        square = told
    parts = strategy.factors if len(grams) > 1 else (strategy,)
    units = sum(2.0 * part.shape[0] + 4.0 * part.entry_units + 16.0 for part in parts)
    square += 1.1 * units * UNIT * count**2 * longest
    return float(np.ldexp(raised(math.sqrt(square), count**2 + 8), exponent))


def _one_sided(gram: Array, *, replace: bool) -> Array:
    """max(X_ij, 0), or abs(X_ij - t) with the t that makes most entries small."""
    if not replace:
        return np.maximum(gram, 0.0)
    apart = ~np.eye(len(gram), dtype=bool)
    return np.abs(gram - (np.median(gram[apart]) if len(gram) > 1 else 0.0))


def _by_class(entries: Array, labels: Indices) -> Array:
    """The largest entry between cells of every two classes, shape (Y, Y)."""
    order = np.argsort(labels, kind="stable")
    begins = np.searchsorted(labels[order], np.arange(labels.max() + 1))
    rows = np.maximum.reduceat(entries[order], begins, axis=0)
    return np.asarray(np.maximum.reduceat(rows[:, order], begins, axis=1))


def _largest(entries: Array, count: int) -> float:
    """At least the sum of the entries between any `count` classes; none is negative."""
    diagonal, others = entries.diagonal(), entries - np.diag(entries.diagonal())
    if count < len(entries):
        others = np.partition(others, len(entries) - count, axis=1)[:, len(entries) - count + 1 :]
    sums = diagonal + others.sum(axis=1)
    return math.fsum(np.sort(sums)[::-1][:count])


def _of_cells(grams: list[Array], count: int) -> float:
    """The bound for different cells of a product: `count` times the largest entries of any row."""
    largest = np.ones(1)
    for gram in grams:
        row = np.sort(np.abs(gram), axis=1)[:, ::-1][:, :count].max(axis=0)
        largest = np.sort(np.multiply.outer(largest, row), axis=None)[::-1][:count]
    return count * math.fsum(largest)


def _of_classes(grams: list[Array], rows: PersonRows, count: int) -> float | None:
    """The bound for classes that are values of some factors together; None if they are not."""
    if rows.without or isinstance(rows.one_per, str):
        return None
    entries: Array = np.ones((1, 1))
    scale, before, place = 1.0, 1, 0
    ends = [*accumulate(rows.one_per, operator.mul)]
    for gram in grams:
        while place < len(ends) - 1 and before >= ends[place]:
            place += 1
        before *= len(gram)
        if before > ends[place]:
            return None
        if place % 2:
            entries = np.asarray(np.kron(entries, np.abs(gram)))
        else:
            scale *= float(gram.diagonal().max())  # the largest entry of a Gram matrix
    return scale * _largest(entries, count)


def gram_factors(strategy: Strategy) -> tuple[Array, ...] | None:
    """G, or the small matrices whose Kronecker product it is; None if neither exists."""
    if is_small(strategy):
        return (strategy.gram,)
    if not isinstance(strategy, ProductStrategy) or strategy.weights is not None or strategy.public:
        return None
    parts = [gram_factors(factor) for factor in strategy.factors]
    told = [part for part in parts if part is not None]
    return sum(told, ()) if len(told) == len(parts) else None


def is_small(strategy: Strategy) -> bool:
    """Whether the Gram matrix of R takes two seconds at most."""
    return strategy.cells <= WRITTEN_CELLS and math.prod(strategy.shape) <= SMALL_ENTRIES
