"""The query that counts people: for every source, and for databases elsewhere.

    SELECT key of each attribute, COUNT(*) AS records, remark FROM table GROUP BY ...

Its layers:

    given      texts of values and of identifiers
    readings   their keys and numbers (`values`)
    cells      the cell of each attribute, or the number of units of a number (`columns`)
    states     a remark on each row that does not count: no person, refused, impossible, dropped
    kept       of each person up to k rows, if the schema has columns of a person

With h = MD5 under a key, up to k rows of a person i are kept:

    any rows                  those with the least (r, h(i, cell)), r the equal rows before it
    one for each cell         one of each cell, the k cells of least h(i, cell)
    one for each value y      that of least h(i, cell) of each y, the k values of least h(i, y)

This depends only on the rows of that person, whatever the hash. Dropped rows do not count. Numbers
have their units instead of a cell: rows are equal if their units are, and one for each cell is one
for each combination of the other attributes (`Schema.telling`).

The text is that of DuckDB, and sqlglot translates it for other databases.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.mechanisms.integers import EXACT_INT64
from pmldesign.releases.people.columns import Column, floating_sql, select, text_sql, texts_of
from pmldesign.releases.people.numbers import Number
from pmldesign.releases.people.schema import Combination, Schema
from pmldesign.releases.people.values import (
    MARKS,
    NOTHING,
    listed,
    person_sql,
    quoted,
)

DIALECTS = tuple(MARKS)
PLACEHOLDER = "{table}"
NO_PERSON, REFUSED, IMPOSSIBLE, DROPPED = "no person", "refused", "impossible", "dropped"
"""Remarks on rows that do not count."""
MOST_NUMBERS = 6
"""Attributes with numbers: a row is divided among all combinations of their ends."""
NAME = r'[A-Za-z_][A-Za-z0-9_]*|"(?:[^"]|"")+"'


def query_text(
    schema: Schema, dialect: str, table: str | None = None, *, key: str | None = None
) -> str:
    """The query that counts the people of a table.

    Args:
        schema: of the people.
        dialect: one of DIALECTS.
        table: its name, with those of its schema and database if these are needed; None for a
            placeholder.
        key: of the hash that selects rows of a person; None for a random one.

    Raises:
        InvalidInputError: sqlglot is not installed, numbers that are not added exactly, or a table
            with an invalid name.
    """
    if dialect == "duckdb":
        source = PLACEHOLDER if table is None else table_name(table)
        return Query(schema, source, key or secrets.token_hex(16)).counts
    require_extra("a query for another database", "sqlglot", "sql")
    import sqlglot

    mark = "pmldesign_table"
    text = Query(schema, mark, key or secrets.token_hex(16), dialect).counts
    tree = sqlglot.parse_one(text, read="duckdb")
    marks = dict(zip(("TEXT_OF", "IS_FLOATING"), MARKS[dialect], strict=True))

    def translated(node: sqlglot.exp.Expression) -> sqlglot.exp.Expression:
        if isinstance(node, sqlglot.exp.Anonymous) and node.name in marks:
            argument = node.expressions[0].sql(dialect)
            return sqlglot.parse_one(marks[node.name].format(argument), read=dialect)
        if table is not None and isinstance(node, sqlglot.exp.Table) and node.name == mark:
            name = _table(table, dialect)
            name.set("alias", node.args["alias"])
            return name
        return node

    written: str = tree.transform(translated).sql(dialect, pretty=True)
    return written.replace(mark, PLACEHOLDER) if table is None else written


def table_name(table: str) -> str:
    """The name of a table of DuckDB, quoted.

    Raises:
        InvalidInputError: it is not a name.
    """
    if not re.fullmatch(rf"({NAME})(\.({NAME})){{0,2}}", table):
        raise _no_table(table)
    parts = re.findall(NAME, table)
    return ".".join(part if part.startswith('"') else quoted(part) for part in parts)


def _table(table: str, dialect: str):  # type: ignore[no-untyped-def] # of sqlglot
    """The name of a table in another dialect."""
    import sqlglot

    try:
        marks = [token.token_type for token in sqlglot.tokenize(table, dialect)]
        name = sqlglot.exp.to_table(table, dialect)
    except sqlglot.errors.SqlglotError:
        marks, name = [], None
    if name is None or sqlglot.TokenType.SEMICOLON in marks:  # "a;b" are two
        raise _no_table(table)
    return name


def _no_table(table: str) -> InvalidInputError:
    return InvalidInputError(
        f"{table!r:.60} is not the name of a table; write name, schema.name or database.schema.name"
    )


def count_name(schema: Schema) -> str:
    """The column of counts: of records, or of parts of D to a record."""
    name = "parts" if schema.has_numbers else "records"
    return _free(f"kept_{name}" if schema.person else name, schema)


def remark_name(schema: Schema) -> str:
    """The column of remarks."""
    return _free("remark", schema)


def _free(name: str, schema: Schema) -> str:
    while name in schema.columns:
        name += "_"
    return name


@dataclass(frozen=True)
class Query:
    """The layers of the query for a table, and their inputs.

    Attributes:
        schema: of the people.
        source: the table, as it is written after FROM.
        key: of the hash.
        dialect: of the query.
        numbered: whether the table has a column row_number.
    """

    schema: Schema
    source: str
    key: str
    dialect: str = "duckdb"
    numbered: bool = False

    def __post_init__(self) -> None:
        numbers = [a.name for a in self.schema.attributes if isinstance(a, Number)]
        if len(numbers) > MOST_NUMBERS or self.schema.denominator >= EXACT_INT64:
            raise InvalidInputError(
                f"a schema has up to {MOST_NUMBERS} attributes with low and high, whose units"
                f" together divide a record into fewer than 2^62 parts; remove {numbers[-1]!r}, or"
                " use a larger unit"
            )

    @cached_property
    def columns(self) -> list[Column]:
        """The attributes."""
        typed = self.dialect == "duckdb"
        return [Column(a, place, typed) for place, a in enumerate(self.schema.attributes)]

    @property
    def counts(self) -> str:
        """The rows of each cell, or the parts of a row."""
        return self._parts if self.schema.has_numbers else self._counts

    @cached_property
    def persons(self) -> list[str]:
        """The columns that distinguish persons."""
        return [f"person_{place}" for place in range(len(self.schema.person))]

    @cached_property
    def layers(self) -> list[tuple[str, str]]:
        """The names and queries from the table to `states`."""
        person = [
            f"CASE WHEN {floating_sql(name, self.dialect)} THEN 'inf' ELSE"
            f" {text_sql(name, typed=self.dialect == 'duckdb')} END AS name_{place}"
            for place, name in enumerate(f"source.{quoted(n)}" for n in self.schema.person)
        ]
        told = [
            f"{person_sql(f'name_{place}')} AS {name}" for place, name in enumerate(self.persons)
        ]
        columns = self.columns
        person += ["source.row_number AS source_row"] if self.numbered else []
        return [
            ("given", select([*(c.given for c in columns), *person], f"{self.source} AS source")),
            ("readings", select(["*", *(c.reading for c in columns), *told], "given")),
            ("cells", select(["*", *(c.cell for c in columns)], "readings")),
            ("states", select(["*", f"{self._remark} AS remark"], "cells")),
        ]

    @property
    def _remark(self) -> str:
        """A remark on a row; NULL if it counts."""
        schema, columns = self.schema, self.columns
        cases = []
        if self.persons:
            missing = listed(["", *NOTHING])
            nobody = (f"LOWER(COALESCE({name}, '')) IN ({missing})" for name in self.persons)
            cases.append((" OR ".join(nobody), NO_PERSON))
        for outside, remark in (("refuse", REFUSED), ("drop", DROPPED)):
            lost = [f"{c.found} IS NULL" for c in columns if c.attribute.outside == outside]
            cases += [(" OR ".join(lost), remark)] if lost else []
            if outside == "refuse":
                never = DROPPED if schema.drops else IMPOSSIBLE
                cases += [(_holds(columns, c), never) for c in schema.impossible]
        whens = " ".join(f"WHEN {case} THEN '{remark}'" for case, remark in cases)
        return f"CASE {whens} END" if whens else "CAST(NULL AS TEXT)"

    @cached_property
    def kept(self) -> list[tuple[str, str]]:
        """The layers from `states` to `kept`."""
        schema, columns = self.schema, self.columns
        values = [column.found for column in columns]
        told = [
            column.found for column, tells in zip(columns, schema.telling, strict=True) if tells
        ]
        whole = schema.one_per is None or len(told) == len(values)
        within = ", ".join(["remark", *self.persons, *(values if whole else told)])
        turns = f"ROW_NUMBER() OVER (PARTITION BY {within} ORDER BY drawn, {', '.join(values)})"
        order = ["drawn", *values] if whole else [self._hash([*self.persons, *told]), *told]
        if schema.one_per is None:
            order = ["turn", *order]
        owner = ", ".join(["remark", *self.persons])
        places = f"ROW_NUMBER() OVER (PARTITION BY {owner} ORDER BY {', '.join(order)})"
        once = "" if schema.one_per is None else "\n  WHERE turn = 1 OR remark IS NOT NULL"
        drawn = f"{self._hash([*self.persons, *values])} AS drawn"
        limit = f"place <= {schema.rows_per_person} OR remark IS NOT NULL"
        return [
            ("hashes", select(["*", drawn], "states")),
            ("turns", select(["*", f"{turns} AS turn"], "hashes")),
            ("places", select(["*", f"{places} AS place"], f"turns{once}")),
            ("kept", select(["*"], f"places\n  WHERE {limit}")),
        ]

    def _hash(self, parts: Sequence[str]) -> str:
        texts = [f"COALESCE(CAST({part} AS TEXT), '')" for part in parts]
        return "MD5(" + " || '|' || ".join([f"'{self.key}'", *texts]) + ")"

    @property
    def counted(self) -> tuple[list[tuple[str, str]], str]:
        """All layers, and the rows that count or have a remark."""
        if self.schema.person:
            return [*self.layers, *self.kept], "kept"
        return self.layers, "states"

    def _shown(self, column: Column) -> str:
        """The cell of a row; of one that is refused the text of the value that has none."""
        cell = "CAST(NULL AS TEXT)" if column.sums else f"cell_{column.place}"
        refused = ""
        if column.attribute.outside == "refuse":
            lost = f"remark = '{REFUSED}' AND {column.found} IS NULL"
            refused = f" WHEN {lost} THEN {column.said}"
        return f"CASE WHEN remark IS NULL OR remark = '{IMPOSSIBLE}' THEN {cell}{refused} END"

    @property
    def _counts(self) -> str:
        layers, source = self.counted
        names = [quoted(column.attribute.column) for column in self.columns]
        shown = [
            f"{self._shown(column)} AS {name}"
            for column, name in zip(self.columns, names, strict=True)
        ]
        number = f"COUNT(*) AS {quoted(count_name(self.schema))}"
        remark = f"remark AS {quoted(remark_name(self.schema))}"
        places = [*range(1, len(names) + 1), len(names) + 2]
        groups = ", ".join(map(str, places))
        last = f"{select([*shown, number, remark], source)}\n  GROUP BY {groups}"
        return _text(layers, last)

    @property
    def _parts(self) -> str:
        """Sums for each interval, then a row for each of its ends."""
        layers, source = self.counted
        sums = [column for column in self.columns if column.sums]
        keys = [f"{self._shown(column)} AS shown_{column.place}" for column in self.columns]
        keys += [
            f"CASE WHEN remark IS NULL THEN interval_{c.place} END AS interval_{c.place}"
            for c in sums
        ]
        parts, answers = [], []
        count, remark = quoted(count_name(self.schema)), quoted(remark_name(self.schema))
        for number, ends in enumerate(product((0, 1), repeat=len(sums))):
            weights = [column.weight(end) for column, end in zip(sums, ends, strict=True)]
            added = f"CASE WHEN remark IS NULL THEN {' * '.join(weights)} END"
            parts.append(f"SUM(CAST({added} AS DECIMAL(38, 0))) AS parts_{number}")
            end_of = dict(zip([column.place for column in sums], ends, strict=True))
            cells = [
                f"{c.end_label(end_of[c.place]) if c.sums else f'shown_{c.place}'}"
                f" AS {quoted(c.attribute.column)}"
                for c in self.columns
            ]
            amounts = [f"parts_{number} AS {count}", f"remark AS {remark}"]
            joins = " ".join(f"JOIN {column.joined}" for column in sums)
            some = f"sums {joins}\n  WHERE remark IS NULL AND parts_{number} <> 0"
            answers.append(select([*cells, *amounts], some))
        shown = [f"shown_{c.place} AS {quoted(c.attribute.column)}" for c in self.columns]
        rows = [f"CAST(records AS DECIMAL(38, 0)) AS {count}", f"remark AS {remark}"]
        answers.append(select([*shown, *rows], "sums\n  WHERE remark IS NOT NULL"))
        groups = ", ".join(str(place + 1) for place in range(len(keys) + 1))
        layers = [
            *layers,
            *(column.ends for column in sums),
            ("intervals", select(["*", *(column.interval for column in sums)], source)),
            (
                "weights",
                select(
                    ["intervals.*", *(column.weighed for column in sums)],
                    " ".join(["intervals", *(f"LEFT JOIN {column.joined}" for column in sums)]),
                ),
            ),
            (
                "sums",
                select(["remark", *keys, *parts, "COUNT(*) AS records"], "weights")
                + f"\n  GROUP BY {groups}",
            ),
        ]
        return _text(layers, "\nUNION ALL\n".join(answers))

    @property
    def short(self) -> str:
        """How many persons there are, and how many of them have fewer than k rows."""
        rows = "kept\n  WHERE remark IS NULL"
        each = f"{select([*self.persons, 'COUNT(*) AS rows'], rows)}\n  GROUP BY " + ", ".join(
            self.persons
        )
        fewer = f"COUNT(CASE WHEN rows < {self.schema.rows_per_person} THEN 1 END)"
        layers = [*self.layers, *self.kept, ("each_person", each)]
        return _text(layers, select(["COUNT(*)", fewer], "each_person"))

    def asked(self, items: Sequence[str], more: str, layer: str = "states") -> str:
        """Another question to the layers up to `states`, for the owner of the data."""
        return _text(self.layers, f"{select(items, layer)}\n  {more}")


def _holds(columns: Sequence[Column], combination: Combination) -> str:
    """Whether a row has a combination of values that is impossible."""
    parts = []
    for place, numbers in combination:
        texts = texts_of(columns[place].attribute)
        parts.append(f"cell_{place} IN ({listed(texts[number] for number in numbers)})")
    return " AND ".join(parts)


def _text(layers: Sequence[tuple[str, str]], last: str) -> str:
    named = ", ".join(f"{name} AS (\n  {query}\n)" for name, query in layers)
    return f"WITH {named}\n{last}"
