"""Answers of the query: the cells of people and how many there are, checked.

An answer comes from the query in a source, or from a file that another database wrote
(`--counted`). A row without a remark counts; a row with one ends the release, with the values that
were refused, for the owner of the data only.
"""

from __future__ import annotations

import re
import secrets
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.integers import EXACT_INT64, Integers
from pmldesign.releases.people.columns import texts_of
from pmldesign.releases.people.near import problem, similar
from pmldesign.releases.people.query import (
    DROPPED,
    IMPOSSIBLE,
    NO_PERSON,
    REFUSED,
    Query,
    count_name,
    remark_name,
)
from pmldesign.releases.people.relation import Relation, Source, opened
from pmldesign.releases.people.schema import Schema
from pmldesign.releases.people.sources import DUCKDB, source_of
from pmldesign.releases.people.values import NOTHING, ROUNDED, literal, quoted

MOST_PEOPLE = 2**53
"""Sums of counts up to here are exact in floating point."""
SHOWN = 5
"""Values that a warning lists."""


@dataclass(frozen=True)
class CountedPeople:
    """People whose counts another database wrote to a file.

    Attributes:
        source: the file.
    """

    source: Path


@dataclass(frozen=True)
class Answer:
    """The people in cells.

    Attributes:
        codes: the number of the cell of each attribute, shape (attributes, rows).
        counts: the records of each row, or parts of them, shape (rows,).
    """

    codes: Integers
    counts: Integers


def people_of(data: Any, schema: Schema | None, *, counted: bool = False) -> Any:
    """The people that data stand for.

    Args:
        data: people, or a histogram.
        schema: of the people; None for a histogram.
        counted: whether the data are a file with the answer of the query.

    Raises:
        InvalidInputError: counts or a table of a database without a schema.
    """
    if not isinstance(counted, bool) or (counted and not isinstance(data, str | Path)):
        what = type(data if isinstance(counted, bool) else counted).__name__
        raise InvalidInputError(
            "counted is True if data is a file that the query of people returned, got"
            f" {what}; a histogram is data without a schema"
        )
    address = isinstance(data, str) and data.startswith(DUCKDB)
    if schema is None and (counted or address):
        raise InvalidInputError("people in a database need a schema; pass `schema`")
    if counted:
        return CountedPeople(Path(data))
    if address:
        path, mark, table = data.removeprefix(DUCKDB).partition("#")
        return f"{DUCKDB}{Path(path).resolve()}{mark}{table}" if path else data
    return data


def answer_of(
    data: Any, schema: Schema, *, exactly: bool = False, key: str | None = None
) -> Answer:
    """The people of a source in cells.

    Args:
        data: whatever `source_of` takes, or people who were counted.
        schema: of the people.
        exactly: whether each person has exactly k rows.
        key: of the hash that selects rows of a person; None for a random one.

    Raises:
        FileError: the data cannot be read.
        InvalidInputError: values that are refused, or rows without a person.
    """
    if isinstance(data, CountedPeople):
        return _counted(data, schema, exactly=exactly)
    source = source_of(data)
    require_columns(source, schema)
    with opened(source, schema.columns, schema.person) as relation:
        query = Query(schema, relation.text, key or secrets.token_hex(16))
        relation.connection.execute(f"CREATE TEMP TABLE answer AS {query.counts}")
        remarks = _remarks(relation)
        lost = remarks.pop(DROPPED, 0)
        if remarks:
            raise _refusal(relation, query, remarks)
        if exactly and schema.person:
            _require_exactly(relation, query)
        answer = _codes(relation, schema)
        dropped = [*_dropped(relation, query, answer)] if lost else []
    if lost:
        dropped.append(f"{lost} rows were dropped, as the schema says")
    if not answer.counts.size:
        dropped.append("no row of the data counts")
    for warning in dropped:
        warnings.warn(warning, stacklevel=2)
    return answer


def require_columns(source: Source, schema: Schema) -> None:
    """Refuse data without the columns of a schema.

    Raises:
        InvalidInputError: there is one, or the data have no header.
    """
    labels = [label for a in schema.attributes if a.cuts is None for label in a.labels]
    source.require([*schema.columns, *schema.person], labels)


def _remarks(relation: Relation) -> dict[str, int]:
    """How many rows have each remark."""
    *_, count, remark = _names(relation)
    rows = relation.ask(
        f"SELECT {remark}, CAST(SUM(TRY_CAST({count} AS HUGEINT)) AS BIGINT) FROM answer"
        f" WHERE {remark} IS NOT NULL GROUP BY 1"
    )
    return dict(rows)


def _names(relation: Relation) -> list[str]:
    return [quoted(row[0]) for row in relation.ask("DESCRIBE answer")]


