"""People who were counted in their database: what the query of `query` returned, or a database.

counts.csv                  the rows that the query returned, with a header
duckdb:///file.db#table     asks DuckDB itself, without writing anything

Where the query kept rows of people, or added parts of numbers, it says so by the name of its last
column, and the rows are read as the texts of cells (`ToldCells`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.release.databases.query import count_name, query_text
from pmldesign.release.databases.values import UNTOLD, texts_of
from pmldesign.release.people.attribute import LONGEST_VALUE, Attribute, text_of
from pmldesign.release.people.frames import CountedRows
from pmldesign.release.people.histogram import MOST_PEOPLE
from pmldesign.release.people.identifiers import SEVERAL
from pmldesign.release.people.people import CountedPeople, column_names, first_rows
from pmldesign.release.people.schema import Schema
from pmldesign.strategies.whole.integers import EXACT_INT64

DUCKDB = "duckdb:///"
WHOLE = re.compile("-?[0-9]{1,40}")
MOST_ROWS = 2**31
"""Of an answer."""


@dataclass(frozen=True)
class ToldCells(Attribute):
    """An attribute whose cells a database told.

    Attributes:
        origin: the attribute of people.
        number_of: the text of a cell to its number.
    """

    origin: Attribute | None = None
    number_of: dict[str, int] = field(default_factory=dict)

    def code(self, value: Any) -> int:
        """The number of a cell; -1 for a value that is dropped.

        Raises:
            InvalidInputError: a value is refused, or the database did not tell its cell.
        """
        text = text_of(value)
        if text in self.number_of:
            return self.number_of[text]
        assert self.origin is not None
        text = text.removeprefix(UNTOLD)
        if self.origin.code(text) >= 0:
            raise InvalidInputError(
                f"the database did not tell the cell of {text[:LONGEST_VALUE]!r}; write such values"
                " as plain digits, or as the schema does"
            )
        return -1


def read_as(schema: Schema) -> Schema:
    """The schema by which the rows of an answer are read."""
    attributes = tuple(
        ToldCells(
            *(attribute.name, attribute.labels, None, "refuse", attribute.ordered),
            places=attribute.places,
            origin=attribute,
            number_of={text: number for number, text in enumerate(texts_of(attribute))},
        )
        if schema.person or attribute.denominator > 1
        else attribute
        for attribute in schema.attributes
    )
    return replace(schema, attributes=attributes, person=())


def people_of(data: Any, schema: Schema | None, *, counted: bool = False) -> Any:
    """The people that data stand for: themselves, or counts of a file or of a database.

    Args:
        data: whatever a release takes, or the address of a table, duckdb:///file.db#table.
        schema: of the people; None for a histogram.
        counted: whether the file has combinations of values with counts.

    Raises:
        InvalidInputError: counts without a schema, or an address without a table.
    """
    if not isinstance(counted, bool) or (counted and not isinstance(data, str | Path)):
        what = type(data if isinstance(counted, bool) else counted).__name__
        raise InvalidInputError(
            "counted says, true or false, whether data is a file of combinations of values with"
            f" their counts, got {what}; a histogram is data without a schema"
        )
    address = isinstance(data, str) and data.startswith(DUCKDB)
    if not (counted or address):
        return data
    if schema is None:
        raise InvalidInputError("people who are counted in a database need a schema; add --schema")
    if not address:
        return CountedPeople(data, partial(_rows_of_file, Path(data), schema), read_as(schema))
    path, mark, table = data.removeprefix(DUCKDB).partition("#")
    if not path or not mark or not table:
        raise InvalidInputError(f"a table of DuckDB is written as {DUCKDB}file.db#table")
    source = f"{DUCKDB}{os.path.realpath(path)}#{table}"
    load = partial(_rows_of_table, Path(path), table, schema)
    return CountedPeople(source, load, read_as(schema))


def _rows_of_file(path: Path, schema: Schema, columns: Sequence[str]) -> CountedRows:
    """The rows of a file with a column for each attribute, and one more, of counts."""
    names = column_names(path)
    others, asked = [name for name in names if name not in columns], count_name(schema)
    if len(others) != 1 or len(names) != len(columns) + 1:
        raise InvalidInputError(
            f"counts have a column for each of {', '.join(columns)}, and one more, such as"
            f" {asked}; found are {', '.join(names)[:100]}"
        )
    if (schema.person or schema.denominator > 1) and others != [asked]:
        raise InvalidInputError(
            f"people with an identifier or numbers are counted by the query of `pmldesign sql`,"
            f" whose counts are called {asked}; found is {others[0]!r:.60}"
        )
    rows = first_rows(path, [*columns, others[0]], MOST_ROWS)
    return answer_rows(rows, schema)


def _rows_of_table(path: Path, table: str, schema: Schema, _columns: Sequence[str]) -> CountedRows:
    """What DuckDB counts in one of its files, which is opened for reading alone."""
    require_extra("a database of DuckDB", "duckdb", "sql")
    import duckdb

    if not path.is_file():
        raise FileError(f"cannot read {str(path)!r}: there is no such file")
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = connection.execute(query_text(schema, "duckdb", table)).fetchall()
    except duckdb.Error as error:
        raise FileError(f"{path.name}: {' '.join(str(error).split())[:200]}") from None
    return answer_rows(rows, schema)


def answer_rows(rows: Iterable[Sequence[Any]], schema: Schema) -> CountedRows:
    """Values with whole numbers of people, or of their parts."""
    found: CountedRows = []
    most = MOST_PEOPLE * schema.denominator
    for row, (*values, written) in enumerate(rows, 1):
        count = int(str(written)) if WHOLE.fullmatch(str(written)) else -1
        if count < 0 and schema.person and not any(values):
            raise InvalidInputError(
                f"{str(written)[1:40]} rows have no value in {', '.join(schema.person)}, or"
                f" {SEVERAL}, so nobody knows whose they are"
            )
        if not 0 <= count < most:
            raise InvalidInputError(
                f"row {row}: {str(written)[:40]!r} is no count; counts are whole numbers from 0"
            )
        found.append((*values, count, row))
    if sum(count for *_, count, _ in found) >= EXACT_INT64:
        raise InvalidInputError(
            "the counts together do not fit into 64 bits; take a larger unit of the numbers in the"
            " schema"
        )
    return found
