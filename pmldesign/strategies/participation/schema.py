"""Which steps of a stream one person may take part in, or which rows of a table are theirs.

    "16,every=64"      16 steps, exactly 64 apart (fixed epochs)
    "4,min-sep=64"     up to 4 steps, at least 64 apart
    "sampled,every=16,rate=0.01"
                       records are in 16 parts; step t draws from part t mod 16, each record with
                       probability 0.01 (cyclic Poisson sampling)
    "sampled,share=0.001"
                       a step draws a thousandth of all records on average; a design chooses b, the
                       number of parts, and rate = b share
    "3,any" ...        rows in the cells of a table (`persons`)

Neighbours then differ in one person: in each of the steps of a pattern by a contribution of norm at
most 1. Fewer steps than that are patterns too, as contributions may be 0. Without the draws sampled
steps are fixed epochs, every b from a first one; what draws gain is in `privacy.sampled_steps`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pmldesign.arguments import positive, shown, whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.participation.persons import PersonRows, as_person_rows
from pmldesign.workloads import Workload

ALL_STEPS = 10**9 - 1
"""At least as many as a stream has."""
_NUMBER = r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)"
_SAMPLED = re.compile(
    rf"\s*sampled\s*,\s*(?:every\s*=\s*([0-9]{{1,9}})\s*,\s*rate|share)\s*=\s*{_NUMBER}\s*"
)
_FORM = re.compile(r"\s*([0-9]{1,9})\s*,\s*(every|min-sep)\s*=\s*([0-9]{1,9})\s*")


@dataclass(frozen=True, slots=True)
class Participation:
    """Up to k steps of one person, at distances of b.

    Attributes:
        times: k, at least 1.
        apart: b, at least 1.
        fixed: whether steps are exactly b apart; otherwise at least.

    Raises:
        InvalidInputError: k or b is not an integer of at least 1.
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
    """The supplement to the sentence of a guarantee, about steps of a stream."""

    def describe(self) -> str:
        """The participation in words, for reports."""
        how = "exactly" if self.fixed else "at least"
        return f"what one person contributes to up to {self.times} steps, {how} {self.apart} apart"

    def refusal(self) -> InvalidInputError:
        """The refusal of guarantees that are about a single record."""
        return participation_refusal()


@dataclass(frozen=True, slots=True)
class SampledParticipation(Participation):
    """Steps exactly b apart; for each of them a record is drawn at random.

    Attributes:
        rate: probability of a record to be drawn, in (0, 1].
        open: whether a design chooses b; b is 1 then, and the rate the share of all records.

    Raises:
        InvalidInputError: b is not an integer of at least 1, or the rate is out of range.
    """

    times: int = field(default=ALL_STEPS, init=False)
    fixed: bool = field(default=True, init=False)
    rate: float = 1.0
    open: bool = False

    def __post_init__(self) -> None:
        Participation.__post_init__(self)
        name = "share" if self.open else "rate"
        object.__setattr__(self, "rate", positive(name, self.rate))
        if self.rate > 1:
            raise InvalidInputError(
                f"{name} is a probability, above 0 and at most 1, got {self.rate}"
            )

    def __str__(self) -> str:
        return (
            f"sampled,share={self.rate}"
            if self.open
            else (f"sampled,every={self.apart},rate={self.rate}")
        )

    def describe(self) -> str:
        """The participation in words, for reports."""
        steps = f"to steps {self.apart} apart" if self.apart > 1 else "to all steps"
        return (
            f"what one record contributes {steps}, for each of which it is drawn with probability"
            f" {self.rate:g}, and nobody sees whether"
        )


AnyParticipation = Participation | PersonRows
"""In steps of a stream, or in cells."""


def as_participation(value: Any) -> AnyParticipation | None:
    """A participation, its text, or None for one participation.

    Raises:
        InvalidInputError: any other value.
    """
    if value is None or isinstance(value, AnyParticipation):
        return value
    form = _FORM.fullmatch(value) if isinstance(value, str) else None
    if form is not None:
        return Participation(int(form[1]), int(form[3]), fixed=form[2] == "every")
    sampled = _SAMPLED.fullmatch(value) if isinstance(value, str) else None
    if sampled is not None:
        every, rate = sampled[1], float(sampled[2])
        return SampledParticipation(int(every or 1), rate=rate, open=every is None)
    rows = as_person_rows(value) if isinstance(value, str) else None
    if rows is None:
        raise InvalidInputError(
            f"participation must be such as '4,every=64' (4 steps, exactly 64 apart),"
            f" '4,min-sep=64' (at least 64 apart), 'sampled,every=16,rate=0.01' (drawn at random),"
            f" '3,any' (3 rows of a person in a table) or '3,one-per=cell' (in different cells),"
            f" got {shown(value)}"
        )
    return rows


def rows_of(participation: AnyParticipation | None) -> PersonRows | None:
    """The rows of a person in a table; None for a single one.

    Raises:
        InvalidInputError: participation in the steps of a stream.
    """
    if participation is None or isinstance(participation, PersonRows):
        return participation
    raise InvalidInputError(
        "a release is for one participation of each record, or rows of a table; participation in"
        " steps is for `pmldesign stream`"
    )


def people_in(workload: Workload, asked: AnyParticipation | None = None) -> AnyParticipation | None:
    """How often a person takes part in the cells of a workload; None for once.

    Args:
        workload: which may have a schema of people.
        asked: the requested participation; None for that of the schema.

    Raises:
        InvalidInputError: both say it, and differ.
    """
    people = workload.whole.schema
    told: AnyParticipation | None = None if people is None else people.participation
    if asked is not None and told is not None and asked != told:
        raise InvalidInputError(
            f"the schema counts {told.describe()} as one record; leave participation out"
        )
    return told if asked is None else asked


def has_fractions(workload: Workload) -> bool:
    """Whether cells hold fractions of records: the workload has a schema with numbers."""
    people = workload.whole.schema
    return people is not None and people.denominator > 1


def participation_refusal() -> InvalidInputError:
    """The refusal of guarantees that are about a single record."""
    return InvalidInputError(
        "participations are for differential privacy under add-remove neighbours, where a person"
        " takes part in steps of a stream; remove `alpha` and `neighbours`, or `participation`"
    )
