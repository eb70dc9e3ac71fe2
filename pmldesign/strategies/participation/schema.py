"""Which steps of a stream one person may take part in, or which rows of a table are theirs.

    "16,every=64"      16 steps, exactly 64 apart (fixed epochs)
    "4,min-sep=64"     up to 4 steps, at least 64 apart
    "3,any" ...        rows in the cells of a table (`persons`)

Neighbours then differ in one person: in each of the steps of a pattern by a contribution of norm at
most 1. Fewer steps than that are patterns too, as contributions may be 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.participation.persons import PersonRows, as_person_rows

_FORM = re.compile(r"\s*([0-9]{1,9})\s*,\s*(every|min-sep)\s*=\s*([0-9]{1,9})\s*")


@dataclass(frozen=True, slots=True)
class Participation:
    """Up to k steps of one person, at distances of b.

    Attributes:
        times: k, at least 1.
        apart: b, at least 1.
        fixed: whether steps are exactly b apart; otherwise at least.

    Raises:
        InvalidInputError: k or b is no whole number of at least 1.
    """

    times: int
    apart: int
    fixed: bool = False

    def __post_init__(self) -> None:
        apart = "every" if self.fixed else "min-sep"
        for name, called in (("times", "the number of steps"), ("apart", apart)):
            object.__setattr__(self, name, whole(called, getattr(self, name)))

    def __str__(self) -> str:
        return f"{self.times},{'every' if self.fixed else 'min-sep'}={self.apart}"

    def reach(self, cells: int) -> int:
        """How many steps of n a person can take part in."""
        return min(self.times, -(-cells // self.apart))

    sentence = ""
    """What follows the sentence of a guarantee, which is about steps of a stream."""

    def describe(self) -> str:
        """The participation in words, for reports."""
        how = "exactly" if self.fixed else "at least"
        return f"what one person contributes to up to {self.times} steps, {how} {self.apart} apart"

    def refusal(self) -> InvalidInputError:
        """The refusal of guarantees that speak of a single record."""
        return participation_refusal()


AnyParticipation = Participation | PersonRows
"""In steps of a stream, or in cells."""


def as_participation(value: Any) -> AnyParticipation | None:
    """A participation, its text, or None for one participation.

    Raises:
        InvalidInputError: it is none of these.
    """
    if value is None or isinstance(value, AnyParticipation):
        return value
    form = _FORM.fullmatch(value) if isinstance(value, str) else None
    if form is not None:
        return Participation(int(form[1]), int(form[3]), fixed=form[2] == "every")
    rows = as_person_rows(value) if isinstance(value, str) else None
    if rows is None:
        raise InvalidInputError(
            f"participation must be such as '4,every=64' (4 steps, exactly 64 apart),"
            f" '4,min-sep=64' (at least 64 apart), '3,any' (3 rows of a person in a table) or"
            f" '3,one-per=cell' (in different cells), got {value!r}"
        )
    return rows


def participation_refusal() -> InvalidInputError:
    """The refusal of guarantees that speak of a single record."""
    return InvalidInputError(
        "participations are for differential privacy under add-remove neighbours, where a person"
        " takes part in steps of a stream; leave --alpha and --neighbours out, or --participation"
    )