def _codes(relation: Relation, schema: Schema) -> Answer:
    """The rows that count, with numbers instead of texts."""
    *names, count, remark = _names(relation)
    tables, joins, lists = [], [], []
    for place, (attribute, name) in enumerate(zip(schema.attributes, names, strict=True)):
        lists.append(texts_of(attribute))
        pairs = "UNNEST(?::VARCHAR[]) AS text, UNNEST(RANGE(LEN(?::VARCHAR[]))) AS code"
        tables.append(f"keys_{place} AS (SELECT {pairs})")
        joins.append(f"LEFT JOIN keys_{place} ON keys_{place}.text = answer.{name}")
    codes = [f"CAST(keys_{place}.code AS BIGINT) AS c{place}" for place in range(len(names))]
    result = relation.connection.execute(
        f"WITH {', '.join(tables)} SELECT {', '.join(codes)},"
        f" TRY_CAST({count} AS BIGINT) AS counts FROM answer {' '.join(joins)}"
        f" WHERE {remark} IS NULL",
        [texts for texts in lists for _ in range(2)],
    ).fetchnumpy()
    counts = result["counts"]
    if np.ma.is_masked(counts) or sum(np.ma.getdata(counts).tolist()) >= EXACT_INT64:
        raise InvalidInputError(
            "the counts together do not fit into 64 bits; use a larger unit of the numbers in the"
            " schema"
        )
    found = [result[f"c{place}"] for place in range(len(names))]
    assert not any(map(np.ma.is_masked, found)), "a cell that the schema does not have"
    shape = (len(found), len(counts))
    whole = np.array([np.ma.getdata(codes) for codes in found], dtype=np.int64).reshape(shape)
    return Answer(whole, np.ma.getdata(counts).astype(np.int64))


def _refusal(relation: Relation, query: Query, remarks: dict[str, int]) -> InvalidInputError:
    """What is wrong with the first row that is refused."""
    numbered = f"(SELECT *, ROW_NUMBER() OVER () AS row_number FROM {relation.text})"
    first = Query(query.schema, numbered, query.key, numbered=True)
    columns = query.columns
    cells = ["NULL" if c.sums else f"cell_{c.place}" for c in columns]
    items = ["remark", *(f"{c.found} IS NULL" for c in columns)]
    items += [
        f"CASE WHEN {column.found} IS NULL THEN {column.said} ELSE {cell} END"
        for column, cell in zip(columns, cells, strict=True)
    ]
    relation.connection.execute("SET preserve_insertion_order = 'true'")
    wrong = f"WHERE remark IN ('{NO_PERSON}', '{REFUSED}', '{IMPOSSIBLE}')"
    items += [f"name_{place}" for place in range(len(query.persons))]
    row, remark, *rest = relation.ask(
        first.asked(["source_row", *items], f"{wrong} ORDER BY source_row LIMIT 1")
    )[0]
    count, where, number = len(columns), f"row {row}", remarks[remark]
    lost, texts, names = rest[:count], rest[count : 2 * count], rest[2 * count :]
    if remark == NO_PERSON:
        return _no_person(query.schema, names, where, number)
    return _problem(query.schema, remark, lost, texts, where, number)


def _no_person(
    schema: Schema, names: Sequence[str | None], where: str, number: int
) -> InvalidInputError:
    wrong = [
        (column, text)
        for column, text in zip(schema.person, names, strict=True)
        if not text or text.lower() in NOTHING or re.match(ROUNDED, text)
    ]
    column, text = wrong[0]
    why = "there is no value"
    if text:
        kind = "a missing number" if text.lower() in NOTHING else "a number that was rounded"
        why = f"{text[:40]!r} is {kind}"
    more = f"; {number - 1} more rows are refused" if number > 1 else ""
    return InvalidInputError(
        f"{where}, column {column!r}: {why}, so no one knows whose row it is{more}"
    )


def _problem(
    schema: Schema,
    remark: str,
    lost: Sequence[bool],
    texts: Sequence[str | None],
    where: str,
    number: int,
) -> InvalidInputError:
    more = f"; {number - 1} more rows are refused" if number > 1 else ""
    attributes = [*zip(schema.attributes, lost, texts, strict=True)]
    if remark == IMPOSSIBLE:
        told = ", ".join(f"{a.name}={text}" for a, _, text in attributes if text is not None)
        return InvalidInputError(f"{where}: {told} is impossible by the schema{more}")
    attribute, _, text = next(
        entry for entry in attributes if entry[1] and entry[0].outside == "refuse"
    )
    return InvalidInputError(
        f"{where}, column {attribute.column!r}: {problem(attribute, text)}{more};"
        " `pmldesign schema check` lists all such values"
    )


def _require_exactly(relation: Relation, query: Query) -> None:
    ((people, short),) = relation.ask(query.short)
    if short:
        k = query.schema.rows_per_person
        raise InvalidInputError(
            f"under replace everybody has exactly {k} rows, and {short} of {people} people have"
            f" fewer; use add-remove neighbours, for which {k} is the most"
        )


