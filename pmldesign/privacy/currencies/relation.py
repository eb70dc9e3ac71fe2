"""What changes between neighbours, in the words of every guarantee of differential privacy."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours

_CHANGE = {
    Neighbours.ADD_REMOVE: "one record is added or removed",
    Neighbours.REPLACE: "one record is replaced (the number of records is public)",
}


class OneRecord:
    """A guarantee about one record.

    Attributes:
        neighbours: how neighbouring data sets differ.
        known: what public answers are called that a replaced record leaves as they are; "" for
            none but the number of records.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        neighbours: Neighbours
        known: str

    def _check_relation(self) -> None:
        """The relation by its value; InvalidInputError if it goes without known answers."""
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        if self.known and self.neighbours is not Neighbours.REPLACE:
            raise InvalidInputError(
                f"known answers ({self.known}) stay as they are when a record is replaced, not when"
                " one is added or removed; take neighbours 'replace'"
            )

    @property
    def change(self) -> str:
        """What happens to one record."""
        if not self.known:
            return _CHANGE[self.neighbours]
        return (
            f"one record is replaced by one that {self.known!r} counts alike (the answers to"
            f" {self.known!r} are public, and what they tell about a record is not protected)"
        )

    def __repr__(self) -> str:
        names = [entry.name for entry in fields(self) if entry.name != "known"]  # type: ignore[arg-type]
        names += ["known"] if self.known else []
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({values})"
