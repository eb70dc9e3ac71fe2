"""pmldesign stream FILE [--epsilon 1 --delta 1e-6] [--state STATE] (`answering` is its loop)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.answering import Answers, answer_lines
from pmldesign.cli.options.fields import argument, as_command, group, option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.cli.options.questions import QuestionOptions
from pmldesign.errors import InvalidInputError
from pmldesign.files import load_workload
from pmldesign.files.atomic import check_writable
from pmldesign.files.strategies import read_guarantee, read_question, read_strategy
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.streams.endless_steps import Endless, endless_stream
from pmldesign.streams.journal import Journal
from pmldesign.streams.lines import Lines
from pmldesign.streams.log import Log
from pmldesign.streams.on_line import on_line_of, one_series, series_of, unit_scale
from pmldesign.streams.stream import Stream
from pmldesign.workloads import Workload

ENDLESS = Endless.name


def _replayed(log: Log) -> str:
    if log.record is None:
        return ""
    return answer_lines(log.record.identity, 0, [step.answer for step in log.record.steps])


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
        **dict.fromkeys(("alpha", "alphas", "failure", "noise")),
    )
    state: Path | None = option(
        "Go on from this file if it exists, and keep it up to date. It holds raw data.",
        metavar="STATE",
    )
    commit: int = option(
        "Answer up to N steps at a time, once they are on the disk together.",
        default=1,
        type=click.IntRange(min=1),
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
        lambda log: f"{log.position}\n", "Print the last step of a state, and end."
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
    names = asked.series.split(",") if asked.series else []
    endless = str(asked.file) == ENDLESS
    stream = _endless(asked, len(names)) if endless else _designed(asked, len(names))
    lines = Lines(stream.series, names)
    if not stream.publishable:
        click.echo("note: floating-point noise, not for publication", err=True)
    journal = None
    if asked.state is not None:
        check_writable(asked.state)
        journal = Journal(stream, asked.state)
        click.echo(f"note: {asked.state} holds raw data, keep it secret", err=True)
    answers = Answers(stream, journal, lines, asked.commit, asked.gaps is not None)
    try:
        answers.to_all(sys.stdin.buffer)
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
    click.echo(f"note: {guarantee.describe(1)}", err=True)
    return stream


def _designed(asked: Asked, names: int) -> Stream:
    """The stream of a strategy file."""
    measured = read_strategy(asked.file)
    schema = asked.question.takes_part or participation_of(measured)
    if isinstance(schema, PersonRows):
        raise InvalidInputError(
            f"a stream is about steps, not rows of a table; participation {schema} is for"
            " `pmldesign release`"
        )
    guarantee = _guarantee(asked.file, asked.promise.build())
    scale = unit_scale(guarantee)
    workload, series = _question(asked.file, measured, asked.workload), 1
    if workload is not None:
        workload, series = series_of(workload)
    one = one_series(measured, measured.cells if workload is None else workload.shape[1])
    strategy = on_line_of(with_participation(one, schema), workload, guarantee.neighbours)
    stream = Stream(strategy, scale, None, names if series == 1 < names else series)
    if guarantee.neighbours is Neighbours.REPLACE:
        click.echo(f"note: {guarantee.describe(one.cells)}", err=True)
        click.echo(
            f"note: {one.cells - 1} steps are answered; the sum of all {one.cells} is public",
            err=True,
        )
    return stream


def _guarantee(file: Path, given: Guarantee | None) -> Guarantee:
    """What is promised: what the file was made for, or what is given where that says nothing."""
    held = read_guarantee(file)
    guarantee = held or given
    if guarantee is None or (given is not None and given != held is not None):
        said = "has no guarantee" if held is None else f"was made for {held!r}, not for {given!r}"
        remedy = "add for example --epsilon 1 --delta 1e-6" if held is None else "leave these out"
        raise InvalidInputError(f"{file.name} {said}; {remedy}")
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
