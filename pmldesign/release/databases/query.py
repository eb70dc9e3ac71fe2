"""One query that counts people in a database as the reader of files would count them.

    SELECT value of each attribute, COUNT(*) AS records FROM table GROUP BY 1, 2 ...

The rows of the answer are combinations of values as texts, and how many people have each. Nothing
is decided in the database that the reader decides by its rule (`people.attribute`): which key a
text is, whether 2.0 is 2, what happens outside. The database only makes the answer small:

- a number between cuts becomes the lower cut, where its text is plain digits of moderate length,
  which all databases read as the same number; other texts stay as they are;
- of an attribute whose other values are dropped, or counted together, texts that can be no key
  become NULL: a text is a key if it is the same text, or if both are numbers, times or truth values
  (`key_of`), which begin with a digit or a sign, or are true or false.

So the counts are those of a file with the same rows. The query is written for DuckDB, and sqlglot
writes it for others.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise

from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.release.people.attribute import Attribute, key_of
from pmldesign.release.people.people import COUNTED
from pmldesign.release.people.schema import Schema

DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "spark")
COUNT = "records"
PLACEHOLDER = "{table}"
MOST_KEYS = 1000
"""Of an attribute that are listed in a query."""
PLAIN = "^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9][0-9]?)?$"
LONGEST = 60
"""Characters of a number that a database reads: none overflows."""
DIGIT = "^.*[0-9].*$"


def query_text(
    schema: Schema, dialect: str, table: str | None = None, numeric: Container[str] = ()
) -> str:
    """The query.

    Args:
        schema: of the people.
        dialect: one of DIALECTS.
        table: its name, with those of its schema and database where these are needed; None for
            a mark in its place.
        numeric: columns of whole numbers or of double precision, which are compared as they are.

    Raises:
        InvalidInputError: sqlglot is not installed, a key that no database tells, or no name of a
            table.
    """
    source = table_text("pmldesign_table" if table is None else table, dialect)
    import sqlglot

    _require_keys(schema)
    texts, numbers, values = [], ["*"], []
    for place, attribute in enumerate(schema.attributes):
        text, number = f"text_{place}", f"number_{place}"
        column = _quoted(attribute.column)
        if attribute.cuts is not None and attribute.column in numeric:
            texts.append(f"{column} AS {text}")
            numbers.append(f"CAST({text} AS DOUBLE) AS {number}")
            value = _binned(f"CAST({text} AS TEXT)", number, attribute)
        else:
            texts.append(f"CAST({column} AS TEXT) AS {text}")
            value = _keyed(text, attribute)
            if attribute.cuts is not None:
                numbers.append(f"{_read_number(text)} AS {number}")
                value = _binned(text, number, attribute)
        values.append(f"{value} AS {column}")
    query = (
        f"WITH texts AS (SELECT {', '.join(texts)} FROM {source}),"
        f" numbers AS (SELECT {', '.join(numbers)} FROM texts)"
        f" SELECT {', '.join(values)}, COUNT(*) AS {_quoted(count_name(schema))} FROM numbers"
        f" GROUP BY {', '.join(str(place + 1) for place in range(len(values)))}"
    )
    (written,) = sqlglot.transpile(query, read="duckdb", write=dialect, pretty=True)
    return written.replace("pmldesign_table", PLACEHOLDER) if table is None else written


def table_text(table: str, dialect: str) -> str:
    """The name of a table as DuckDB writes it.

    Raises:
        InvalidInputError: it is none, or sqlglot is not installed.
    """
    require_extra("a query", "sqlglot", "sql")
    import sqlglot

    try:
        return str(sqlglot.exp.to_table(table, dialect).sql("duckdb"))
    except sqlglot.errors.SqlglotError:
        raise InvalidInputError(
            f"--table: {table!r:.60} is no name of a table; write name, schema.name or"
            " database.schema.name"
        ) from None


def count_name(schema: Schema) -> str:
    """What the column of counts is called."""
    return COUNT if COUNT not in schema.columns else f"{COUNT}_"


def _require_keys(schema: Schema) -> None:
    """Refuse people with an identifier, numbers, and a key that is how databases write none."""
    if schema.person:
        raise InvalidInputError(COUNTED)
    for attribute in schema.attributes:
        if attribute.denominator > 1:
            raise InvalidInputError(
                f"attribute {attribute.name!r} has numbers, of which databases count no parts;"
                " release from a file of people"
            )
        if attribute.cuts is None and any(label.lower() == "nan" for label in attribute.labels):
            raise InvalidInputError(
                f"attribute {attribute.name!r} has the key 'NaN', which databases do not tell from"
                " a missing number; take another key"
            )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _keyed(text: str, attribute: Attribute) -> str:
    """The text of a value that may be a key; NULL for others, unless they are to be refused."""
    plain = type(attribute) is Attribute  # others read texts by rules of their own
    if attribute.outside == "refuse" or len(attribute.labels) > MOST_KEYS or not plain:
        return text
    conditions = [f"{text} IN ({', '.join(map(_literal, attribute.labels))})"]
    if any(not isinstance(key_of(label), str) for label in attribute.labels):
        signs = ", ".join(map(_literal, "-0123456789"))
        conditions.append(f"SUBSTRING({text}, 1, 1) IN ({signs})")
    if {"true", "false"} & {label.lower() for label in attribute.labels}:
        conditions.append(f"LOWER({text}) IN ('true', 'false')")
    return f"CASE WHEN {' OR '.join(conditions)} THEN {text} END"


def _read_number(text: str) -> str:
    """The number that a text is, where all databases read it alike; else NULL."""
    plain = f"REGEXP_MATCHES({text}, '{PLAIN}') AND LENGTH({text}) <= {LONGEST}"
    return f"CASE WHEN {plain} THEN TRY_CAST(CAST({text} AS TEXT) AS DOUBLE) END"


def _binned(text: str, number: str, attribute: Attribute) -> str:
    """The lower cut below a number that the database reads; NULL, or the text, for others."""
    assert attribute.cuts is not None
    refused = attribute.outside == "refuse"
    bins = [f"WHEN {number} < {_double(attribute.cuts[0])} THEN {text if refused else 'NULL'}"]
    bins += [
        f"WHEN {number} < {_double(upper)} THEN {_literal(repr(lower))}"
        for lower, upper in pairwise(attribute.cuts)
    ]
    unread = f"{number} IS NULL AND REGEXP_MATCHES({text}, '{DIGIT}')"
    rest = f"ELSE {text}" if refused else f"WHEN {unread} THEN {text}"
    return f"CASE {' '.join(bins)} {rest} END"


def _double(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"
