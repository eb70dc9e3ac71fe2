"""pmldesign ask m.npz QUERIES [--schema S]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from pmldesign.cli.documents.document import note, warnings_shown
from pmldesign.cli.options.fields import AnswerOptions, Outputs, argument, as_command, group, option
from pmldesign.cli.options.questions import QuestionOptions, WorkloadName
from pmldesign.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    files: tuple[Path, ...] = argument(click.Path(path_type=Path), nargs=-1, metavar="FILE...")
    queries: str = argument(WorkloadName(), metavar="QUERIES")
    question: QuestionOptions = group(participation=None, known=None, weights=None)
    answers: AnswerOptions = group(
        level={
            "help": "Confidence level of the intervals, in (0, 1). Default: that of the release.",
            "default": None,
        }
    )
    nearest: bool = option("Answer the nearest determined queries instead of undetermined ones.")
    output: Path | None = option("File for the table: .csv or .parquet.", "-o", "--output")
    outputs: Outputs = group(plot=None, table=None)


@as_command("ask", Asked)
def command(asked: Asked) -> None:
    """Answer QUERIES from the measurements of releases, at no further privacy cost.

    FILE is written by `pmldesign release --measurements`; several files about the same people are
    combined. QUERIES is a workload, written with the names of attributes if --schema is given.
    Queries that the measurements do not determine are refused.

    Example: pmldesign ask m.npz "sex + age" --schema schema.json
    """
    from pmldesign.cli.documents.releases import answers_document
    from pmldesign.releases.measured.files import read_measurements
    from pmldesign.releases.people.schema import read_schema
    from pmldesign.releases.result import check_table_path

    if not asked.files:
        raise InvalidInputError("there are no measurements; write pmldesign ask m.npz 'QUERIES'")
    if asked.output is not None:
        check_table_path(asked.output)
    path = asked.question.schema
    schema = None if path is None else read_schema(path)
    with warnings_shown():
        measured = read_measurements(*asked.files, schema=schema)
    answers = measured.ask(
        asked.question.queries(asked.queries, note),
        schema=schema,
        **vars(asked.answers),
        nearest=asked.nearest,
    )
    if asked.output is not None:
        answers.save(asked.output)
    asked.outputs.deliver(answers_document(measured, answers))
