"""pmldesign stream FILE [--epsilon 1 --delta 1e-6] [--state STATE]: lines in, answers out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import click
import numpy as np

from pmldesign.cli.options.fields import WholeRange, argument, as_command, group, option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.cli.options.questions import QuestionOptions
from pmldesign.cli.process import complain, show
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import load_workload
from pmldesign.files.atomic import check_writable, undisturbed
from pmldesign.files.strategies import (
    read_guarantee,
    read_question,
    read_strategy,
    read_unweighted,
)
from pmldesign.files.workloads import standard_input
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.online import sums_of
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.strategies.participation.strategy import with_participation, without_participation
from pmldesign.streams.endless_steps import Endless, certified_ratios, endless_stream
from pmldesign.streams.journal import Corrections, Journal
from pmldesign.streams.lines import Given, Lines
from pmldesign.streams.log import Log
from pmldesign.streams.on_line import on_line_of, one_series, series_of, unit_scale
from pmldesign.streams.stream import Answer, Input, Stream, answers
from pmldesign.workloads import Workload

CHUNK, LONGEST = 2**16, 2**24
"""Bytes that are read at a time, or as many as there are; and those of a line, at most."""
REPLAYED = 4096
"""Answers that are printed at a time."""
HALF_DIGIT = 5e-5
"""Ratios are rounded up."""
ENDLESS = Endless.name
OTHER_PROMISE = "leave the guarantee out, or design a file for this one"


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

    def to_all(self) -> None:
        """Answer all lines of standard input."""
        count = 0
        for chunk in _chunks():
            for line in chunk:
                count += 1
                try:
                    self._take(line)
                except InvalidInputError as error:
                    self._answer()
                    raise InvalidInputError(f"line {count} of standard input: {error}") from None
            self._answer()
        if self.lines.open:
            complain(f"note: lines behind the last step are not counted: {self.lines.open}")

    def _take(self, line: bytes) -> None:
        if len(line) > LONGEST:
            raise InvalidInputError(f"it has more than {LONGEST} bytes; give each step a line")
        if not line.endswith(b"\n") and self.journal is not None:
            raise InvalidInputError(
                "it has no end; a line that may be cut off is not taken in: end it"
            )
        given = self.lines.read(line.decode(errors="replace").strip())
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
        show(answer_lines(self.stream.identity, step - 1, [answer]), nl=False)

    def _answer(self) -> None:
        """Answer the steps that wait; nothing interrupts before what was drawn is shown."""
        if not self._waiting:
            return
        with undisturbed():
            first, waiting = self.stream.time, self._waiting
            self._waiting = []
            found = answers(*(self.journal or self.stream).steps(waiting))
            show(answer_lines(self.stream.identity, first, found), nl=False)


def _chunks() -> Iterator[list[bytes]]:
    """Lines with their ends, as many as there are at a time; one that is too long is the last."""
    rest = b""
    while len(rest) <= LONGEST and (data := standard_input(lambda source: source.read1(CHUNK))):
        *lines, rest = (rest + data).split(b"\n")
        yield [line + b"\n" for line in lines]
    if rest:
        yield [rest]


def _replayed(log: Log) -> Iterator[str]:
    """The answers of a state, some at a time."""
    kept = log.answers()
    for first in range(0, log.position, REPLAYED):
        yield answer_lines(log.identity or [], first, [*islice(kept, REPLAYED)])


def _shown(text: Callable[[Log], Iterable[str]], help_text: str) -> Any:
    """An option that names a state, shows something of it, and ends the command."""

    def show(path: Path) -> None:
        with closing(Log(path)) as log:
            for part in text(log):
                click.echo(part, nl=False)
        click.get_current_context().exit()

    return option(help_text, check=show, is_eager=True, metavar="STATE")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    file: Path = argument(click.Path(path_type=Path))
    promise: PromiseOptions = group(
        epsilon={"help": "Privacy parameter; by default the guarantee is that of FILE."},
        delta={"help": "Delta of the guarantee, in (0, 1)."},
        guarantee={
            "help": "Guarantee in one text, instead of --epsilon and --delta: dp:1,delta=1e-6,"
            " zcdp:0.5, gdp:1 or renyi:8,0.3."
        },
        **dict.fromkeys(("alpha", "noise")),
    )
    state: Path | None = option(
        "Go on from this file if it exists, and keep it up to date. It holds raw data.",
        metavar="STATE",
    )
    commit: int = option(
        "Answer up to N steps at a time, once they are on the disk together.",
        default=1,
        type=WholeRange(min=1),
        metavar="N",
    )
    gaps: str | None = option(
        "Take steps that numbered lines leave out as 0; by default they are refused.",
        type=click.Choice(["zero"]),
    )
    series: str | None = option(
        "Names of several series: lines hold a number for each, or are events (north,2).",
        metavar="NAME,NAME,...",
    )
    question: QuestionOptions = group(known=None, weights=None, schema=None)
    position: Path | None = _shown(
        lambda log: [f"{log.position}\n"], "Print the last step of a state, and end."
    )
    replay: Path | None = _shown(_replayed, "Print the answers of a state again, and end.")
    workload: str | None = option(
        "The running sums or windows to answer; by default what the file was made for.",
        metavar="WORKLOAD",
    )


@as_command("stream", Asked)
def command(asked: Asked) -> None:
    """Release the running sums of the numbers on standard input, a line at a time.

    FILE is a strategy file that `pmldesign optimize` wrote for running sums or windows, or any
    matrix; or it is prefix:inf, if nobody knows how many numbers there will be. Each line holds one
    number, or its step and the number (17,42); for each of them a line with the step, the noisy sum
    and its standard deviation comes out at once. Of several series (prefix:24*histogram:12, or
    --series) it holds a number for each. One record changes one number by at most 1; with
    --participation, or a file made for several participations, one person changes numbers of
    several steps, each by at most 1.
    """
    listed = [] if asked.series is None else asked.series.split(",")
    names = [name.strip() for name in listed]
    endless = str(asked.file) == ENDLESS
    stream = _endless(asked, len(names)) if endless else _designed(asked, len(names))
    lines = Lines(stream.series, names)
    if not stream.publishable:
        complain("note: floating-point noise, not for publication")
    journal = None
    if asked.state is not None:
        check_writable(asked.state)
        journal = Journal(stream, asked.state, names)
        complain(f"note: {asked.state} holds raw data, keep it secret")
    answers = Answers(stream, journal, lines, asked.commit, asked.gaps is not None)
    try:
        answers.to_all()
    finally:
        if journal is not None:
            journal.close()


def _endless(asked: Asked, names: int) -> Stream:
    """The stream without an end."""
    guarantee = asked.promise.build()
    if guarantee is None:
        raise InvalidInputError(f"{ENDLESS} needs a guarantee; add --epsilon 1 --delta 1e-6")
    if asked.workload is not None or asked.question.takes_part is not None:
        raise InvalidInputError(
            f"{ENDLESS} answers running sums of which a record changes one step; leave out "
            "--workload and --participation, or design a stream with an end"
        )
    stream = endless_stream(guarantee, series=names or 1)
    complain(f"note: {guarantee.describe(1)}")
    return stream


def _designed(asked: Asked, names: int) -> Stream:
    """The stream of a strategy file."""
    if not asked.file.suffix and not asked.file.exists():
        raise FileError(
            f"cannot read '{asked.file}': there is no such file; FILE is what `pmldesign optimize"
            f" WORKLOAD --epsilon 1 --delta 1e-6 --noise gaussian -o FILE.npz` writes, or {ENDLESS}"
        )
    measured = read_strategy(asked.file)
    schema = asked.question.takes_part or measured.participation
    if isinstance(schema, PersonRows):
        raise InvalidInputError(
            f"a stream is about steps, not rows of a table; participation {schema} is for"
            " `pmldesign release`"
        )
    guarantee = _guarantee(asked.file, asked.promise)
    scale = unit_scale(guarantee)
    workload, series = _question(asked.file, measured, asked.workload), 1
    if workload is not None:
        workload, series = series_of(workload)
    one = one_series(measured, measured.cells if workload is None else workload.shape[1])
    strategy = on_line_of(with_participation(one, schema), workload, guarantee.neighbours)
    stream = Stream(strategy, scale, None, names if series == 1 < names else series)
    if guarantee.neighbours is Neighbours.REPLACE:
        complain(f"note: {guarantee.describe(one.cells)}")
        complain(f"note: {one.cells - 1} steps are answered; the sum of all {one.cells} is public")
    return stream


def _guarantee(file: Path, promise: PromiseOptions) -> Guarantee:
    """What is promised: what the file was made for, or what is given where that says nothing."""
    held = read_guarantee(file)
    given = promise.build_beside(held)
    guarantee = held or given
    if guarantee is None or (given is not None and given != held is not None):
        said = "has no guarantee" if held is None else f"was made for {held!r}, not for {given!r}"
        remedy = "add for example --epsilon 1 --delta 1e-6" if held is None else OTHER_PROMISE
        raise InvalidInputError(f"{file.name} {said}; {remedy}")
    return guarantee


def _question(file: Path, strategy: Strategy, workload: str | None) -> Workload | None:
    """What the stream answers; None for what the strategy itself knows."""
    if workload is None:
        if sums_of(without_participation(strategy)) is not None and read_unweighted(file) is None:
            return None
        workload = read_question(file)
        if workload is None:
            raise InvalidInputError(
                f"{file.name} does not say what it answers; give --workload, such as"
                f" prefix:{strategy.cells}"
            )
    return load_workload(workload)
