"""The unit of privacy: how the data of neighbours differ, for all that one ledger adds up.

Costs add up for one neighbour relation only. Rows, households and persons are different units: a
release that hides a household and one that hides a row do not hide one person twice as well as
they hide the other. A ledger therefore holds one unit, and refuses releases with another one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

import numpy as np

from pmldesign.errors import printable
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.releases.noise import ExactNoise
from pmldesign.releases.people.schema import Schema
from pmldesign.strategies.participation.persons import ANY


@dataclass(frozen=True)
class Unit:
    """How neighbours differ.

    Attributes:
        neighbours: "add-remove" or "replace".
        person: the columns that identify a person, in alphabetical order; none if rows do.
        rows: how many rows of one person count, at most.
        one_per: the value for which at most one row of a person counts: "cell", an attribute, or
            sizes.
        invariants: their name, with a hash of their groups; "" without any.
    """

    neighbours: str = Neighbours.ADD_REMOVE.value
    person: tuple[str, ...] = ()
    rows: int = 1
    one_per: str | None = None
    invariants: str = ""

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"up to {self.rows} rows"
        who = f" (identified by {', '.join(self.person)})" if self.person else ""
        one = f", one per {self.one_per}" if self.one_per else ""
        given = f", given the invariants {self.invariants}" if self.invariants else ""
        return f"{self.neighbours} neighbours with {rows} per person{who}{one}{given}"

    @property
    def text(self) -> str:
        """The unit as a ledger stores it."""
        return json.dumps(asdict(self))


def unit_of(noise: ExactNoise, schema: Schema | None = None) -> Unit:
    """The unit of a release.

    Args:
        noise: of the release.
        schema: of the people; None for a histogram.
    """
    public, invariants = noise.mechanism.workload.public, ""
    if public.groups is not None:
        groups = hashlib.sha256(public.groups.astype(np.int64).tobytes()).hexdigest()
        invariants = f"{printable(public.name)} (groups {groups[:16]})"
    neighbours = noise.mechanism.neighbours.value
    if schema is not None:
        person = tuple(sorted(map(printable, schema.person)))
        one_per = None if schema.one_per is None else printable(schema.one_per)
        return Unit(neighbours, person, schema.rows_per_person, one_per, invariants)
    rows = noise.lattice.rows
    if rows is None or rows.times == 1:
        return Unit(neighbours, invariants=invariants)
    rule = None if rows.one_per == ANY else str(rows).partition("one-per=")[2]
    return Unit(neighbours, (), rows.times, rule, invariants)


def unit_from(text: str) -> Unit:
    """The unit that `Unit.text` gave; ValueError, TypeError or KeyError for any other text."""
    content = json.loads(text)
    unit = Unit(**{**content, "person": tuple(content["person"])})
    Neighbours(unit.neighbours)
    if unit.text != text or type(unit.rows) is not int:
        raise ValueError("no unit of privacy")
    return unit
