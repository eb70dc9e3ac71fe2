"""People who were counted in their database: what the query of `query` returned, or a database.

counts.csv                  the rows that the query returned, with a header
duckdb:///file.db#table     asks DuckDB itself, without writing anything
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.release.databases.query import count_name, query_text, table_text
from pmldesign.release.people.frames import CountedRows
from pmldesign.release.people.histogram import MOST_PEOPLE
from pmldesign.release.people.people import CountedPeople, column_names, first_rows
from pmldesign.release.people.schema import Schema

DUCKDB = "duckdb:///"
NUMERIC = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"}
"""Types of DuckDB whose numbers are those of their texts."""
MOST_ROWS = 2**31
"""Of an answer."""


def people_of(data: Any, schema: Schema | None, *, counted: bool = False) -> Any:
    """The people that data stand for: themselves, or counts of a file or of a database.

    Args:
        data: whatever a release takes, or the address of a table, duckdb:///file.db#table.
        schema: of the people; None for a histogram.
        counted: whether the file has combinations of values with counts.

    Raises:
        InvalidInputError: counts without a schema, or an address without a table.
    """
    address = isinstance(data, str) and data.startswith(DUCKDB)
    if not (counted or address):
        return data
    if schema is None:
        raise InvalidInputError("people who are counted in a database need a schema; add --schema")
    if not address:
        return CountedPeople(data, partial(_rows_of_file, Path(data), schema))
    path, mark, table = data.removeprefix(DUCKDB).partition("#")
    if not path or not mark or not table:
        raise InvalidInputError(f"a table of DuckDB is written as {DUCKDB}file.db#table")
    source = f"{DUCKDB}{Path(path).resolve()}#{table}"
    return CountedPeople(source, partial(_rows_of_table, Path(path), table, schema))


def _rows_of_file(path: Path, schema: Schema, columns: Sequence[str]) -> CountedRows:
    """The rows of a file with a column for each attribute, and one more, of counts."""
    names = column_names(path)
    others = [name for name in names if name not in columns]
    if len(others) != 1 or len(names) != len(columns) + 1:
        raise InvalidInputError(
            f"counts have a column for each of {', '.join(columns)}, and one more, such as"
            f" {count_name(schema)}; found are {', '.join(names)[:100]}"
        )
    rows = first_rows(path, [*columns, others[0]], MOST_ROWS)
    return [(*values, _count(count, row), row) for row, (*values, count) in enumerate(rows, 1)]


def _rows_of_table(path: Path, table: str, schema: Schema, _columns: Sequence[str]) -> CountedRows:
    """What DuckDB counts in one of its files, which is opened for reading alone."""
    require_extra("a database of DuckDB", "duckdb", "sql")
    import duckdb

    if not path.is_file():
        raise FileError(f"cannot read {str(path)!r}: there is no such file")
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = connection.execute(typed_query(connection, schema, table)).fetchall()
    except duckdb.Error as error:
        raise FileError(f"{path.name}: {' '.join(str(error).split())[:200]}") from None
    return [(*values, _count(count, row), row) for row, (*values, count) in enumerate(rows, 1)]


def typed_query(connection: Any, schema: Schema, table: str) -> str:
    """The query for a table of DuckDB, which knows the types of its columns."""
    described = connection.execute(f"DESCRIBE {table_text(table, 'duckdb')}").fetchall()
    numeric = {name for name, kind, *_ in described if kind in NUMERIC}
    return query_text(schema, "duckdb", table, numeric)


def _count(value: Any, row: int) -> int:
    """How many people a row stands for."""
    try:
        count = int(str(value))
    except ValueError:
        count = -1
    if not 0 <= count < MOST_PEOPLE:
        raise InvalidInputError(
            f"row {row}: {str(value)[:40]!r} is no count; counts are whole numbers from 0"
        )
    return count
