"""pmldesign sweep STUDY.toml -o ROWS.csv [--jobs N | --backend dask --address tcp://...]."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import common, outputs
from pmldesign.cli.terminal.show import facts, print_json, progress
from pmldesign.comparison.sweeping import Sweep, sweep
from pmldesign.comparison.workers import NEEDS
from pmldesign.errors import NotConvergedError


@click.command(name="sweep")
@click.argument("study", metavar="STUDY", type=click.Path(path_type=Path))
@common.file_option(
    "-o",
    "--output",
    help="Of the rows: .csv or .parquet. Default: the name of STUDY with .csv, in this folder.",
)
@click.option(
    "--jobs", type=int, help="Settings at a time; 1 by default, for a cluster all that it has."
)
@click.option(
    "--backend",
    type=click.Choice([*NEEDS]),
    default="processes",
    show_default=True,
    help="Where: processes here (the jobs extra), or a cluster (the dask or ray extra).",
)
@click.option(
    "--address", metavar="URL", help="Of the cluster's scheduler; without it one is started here."
)
@click.option("--restart", is_flag=True, help="Forget the rows that the file has.")
@outputs.json_option
def command(study: Path, output: Path | None, as_json: bool, **options: Any) -> None:
    """Compute the rows of a STUDY: workloads x p x guarantees x strategies.

    STUDY is a TOML file (docs/sweep.md). Rows are written as they are computed; the same command
    goes on where it was stopped, by Ctrl-C, a limit of a cluster, or a failure of power.
    """
    path = output or Path(study.with_suffix(".csv").name)
    with progress() as report:
        result = sweep(study, path, announce=report, **options)
    if as_json:
        print_json(asdict(result) | {"path": str(result.path), "complete": result.complete})
    else:
        facts(_lines(result))
    _require_complete(result)


def _lines(result: Sweep) -> list[tuple[str, str]]:
    there = f", {result.present} of them were there" if result.present else ""
    done = result.present + result.computed
    lines = [("rows", f"{done} of {result.rows}{there}"), ("file", str(result.path))]
    if result.refused:
        lines.append(("refused", f"{result.refused} have no numbers; the column status says why"))
    return lines


def _require_complete(result: Sweep) -> None:
    if result.interrupted:
        raise NotConvergedError("interrupted: the same command goes on from there")
    if result.lost:
        raise NotConvergedError(
            f"{result.lost} rows are missing, as their worker died twice, perhaps because memory"
            " ran out: take fewer jobs, and run it again for those"
        )
    if result.stopped:
        raise NotConvergedError(
            f"{result.stopped} rows rest on a norm that was not found to the gap asked for; the"
            " column status says why"
        )
