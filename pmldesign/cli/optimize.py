"""pmldesign optimize WORKLOAD --p 4 [guarantee options] [-o strategy.npz]."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import (
    add_options,
    build_guarantee,
    gap_options,
    given,
    guarantee_options,
    json_option,
)
from pmldesign.cli.show import facts, number, print_json, progress, table
from pmldesign.comparison import Comparison, compare
from pmldesign.design import METHODS, Design, design
from pmldesign.errors import InvalidInputError
from pmldesign.files import check_strategy_path, load_workload, write_strategy
from pmldesign.guarantees import Guarantee
from pmldesign.mechanism import require_feasible, without_total
from pmldesign.neighbours import Neighbours
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import KroneckerWorkload, Workload
from pmldesign.workloads.centred import CentredWorkload
from pmldesign_solvers.merged import MergedWorkload

BASELINES = ("tree", "haar", "identity", "workload")


@click.command(name="optimize")
@click.argument("workload")
@click.option("--p", type=float, default=2.0, show_default=True, help="Of the error; 2 to inf.")
@add_options(guarantee_options)
@add_options(gap_options)
@click.option("--max-steps", type=int, default=1000, show_default=True, help="Stop after these.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="scaling",
    show_default=True,
    help="The certified solver, or a semidefinite program for CVXPY (small workloads).",
)
@click.option(
    "--solver",
    type=click.Choice(["SCS", "CLARABEL"], case_sensitive=False),
    default="SCS",
    show_default=True,
    help="For the semidefinite programs.",
)
@click.option(
    "--streaming",
    is_flag=True,
    help="Make the strategy lower triangular: the same error, usable on a stream.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the strategy: .npz.",
)
@json_option
def command(
    workload: str,
    p: float,
    rel_gap: float,
    time_limit: float | None,
    max_steps: int,
    method: Any,
    solver: str,
    streaming: bool,
    output: Path | None,
    as_json: bool,
    noise: Any,
    **guarantee_arguments: Any,
) -> None:
    """Design the optimal strategy for WORKLOAD and show it beside the usual ones.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products, a .npy, .npz, .csv or .mtx file, or - for standard input. Without --epsilon errors are
    those of noise at a scale equal to the sensitivity.
    """
    if output is not None:
        check_strategy_path(output)
    if given("solver") and method == "scaling":
        raise InvalidInputError("--solver is for --method primal or dual; leave it out")
    if given("max_steps") and method != "scaling":
        raise InvalidInputError("--max-steps is for --method scaling; take --time-limit instead")
    queries = load_workload(workload)
    guarantee = build_guarantee(**guarantee_arguments)
    relation = Neighbours(guarantee_arguments["neighbours"] or "add-remove")
    if guarantee is not None:
        relation = guarantee.neighbours
    require_feasible(guarantee, queries.shape[1], noise=noise, p=p)
    if streaming:
        _require_streaming(queries, relation, method)
    with progress() as callback:
        made = design(
            queries,
            p=p,
            neighbours=relation,
            rel_gap=rel_gap,
            max_steps=max_steps,
            time_limit=time_limit,
            method=method,
            solver=solver,
            callback=callback,
        )
    if streaming:
        made = replace(made, strategy=made.strategy.streaming())
    shown = compare(
        queries,
        [made.strategy, *_baselines(queries, relation)],
        p=p,
        guarantee=guarantee,
        noise=noise,
        neighbours=relation,
    )
    if output is not None:
        write_strategy(output, made)
    if as_json:
        print_json(_as_json(made, shown, guarantee, output))
    else:
        _print(made, shown, guarantee, output)
    made.require_optimal()


def _require_streaming(queries: Workload, relation: Neighbours, method: str) -> None:
    """Refuse before the solve what has no lower-triangular strategy."""
    if relation is Neighbours.REPLACE:
        raise InvalidInputError(
            "--streaming is for add-remove neighbours: with a public total a strategy has rank"
            " cells - 1 and no lower-triangular form; leave it out"
        )
    factors = queries.factors if isinstance(queries, KroneckerWorkload) else (queries,)
    # the programs may return more measurements than the rank of the workload
    if method == "scaling" and any(MergedWorkload(one).rank < one.shape[1] for one in factors):
        raise InvalidInputError(
            f"--streaming needs a workload of rank {queries.shape[1]}, one for each cell, and"
            f" {queries.name!r} has less: add queries that tell all cells apart, or leave it out"
        )


def _baselines(queries: Workload, relation: Neighbours) -> list[Strategy]:
    """The baselines that can answer the workload in float64; a note on stderr about others."""
    found = []
    for name in BASELINES:
        try:
            strategy = baseline(name, queries)
            if relation is Neighbours.REPLACE:
                without_total(strategy).require_answers(CentredWorkload(queries))
            else:
                strategy.require_answers(queries)
        except InvalidInputError as error:
            click.echo(f"note: the table leaves out {name!r}: {error}", err=True)
        else:
            found.append(strategy)
    return found


def _as_json(
    made: Design, shown: Comparison, guarantee: Guarantee | None, output: Path | None
) -> dict[str, Any]:
    best = shown.rows[0]
    return {
        "workload": made.workload.name,
        "queries": made.workload.shape[0],
        "cells": made.workload.shape[1],
        "p": made.p,
        "neighbours": made.neighbours.value,
        "norm": {
            "lower": made.certificate.lower,
            "upper": made.certificate.upper,
            "gap": made.certificate.gap,
        },
        "status": made.status.name.lower(),
        "message": made.status.value,
        "steps": made.steps,
        "eigendecompositions": made.eigendecompositions,
        "seconds": made.seconds,
        "sensitivity": best.sensitivity,
        "noise": {"kind": best.noise, "scale": best.scale},
        "guarantee": None if guarantee is None else guarantee.describe(made.workload.shape[1]),
        "strategies": [row.to_json() for row in shown.rows],
        "output": None if output is None else str(output),
    }


def _print(
    made: Design, shown: Comparison, guarantee: Guarantee | None, output: Path | None
) -> None:
    m, n = made.workload.shape
    bounds = made.certificate
    lines = [
        ("workload", f"{made.workload.name}: {m} queries on {n} cells"),
        (
            "norm",
            f"gamma_({made.p:g}) between {bounds.lower:.9g} and {bounds.upper:.9g},"
            f" gap {bounds.gap:.1e} ({made.neighbours.value} neighbours)",
        ),
        ("status", made.status.value),
        (
            "effort",
            f"{made.steps} steps, {made.eigendecompositions} eigendecompositions,"
            f" {made.seconds:.2f} s",
        ),
    ]
    if guarantee is not None:
        lines.append(("guarantee", guarantee.describe(n)))
    else:
        lines.append(("noise", "scale equal to the sensitivity (give --epsilon to calibrate it)"))
    if output is not None:
        lines.append(("written", str(output)))
    facts(lines)
    click.echo()
    comparison_table(shown)


def comparison_table(shown: Comparison) -> None:
    """Print the rows of a comparison; the p in front if there are several."""
    several = len({row.p for row in shown.rows}) > 1
    headers = ["strategy", "noise", "sensitivity", "scale", "error", "rmse", "max std", "ratio"]
    body = [
        [
            row.strategy,
            row.noise,
            *map(number, (row.sensitivity, row.scale, row.error, row.rmse, row.max_std)),
            f"{row.ratio:.4f}",
        ]
        for row in shown.rows
    ]
    if several:
        headers.insert(1, "p")
        for cells, row in zip(body, shown.rows, strict=True):
            cells.insert(1, f"{row.p:g}")
    elif shown.rows:
        headers[headers.index("error")] = f"err_{shown.rows[0].p:g}"
    table(headers, body)
