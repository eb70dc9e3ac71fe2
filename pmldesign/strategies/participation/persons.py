"""Rows of a table that belong to one person: participation in the cells of a histogram.

    "3,any"              up to 3 rows, in any cells
    "3,one-per=cell"     up to 3 rows, in different cells
    "5,one-per=2x5x6"    cells are 2 x 5 x 6, the last number fastest, and there is one row at most
                         for each of the 5 values in the middle: a panel over 5 years
    "5,one-per=2x5x3x2x1"          the same for each of the 5 x 2 values of every second number
    "5,one-per=2x5x6,without=0+8-9"    cells 0, 8 and 9 (from 0) cannot occur: no numbers

Neighbours differ in all rows of one person, x' = x + v with v_j rows in cell j. Under replace
everybody has exactly k rows, and these are exchanged for k others, x' = x + v - v'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Indices

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
            of cells, at most one of them per person for each of the values of every second size.
        without: cells of this many that cannot be, in order; they have no number.

    Raises:
        InvalidInputError: k or a size is not an integer of at least 1.
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
        """The class of each cell, shape (n,); a person has at most one row per class.

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
        """The supplement to the sentence of a guarantee, which is about one record."""
        return (
            f" All rows of one person, up to {self.times} of them{self._where}, count as one"
            " record here."
        )

    @property
    def unit(self) -> str:
        """The unit that a ledger counts."""
        return f"{self.times} rows a person{self._where}"

    @property
    def _where(self) -> str:
        if self.one_per == ANY:
            return ""
        if self.one_per == CELL:
            return " in different cells"
        return f" with one for each of {self.values} values"

    def refusal(self) -> InvalidInputError:
        """The refusal of guarantees that are about a single record."""
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
    """The numbers that "7-9" or "3" means; -1 for text that is not a run."""
    form = RUN.fullmatch(text)
    run = None if form is None else range(int(form[1]), int(form[2] or form[1]) + 1)
    return run or range(-1, 0)


def _runs(numbers: Sequence[int]) -> str:
    """Numbers in order, "3+7-9"."""
    ends = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) > 1) + 1)
    return "+".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends)
