"""pmldesign calibrate STRATEGY --epsilon 1 [--delta 1e-6] [--alpha 0.05] [--noise]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import alpha, common, guarantees, inputs, outputs
from pmldesign.cli.reports.privacy import (
    draw_privacy,
    fallback_json,
    guarantee_json,
    privacy_facts,
    privacy_json,
)
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import facts, note, number, print_json
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import Mechanism, mechanism
from pmldesign.privacy.digits import at_least, of_scale, shortest
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import MarginalsStrategy, Strategy, TablesStrategy
from pmldesign.strategies.participation.schema import Participation, as_participation
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.base import MAX_ENTRIES, WRITTEN_CELLS, count_text


@click.command(name="calibrate", epilog=inputs.strategy_help)
@click.argument("strategy", type=WorkloadName())
@common.add_options(guarantees.guarantee_options)
@click.option(
    "--workload",
    type=WorkloadName(),
    metavar="WORKLOAD",
    help="What is answered from the strategy, for the errors; by default what it measures.",
)
@click.option(
    "--p",
    type=float,
    default=2.0,
    show_default=True,
    help="Of the error that --noise auto compares; 2 to inf.",
)
@click.option(
    "--allow-vacuous", is_flag=True, help="Accept a guarantee that needs no noise at all."
)
@common.add_options(
    [inputs.participation_option, alpha.at_alpha_option, inputs.known_option, inputs.schema_option]
)
@outputs.plot_option("delta against epsilon")
@outputs.json_option
def command(
    strategy: str,
    schema: Path | None,
    participation: str | None,
    known: str | None,
    workload: str | None,
    plot: Path | None,
    p: float,
    allow_vacuous: bool,
    noise: Any,
    as_json: bool,
    **guarantee_arguments: Any,
) -> None:
    """Find the noise that STRATEGY needs for a guarantee."""
    measured = _measured(inputs.load_strategy(strategy, schema), as_participation(participation))
    public = inputs.load_known(known, schema, guarantee_arguments["neighbours"])
    guarantee = guarantees.build_guarantee(**guarantee_arguments)
    if guarantee is None:
        raise InvalidInputError("calibrate needs a guarantee; add for example --epsilon 1")
    if (
        workload is None
        and isinstance(measured, MarginalsStrategy | TablesStrategy)
        and measured.cells > WRITTEN_CELLS
        and guarantee.neighbours is Neighbours.REPLACE
    ):
        raise InvalidInputError(
            f"strategy {measured.name!r} is not written out; give --workload, what is answered"
        )
    queries = _itself(measured) if workload is None else inputs.load_queries(workload, schema, note)
    noisy = mechanism(
        measured,
        queries,
        guarantee=guarantee,
        noise=noise,
        p=p,
        known=public,
        allow_vacuous=allow_vacuous,
    )
    guarantee = noisy.guarantee or guarantee
    if as_json:
        print_json(_as_json(noisy, guarantee, measured.name, p))
    else:
        _print(noisy, guarantee, measured.name, p)
    draw_privacy(noisy, plot)


def _measured(strategy: Strategy, participation: Participation | None) -> Strategy:
    """The strategy for the participation that is asked for, by default that of its file."""
    written = participation_of(strategy)
    if participation is None:
        return strategy
    if written is not None and written != participation:
        note(f"the strategy was made for participation {written}; measured for {participation}")
    return with_participation(strategy, participation)


def _itself(measured: Strategy) -> Workload:
    """The measurements as the answers that are wanted."""
    rows, cells = measured.shape
    if rows * cells > MAX_ENTRIES:
        raise InvalidInputError(
            f"strategy {measured.name!r} has {count_text(rows)} measurements of "
            f"{count_text(cells)} cells, too many to be a workload itself; give --workload"
        )
    return DenseWorkload(measured.matrix, name=measured.name)


def _as_json(noisy: Mechanism, guarantee: Guarantee, name: str, p: float) -> dict[str, Any]:
    schema = participation_of(noisy.strategy)
    return {
        "strategy": name,
        "cells": noisy.strategy.cells,
        "noise": noisy.noise.value,
        "scale": noisy.scale,
        "sensitivity": noisy.sensitivity,
        **guarantee_json(guarantee, noisy.strategy.cells),
        "privacy": privacy_json(noisy),
        "achieved": noisy.calibration.achieved if noisy.calibration else None,
        "if_alpha_is_wrong": fallback_json(noisy),
        "workload": noisy.workload.name,
        "p": p,
        "error": noisy.error(p),
        "rmse": noisy.rmse,
        "max_std": noisy.known_max_std,
    } | ({} if schema is None else {"participation": str(schema)})


def _print(noisy: Mechanism, guarantee: Guarantee, name: str, p: float) -> None:
    gaussian = noisy.noise is Noise.GAUSSIAN
    kind = "standard deviation" if gaussian else "b, density exp(-|z|/b)/(2b)"
    rows, cells = noisy.strategy.shape
    norm = f"{'l2' if gaussian else 'l1'}, {noisy.neighbours.value} neighbours"
    scale = at_least(noisy.scale, 9)
    lines = [
        ("strategy", f"{name}: {count_text(rows)} measurements of {count_text(cells)} cells"),
        ("guarantee", guarantee.describe(cells)),
        ("noise", f"{noisy.noise.value}, scale {scale} ({kind}) on every measurement"),
        ("sensitivity", f"{of_scale(noisy.sensitivity)} ({norm})"),
    ]
    schema, calibration = participation_of(noisy.strategy), noisy.calibration
    if schema is not None:
        lines.append(("record", schema.describe()))
    if calibration is not None:
        achieved = at_least(calibration.achieved, 9)
        lines.append(("achieved", f"{calibration.loss} {achieved}"))
    largest = "-" if noisy.known_max_std is None else number(noisy.known_max_std)
    errors = f"err_{shortest(p)} {number(noisy.error(p))}, rmse {number(noisy.rmse)}"
    error = ("error", f"{errors}, max std {largest} on {noisy.workload.name}")
    facts([*lines, *privacy_facts(noisy), error])
