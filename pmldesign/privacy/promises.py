"""What guarantees have in common: which noise they admit, and what changes between neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pmldesign.arguments import instance, member
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import shortest
from pmldesign.privacy.public_sample import SampledAlpha
from pmldesign.workloads.public import Public

_CHANGE = {
    Neighbours.ADD_REMOVE: "one record is added or removed",
    Neighbours.REPLACE: "one record is replaced (the number of records is public)",
}


class Promise(ABC):
    """What every guarantee answers: noises that can meet it, and its numbers."""

    __slots__ = ()
    if TYPE_CHECKING:
        epsilon: float

        @property
        def delta(self) -> float:
            """Slack or failure probability; 0 without one."""
            ...

        @property
        def neighbours(self) -> Neighbours:
            """How neighbouring data sets differ."""
            ...

        @property
        def known(self) -> str:
            """Name of the public answers that neighbours have in common; "" for none."""
            ...

        @property
        def published(self) -> str:
            """Name of the public answers that the guarantee does not cover."""
            ...

    kind: ClassVar[str]
    """What files call it."""
    failure: ClassVar[str | None] = None
    """What delta means under PML: "slack" on every event, or "envelope"."""
    words: ClassVar[str]
    """What is promised, with its numbers by their names, and {about}, whom it is about."""

    @abstractmethod
    def about(self, cells: int) -> str:
        """Whom it protects, and under which assumption, in words."""

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        numbers = {name: shortest(value) for name, value in values.items() if type(value) is float}
        return self.words.format(**numbers, about=self.about(cells))

    @property
    def public_answers(self) -> str:
        """Name of the public answers other than the number of records; "" for none."""
        return self.known or self.published

    @property
    def pml(self) -> bool:
        """Whether it is about pointwise maximal leakage."""
        return self.kind == "pml"

    def beside(self, public: Public) -> Self:
        """The guarantee given invariants, for neighbours with equal invariants.

        Raises:
            InvalidInputError: PML with invariants other than the number of records.
        """
        if self.pml and public.name:
            raise InvalidInputError(
                "known answers beside the number of records are for differential privacy; leave"
                " alpha out, or known"
            )
        changes: dict[str, Any] = {"neighbours": Neighbours.REPLACE, "known": "", "published": ""}
        changes["published" if public.several else "known"] = public.name
        return self if self.pml else replace(self, **changes)  # type: ignore[type-var]

    def admits(self, noise: Noise) -> bool:
        """Whether this noise meets it at some scale: Gaussian noise needs a delta."""
        if noise is Noise.CUBE:
            return self.kind == "dp"
        return noise is Noise.LAPLACE or self.delta > 0

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The kinds of noise that it admits."""
        return tuple(noise for noise in Noise if self.admits(noise))

    def to_json(self) -> dict[str, Any]:
        """The numbers that it is made of, for JSON and strategy files (`from_json`)."""
        alpha = getattr(self, "alpha", None)
        numbers = {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta or None,
            "alpha": list(alpha) if isinstance(alpha, tuple) else alpha,
            "neighbours": self.neighbours.value,
            "failure": self.failure,
        }
        beside = {"known": self.known, "published": self.published}
        numbers |= {key: name for key, name in beside.items() if name}
        if isinstance(alpha, SampledAlpha):
            numbers["sample"] = alpha.to_json()
        return numbers


class OneRecord(Promise):
    """A guarantee about neighbours that differ in one record.

    Attributes:
        neighbours: how neighbouring data sets differ.
        known: name of the public answers that a replaced record does not change; "" if only
            the number of records is public.
        published: name of the public answers that the guarantee does not cover; "" for none.
            They are several tables, and the guarantee covers everything else that is published.
    """

    __slots__ = ()

    def _check_relation(self) -> None:
        """The relation by its value; InvalidInputError if it goes without known answers."""
        for name in ("known", "published"):
            instance(name, getattr(self, name), str, "a text")
        relation = member("neighbours", self.neighbours, Neighbours)
        object.__setattr__(self, "neighbours", relation)
        if self.known and self.published:
            raise InvalidInputError(
                f"neighbours have the answers to {self.known!r} in common, or any record is"
                f" replaced beside those to {self.published!r}; leave out known or published"
            )
        if self.public_answers and self.neighbours is not Neighbours.REPLACE:
            raise InvalidInputError(
                f"known answers ({self.public_answers}) stay as they are when a record is replaced,"
                " not when one is added or removed; use `neighbours='replace'`"
            )

    def about(self, cells: int) -> str:  # noqa: ARG002 - the same question to every guarantee
        """How neighbours differ, in words."""
        if self.published:
            return (
                f"one record is replaced (the answers to {self.published!r} are public: this is"
                " about all that is published beside them, and what they tell about a record is not"
                " protected)"
            )
        if not self.known:
            return _CHANGE[self.neighbours]
        return (
            f"one record is replaced by one that {self.known!r} counts alike (the answers to"
            f" {self.known!r} are public, and what they tell about a record is not protected)"
        )

    def __repr__(self) -> str:
        names = [entry.name for entry in fields(self) if getattr(self, entry.name) != ""]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({values})"
