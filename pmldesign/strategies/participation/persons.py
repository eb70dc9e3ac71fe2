"""Rows of a table that belong to one person: participation in the cells of a histogram.

    "3,any"              up to 3 rows, in any cells
    "3,one-per=cell"     up to 3 rows, in different cells
    "5,one-per=2x5x6"    cells are 2 x 5 x 6, the last number fastest, and there is one row at most
                         for each of the 5 values in the middle: a panel over 5 years
    "5,one-per=2x5x3x2x1"          likewise for each of the 5 x 2 values of every second number
    "5,one-per=2x5x6,without=0+8-9"    cells 0, 8 and 9 of these (from 0) cannot be, and are none

Neighbours differ in all rows of one person, x' = x + v with v_j rows in cell j. Under replace
everybody has exactly k rows, and these are exchanged for k others, x' = x + v - v'.

The sensitivity, with X = R^T R the squared distance is v^T X v.

    any cells       a convex function on the simplex of size k: k max norm(r_j), exact in every norm
    one for each    of Y classes of cells. With M_yz the largest max(X_ij, 0) for cells i of class y
    of Y classes    and j of class z, at most the sum of the k largest q_y, q_y the sum of M_yy and
                    of the k - 1 largest other M_yz; different cells are n classes of one cell. In
                    l1 at most the sum over the k classes with the longest columns
    G_1 x ... x G_m the entries of a product X are at most products of entries, rows of it products
                    of rows: of each factor the largest first, second ... entry of a row in size

Under replace v - v' sums to 0, so that X may have any constant added to all entries, and is no
farther than k times two columns, twice what was above, or the k + k cells of v and v', where
abs(X_ij) takes the place of max(X_ij, 0).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.base import Strategy
from pmldesign_solvers.operators.operator import Array, Indices

FORM = re.compile(
    r"\s*([0-9]{1,7})\s*,\s*(any|one-per\s*=\s*(cell|[0-9]{1,18}(?:x[0-9]{1,18}x[0-9]{1,18})+))\s*"
    r"(?:,\s*without\s*=\s*([0-9+-]+)\s*)?"
)
RUN = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
ANY, CELL = "any", "cell"


@dataclass(frozen=True, slots=True)
class PersonRows:
    """Up to k rows of one person.

    Attributes:
        times: k, at least 1.
        one_per: "any" for rows in any cells, "cell" for different cells, or the sizes (B, Y, C ...)
            of cells of which a person has one at most for each of the values of every second one.
        without: cells of this many that cannot be, in order; they have no number.

    Raises:
        InvalidInputError: k or a size is no whole number of at least 1.
    """

    times: int
    one_per: str | tuple[int, ...] = ANY
    without: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", whole("the number of rows", self.times))

    def __str__(self) -> str:
        if isinstance(self.one_per, str):
            return f"{self.times},{'' if self.one_per == ANY else 'one-per='}{self.one_per}"
        text = f"{self.times},one-per={'x'.join(map(str, self.one_per))}"
        return f"{text},without={_runs(self.without)}" if self.without else text

    @property
    def values(self) -> int:
        """How many classes of cells there are, if all cells can be."""
        return math.prod(self.one_per[1::2]) if isinstance(self.one_per, tuple) else 0

    def classes(self, cells: int) -> Indices:
        """The class of each cell, of which a person has one row at most, shape (n,).

        Raises:
            InvalidInputError: as `reach`.
        """
        if not isinstance(self.one_per, tuple):
            return np.arange(cells)
        self._require(cells)
        labels = np.zeros(1, dtype=np.intp)
        for place, size in enumerate(self.one_per):
            own = np.arange(size) if place % 2 else np.zeros(size, dtype=np.intp)
            labels = (labels[:, None] * (size if place % 2 else 1) + own).ravel()
        return np.unique(np.delete(labels, self.without), return_inverse=True)[1].ravel()

    def reach(self, cells: int) -> int:
        """How many rows a person can have in so many cells.

        Raises:
            InvalidInputError: these are not the sizes of so many cells.
        """
        if self.one_per == ANY:
            return self.times
        if self.one_per == CELL:
            return min(self.times, cells)
        self._require(cells)
        classes = len(np.unique(self.classes(cells))) if self.without else self.values
        return min(self.times, classes)

    def _require(self, cells: int) -> None:
        assert isinstance(self.one_per, tuple)
        own = math.prod(self.one_per) - len(self.without)
        if own != cells:
            raise InvalidInputError(f"participation {self} is for {own} cells, here are {cells}")

    def describe(self) -> str:
        """The participation in words, for reports."""
        return f"all rows of one person, up to {self.times} of them{self._where}"

    @property
    def sentence(self) -> str:
        """What follows the sentence of a guarantee, which speaks of a record."""
        return (
            f" All rows of one person, up to {self.times} of them{self._where}, count as one"
            " record here."
        )

    @property
    def unit(self) -> str:
        """What a ledger counts."""
        return f"{self.times} rows a person{self._where}"

    @property
    def _where(self) -> str:
        if self.one_per == ANY:
            return ""
        if self.one_per == CELL:
            return " in different cells"
        return f" with one for each of {self.values} values"

    def refusal(self) -> InvalidInputError:
        """The refusal of guarantees that speak of a single record."""
        return InvalidInputError(
            f"rows_per_person must be 1 under PML, got {self.times}: the rows of one person depend"
            " on each other; take differential privacy"
        )


def as_person_rows(text: str) -> PersonRows | None:
    """The rows that a text stands for; None if it has another form."""
    form = FORM.fullmatch(text)
    if form is None:
        return None
    if not form[3] or form[3] == CELL:
        return None if form[4] else PersonRows(int(form[1]), form[3] or ANY)
    sizes = tuple(whole("sizes", int(size)) for size in form[3].split("x"))
    without = [cell for run in (form[4] or "").split("+") if run for cell in _run(run)]
    rising = all(a < b for a, b in pairwise([-1, *without, math.prod(sizes)]))
    return PersonRows(int(form[1]), sizes, tuple(without)) if rising else None


def _run(text: str) -> range:
    """The numbers that "7-9" or "3" means; -1 for what is no run."""
    form = RUN.fullmatch(text)
    run = None if form is None else range(int(form[1]), int(form[2] or form[1]) + 1)
    return run or range(-1, 0)


def _runs(numbers: Sequence[int]) -> str:
    """Numbers in order, "3+7-9"."""
    ends = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) > 1) + 1)
    return "+".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends)


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
    if replace and strategy.is_small and not strategy.public.name:
        twice = person_sensitivity(strategy, rows, Neighbours.ADD_REMOVE, norm)
        value = min(value, raised(2 * twice, 2))
    if norm == "l2":
        square = _squared(strategy, rows, replace=replace)
        return value if square is None else min(value, square)
    return value if replace or not strategy.is_small else min(value, _l1(strategy, rows, count))


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
    """The root of the bound on v^T X v; None where no Gram matrix is small."""
    factors = strategy.gram_factors()
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
    """The bound for classes that are values of some factors together; None where they are not."""
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
