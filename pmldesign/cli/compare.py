"""pmldesign compare WORKLOAD... --p 2,4,inf --strategies design,tree,haar [guarantee options]."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import common, guarantees, inputs, outputs
from pmldesign.cli.pages.comparison import compare_page
from pmldesign.cli.reports.comparison import OPTIONAL, cells_of, heading
from pmldesign.cli.reports.designs import norm_json
from pmldesign.cli.reports.privacy import guarantee_json
from pmldesign.cli.terminal.completion import FILE_ENDINGS, StrategyNames, WorkloadName
from pmldesign.cli.terminal.show import facts, note, print_json, progress, table
from pmldesign.comparison.comparison import Comparison, compare_all
from pmldesign.comparison.rows import Row
from pmldesign.comparison.tasks import DESIGN, LEAST_NORM
from pmldesign.comparison.workers import Workers
from pmldesign.errors import NotConvergedError
from pmldesign.files import read_strategy
from pmldesign.strategies import BASELINES, Strategy
from pmldesign.workloads import expand_family

USUAL = (DESIGN, "tree", "haar", "identity", "workload")


@click.command(name="compare")
@click.argument("workloads", metavar="WORKLOAD...", nargs=-1, required=True, type=WorkloadName())
@click.option(
    "--p",
    "exponents",
    default="2",
    show_default=True,
    metavar="P[,P...]",
    help="Of the error, each from 2 to inf; several separated by commas.",
)
@click.option(
    "--strategies",
    type=StrategyNames(),
    metavar="NAME[,NAME...]",
    help="design (the best found), least-norm, names of baselines, files, or all. Default: "
    + ",".join(USUAL)
    + ". Baselines: "
    + ", ".join(baseline.name for baseline in BASELINES)
    + ", tree:B, weighted-tree:B, banded:B, blt:K.",
)
@common.add_options(guarantees.guarantee_list_options)
@common.add_options(common.gap_options)
@common.search_time_option(20.0, "For the searches of each design, as for optimize.")
@inputs.weights_option
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes (the jobs extra).")
@common.add_options(
    [*outputs.table_options, outputs.plot_option("the errors"), outputs.report_option]
)
@common.add_options([inputs.participation_option, inputs.known_option, inputs.schema_option])
@outputs.json_option
def command(
    workloads: tuple[str, ...],
    known: str | None,
    schema: Path | None,
    exponents: str,
    strategies: str | None,
    search_time: float,
    weights: Path | None,
    jobs: int,
    csv_path: Path | None,
    latex: Path | None,
    plot: Path | None,
    report: Path | None,
    as_json: bool,
    noise: Any,
    **arguments: Any,
) -> None:
    """Compare strategies on every WORKLOAD: exact errors, side by side.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), a family such as
    prefix:16..1024 (powers of two), names joined by * for products and by + for unions, a .npy,
    .npz, .csv or .mtx file, or - for standard input. Without --epsilon errors are those of noise at
    a scale equal to the sensitivity.
    """
    values = common.numbers("--p", exponents, example="2,4,inf")
    options = common.design_arguments(arguments)
    public = inputs.load_known(known, schema, arguments["neighbours"])
    promises = guarantees.build_guarantees(**arguments)
    Workers(jobs)  # refused before files are read
    names: Sequence[str] = workloads
    if schema is None:
        names = [name for text in workloads for name in expand_family(text)]
    queries = [inputs.load_queries(name, schema, note, weights=weights) for name in names]
    with progress() as callback:
        shown = compare_all(
            queries,
            _strategies(strategies),
            p=values,
            guarantees=promises,
            noise=noise,
            search_time=search_time,
            leave_out=strategies in (None, "all"),
            jobs=jobs,
            callback=callback,
            announce=callback,
            known=public,
            **options,
        )
    rows = [row for comparison in shown for row in comparison.rows]
    header, cells = cells_of(rows)
    outputs.write_tables(csv_path, latex, [row.to_record() for row in rows], header, cells)
    documents = [_as_json(comparison) for comparison in shown]
    if as_json:
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        facts(heading(shown))
        click.echo()
        table(header, cells, optional=OPTIONAL)
        for reason in dict.fromkeys(reason for part in shown for reason in part.left_out):
            click.echo(f"\nleft out: {reason}")
    if plot is not None:
        from pmldesign.plots import comparisons_figure, save

        save(comparisons_figure(shown), plot)
    if report is not None:
        compare_page(report, shown, documents)
    _require_finished(shown)


def _strategies(text: str | None) -> list[str | Strategy]:
    """The names, and the strategies in the files, that the option lists."""
    if text is None:
        return [*USUAL]
    if text == "all":
        return [DESIGN, LEAST_NORM, *(baseline.name for baseline in BASELINES)]
    names = [name.strip() for name in text.split(",")]
    return [read_strategy(n) if n.lower().endswith(FILE_ENDINGS) else n for n in names]


def _require_finished(shown: Sequence[Comparison]) -> None:
    """Refuse designs that stopped early, and a comparison that Ctrl-C ended."""
    for comparison in shown:
        for design in comparison.designs.values():
            design.require_optimal()
    if any(comparison.interrupted for comparison in shown):
        raise NotConvergedError("interrupted: only what was finished is shown; run it again")


def _record(row: Row) -> dict[str, Any]:
    """A row, under PML with what is left if alpha is wrong."""
    wrong = {} if row.fallback is None else {"if_alpha_is_wrong": row.fallback.to_json()}
    return {**row.to_record(), **wrong}


def _as_json(shown: Comparison) -> dict[str, Any]:
    m, n = shown.workload.shape
    return {
        "workload": shown.workload.name,
        "queries": m,
        "cells": n,
        **guarantee_json(shown.guarantee, n),
        "strategies": [_record(row) for row in shown.rows],
        "norms": [
            {"p": p, **norm_json(design), "status": design.status.name.lower()}
            for p, design in shown.designs.items()
        ],
        "left_out": list(shown.left_out),
    }
