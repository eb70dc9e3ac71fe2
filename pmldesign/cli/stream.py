"""pmldesign stream FILE [--epsilon 1 --delta 1e-6] [--state STATE]: lines in, answers out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice, repeat
from pathlib import Path

import click
import numpy as np

from pmldesign.cli.options.fields import Outputs, WholeRange, argument, as_command, group, option
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
OTHER_PROMISE = "remove the guarantee, or design a file for it"


def answer_lines(
    identity: list[float], first: int, found: Sequence[Answer], *, as_json: bool = False
) -> str:
    """The answers of the steps after `first`; of an unbounded stream with ratios to the optimum."""
    deviations = np.array([answer.standard_deviation for answer in found])
    ratios = certified_ratios(identity, first, deviations)
    if as_json:
        told = repeat(None) if ratios is None else ratios.tolist()
        return "".join(
            json.dumps(
                {"step": step, **asdict(answer)} | ({} if ratio is None else {"ratio": ratio})
            )
            + "\n"
            for step, (answer, ratio) in enumerate(zip(found, told, strict=False), first + 1)
        )
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
        lines: the reader of its lines.
        commit: how many steps are answered together; fewer if no more input is available.
        zeros: whether omitted steps count as zero.
        as_json: whether answers are JSON objects.
    """

    stream: Stream
    journal: Journal | None
    lines: Lines
    commit: int = 1
    zeros: bool = False
    as_json: bool = False

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
                f"its step is {step}, but step {following} comes next; add --gaps zero to count the"
                " steps between as 0"
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
                f"step {step} was answered already; answers are kept only with --state"
            )
        self._answer()
        answer = self.journal.again(step, given.value)
        self._show(step - 1, [answer])

    def _answer(self) -> None:
        """Answer the waiting steps; nothing interrupts before the drawn noise is shown."""
        if not self._waiting:
            return
        with undisturbed():
            first, waiting = self.stream.time, self._waiting
            self._waiting = []
            found = answers(*(self.journal or self.stream).steps(waiting))
            self._show(first, found)

    def _show(self, first: int, found: Sequence[Answer]) -> None:
        show(answer_lines(self.stream.identity, first, found, as_json=self.as_json), nl=False)


def _chunks() -> Iterator[list[bytes]]:
    """Lines with their ends, as many as there are at a time; one that is too long is the last."""
    rest = b""
    while len(rest) <= LONGEST and (data := standard_input(lambda source: source.read1(CHUNK))):
        *lines, rest = (rest + data).split(b"\n")
        yield [line + b"\n" for line in lines]
    if rest:
        yield [rest]


def _show_position(state: Path, *, as_json: bool) -> None:
    """The last step of a state."""
    with closing(Log(state)) as log:
        click.echo(json.dumps({"position": log.position}) if as_json else log.position)


def _replay(state: Path, *, as_json: bool) -> None:
    """The answers of a state, some at a time."""
    with closing(Log(state)) as log:
        kept = log.answers()
        for first in range(0, log.position, REPLAYED):
            part = [*islice(kept, REPLAYED)]
            click.echo(answer_lines(log.identity or [], first, part, as_json=as_json), nl=False)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    file: Path | None = argument(click.Path(path_type=Path), required=False)
    promise: PromiseOptions = group(
        epsilon={"help": "Privacy parameter epsilon, in nats. Default: the guarantee of FILE."},
        delta={"help": "Delta of the guarantee, in (0, 1). Default: 0."},
        guarantee={
            "help": "Guarantee as one text, instead of --epsilon and --delta: dp:1,delta=1e-6,"
            " zcdp:0.5, gdp:1 or renyi:8,0.3."
        },
        **dict.fromkeys(("alpha", "noise")),
    )
    state: Path | None = option(
        "File with the state of the stream, which is continued if it exists. It contains raw data.",
        metavar="STATE",
    )
    commit: int = option(
        "Maximum number of steps that are written to disk and answered together.",
        default=1,
        type=WholeRange(min=1),
        metavar="N",
    )
    gaps: str | None = option(
        "Value of steps that numbered lines leave out. Default: such lines are refused.",
        type=click.Choice(["zero"]),
    )
    series: str | None = option(
        "Names of several series, separated by commas; lines have a number for each, or are events"
        " such as north,2.",
        metavar="NAME,...",
    )
    question: QuestionOptions = group(known=None, weights=None, schema=None)
    position: Path | None = option("Print the last step of a state, and exit.", metavar="STATE")
    replay: Path | None = option("Print the answers of a state again, and exit.", metavar="STATE")
    outputs: Outputs = group(plot=None, table=None)
    workload: str | None = option(
        "Running sums or windows to answer. Default: the workload of FILE.",
        metavar="WORKLOAD",
    )


