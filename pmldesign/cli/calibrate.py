"""pmldesign calibrate STRATEGY --epsilon 1 [--delta 1e-6] [--alpha 0.05] [--noise]."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign.arguments import exponent
from pmldesign.cli.documents.document import Document, Section, note, progress, text_of
from pmldesign.cli.documents.parts import Said, announced, promised, record_facts
from pmldesign.cli.options.fields import Outputs, argument, as_command, drawing, group, option
from pmldesign.cli.options.promises import PromiseOptions, at_alpha
from pmldesign.cli.options.questions import STRATEGY_HELP, QuestionOptions, WorkloadName
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, of_scale, shortest
from pmldesign.strategies import Strategy
from pmldesign.strategies.base import measured_queries
from pmldesign.strategies.participation.schema import AnyParticipation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.display import count_text
from pmldesign_solvers.limits import MAX_ENTRIES, WRITTEN_CELLS


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    strategy: str = argument(WorkloadName())
    promise: PromiseOptions = group()
    workload: str | None = option(
        "Workload that is answered, for the errors. Default: the measurements themselves.",
        type=WorkloadName(),
        metavar="WORKLOAD",
    )
    p: float = option(
        "Exponent p of the l_p error that --noise auto compares, from 2 to inf.",
        default=2.0,
        check=exponent,
    )
    question: QuestionOptions = group(weights=None)
    at_alpha: float | None = at_alpha()
    outputs: Outputs = group(plot=drawing("delta against epsilon"), table=None)


@as_command("calibrate", Asked, epilog=STRATEGY_HELP)
def command(asked: Asked) -> None:
    """Find the noise that STRATEGY needs for a guarantee.

    Example: pmldesign calibrate identity:16 --epsilon 1
    """
    question = asked.question
    participation = question.takes_part
    measured = _measured(question.strategy(asked.strategy), participation)
    public = question.public(asked.promise.neighbours)
    guarantee = asked.promise.build()
    if guarantee is None:
        raise InvalidInputError("calibrate needs a guarantee; add for example --epsilon 1")
    question.require_cells(guarantee)
    if (
        asked.workload is None
        and measured_queries(measured) is None
        and (measured.from_tables or public is not None)
        and measured.cells > WRITTEN_CELLS
        and (public is not None or guarantee.neighbours is Neighbours.REPLACE)
    ):
        raise InvalidInputError(
            f"strategy {measured.name!r} is not written out; give --workload, what is answered"
        )
    queries = (
        _itself(measured) if asked.workload is None else question.queries(asked.workload, note)
    )
    with progress() as announce:
        announce(announced(measured))
        noisy = mechanism(
            measured,
            queries,
            guarantee=guarantee,
            noise=asked.promise.noise,
            p=asked.p,
            known=public,
        )
        document = _document(Said(noisy, asked.at_alpha), measured.name, asked.p)
    asked.outputs.deliver(document)


def _measured(strategy: Strategy, participation: AnyParticipation | None) -> Strategy:
    """The strategy for the participation that is asked for, by default that of its file."""
    written = strategy.participation
    if participation is None:
        return strategy
    if written is not None and written != participation:
        note(f"the strategy was made for participation {written}; measured for {participation}")
    return with_participation(strategy, participation)


def _itself(measured: Strategy) -> Workload:
    """The measurements as the answers that are wanted."""
    queries = measured_queries(measured)
    if queries is not None:  # whose structure helps
        return queries
    rows, cells = measured.shape
    if rows * cells > MAX_ENTRIES:
        raise InvalidInputError(
            f"strategy {measured.name!r} has {count_text(rows)} measurements of "
            f"{count_text(cells)} cells, too many to be a workload itself; give --workload"
        )
    return DenseWorkload(measured.matrix, name=measured.name)


def _document(said: Said, name: str, p: float) -> Document:
    """The noise, its guarantee, and the errors of the answers."""
    noisy = said.noisy
    calibration = noisy.calibration
    assert calibration is not None
    schema = noisy.strategy.participation
    kind = {
        Noise.GAUSSIAN: "standard deviation",
        Noise.LAPLACE: "b, density exp(-|z|/b)/(2b)",
        Noise.CUBE: "b, density proportional to exp(-max|z|/b)",
    }[noisy.noise]
    rows, cells = map(count_text, noisy.strategy.shape)
    norm = f"{noisy.noise.norm}, {noisy.neighbours.value} neighbours"
    scale = at_least(noisy.scale, 9)
    achieved = f"{calibration.loss} {at_least(calibration.achieved, 9)}"
    largest = text_of(noisy.known_max_std)
    errors = f"err_{shortest(p)} {text_of(noisy.error(p))}, rmse {text_of(noisy.rmse)}"
    facts = [
        ("strategy", f"{name}: {rows} measurements of {cells} cells"),
        *promised(noisy.words),
        ("noise", f"{noisy.noise.value}, scale {scale} ({kind}) on every measurement"),
        ("sensitivity", f"{of_scale(noisy.sensitivity)} ({norm})"),
        *record_facts(schema, noisy.words),
        ("achieved", achieved),
        *said.facts(),
        ("error", f"{errors}, max std {largest} on {noisy.workload.name}"),
    ]
    data = {
        "strategy": name,
        "cells": noisy.strategy.cells,
        "noise": noisy.noise.value,
        "scale": noisy.scale,
        "sensitivity": noisy.sensitivity,
        **said.data(),
        "achieved": calibration.achieved,
        "workload": noisy.workload.name,
        "p": p,
        "error": noisy.error(p),
        "rmse": noisy.rmse,
        "max_std": noisy.known_max_std,
    } | ({} if schema is None else {"participation": str(schema)})
    return Document(data=data, summary=[Section(facts=facts)], picture=said.picture)
