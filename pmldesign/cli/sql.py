"""pmldesign sql WORKLOAD --schema S --dialect duckdb."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from pmldesign.cli.options.fields import argument, as_command, option

DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "spark")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(metavar="WORKLOAD")
    schema: Path = option("Attributes of people (docs/release.md).", required=True)
    dialect: str = option("Of the database.", default="duckdb", type=click.Choice(DIALECTS))
    table: str | None = option("Name of the table; {table} without it.", metavar="NAME")


@as_command("sql", Asked)
def command(asked: Asked) -> None:
    """Print a query that counts people in their database, for WORKLOAD.

    Run it there, save the rows that it returns as .csv with a header, or .parquet, and release them
    with `pmldesign release WORKLOAD COUNTS --schema S --counted`. They are exact, and so as
    confidential as the table.
    """
    from pmldesign.release.people.queries import parse_queries
    from pmldesign.release.people.query import query_text
    from pmldesign.release.people.schema import read_schema

    schema = read_schema(asked.schema)
    parse_queries(asked.workload, schema)
    click.echo(query_text(schema, asked.dialect, asked.table) + ";")
