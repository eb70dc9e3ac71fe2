"""A check of data against their schema, for the eyes of their owner only.

rows               of the data, those that count, and those that are refused or dropped
attributes         the values that match no key, how often, and the key that each is similar to
persons            their number, and the part of the rows that is kept for k = 1, 2, 5, 10
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pmldesign.files.atomic import PathName
from pmldesign.releases.people.answers import require_columns
from pmldesign.releases.people.columns import Column
from pmldesign.releases.people.near import similar
from pmldesign.releases.people.query import Query
from pmldesign.releases.people.relation import Relation, opened
from pmldesign.releases.people.schema import Schema, as_schema
from pmldesign.releases.people.sources import source_of
from pmldesign.releases.people.values import literal

SHARES = (1, 2, 5, 10)
"""k whose kept rows are shown."""
LISTED = 20
"""Values of an attribute that are listed."""


@dataclass(frozen=True)
class Unmatched:
    """A value that has no cell of its own.

    Attributes:
        text: the value; "" if it is missing.
        rows: how many have it.
        hint: which key it is similar to, and how; "" without a similar key.
    """

    text: str
    rows: int
    hint: str


@dataclass(frozen=True)
class AttributeCheck:
    """The values of an attribute without a cell of their own.

    Attributes:
        name: of the attribute.
        outside: their treatment.
        rows: how many have one, or none.
        values: the most frequent ones.
    """

    name: str
    outside: str
    rows: int
    values: tuple[Unmatched, ...]


@dataclass(frozen=True)
class SchemaCheck:
    """What a release would make of data.

    Attributes:
        rows: how many there are.
        remarks: of these, those that do not count, by reason.
        attributes: those with values that match no key.
        persons: how many; None if the schema has none.
        kept: for each k how many rows would be kept.
    """

    rows: int
    remarks: dict[str, int]
    attributes: tuple[AttributeCheck, ...]
    persons: int | None
    kept: dict[int, int]


def check_schema(data: Any, schema: Schema | dict[str, Any] | PathName) -> SchemaCheck:
    """What a release would make of data.

    Args:
        data: a path, a data frame, or a table of DuckDB.
        schema: a path, or a dictionary.

    Raises:
        FileError: a file cannot be read.
        InvalidInputError: a column is missing, or holds no values.
    """
    form = as_schema(schema)
    source = source_of(data)
    require_columns(source, form)
    with opened(source, form.columns, form.person) as relation:
        query = Query(form, relation.text, "")
        relation.connection.execute(
            f"CREATE TEMP TABLE checked AS {query.asked(_items(query), '')}"
        )
        counts = dict(relation.ask("SELECT remark, COUNT(*) FROM checked GROUP BY 1 ORDER BY 1"))
        attributes = (_attribute(relation, column) for column in query.columns)
        persons, kept = _persons(relation, query) if form.person else (None, {})
        return SchemaCheck(
            sum(counts.values()),
            {remark: number for remark, number in counts.items() if remark},
            tuple(found for found in attributes if found.rows),
            persons,
            kept,
        )


def _items(query: Query) -> list[str]:
    """What is looked at: remarks, persons, cells, and texts without a cell of their own."""
    items = ["remark", *query.persons, *(column.found for column in query.columns)]
    for column in query.columns:
        lost = _lost(column)
        items += [f"{lost} AS lost_{column.place}"]
        items += [f"CASE WHEN {lost} THEN {column.said} END AS said_{column.place}"]
    return items


def _lost(column: Column) -> str:
    """Whether a value has no cell of its own."""
    attribute = column.attribute
    if attribute.outside in ("refuse", "drop"):
        return f"{column.found} IS NULL"
    other = literal(attribute.key(attribute.outside))
    if column.numeric:
        return f"{column.found} = {other}"
    key = f"key_{column.place}"
    return f"({column.found} = {other} AND COALESCE({key}, '') <> {other})"


def _attribute(relation: Relation, column: Column) -> AttributeCheck:
    attribute, place = column.attribute, column.place
    ((rows,),) = relation.ask(f"SELECT COUNT(*) FROM checked WHERE lost_{place}")
    values = relation.ask(
        f"SELECT COALESCE(said_{place}, ''), COUNT(*) FROM checked WHERE lost_{place}"
        f" GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {LISTED}"
    )
    found = (
        Unmatched(text, number, similar(attribute, text) if text else "") for text, number in values
    )
    return AttributeCheck(attribute.name, attribute.outside, rows, tuple(found))


def _persons(relation: Relation, query: Query) -> tuple[int, dict[int, int]]:
    """The number of persons, and how many rows are kept for each k."""
    schema = query.schema
    pairs = zip(query.columns, schema.telling, strict=True)
    told = [column.found for column, tells in pairs if tells] or ["1"]
    rows = "COUNT(*)" if schema.one_per is None else f"COUNT(DISTINCT ({', '.join(told)}))"
    shown = sorted({*SHARES, schema.rows_per_person})
    sums = ", ".join(f"COALESCE(SUM(LEAST(rows, {k})), 0)" for k in shown)
    ((persons, *kept),) = relation.ask(
        f"SELECT COUNT(*), {sums} FROM (SELECT {rows} AS rows FROM checked"
        f" WHERE remark IS NULL GROUP BY {', '.join(query.persons)})"
    )
    return persons, dict(zip(shown, map(int, kept), strict=True))
