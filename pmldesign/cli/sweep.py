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
        "Of the rows: .sqlite. Default: the name of STUDY with .sqlite, in this folder.",
        "-o",
        "--output",
    )
    jobs: int | None = option("Settings at a time; 1 by default, for a cluster all that it has.")
    backend: Any = option(
        "Where: processes here (the jobs extra), or a cluster (the dask or ray extra).",
        default="loky",
        type=click.Choice([*NEEDS]),
    )
    address: str | None = option(
        "Of the cluster's scheduler; without it one is started here.", metavar="URL"
    )
    restart: bool = option("Forget the rows that the file has.")
    outputs: Outputs = group(plot=None)


@as_command("sweep", Asked)
def command(asked: Asked) -> None:
    """Compute the rows of a STUDY: workloads x p x guarantees x strategies.

    STUDY is a TOML file (docs/guides/studies.md). Rows are kept in FILE as they are computed; the
    same command goes on where it was stopped, by Ctrl-C, a limit of a cluster, or a failure of
    power.
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