def _dropped(relation: Relation, query: Query, answer: Answer) -> Iterator[str]:
    """Warnings if all rows, or all records of a key, were dropped, with similar keys."""
    nothing = not answer.counts.size
    for column in query.columns:
        attribute, place = column.attribute, column.place
        empty = not column.sums and len({*answer.codes[place].tolist()}) < len(attribute.labels)
        if attribute.outside != "drop" or not (nothing or empty):
            continue
        lost = relation.ask(
            query.asked(
                [f"{column.said} AS text", "COUNT(*) AS records"],
                f"WHERE remark = '{DROPPED}' AND {column.found} IS NULL GROUP BY 1"
                f" ORDER BY 2 DESC, 1 LIMIT {SHOWN}",
            )
        )
        for text, number in lost:
            hint = similar(attribute, text) if text else ""
            if hint or nothing:
                why = f" ({hint})" if hint else ""
                yield (
                    f"column {attribute.column!r}: {number} rows with {text or ''!r:.60} were"
                    f" dropped{why}; `pmldesign schema check` lists all such values"
                )
                break


def _counted(people: CountedPeople, schema: Schema, *, exactly: bool) -> Answer:
    """The answer in a file."""
    if exactly and schema.person and schema.rows_per_person > 1:
        raise InvalidInputError(
            "counts do not show that each person has exactly so many rows; use add-remove"
            " neighbours, or release the rows themselves"
        )
    source, count, remark = source_of(people.source), count_name(schema), remark_name(schema)
    present = ", ".join(map(str, source.columns))
    wanted = [*schema.columns, count]
    columns = [*wanted, remark] if remark in source.columns else wanted
    if sorted(map(str, source.columns)) != sorted(columns):
        raise InvalidInputError(
            f"counts are what the query of `pmldesign schema sql` returns, with the columns"
            f" {', '.join(wanted)} and {remark}; found are {present[:100]}"
        )
    with opened(source, columns) as relation:
        texts = [
            f"NULLIF(CAST({quoted(name)} AS VARCHAR), '') AS {quoted(name)}" for name in columns
        ]
        texts += [] if remark in columns else [f"CAST(NULL AS VARCHAR) AS {quoted(remark)}"]
        relation.connection.execute(
            f"CREATE TEMP TABLE answer AS SELECT {', '.join(texts)} FROM {relation.text}"
        )
        _require_counts(relation, schema)
        _require_known(relation, schema)
        answer = _codes(relation, schema)
        if lost := _remarks(relation).get(DROPPED, 0):
            warnings.warn(f"{lost} rows were dropped, as the schema says", stacklevel=3)
    for combination in schema.impossible:
        held = [np.isin(answer.codes[i], some) for i, some in combination]
        if np.logical_and.reduce(held).any():
            raise _not_counted("impossible values")
    return answer


def _not_counted(what: str) -> InvalidInputError:
    return InvalidInputError(f"the counts have rows of people with {what}, which are refused")


def _require_counts(relation: Relation, schema: Schema) -> None:
    """Refuse numbers that are not counts."""
    *_, count, _remark = _names(relation)
    most = MOST_PEOPLE * schema.denominator
    false = relation.ask(
        f"SELECT {count} FROM answer WHERE NOT COALESCE(REGEXP_FULL_MATCH({count}, '[0-9]{{1,38}}')"
        f" AND TRY_CAST({count} AS HUGEINT) < {most}, FALSE) LIMIT 1"
    )
    if false:
        raise InvalidInputError(f"{str(false[0][0])[:40]!r} is not a count, an integer from 0")


def _require_known(relation: Relation, schema: Schema) -> None:
    """Refuse remarks, and cells that the schema does not have."""
    *names, _count, remark = _names(relation)
    for place, attribute in enumerate(schema.attributes):
        keys = ", ".join(map(literal, texts_of(attribute)))
        wrong = relation.ask(
            f"SELECT {names[place]}, {remark} FROM answer WHERE"
            f" COALESCE({remark}, '{REFUSED}') = '{REFUSED}'"
            f" AND {names[place]} NOT IN ({keys}) LIMIT 1"
        )
        if wrong:
            raise InvalidInputError(
                f"column {attribute.column!r} of the counts: {wrong[0][0]!r:.60} is not a cell of"
                " the schema"
            )
    left = relation.ask(
        f"SELECT {remark} FROM answer WHERE {remark} <> '{DROPPED}' OR ({remark} IS NULL"
        f" AND ({' OR '.join(f'{name} IS NULL' for name in names)})) LIMIT 1"
    )
    if left:
        why = {
            NO_PERSON: f"no value in {', '.join(schema.person)}",
            IMPOSSIBLE: "impossible values",
        }
        told = why.get(left[0][0], "no value in a column")
        raise _not_counted(told)
