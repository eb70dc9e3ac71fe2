"""pmldesign workload NAME [-o FILE]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pmldesign.cli.documents.document import Document, Section, Table, note
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.cli.options.questions import WORKLOAD_HELP, QuestionOptions, WorkloadName
from pmldesign.errors import InvalidInputError
from pmldesign.files import write_workload
from pmldesign.workloads import Workload, named_workloads
from pmldesign.workloads.base import distinct_shape


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str | None = argument(WorkloadName(), required=False)
    output: Path | None = option("File for the matrix: .npy, .npz, .csv or .mtx.", "-o", "--output")
    question: QuestionOptions = group(participation=None, known=None, weights=None)
    outputs: Outputs = group(plot=None, table=None)


@as_command("workload", Asked, epilog=WORKLOAD_HELP)
def command(asked: Asked) -> None:
    """Show WORKLOAD or write it to a file; without WORKLOAD, list the names.

    Example: pmldesign workload "prefix:8*identity:2" -o workload.npy
    """
    if asked.workload is not None:
        queries = asked.question.queries(asked.workload, note)
        if asked.output is not None:
            write_workload(asked.output, queries)
        asked.outputs.deliver(_one(queries, asked.output))
    elif asked.output is not None:
        raise InvalidInputError("-o needs a WORKLOAD; try for example prefix:64")
    else:
        asked.outputs.deliver(_names())


def _names() -> Document:
    """The names that there are."""
    keys = ("usage", "description", "example")
    names = [(entry.usage, entry.description, entry.example) for entry in named_workloads()]
    table = Table(["name", "queries", "example"], names, texts=["queries"])
    data = [dict(zip(keys, name, strict=True)) for name in names]
    return Document(data, [Section(tables=[table])])


def _one(queries: Workload, output: Path | None) -> Document:
    """The sizes of a workload, and those without rows and columns that are there twice."""
    m, n = queries.shape
    rows, columns = distinct_shape(queries)
    data = {
        "workload": queries.name,
        "queries": m,
        "cells": n,
        "distinct_queries": rows,
        "distinct_cells": columns,
        "output": None if output is None else str(output),
    }
    facts = [(key.replace("_", " "), str(v)) for key, v in data.items() if v is not None]
    return Document(data, [Section(facts=facts)])
