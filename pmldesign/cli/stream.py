"""pmldesign stream FILE [--epsilon 1 --delta 1e-6] [--state STATE]."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import click
import numpy as np

from pmldesign.cli.options.fields import argument, as_command, group, option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.cli.options.questions import QuestionOptions
from pmldesign.errors import InvalidInputError
from pmldesign.files import load_workload
from pmldesign.files.atomic import check_writable, undisturbed
from pmldesign.files.strategies import read_guarantee, read_question, read_strategy
from pmldesign.privacy.calibration import calibrate
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.streams.durable.journal import Journal
from pmldesign.streams.durable.log import Log
from pmldesign.streams.encoder import Real, dyadic
from pmldesign.streams.endless.steps import certified_ratios
from pmldesign.streams.endless.strategy import EndlessStrategy
from pmldesign.streams.endless.stream import endless_stream, require_gaussian
from pmldesign.streams.recurrences import lower_triangular
from pmldesign.streams.stream import Answer, Stream
from pmldesign.workloads import Workload

ENDLESS = EndlessStrategy.name
HALF_DIGIT = 5e-5
"""Ratios are rounded up."""


def _lines(identity: list[float], first: int, answers: Sequence[Answer]) -> str:
    """The answers of the steps behind `first`; without an end with their ratios to the optimum."""
    deviations = np.array([answer.standard_deviation for answer in answers])
    ratios = certified_ratios(identity, first, deviations)
    ends = repeat("") if ratios is None else (f",{ratio:.4f}" for ratio in ratios + HALF_DIGIT)
    return "".join(
        f"{step},{answer.value:.12g},{answer.standard_deviation:.12g}{end}\n"
        for step, (answer, end) in enumerate(zip(answers, ends, strict=False), first + 1)
    )


def _replayed(log: Log) -> str:
    if log.record is None:
        return ""
    return _lines(log.record.identity, 0, [step.answer for step in log.record.steps])


def _shown(text: Callable[[Log], str], help_text: str) -> Any:
    """An option that names a state, shows something of it, and ends the command."""

    def show(path: Path) -> None:
        log = Log(path)
        log.close()
        click.echo(text(log), nl=False)
        click.get_current_context().exit()

    return option(help_text, check=show, is_eager=True, metavar="STATE")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    file: Path = argument(click.Path(path_type=Path))
    promise: PromiseOptions = group(
        epsilon={"help": "Privacy parameter; by default the guarantee is that of FILE."},
        delta={"help": "Slack of the guarantee."},
        **dict.fromkeys(("alpha", "alphas", "failure", "neighbours", "noise")),
    )
    state: Path | None = option(
        "Go on from this file if it exists, and keep it up to date. It holds raw data.",
        metavar="STATE",
    )
    commit: int = option(
        "Answer N lines at a time, once they are on the disk together; fewer at the end.",
        default=1,
        type=click.IntRange(min=1),
        metavar="N",
    )
    question: QuestionOptions = group(known=None, weights=None, schema=None)
    position: Path | None = _shown(
        lambda log: f"{log.position}\n", "Print the last step of a state, and end."
    )
    replay: Path | None = _shown(_replayed, "Print the answers of a state again, and end.")
    workload: str | None = option(
        "The running sums to answer; by default those that the file was made for.",
        metavar="WORKLOAD",
    )


@as_command("stream", Asked)
def command(asked: Asked) -> None:
    """Release the running sums of the numbers on standard input, a line at a time.

    FILE is a strategy file that `pmldesign optimize` wrote for running sums, or any matrix; or it
    is prefix:inf, if nobody knows how many numbers there will be. Each
    line holds one number, or its step and the number (17,42); for each of them a line with the
    step, the noisy running sum and its standard deviation comes out at once. One record changes one
    number by at most 1; with --participation, or a file made for several participations, one person
    changes several, each by at most 1.
    """
    stream = _endless(asked) if str(asked.file) == ENDLESS else _designed(asked)
    if not stream.publishable:
        click.echo("note: floating-point noise, not for publication", err=True)
    if asked.state is None:
        _Answers(stream, None, asked.commit).to_all(sys.stdin)
        return
    check_writable(asked.state)
    journal = Journal(stream, asked.state)
    click.echo(f"note: {asked.state} holds raw data, keep it secret", err=True)
    try:
        _Answers(stream, journal, asked.commit).to_all(sys.stdin)
    finally:
        journal.close()


def _endless(asked: Asked) -> Stream:
    """The stream without an end."""
    guarantee = asked.promise.build()
    if guarantee is None:
        raise InvalidInputError(f"{ENDLESS} needs a guarantee; add --epsilon 1 --delta 1e-6")
    if asked.workload is not None or asked.question.takes_part is not None:
        raise InvalidInputError(
            f"{ENDLESS} answers running sums of which a record changes one step; leave out "
            "--workload and --participation, or design a stream with an end"
        )
    stream = endless_stream(guarantee)
    click.echo(f"note: {guarantee.describe(1)}", err=True)
    return stream


def _designed(asked: Asked) -> Stream:
    """The stream of a strategy file."""
    measured = read_strategy(asked.file)
    schema = asked.question.takes_part or participation_of(measured)
    if isinstance(schema, PersonRows):
        raise InvalidInputError(
            f"a stream is about steps, not rows of a table; participation {schema} is for"
            " `pmldesign release`"
        )
    guarantee = _guarantee(asked.file, asked.promise.build())
    strategy = lower_triangular(with_participation(measured, schema))
    scale = calibrate([[1.0]], guarantee, noise="gaussian").scale
    return Stream(strategy, scale, workload=_question(asked.file, measured, asked.workload))


def _guarantee(file: Path, given: Guarantee | None) -> Guarantee:
    """What is promised: what the file was made for, or what is given where that says nothing."""
    held = read_guarantee(file)
    guarantee = held or given
    if guarantee is None or (given is not None and given != held is not None):
        said = "has no guarantee" if held is None else f"was made for {held!r}, not for {given!r}"
        remedy = "add for example --epsilon 1 --delta 1e-6" if held is None else "leave these out"
        raise InvalidInputError(f"{file.name} {said}; {remedy}")
    require_gaussian(guarantee)
    return guarantee


def _question(file: Path, strategy: Strategy, workload: str | None) -> Workload | None:
    """What the stream answers; None for what the strategy itself knows."""
    if workload is None:
        if with_participation(strategy, None).own_sums is not None:
            return None
        workload = read_question(file)
        if workload is None:
            raise InvalidInputError(
                f"{file.name} does not say what it answers; give --workload, such as"
                f" prefix:{strategy.cells}"
            )
    return load_workload(workload)


class _Answers:
    """Answers lines, some at a time; those before a line that is refused are answered."""

    def __init__(self, stream: Stream, journal: Journal | None, commit: int) -> None:
        self._stream, self._journal, self._commit = stream, journal, commit
        self._waiting: list[Real] = []

    def to_all(self, lines: Iterable[str]) -> None:
        """Answer all lines."""
        for count, line in enumerate(lines, 1):
            try:
                self._take(line.strip())
            except InvalidInputError as error:
                self._answer()
                raise InvalidInputError(f"line {count} of standard input: {error}") from None
            if len(self._waiting) == self._commit:
                self._answer()
        self._answer()

    def _take(self, line: str) -> None:
        following = self._stream.time + len(self._waiting) + 1
        step, value = _parsed(line)
        if step is not None and step < following:
            if self._journal is None:
                raise InvalidInputError(
                    f"step {step} was answered already; answers are kept with --state alone"
                )
            self._answer()
            answer = self._journal.again(step, value)
            click.echo(_lines(self._stream.identity, step - 1, [answer]), nl=False)
            return
        if step is not None and step > following:
            raise InvalidInputError(f"its step is {step}, but step {following} comes next")
        self._stream.encoder.require_left(len(self._waiting) + 1)
        self._waiting.append(value)

    def _answer(self) -> None:
        """Answer the lines that wait; nothing interrupts before what was drawn is shown."""
        if not self._waiting:
            return
        with undisturbed():
            first, waiting = self._stream.time, self._waiting
            self._waiting = []
            values, deviations = (self._journal or self._stream).steps(waiting)
            pairs = zip(values.tolist(), deviations.tolist(), strict=True)
            answers = [Answer(*pair) for pair in pairs]
            click.echo(_lines(self._stream.identity, first, answers), nl=False)


def _parsed(line: str) -> tuple[int | None, Real]:
    """The step, if a line has it, and the number."""
    step, comma, number = line.rpartition(",")
    try:
        parsed = int(step) if comma else None, float(number)
        if parsed[0] is None or parsed[0] >= 1:
            dyadic(parsed[1])
            return parsed
    except InvalidInputError:
        raise
    except ValueError:
        pass
    if not line:
        raise InvalidInputError(
            "it is blank; each line holds a number, 0 where nothing was counted"
        )
    raise InvalidInputError(
        f"it must be one number, or its step and the number (17,42), got {line[:40]!r}"
    )
