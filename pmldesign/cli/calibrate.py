"""pmldesign calibrate STRATEGY --epsilon 1 [--delta 1e-6] [--alpha 0.05] [--noise]."""

from __future__ import annotations

from typing import Any

import click

from pmldesign.cli.options import (
    add_options,
    build_guarantee,
    guarantee_options,
    json_option,
    load_strategy,
    strategy_help,
)
from pmldesign.cli.show import facts, number, print_json
from pmldesign.errors import InvalidInputError
from pmldesign.files import load_workload
from pmldesign.guarantees import Guarantee
from pmldesign.mechanism import Mechanism, mechanism
from pmldesign.neighbours import Neighbours
from pmldesign.noise import Noise
from pmldesign.strategies import MarginalsStrategy, Strategy
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.base import MAX_ENTRIES, WRITTEN_CELLS, count_text


@click.command(name="calibrate", epilog=strategy_help)
@click.argument("strategy")
@add_options(guarantee_options)
@click.option(
    "--workload",
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
@json_option
def command(
    strategy: str,
    workload: str | None,
    p: float,
    allow_vacuous: bool,
    noise: Any,
    as_json: bool,
    **guarantee_arguments: Any,
) -> None:
    """Find the noise that STRATEGY needs for a guarantee."""
    measured = load_strategy(strategy)
    guarantee = build_guarantee(**guarantee_arguments)
    if guarantee is None:
        raise InvalidInputError("calibrate needs a guarantee; add for example --epsilon 1")
    if (
        workload is None
        and isinstance(measured, MarginalsStrategy)
        and measured.cells > WRITTEN_CELLS
        and guarantee.neighbours is Neighbours.REPLACE
    ):
        raise InvalidInputError(
            f"strategy {measured.name!r} is not written out; give --workload, what is answered"
        )
    queries = _itself(measured) if workload is None else load_workload(workload)
    made = mechanism(
        measured, queries, guarantee=guarantee, noise=noise, p=p, allow_vacuous=allow_vacuous
    )
    if as_json:
        print_json(_as_json(made, guarantee, measured.name, p))
    else:
        _print(made, guarantee, measured.name, p)


def _itself(measured: Strategy) -> Workload:
    """The measurements as the answers that are wanted."""
    rows, cells = measured.shape
    if rows * cells > MAX_ENTRIES:
        raise InvalidInputError(
            f"strategy {measured.name!r} has {count_text(rows)} measurements of "
            f"{count_text(cells)} cells, too many to be a workload itself; give --workload"
        )
    return DenseWorkload(measured.matrix, name=measured.name)


def _as_json(made: Mechanism, guarantee: Guarantee, name: str, p: float) -> dict[str, Any]:
    return {
        "strategy": name,
        "cells": made.strategy.cells,
        "noise": made.noise.value,
        "scale": made.scale,
        "sensitivity": made.sensitivity,
        "guarantee": guarantee.describe(made.strategy.cells),
        "achieved": made.calibration.achieved if made.calibration else None,
        "workload": made.workload.name,
        "p": p,
        "error": made.error(p),
        "rmse": made.rmse,
        "max_std": made.max_std,
    }


def _print(made: Mechanism, guarantee: Guarantee, name: str, p: float) -> None:
    gaussian = made.noise is Noise.GAUSSIAN
    kind = "standard deviation" if gaussian else "b, density exp(-|z|/b)/(2b)"
    lines = [
        (
            "strategy",
            f"{name}: {count_text(made.strategy.shape[0])} measurements of "
            f"{count_text(made.strategy.cells)} cells",
        ),
        ("guarantee", guarantee.describe(made.strategy.cells)),
        ("noise", f"{made.noise.value}, scale {made.scale:.9g} ({kind}) on every measurement"),
        (
            "sensitivity",
            f"{number(made.sensitivity)} ({'l2' if gaussian else 'l1'}, "
            f"{made.neighbours.value} neighbours)",
        ),
    ]
    if made.calibration is not None:
        loss = "delta" if gaussian else "epsilon"
        lines.append(("achieved", f"{loss} {made.calibration.achieved:.9g}"))
    lines.append(
        (
            "error",
            f"err_{p:g} {number(made.error(p))}, rmse {number(made.rmse)}, "
            f"max std {number(made.max_std)} on {made.workload.name}",
        )
    )
    facts(lines)
