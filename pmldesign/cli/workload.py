"""pmldesign workload NAME [-o FILE]."""

from __future__ import annotations

from pathlib import Path

import click

from pmldesign.cli.options import common, inputs, outputs
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import facts, note, print_json, table
from pmldesign.errors import InvalidInputError
from pmldesign.files import write_workload
from pmldesign.workloads import named_workloads


@click.command(name="workload")
@click.argument("workload", required=False, type=WorkloadName())
@common.file_option("-o", "--output", help="Write the matrix: .npy, .npz, .csv or .mtx.")
@common.add_options([inputs.schema_option])
@outputs.json_option
def command(workload: str | None, schema: Path | None, output: Path | None, as_json: bool) -> None:
    """Show a workload, or write it to a file. Without WORKLOAD, list the names.

    WORKLOAD is a name such as prefix:64, names joined by * for products and by + for unions, a
    .npy, .npz, .csv or .mtx file, or - for standard input.
    """
    if workload is None:
        if output is not None:
            raise InvalidInputError("-o needs a WORKLOAD to write; try prefix:64")
        names = [(entry.usage, entry.description, entry.example) for entry in named_workloads()]
        if as_json:
            print_json(
                [dict(zip(("usage", "description", "example"), n, strict=True)) for n in names]
            )
        else:
            table(["name", "queries", "example"], names, texts=["queries"])
        return
    queries = inputs.load_queries(workload, schema, note)
    if output is not None:
        write_workload(output, queries)
    m, n = queries.shape
    rows, columns = queries.distinct_shape
    shown = {
        "workload": queries.name,
        "queries": m,
        "cells": n,
        "distinct_queries": rows,
        "distinct_cells": columns,
        "output": None if output is None else str(output),
    }
    if as_json:
        print_json(shown)
    else:
        facts([(key.replace("_", " "), str(v)) for key, v in shown.items() if v is not None])
