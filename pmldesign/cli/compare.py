"""pmldesign compare WORKLOAD --p 2,4,inf --strategies optimal,tree,haar [guarantee options]."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.optimize_report import comparison_table
from pmldesign.cli.options import (
    add_options,
    build_guarantee,
    gap_options,
    guarantee_options,
    json_option,
    numbers,
)
from pmldesign.cli.show import facts, print_json, progress
from pmldesign.comparison import Comparison, compare
from pmldesign.errors import FileError
from pmldesign.files import atomic_write, check_writable, load_workload, read_strategy
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload

FILE_ENDINGS = (".npy", ".npz", ".csv", ".mtx")


@click.command(name="compare")
@click.argument("workload")
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
    default="optimal,tree,haar,identity,workload",
    show_default=True,
    metavar="NAME[,NAME...]",
    help="optimal, tree, tree:B, haar, identity, workload, square-root, or files.",
)
@add_options(guarantee_options)
@add_options(gap_options)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows: .csv."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the errors: .png, .pdf or .svg (needs the plot extra).",
)
@json_option
def command(
    workload: str,
    exponents: str,
    strategies: str,
    rel_gap: float,
    time_limit: float | None,
    output: Path | None,
    plot: Path | None,
    as_json: bool,
    noise: Any,
    **guarantee_arguments: Any,
) -> None:
    """Compare strategies on WORKLOAD: exact errors, side by side.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products, a .npy, .npz, .csv or .mtx file, or - for standard input. Without --epsilon errors are
    those of noise at a scale equal to the sensitivity.
    """
    if output is not None and output.suffix.lower() != ".csv":
        raise FileError(f"cannot write {str(output)!r}: the rows of a comparison end in .csv")
    if plot is not None:
        from pmldesign.plots import check_plot_path

        check_plot_path(plot)
    if output is not None:
        check_writable(output)
    values = numbers("--p", exponents, example="2,4,inf")
    queries = load_workload(workload)
    guarantee = build_guarantee(**guarantee_arguments)
    with progress() as callback:
        shown = compare(
            queries,
            [_entry(name.strip(), queries) for name in strategies.split(",")],
            p=values,
            guarantee=guarantee,
            noise=noise,
            neighbours=guarantee_arguments["neighbours"] or "add-remove",
            rel_gap=rel_gap,
            time_limit=time_limit,
            callback=callback,
        )
    if output is not None:
        _write_csv(output, shown)
    if plot is not None:
        from pmldesign.plots import plot_comparison

        plot_comparison(shown, plot)
    if as_json:
        print_json(_as_json(shown))
    else:
        m, n = queries.shape
        lines = [("workload", f"{queries.name}: {m} queries on {n} cells")]
        if guarantee is not None:
            lines.append(("guarantee", guarantee.describe(n)))
        facts(lines)
        click.echo()
        comparison_table(shown.rows)
    for made in shown.designs.values():
        made.require_optimal()


def _entry(name: str, workload: Workload) -> str | Strategy:
    """A strategy's file, or its name."""
    if not name.lower().endswith(FILE_ENDINGS):
        return name
    strategy = read_strategy(name)
    strategy.require_answers(workload)
    return strategy


def _write_csv(path: Path, shown: Comparison) -> None:
    rows = [row.to_json() for row in shown.rows]
    with atomic_write(path, "w") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _as_json(shown: Comparison) -> dict[str, Any]:
    m, n = shown.workload.shape
    return {
        "workload": shown.workload.name,
        "queries": m,
        "cells": n,
        "guarantee": None if shown.guarantee is None else shown.guarantee.describe(n),
        "strategies": [row.to_json() for row in shown.rows],
        "norms": [
            {
                "p": p,
                "lower": made.certificate.lower,
                "upper": made.certificate.upper,
                "gap": made.certificate.gap,
                "status": made.status.name.lower(),
            }
            for p, made in shown.designs.items()
        ],
    }
