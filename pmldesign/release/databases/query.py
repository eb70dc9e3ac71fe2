"""One query that counts people in a database as the reader of files would count them.

    SELECT value of each attribute, COUNT(*) AS records FROM table GROUP BY 1, 2 ...

The rows of the answer are combinations of values as texts, and how many people have each. What the
reader decides by its rule (`people.attribute`), which key a text is, whether 2.0 is 2, what happens
outside, it decides: the database makes the answer small (`values`), numbers become cuts, and texts
that can be no key NULL.

With what tells people apart the database has to know cells, and keeps k rows of each: those of
`people.persons`, with MD5 as the keyed hash (`kept_rows`). The key is part of the query, drawn
afresh for each; whatever the hash, what is kept depends on that person's rows alone. State 1 has
rows with a cell; rows of nobody (-1) and of values that are to be refused (2) pass, so that the
release is refused.

Of numbers the answer has the parts of cells: a value between t_k and t_(k+1), w of D parts of the
way, adds D - w parts to the cell of t_k and w to that of t_(k+1), as whole numbers; of several
numbers the products of these.

So the counts are those of a file with the same rows. The query is written for DuckDB, and sqlglot
writes it for others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import pairwise, product

from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.release.databases.values import UNTOLD, Column, literal, quoted, texts_of
from pmldesign.release.people.identifiers import NOBODY, ROUNDED, WHOLE, ZERO
from pmldesign.release.people.numbers import Number
from pmldesign.release.people.schema import Combination, Schema
from pmldesign.strategies.whole.integers import EXACT_INT64

DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "spark")
PLACEHOLDER = "{table}"
MOST_TOLD = 10_000
"""Keys of an attribute that a query lists."""
MOST_NUMBERS = 4
"""Attributes with numbers: cells are the combinations of their ends."""


def query_text(
    schema: Schema, dialect: str, table: str | None = None, *, key: str | None = None
) -> str:
    """The query.

    Args:
        schema: of the people.
        dialect: one of DIALECTS.
        table: its name, with those of its schema and database where these are needed; None for
            a mark in its place.
        key: by which rows of a person are chosen, for tests alone; it is drawn.

    Raises:
        InvalidInputError: sqlglot is not installed, a key that no database tells, numbers that it
            would not add exactly, or no name of a table.
    """
    source = table_text("pmldesign_table" if table is None else table, dialect)
    import sqlglot

    _require_exact(schema)
    told = bool(schema.person)
    columns = [
        Column(attribute, place, dialect == "duckdb", told or attribute.denominator > 1)
        for place, attribute in enumerate(schema.attributes)
    ]
    layers = _cells(schema, columns, source)
    if told:
        layers += kept_rows(schema, columns, key or secrets.token_hex(16))
    answer = _counts(schema, columns) if schema.denominator == 1 else _parts(schema, columns)
    query = f"WITH {', '.join(layers)}{answer}"
    written: str = sqlglot.transpile(query, read="duckdb", write=dialect, pretty=True)[0]
    return written.replace("pmldesign_table", PLACEHOLDER) if table is None else written


def table_text(table: str, dialect: str) -> str:
    """The name of a table as DuckDB writes it.

    Raises:
        InvalidInputError: it is none, or sqlglot is not installed.
    """
    require_extra("a query", "sqlglot", "sql")
    import sqlglot

    try:
        marks = [token.token_type for token in sqlglot.tokenize(table, dialect)]
        name = sqlglot.exp.to_table(table, dialect)
    except sqlglot.errors.SqlglotError:
        marks, name = [], None
    if name is None or sqlglot.TokenType.SEMICOLON in marks:  # "a;b" are two
        raise InvalidInputError(
            f"--table: {table!r:.60} is no name of a table; write name, schema.name or"
            " database.schema.name"
        )
    return str(name.sql("duckdb", comments=False))


def count_name(schema: Schema) -> str:
    """What the column of counts is called: what they are."""
    name = "records" if schema.denominator == 1 else "parts"
    name = f"kept_{name}" if schema.person else name
    return f"{name}_" if name in schema.columns else name


def _require_exact(schema: Schema) -> None:
    """Refuse keys and numbers that databases would not read or add as the reader does."""
    numbers = [a.name for a in schema.attributes if isinstance(a, Number)]
    if len(numbers) > MOST_NUMBERS or schema.denominator >= EXACT_INT64:
        raise InvalidInputError(
            f"databases add parts of up to {MOST_NUMBERS} numbers, whose units together are no more"
            f" than 2^62; leave {numbers[-1]!r} out of the schema, or take a larger unit"
        )
    for attribute in schema.attributes:
        labels = attribute.labels if attribute.cuts is None else ()
        if any(label.lower() == "nan" for label in labels):
            raise InvalidInputError(
                f"attribute {attribute.name!r} has the key 'NaN', which databases do not tell from"
                " a missing number; take another key"
            )
        if schema.person and any(label.startswith(UNTOLD) for label in attribute.labels):
            raise InvalidInputError(
                f"attribute {attribute.name!r} has a key that begins with '{UNTOLD}', which is how"
                " the query marks other values; take another key"
            )
        if schema.person and len(labels) > MOST_TOLD:
            raise InvalidInputError(
                f"attribute {attribute.name!r} has {len(labels)} keys, and a query that keeps rows"
                f" of people lists up to {MOST_TOLD}; release from a file of people"
            )


def _cells(schema: Schema, columns: Sequence[Column], source: str) -> list[str]:
    """Layers from the table to `cells`, with the cell of each row and what tells people apart."""
    persons = [quoted(name) for name in schema.person]
    values = [f"{quoted(c.attribute.column)} AS value_{c.place}" for c in columns]
    ids = [f"{_told_apart(name)} AS person_{place}" for place, name in enumerate(persons)]
    read = ["*", *(text for column in columns for text in column.read)]
    found = [f"person_{place}" for place in range(len(persons))]
    found += [f"{column.cell} AS cell_{column.place}" for column in columns]
    found += [f"{column.step} AS step_{column.place}" for column in columns if column.sums]
    return [
        f"given AS (SELECT {', '.join([*values, *ids])} FROM {source})",
        f"readings AS (SELECT {', '.join(read)} FROM given)",
        f"cells AS (SELECT {', '.join(found)} FROM readings)",
    ]


def _told_apart(name: str) -> str:
    """What tells people apart in a column, as `people.identifiers` has it; inf for several."""
    text = f"CAST({name} AS TEXT)"
    return (
        f"CASE WHEN REGEXP_MATCHES({text}, '{ROUNDED}') THEN 'inf'"
        f" WHEN REGEXP_MATCHES({text}, '{ZERO}') THEN '0'"
        f" WHEN REGEXP_MATCHES({text}, '{WHOLE}') THEN RTRIM(RTRIM({text}, '0'), '.')"
        f" ELSE {text} END"
    )


def _counts(schema: Schema, columns: Sequence[Column]) -> str:
    """The rows of each cell."""
    cells = [
        f"{_inside(schema, f'cell_{c.place}')} AS {quoted(c.attribute.column)}" for c in columns
    ]
    number = "SUM(CASE WHEN state < 0 THEN -1 ELSE 1 END)" if schema.person else "COUNT(*)"
    return (
        f" SELECT {', '.join(cells)}, {number} AS {quoted(count_name(schema))}"
        f" FROM {_counted(schema)} GROUP BY {_numbers(len(cells))}"
    )


def _parts(schema: Schema, columns: Sequence[Column]) -> str:
    """The parts of each cell: sums for the intervals first, then a row for each of their ends."""
    sums = [column for column in columns if column.sums]
    spread = ["*"]
    for column in sums:
        spread += _spread(column)
    groups = [f"{_inside(schema, f'cell_{c.place}')} AS cell_{c.place}" for c in columns]
    groups += [f"{_inside(schema, f'interval_{c.place}')} AS interval_{c.place}" for c in sums]
    parts, answers = [], []
    for number, ends in enumerate(product((0, 1), repeat=len(sums))):
        weights = [_weight(column, end) for column, end in zip(sums, ends, strict=True)]
        added = f"CAST({' * '.join(weights)} AS DECIMAL(38, 0))"
        if schema.person:
            added = f"CASE WHEN state < 0 THEN -1 ELSE {added} END"
        parts.append(f"COALESCE(SUM({added}), 1) AS parts_{number}")
        end_of = dict(zip([column.place for column in sums], ends, strict=True))
        names = [
            f"{_label(c, end_of.get(c.place))} AS {quoted(c.attribute.column)}" for c in columns
        ]
        answers.append(
            f"SELECT {', '.join(names)}, parts_{number} AS {quoted(count_name(schema))}"
            f" FROM sums WHERE parts_{number} <> 0"
        )
    return (
        f", spread AS (SELECT {', '.join(spread)} FROM {_counted(schema)}),"
        f" sums AS (SELECT {', '.join([*groups, *parts])} FROM spread"
        f" GROUP BY {_numbers(len(groups))}) {' UNION ALL '.join(answers)}"
    )


def _spread(column: Column) -> list[str]:
    """The interval between points that a number is in, and its parts at the upper end."""
    number, step = column.attribute, f"step_{column.place}"
    assert isinstance(number, Number)
    at = [int((point - number.points[0]) / number.unit) for point in number.points]
    intervals, weights = [], []
    for place, (start, stop) in enumerate(pairwise(at)):
        case = f"WHEN {step} {'<=' if stop == at[-1] else '<'} {stop} THEN"
        intervals.append(f"{case} {place}")
        weights.append(f"{case} ({step} - {start}) * {number.denominator // (stop - start)}")
    return [
        f"CASE {' '.join(intervals)} END AS interval_{column.place}",
        f"CASE {' '.join(weights)} END AS weight_{column.place}",
    ]


def _weight(column: Column, end: int) -> str:
    weight = f"weight_{column.place}"
    return weight if end else f"({column.attribute.denominator} - {weight})"


def _label(column: Column, end: int | None) -> str:
    """The text of a cell, of numbers that of the lower or upper end of the interval."""
    cell, number = f"cell_{column.place}", column.attribute
    if end is None or not isinstance(number, Number):
        return cell
    cells = range(end, len(number.labels) - 1 + end, 2 if number.binned else 1)
    cases = [
        f"WHEN interval_{column.place} = {place} THEN {literal(number.labels[number_of])}"
        for place, number_of in enumerate(cells)
    ]
    return f"CASE {' '.join(cases)} ELSE {cell} END"


def _inside(schema: Schema, value: str) -> str:
    """A value of a row; NULL of rows of nobody."""
    return f"CASE WHEN state > 0 THEN {value} END" if schema.person else value


def _counted(schema: Schema) -> str:
    return "kept" if schema.person else "cells"


def _numbers(count: int) -> str:
    return ", ".join(str(number + 1) for number in range(count))


def kept_rows(schema: Schema, columns: Sequence[Column], key: str) -> list[str]:
    """Layers of a query from the table `cells` to `kept`; a text 'nan' is a missing number.

    Args:
        schema: with the columns of a person.
        columns: its attributes.
        key: of the hash.
    """
    persons = [f"person_{number}" for number in range(len(schema.person))]
    texts = [f"cell_{column.place}" for column in columns]
    steps = [f"step_{column.place}" for column in columns if column.sums]
    values = [*texts, *steps]
    missing = _list([literal(text) for text in ("", *NOBODY)])
    nobody = " OR ".join(f"LOWER(COALESCE({name}, '')) IN ({missing})" for name in persons)
    untold = " OR ".join(f"SUBSTRING({text}, 1, 1) = '{UNTOLD}'" for text in texts)
    dropped = " OR ".join(
        f"{text} IS NULL" + (f" AND step_{column.place} IS NULL" if column.sums else "")
        for text, column in zip(texts, columns, strict=True)
    )
    never = "".join(
        f" WHEN {_holds(columns, combination)} THEN {0 if schema.drops else 2}"
        for combination in schema.impossible
    )
    state = (
        f"CASE WHEN {nobody} THEN -1 WHEN {untold} THEN 2{never} WHEN {dropped} THEN 0 ELSE 1 END"
    )
    told = [f"cell_{c.place}" for c, tells in zip(columns, schema.telling, strict=True) if tells]
    whole = schema.one_per is None or len(told) == len(values)
    within = ["state", *persons, *(values if whole else told)]
    turn = f"ROW_NUMBER() OVER (PARTITION BY {_list(within)} ORDER BY drawn, {_list(values)})"
    turns = f"*, {turn} AS turn"
    order = ["drawn", *values] if whole else [_hash(key, [*persons, *told]), *told]
    if schema.one_per is None:
        order = ["turn", *order]
    elif whole:
        turns = f"DISTINCT state, {_list([*persons, *values])}, drawn, 1 AS turn"
    places = f"ROW_NUMBER() OVER (PARTITION BY state, {_list(persons)} ORDER BY {_list(order)})"
    once = "" if schema.one_per is None else " WHERE turn = 1 OR state <> 1"
    drawn = _hash(key, [*persons, *values])
    return [
        f"states AS (SELECT *, {state} AS state, {drawn} AS drawn FROM cells)",
        f"turns AS (SELECT {turns} FROM states WHERE state <> 0)",
        f"places AS (SELECT *, {places} AS place FROM turns{once})",
        f"kept AS (SELECT * FROM places WHERE place <= {schema.rows_per_person} OR state <> 1)",
    ]


def _holds(columns: Sequence[Column], combination: Combination) -> str:
    """Whether a row has a combination of values that cannot be."""
    parts = []
    for place, numbers in combination:
        texts = texts_of(columns[place].attribute)
        listed = _list([literal(texts[number]) for number in numbers])
        parts.append(f"cell_{place} IN ({listed})")
    return " AND ".join(parts)


def _hash(key: str, parts: Sequence[str]) -> str:
    texts = [f"COALESCE(CAST({part} AS TEXT), '')" for part in parts]
    return "MD5(" + " || '|' || ".join([f"'{key}'", *texts]) + ")"


def _list(parts: Sequence[str]) -> str:
    return ", ".join(parts)
