"""Corrections of steps that were answered: each is a further participation of the same person.

What is added to a later step for somebody who counted in step s changes two steps by that person.
The guarantee covers it where the participation of the stream does: s and all steps that correct it
have to be a pattern of it (`Participation`). Corrections of one step are counted as those of one
person, as nothing tells them apart, and a correction of a step that corrects another one may be
about whom that one is about; whoever took part in other steps as well has to be counted by the user
of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.participation.schema import AnyParticipation, Participation


class Corrections:
    """Which steps were corrected, and in which later ones.

    Args:
        participation: of a person; None for one step.
    """

    def __init__(self, participation: AnyParticipation | None) -> None:
        self._participation = participation
        self._later: dict[int, set[int]] = {}

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The corrected steps with those that correct them."""
        return sorted((step, at) for step, later in self._later.items() for at in later)

    def resume(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Go on from saved pairs."""
        for step, at in pairs:
            self._later.setdefault(step, set()).add(at)

    def count(self, step: int, at: int) -> None:
        """Correct a step in a later one.

        Raises:
            InvalidInputError: it is no earlier one, or the participation does not allow it.
        """
        if not 1 <= step < at:
            raise InvalidInputError(f"step {step} cannot be corrected in step {at}")
        schema = self._participation
        if not isinstance(schema, Participation) or schema.times == 1:
            raise InvalidInputError(
                f"a correction of step {step} is a second participation of whom it is about, and"
                " this stream is for one; design it with --participation 2,min-sep=1"
            )
        people = [step, *(first for first, later in self._later.items() if step in later)]
        for first in people:
            steps = sorted({first, at} | self._later.get(first, set()))
            if not _allowed(schema, steps):
                raise InvalidInputError(
                    f"with this correction people of step {first} may take part in steps"
                    f" {', '.join(map(str, steps))}; this stream is for {schema}"
                )
        for first in people:
            self._later.setdefault(first, set()).add(at)


def _allowed(schema: Participation, steps: list[int]) -> bool:
    """Whether steps in their order are a pattern, or a part of one."""
    gaps = [after - before for before, after in pairwise(steps)]
    if schema.fixed:
        whole = all(gap % schema.apart == 0 for gap in gaps)
        return whole and steps[-1] - steps[0] <= (schema.times - 1) * schema.apart
    return len(steps) <= schema.times and min(gaps) >= schema.apart
