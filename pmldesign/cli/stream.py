"""pmldesign stream FILE --epsilon 1 --delta 1e-6 [--state STATE]."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pmldesign.cli.options import common, inputs
from pmldesign.errors import InvalidInputError
from pmldesign.files import load_workload
from pmldesign.files.atomic import undisturbed
from pmldesign.files.strategies import read_question, read_strategy
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.strategies import Strategy, StreamStrategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.schema import as_participation
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.streams.journal import Journal
from pmldesign.streams.recurrences import lower_triangular
from pmldesign.streams.stream import Answer, Stream
from pmldesign.workloads import Workload


@click.command(name="stream")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, required=True, help="Privacy parameter.")
@click.option("--delta", type=float, required=True, help="Slack of the guarantee.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="STATE",
    help="Go on from this file if it exists, and keep it up to date. It holds raw data.",
)
@common.add_options([inputs.participation_option])
@click.option(
    "--workload",
    metavar="WORKLOAD",
    help="The running sums to answer; by default those that the file was made for.",
)
def command(
    file: Path,
    epsilon: float,
    delta: float,
    state: Path | None,
    participation: str | None,
    workload: str | None,
) -> None:
    """Release the running sums of the numbers on standard input, a line at a time.

    FILE is a strategy file that `pmldesign optimize` wrote for running sums, or any matrix. Each
    line holds one number; for each of them a line with the noisy running sum and its standard
    deviation comes out at once. One record changes one number by at most 1; with --participation,
    or a file made for several participations, one person changes several, each by at most 1.
    """
    measured = read_strategy(file)
    schema = as_participation(participation) or participation_of(measured)
    strategy = lower_triangular(with_participation(measured, schema))
    scale = analytic_gaussian_scale(1.0, epsilon=epsilon, delta=delta)
    stream = Stream(strategy, scale, workload=_question(file, measured, workload))
    if not stream.publishable:
        click.echo("note: floating-point noise, not for publication", err=True)
    journal: Journal | None = None
    if state is not None:
        journal = Journal(stream, state)
        click.echo(f"note: {state} holds raw data, keep it secret", err=True)
    steps: Stream | Journal = stream if journal is None else journal
    try:
        for number, line in enumerate(sys.stdin, 1):
            if line.strip():
                with undisturbed():  # an answer that was drawn is shown
                    answer = _answer(steps, number, line)
                    click.echo(f"{answer.value:.12g} {answer.standard_deviation:.12g}")
    finally:
        if journal is not None:
            journal.close()


def _question(file: Path, strategy: Strategy, workload: str | None) -> Workload | None:
    """What the stream answers; None for what the strategy itself knows."""
    if workload is None:
        if isinstance(with_participation(strategy, None), StreamStrategy | EpochStrategy):
            return None
        workload = read_question(file)
        if workload is None:
            raise InvalidInputError(
                f"{file.name} does not say what it answers; give --workload, such as"
                f" prefix:{strategy.cells}"
            )
    return load_workload(workload)


def _answer(steps: Stream | Journal, number: int, line: str) -> Answer:
    """The answer to a line; what is wrong is told with its number."""
    try:
        value = float(line)
    except ValueError:
        raise InvalidInputError(
            f"line {number} of standard input must be one number, got {line.strip()[:40]!r}"
        ) from None
    try:
        return steps.step(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"line {number} of standard input: {error}") from None
