"""Which rows of a person a query keeps: those of `people.persons`, with MD5 as the keyed hash.

The key is part of the query, drawn afresh for each; whatever the hash, what is kept depends on that
person's rows alone. State 1 has rows with a cell; rows of nobody (-1) and of values that are to be
refused (2) pass, so that the release is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from pmldesign.release.databases.values import UNTOLD, Column, literal, texts_of
from pmldesign.release.people.schema import Combination, Schema


def kept_rows(schema: Schema, columns: Sequence[Column], key: str) -> list[str]:
    """Layers of a query from the table `cells` to `kept`.

    Args:
        schema: with the columns of a person.
        columns: its attributes.
        key: of the hash.
    """
    persons = [f"person_{number}" for number in range(len(schema.person))]
    texts = [f"cell_{column.place}" for column in columns]
    steps = [f"step_{column.place}" for column in columns if column.sums]
    values = [*texts, *steps]
    nobody = " OR ".join(f"COALESCE({name}, '') = ''" for name in persons)
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
