"""A stream whose steps are on the disk before they are answered (`log`).

Corrections of steps that were answered are further participations of the same person. If a later
step corrects the contribution of a person to step s, that person changes two steps. The guarantee
covers this if the participation of the stream does: s and all steps that correct it must form a
pattern of it (`Participation`). All corrections of one step are counted as those of one person, as
nothing distinguishes them, and a correction of a step that corrects an earlier one may be about the
same person as the earlier one. If a person also took part in other steps, the user of the stream
has to count these participations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from pmldesign.arguments import instance
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.strategies.participation.schema import AnyParticipation, Participation
from pmldesign.streams.lines import require_names
from pmldesign.streams.log import Log
from pmldesign.streams.noise import Owned
from pmldesign.streams.stream import Answer, Input, Stream, answers
from pmldesign_solvers.operators.operator import Array


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
        """Continue from saved pairs."""
        for step, at in pairs:
            self._later.setdefault(step, set()).add(at)

    def count(self, step: int, at: int) -> None:
        """Correct a step in a later one.

        Raises:
            InvalidInputError: it is not an earlier one, or the participation does not allow it.
        """
        if not 1 <= step < at:
            raise InvalidInputError(f"step {step} cannot be corrected in step {at}")
        schema = self._participation
        if not isinstance(schema, Participation) or schema.times == 1:
            raise InvalidInputError(
                f"a correction of step {step} is a second participation of whom it is about, and"
                " this stream is for one; design it with `participation=2,min-sep=1`"
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


class Journal(Owned):
    """Takes steps of a stream durably.

    Args:
        stream: at its beginning; where the files exist it goes on from there.
        path: the state file, see `Log`.
        names: of the series, in their order; empty if they have no names.

    Attributes:
        corrections: of the steps that are taken.
        names: of the series, those of the state if it holds some.

    Raises:
        FileError: as `Log`, or the state is of another strategy, workload or guarantee, or of
            series with other names.
    """

    def __init__(self, stream: Stream, path: Path, names: Sequence[str] = ()) -> None:
        super().__init__()
        instance("stream", stream, Stream, "a Stream")
        instance("path", path, Path, "a Path")
        self.names = require_names(stream.series, names)
        self.stream, self._log = stream, Log(path)
        self.corrections = Corrections(stream.strategy.participation)
        saved = self._log.state
        if saved:
            try:
                self._go_on(saved["series"])
                self.stream.resume({"identity": self._log.identity, **saved})
                self.corrections.resume(saved["corrections"])
            except (ValueError, KeyError, TypeError) as error:
                self.close()
                reason = error if isinstance(error, InvalidInputError) else "it is damaged"
                raise FileError(f"{path.name} cannot go on: {reason}") from None

    def _go_on(self, held: list[str]) -> None:
        """Take the names that a state holds; by others, numbers would get into another series."""
        same = self.names == held if self.names else len(held) == self.stream.series
        if held and not same:
            got = f"`series={','.join(self.names)}`" if self.names else "no names"
            raise InvalidInputError(f"its series are {','.join(held)}, in this order; got {got}")
        self.names = held or self.names

    @property
    def position(self) -> int:
        """How many steps are answered."""
        with self._turn:
            return self._log.position

    def step(self, value: Input) -> Answer:
        """As `Stream.step`; on the disk before it returns."""
        return answers(*self.steps([value]))[0]

    def steps(self, values: Sequence[Input]) -> tuple[Array, Array]:
        """As `Stream.steps`; on the disk, in one commit, before they return.

        Raises:
            FileError: they cannot be written; the journal takes no further step.
        """
        with self._turn:
            self._turn.begun = True  # all inputs of the stream must be in the record
            found, deviations = self.stream.steps(values)
            if not len(found):
                return found, deviations
            taken = [pair for pair in self.corrections.pairs if pair[1] <= self.stream.time]
            saved = {**self.stream.save(), "corrections": taken, "series": self.names}
            identity = saved.pop("identity")
            try:
                self._log.commit(identity, values, answers(found, deviations), saved)
            except OSError as error:
                raise FileError(
                    f"cannot write {str(self._log.path)!r}: {error.strerror or error}; the answer "
                    f"of step {self.stream.time} is withheld: open the state again, which tells "
                    "whether the step was taken"
                ) from None
            return found, deviations

    def again(self, number: int, value: Input) -> Answer:
        """The answer of a step that was taken, if its input was the same.

        Raises:
            InvalidInputError: it was another one.
        """
        with self._turn:
            if not 1 <= number <= self._log.position:
                raise InvalidInputError(f"step {number} is not answered yet")
            answer = self._log.again(number, value)
            if answer is None:
                raise InvalidInputError(
                    f"step {number} was answered already, for another number than {value!r}; a "
                    "step is answered for one number"
                )
            return answer

    def close(self) -> None:
        """Close the files."""
        self._log.close()
