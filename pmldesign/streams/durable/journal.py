"""A stream whose steps are on the disk before they are answered (`log`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.streams.durable.corrections import Corrections
from pmldesign.streams.durable.log import Log
from pmldesign.streams.durable.record import Record
from pmldesign.streams.owned import Owned
from pmldesign.streams.stream import Answer, Input, Stream, answers
from pmldesign_solvers.operators.operator import Array


class Journal(Owned):
    """Takes steps of a stream durably.

    Args:
        stream: at its beginning; where the files exist it goes on from there.
        path: the state file, see `Log`.

    Attributes:
        corrections: of the steps that are taken (`corrections`).

    Raises:
        FileError: as `Log`, or the state is of another strategy, workload or guarantee.
    """

    def __init__(self, stream: Stream, path: Path) -> None:
        super().__init__()
        self.stream, self._log = stream, Log(path)
        self.corrections = Corrections(stream.strategy.participation)
        record = self._log.record
        if record is not None:
            try:
                self.stream.resume(record.saved)
                self.corrections.resume(record.saved["corrections"])
            except (ValueError, KeyError, TypeError) as error:
                self.close()
                reason = error if isinstance(error, InvalidInputError) else "it is damaged"
                raise FileError(f"{path.name} cannot go on: {reason}") from None

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
            self._turn.begun = True  # what the stream takes in is to be in the record
            found, deviations = self.stream.steps(values)
            if not len(found):
                return found, deviations
            saved = {**self.stream.save(), "corrections": self.corrections.pairs}
            identity = saved.pop("identity")
            record = self._log.record or Record(identity)
            lines = record.commit(values, answers(found, deviations), saved)
            try:
                self._log.commit(record, lines)
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
            record = self._log.record
            if record is None or not 1 <= number <= record.position:
                raise InvalidInputError(f"step {number} is not answered yet")
            kept = record.steps[number - 1]
            if record.digest(number, value) != kept.digest:
                raise InvalidInputError(
                    f"step {number} was answered already, for another number than {value!r}; a "
                    "step is answered for one number"
                )
            return kept.answer

    def close(self) -> None:
        """Close the files."""
        self._log.close()
