"""Rows of a table that belong to one person: participation in the cells of a histogram.

    "3,any"              up to 3 rows, in any cells
    "3,one-per=cell"     up to 3 rows, in different cells
    "5,one-per=2x5x6"    cells are 2 x 5 x 6, the last number fastest, and there is one row at most
                         for each of the 5 values in the middle: a panel over 5 years

Neighbours differ in all rows of one person, x' = x + v with v_j rows in cell j. Under replace
everybody has exactly k rows, and these are exchanged for k others, x' = x + v - v'.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError

FORM = re.compile(
    r"\s*([0-9]{1,7})\s*,\s*(any|one-per\s*=\s*(cell|([0-9]{1,18})x([0-9]{1,18})x([0-9]{1,18})))\s*"
)
ANY, CELL = "any", "cell"


@dataclass(frozen=True, slots=True)
class PersonRows:
    """Up to k rows of one person.

    Attributes:
        times: k, at least 1.
        one_per: "any" for rows in any cells, "cell" for different cells, or the sizes (B, Y, C) of
            cells of which a person has one at most for each of the Y values.

    Raises:
        InvalidInputError: k or a size is no whole number of at least 1.
    """

    times: int
    one_per: str | tuple[int, int, int] = ANY

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", whole("the number of rows", self.times))

    def __str__(self) -> str:
        if isinstance(self.one_per, str):
            return f"{self.times},{'' if self.one_per == ANY else 'one-per='}{self.one_per}"
        return f"{self.times},one-per={'x'.join(map(str, self.one_per))}"

    def sizes(self, cells: int) -> tuple[int, int, int]:
        """(B, Y, C): a person has one row at most for each of Y classes of cells.

        Raises:
            InvalidInputError: these are not the sizes of so many cells.
        """
        if isinstance(self.one_per, str):
            return 1, cells, 1
        if math.prod(self.one_per) != cells:
            raise InvalidInputError(
                f"participation {self} is for {math.prod(self.one_per)} cells, here are {cells}"
            )
        return self.one_per

    def reach(self, cells: int) -> int:
        """How many rows a person can have in so many cells."""
        return self.times if self.one_per == ANY else min(self.times, self.sizes(cells)[1])

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
        return f" with one for each of {self.one_per[1]} values"

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
    if form[4] is None:
        return PersonRows(int(form[1]), form[3] or ANY)
    sizes = whole("sizes", int(form[4])), whole("sizes", int(form[5])), whole("sizes", int(form[6]))
    return PersonRows(int(form[1]), sizes)
