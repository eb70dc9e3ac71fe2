"""pmldesign schema draft DATA | check DATA --schema S | sql WORKLOAD --schema S."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmldesign.cli.documents.document import Document, Section, Table, note, print_json
from pmldesign.cli.options.fields import Outputs, argument, as_command, given, group, option
from pmldesign.cli.options.promises import LedgerOptions
from pmldesign.cli.options.sections import CommandGroup
from pmldesign.errors import InvalidInputError

if TYPE_CHECKING:
    from pmldesign.releases.people.check import SchemaCheck

OF_PRIVATE = (
    "epsilon",
    "delta",
    "columns",
    "ledger",
    "population",
    "confirm_same_population",
    "budget",
)
DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "spark")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The options of a draft."""

    data: Path = argument(click.Path(path_type=Path))
    output: Path | None = option(
        "File for the schema: .json. Default: standard output.", "-o", "--output"
    )
    private: bool = option(
        "Draft keys and cuts from noisy counts, at the privacy cost of --epsilon and --delta."
    )
    epsilon: float | None = option(
        "Privacy parameter epsilon of a private draft, for all columns together."
    )
    delta: float | None = option("Delta of a private draft, in (0, 1), for all columns together.")
    columns: str | None = option(
        "Columns of a private draft, separated by commas. Default: all.", metavar="NAME,..."
    )
    paid: LedgerOptions = group(plan=None)
    outputs: Outputs = group(plot=None, table=None)


@as_command("draft", Draft)
def draft(asked: Draft) -> None:
    """Draft a schema of the people in DATA: a file, a folder or a pattern.

    The draft contains values of the data. `pmldesign release` refuses it until you have reviewed
    it and removed "reviewed": false; a draft with --private needs no review.

    Example: pmldesign schema draft people.csv -o schema.json
    """
    from pmldesign.files import atomic_write, check_writable
    from pmldesign.releases.people.drafts import draft_schema

    output = asked.output
    if output is not None:
        check_writable(output)
    if asked.private:
        _private(asked)
        return
    named = [name for name in OF_PRIVATE if given(name)]
    if named:
        raise InvalidInputError(
            f"--{named[0].replace('_', '-')} is for a private draft; add --private, or remove it"
        )
    drafted = draft_schema(asked.data)
    text = json.dumps(drafted, indent=2) + "\n"
    if output is None or asked.outputs.json:
        click.echo(text, nl=False)
    if output is None:
        return
    with atomic_write(output, "w") as handle:
        handle.write(text)
    for told in drafted["notes"]:
        note(told)
    note(f'{output.name} has labels from the data; review it, then remove "reviewed": false')


def _private(asked: Draft) -> None:
    """A draft that keeps a guarantee."""
    from pmldesign.privacy.guarantees import ApproxDP
    from pmldesign.releases.private_schema import private_draft

    if asked.epsilon is None or asked.delta is None:
        raise InvalidInputError(
            "a private draft needs --epsilon and --delta; add for example --epsilon 0.5"
            " --delta 1e-8"
        )
    promise = ApproxDP(asked.epsilon, asked.delta)
    names = None if asked.columns is None else [n.strip() for n in asked.columns.split(",")]
    drafted = private_draft(
        asked.data, promise, columns=names, ledger=asked.paid.account(), output=asked.output
    )
    if asked.output is None or asked.outputs.json:
        click.echo(json.dumps(drafted, indent=2))
    for told in drafted["notes"]:
        note(told)


@dataclass(frozen=True, kw_only=True)
class Check:
    """The options of a check."""

    data: str = argument(metavar="DATA")
    schema: Path = option("File with the attributes of people: .json.", required=True)
    outputs: Outputs = group(plot=None, report=None)


@as_command("check", Check)
def check(asked: Check) -> None:
    """Compare DATA with their schema: unknown and missing values, and rows per person.

    The output is confidential: it has values of single records and exact counts. DATA is a file, a
    folder, a pattern, or duckdb:///FILE#TABLE.

    Example: pmldesign schema check people.csv --schema schema.json
    """
    from pmldesign.releases.people.check import check_schema

    found = check_schema(asked.data, asked.schema)
    rows = [
        (
            attribute.name,
            repr(value.text) if value.text else "missing",
            value.rows,
            value.hint,
            attribute.outside,
        )
        for attribute in found.attributes
        for value in attribute.values
    ]
    header = ("attribute", "value", "rows", "hint", "outside")
    records = [dict(zip(header, row, strict=True)) for row in rows]
    table = Table(header, rows, texts=("value", "hint", "outside"), records=records)
    tables = [table] if rows else []
    data = {**asdict(found), "kept": {str(k): n for k, n in found.kept.items()}}
    asked.outputs.deliver(
        Document(data, [Section(facts=_facts(found)), Section(tables=tables)], table)
    )


def _facts(found: SchemaCheck) -> list[tuple[str, str]]:
    """How many rows count, and why others do not."""
    counted = found.rows - sum(found.remarks.values())
    facts = [("rows", f"{found.rows}: {counted} count")]
    facts += [(remark, f"{number} rows") for remark, number in found.remarks.items()]
    if found.persons is not None:
        facts.append(("persons", str(found.persons)))
        parts = (f"{n / max(counted, 1):.1%} for k = {k}" for k, n in found.kept.items())
        facts.append(("kept", ", ".join(parts)))
    if not found.attributes:
        facts.append(("values", "all of them match a key or a bin"))
    return facts


@dataclass(frozen=True, kw_only=True)
class Sql:
    """The options of a query."""

    workload: str = argument(metavar="WORKLOAD")
    schema: Path = option("File with the attributes of people: .json.", required=True)
    dialect: str = option("Dialect of SQL.", default="duckdb", type=click.Choice(DIALECTS))
    table_name: str | None = option(
        "Name of the table. Default: the placeholder {table}.", "--table", metavar="NAME"
    )
    outputs: Outputs = group(plot=None, table=None)


@as_command("sql", Sql)
def sql(asked: Sql) -> None:
    """Print the SQL query that counts people for WORKLOAD in their own database.

    Save its result as .csv with a header, or .parquet, and publish it with `pmldesign release
    WORKLOAD COUNTS --schema S --counted`. The counts are exact, so they are confidential.

    Example: pmldesign schema sql sex*age --schema schema.json --dialect postgres
    """
    from pmldesign.releases.people.queries import parse_queries
    from pmldesign.releases.people.query import query_text
    from pmldesign.releases.people.schema import read_schema

    schema = read_schema(asked.schema)
    parse_queries(asked.workload, schema)
    query = query_text(schema, asked.dialect, asked.table_name) + ";"
    if asked.outputs.json:
        print_json({"dialect": asked.dialect, "sql": query})
    else:
        click.echo(query)


command = CommandGroup(
    "schema",
    commands=[draft, check, sql],
    help="Draft a schema, check data against it, or print its SQL query.",
)