@as_command("stream", Asked)
def command(asked: Asked) -> None:
    """Publish running sums of the numbers on standard input, one line at a time.

    FILE is a strategy of `pmldesign optimize` for running sums or windows, a matrix, or prefix:inf
    for a stream of unknown length. A line has a number, or a step and a number (17,42), or a
    number for each series; the answer is a line with the step, the noisy sum and its standard
    deviation. A record changes one number by at most 1.

    Example: pmldesign stream strategy.npz < numbers.txt > answers.csv
    """
    if asked.position is not None:
        _show_position(asked.position, as_json=asked.outputs.json)
        return
    if asked.replay is not None:
        _replay(asked.replay, as_json=asked.outputs.json)
        return
    if asked.file is None:
        raise click.UsageError(f"Missing argument 'FILE': a strategy file, or {ENDLESS}")
    listed = [] if asked.series is None else asked.series.split(",")
    names = [name.strip() for name in listed]
    endless = str(asked.file) == ENDLESS
    stream = _endless(asked, len(names)) if endless else _designed(asked, asked.file, len(names))
    lines = Lines(stream.series, names)
    if not stream.publishable:
        complain("note: floating-point noise, not for publication")
    journal = None
    if asked.state is not None:
        check_writable(asked.state)
        journal = Journal(stream, asked.state, names)
        complain(f"note: {asked.state} holds raw data, keep it secret")
    zeros, as_json = asked.gaps is not None, asked.outputs.json
    answers = Answers(stream, journal, lines, asked.commit, zeros, as_json)
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
            f"{ENDLESS} answers running sums of which a record changes one step; remove"
            " --workload and --participation, or design a stream of known length"
        )
    stream = endless_stream(guarantee, series=names or 1)
    complain(f"note: {guarantee.describe(1)}")
    return stream


def _designed(asked: Asked, file: Path, names: int) -> Stream:
    """The stream of a strategy file."""
    if not file.suffix and not file.exists():
        raise FileError(
            f"cannot read '{file}': there is no such file; FILE is written by `pmldesign optimize"
            f" WORKLOAD --epsilon 1 --delta 1e-6 --noise gaussian -o FILE.npz`, or is {ENDLESS}"
        )
    measured = read_strategy(file)
    schema = asked.question.takes_part or measured.participation
    if isinstance(schema, PersonRows):
        raise InvalidInputError(
            f"a stream is about steps, not rows of a table; participation {schema} is for"
            " `pmldesign release`"
        )
    guarantee = _guarantee(file, asked.promise)
    scale = unit_scale(guarantee)
    workload, series = _question(file, measured, asked.workload), 1
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
    """The guarantee: that of the file, or the given one if the file has none."""
    held = read_guarantee(file)
    given = promise.build_beside(held)
    guarantee = held or given
    if guarantee is None or (given is not None and given != held is not None):
        said = "has no guarantee" if held is None else f"was made for {held!r}, not for {given!r}"
        remedy = "add for example --epsilon 1 --delta 1e-6" if held is None else OTHER_PROMISE
        raise InvalidInputError(f"{file.name} {said}; {remedy}")
    return guarantee


def _question(file: Path, strategy: Strategy, workload: str | None) -> Workload | None:
    """The queries of the stream; None for those of the strategy itself."""
    if workload is None:
        if sums_of(without_participation(strategy)) is not None and read_unweighted(file) is None:
            return None
        workload = read_question(file)
        if workload is None:
            raise InvalidInputError(
                f"{file.name} contains no workload; add for example --workload"
                f" prefix:{strategy.cells}"
            )
    return load_workload(workload)
