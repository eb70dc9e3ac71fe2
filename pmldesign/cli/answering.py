"""The loop of `pmldesign stream`: lines in, answers out, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import click
import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.atomic import undisturbed
from pmldesign.streams.endless_steps import certified_ratios
from pmldesign.streams.journal import Corrections, Journal
from pmldesign.streams.lines import Given, Lines
from pmldesign.streams.stream import Answer, Input, Stream, answers

CHUNK = 2**16
"""Bytes that are read at a time, or as many as there are."""
HALF_DIGIT = 5e-5
"""Ratios are rounded up."""


def answer_lines(identity: list[float], first: int, found: Sequence[Answer]) -> str:
    """The answers of the steps behind `first`; without an end with their ratios to the optimum."""
    deviations = np.array([answer.standard_deviation for answer in found])
    ratios = certified_ratios(identity, first, deviations)
    ends = repeat("") if ratios is None else (f",{ratio:.4f}" for ratio in ratios + HALF_DIGIT)
    return "".join(
        ",".join([str(step), *(f"{number:.12g}" for number in answer.numbers)]) + f"{end}\n"
        for step, (answer, end) in enumerate(zip(found, ends, strict=False), first + 1)
    )


@dataclass
class Answers:
    """Answers lines, some at a time; those before a line that is refused are answered.

    Args:
        stream: to be gone through.
        journal: of the stream; None for a run that keeps no state.
        lines: what reads them.
        commit: how many steps are answered together; fewer where no more input is there.
        zeros: whether steps that are left out count as zero.
    """

    stream: Stream
    journal: Journal | None
    lines: Lines
    commit: int = 1
    zeros: bool = False

    def __post_init__(self) -> None:
        self._waiting: list[Input] = []
        if self.journal is None:
            self._corrections = Corrections(self.stream.strategy.participation)
        else:
            self._corrections = self.journal.corrections

    def to_all(self, source: Any) -> None:
        """Answer all lines."""
        count = 0
        for chunk in _chunks(source):
            for line in chunk:
                count += 1
                try:
                    self._take(line)
                except InvalidInputError as error:
                    self._answer()
                    raise InvalidInputError(f"line {count} of standard input: {error}") from None
            self._answer()
        if self.lines.open:
            click.echo(
                f"note: {self.lines.open} lines behind the last step are not counted", err=True
            )

    def _take(self, line: str) -> None:
        if not line.endswith("\n") and self.journal is not None:
            raise InvalidInputError(
                "it has no end; a line that may be cut off is not taken in: end it"
            )
        given = self.lines.read(line.strip())
        if given is None:
            return
        following = self._following
        step = following if given.number is None else given.number
        if step < following:
            self._again(step, given)
            return
        if step > following and not self.zeros:
            raise InvalidInputError(
                f"its step is {step}, but step {following} comes next; --gaps zero takes the steps"
                " between as 0"
            )
        self.stream.encoder.require_left(len(self._waiting) + 1 + step - following)
        for corrected in given.corrected:
            self._corrections.count(corrected, step)
        nothing = 0.0 if self.stream.series == 1 else [0.0] * self.stream.series
        while self._following < step:
            self._add(nothing)
        self._add(given.value)

    @property
    def _following(self) -> int:
        """The step that comes next."""
        return self.stream.time + len(self._waiting) + 1

    def _add(self, value: Input) -> None:
        self._waiting.append(value)
        if len(self._waiting) == self.commit:
            self._answer()

    def _again(self, step: int, given: Given) -> None:
        """A step that was answered already, or waits."""
        if self.journal is None:
            raise InvalidInputError(
                f"step {step} was answered already; answers are kept with --state alone"
            )
        self._answer()
        answer = self.journal.again(step, given.value)
        click.echo(answer_lines(self.stream.identity, step - 1, [answer]), nl=False)

    def _answer(self) -> None:
        """Answer the steps that wait; nothing interrupts before what was drawn is shown."""
        if not self._waiting:
            return
        with undisturbed():
            first, waiting = self.stream.time, self._waiting
            self._waiting = []
            found = answers(*(self.journal or self.stream).steps(waiting))
            click.echo(answer_lines(self.stream.identity, first, found), nl=False)


def _chunks(source: Any) -> Iterator[list[str]]:
    """Lines with their ends, as many as there are at a time."""
    rest = b""
    while data := source.read1(CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        yield [line.decode(errors="replace") + "\n" for line in lines]
    if rest:
        yield [rest.decode(errors="replace")]
