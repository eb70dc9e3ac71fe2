"""pmldesign sweep STUDY.toml -o FILE [--jobs N | --backend dask --address tcp://...]."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.documents.document import Document, Fact, Section, Table, progress
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.comparison.parallel import NEEDS
from pmldesign.comparison.sweeping import Sweep, sweep
from pmldesign.comparison.units import COLUMNS
from pmldesign.errors import NotConvergedError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    study: Path = argument(click.Path(path_type=Path), metavar="STUDY")
    output: Path | None = option(
        "File for the rows: .sqlite. Default: the name of STUDY with .sqlite, in this folder.",
        "-o",
        "--output",
    )
    jobs: int | None = option(
        "Number of settings at a time. Default: 1, or all workers of a cluster."
    )
    backend: Any = option(
        "Backend: processes on this machine (jobs extra), or a cluster (dask or ray extra).",
        default="loky",
        type=click.Choice([*NEEDS]),
    )
    address: str | None = option(
        "Address of the scheduler of a cluster. Default: a new one on this machine.", metavar="URL"
    )
    restart: bool = option("Delete the rows that the file contains.")
    outputs: Outputs = group(plot=None)


@as_command("sweep", Asked)
def command(asked: Asked) -> None:
    """Compare strategies over a STUDY: workloads x p x guarantees x strategies.

    STUDY is a TOML file. Rows are kept as they are computed; run the same command again to
    continue an interrupted study.

    Example: pmldesign sweep study.toml --jobs 4 --table rows.csv
    """
    with progress() as report:
        result = sweep(
            asked.study,
            asked.output or Path(asked.study.with_suffix(".sqlite").name),
            jobs=asked.jobs,
            backend=asked.backend,
            address=asked.address,
            restart=asked.restart,
            announce=report,
        )
    data = asdict(result) | {"path": str(result.path), "complete": result.complete}
    table = None
    if asked.outputs.table is not None:
        records = result.to_records()
        table = Table(COLUMNS, [[*record.values()] for record in records], records=records)
    asked.outputs.deliver(Document(data, [Section(facts=_facts(result))], table))
    _require_complete(result)


def _facts(result: Sweep) -> list[Fact]:
    there = f", {result.present} of them were there" if result.present else ""
    done = result.present + result.computed
    facts = [("rows", f"{done} of {result.rows}{there}"), ("file", str(result.path))]
    if result.refused:
        facts.append(("refused", f"{result.refused} have no numbers; the column status says why"))
    return facts


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
