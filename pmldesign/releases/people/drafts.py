"""A schema drafted from a file of people, for review."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

from pmldesign.arguments import as_number
from pmldesign.errors import InvalidInputError, printable
from pmldesign.privacy.outward import as_written
from pmldesign.releases.people.attribute import is_code, is_key, is_name
from pmldesign.releases.people.columns import text_sql
from pmldesign.releases.people.relation import Relation, opened
from pmldesign.releases.people.sources import source_of
from pmldesign.releases.people.values import NESTED, key_text, label_of, quoted

MOST_KEYS = 30
"""Columns with more different values get cuts, if all are numbers."""
BINS = 10
"""Approximate number of cells of a numeric column; the reviewer can join or split them."""
LARGEST = Fraction(sys.float_info.max)
SAMPLE = 1000
"""Rows in which most columns are seen not to determine others."""
MOST_PAIRED = 100
"""Most columns whose pairs are compared: beyond, there are too many pairs."""
TOGETHER, FEW = 200, 1000
"""Columns that one query counts, and different values of each: more are grouped faster alone."""
UNORDERED = (
    "keys are in no order; for quantiles, running sums and ranges write those of an attribute in "
    'order, and "ordered": true beside them'
)
TOLD = (
    "noise on combinations that do not occur makes parts differ from their whole; make them one "
    'attribute with "levels" (docs/guides/hierarchies.md), or leave one of them out'
)
DIFFERENT = (
    "has another value in each row; if these are numbers of people or of rows, leave it out: a "
    'column that tells people apart is named by "person" (docs/guides/bounded-contributions.md)'
)
EMPTY = (
    'rows without a key or number, in {}, end a release; "outside": "drop" leaves them out, in an '
    "attribute or for all"
)


def draft_schema(data: Any) -> dict[str, Any]:
    """A schema with the values that the data have: keys of few, cuts of many numbers.

    It is marked as a draft that has not been reviewed. Columns are left out that have too many
    texts, or with names that no attribute can have.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: no column can be an attribute.
    """
    attributes, sizes, empty, different = [], {}, [], []
    source = source_of(data)
    names = [name for name in source.columns if is_name(name)]
    source.require(names)
    with opened(source, names, nested=True) as relation:
        relation = loaded(relation, names)
        counted = value_counts(relation)
        for name, counts in counted.items():
            values = {label_of(key) for key in counts if is_key(key)}
            entry = _attribute(values)
            if entry is None:
                continue
            attributes.append({"name": name, **entry})
            sizes[name] = len(values)
            empty += [name] * (len(values) < len(counts))
            if "cuts" in entry:
                finite = all(map(_is_finite, values))
                empty += [name] * (not finite and name not in empty)
                whole = finite and all(float(text).is_integer() for text in values)
                different += [name] * (whole and len(values) == counts.total())
        told = [*_told(relation, sizes)]
    left_out = [str(name) for name in source.columns if name not in sizes]
    if not attributes:
        raise InvalidInputError("no column of the data can be an attribute: write the schema")
    unordered = any("keys" in entry for entry in attributes)
    return {
        "reviewed": False,
        "notes": [UNORDERED] * unordered
        + [f"left out: {printable(', '.join(left_out))}"] * bool(left_out)
        + [EMPTY.format(printable(", ".join(empty)))] * bool(empty)
        + [f"{name!r} {DIFFERENT}" for name in different]
        + [f"{finer!r} tells {coarser!r}: {TOLD}" for finer, coarser in told],
        "attributes": attributes,
        "outside": "refuse",
        "rows_per_person": 1,
    }


def loaded(relation: Relation, names: Sequence[str]) -> Relation:
    """The keys of flat columns in a table, so that a file is read once."""
    flat = [name for name in names if not NESTED.search(relation.types[name])]
    texts = ", ".join(
        f"{text_sql(quoted(name), typed=True, numbers=True)} AS t{place}"
        for place, name in enumerate(flat)
    )
    relation.connection.execute(
        f"CREATE TEMP TABLE texts AS SELECT {texts or '1'} FROM {relation.text}"
    )
    return Relation(relation.connection, "texts", dict.fromkeys(flat, "VARCHAR"))


def value_counts(relation: Relation) -> dict[str, Counter[str]]:
    """For each column of `loaded` the keys of its values, and how many rows have them.

    A missing value is "".
    """
    found: dict[str, Counter[str]] = {name: Counter() for name in relation.types}
    names, many = [*found], f"SELECT t{{0}}, COUNT(*) FROM {relation.text} GROUP BY 1"
    for start in range(0, len(names), TOGETHER):
        places = range(start, min(start + TOGETHER, len(names)))
        about = (f"APPROX_COUNT_DISTINCT(t{place})" for place in places)
        (sizes,) = relation.ask(f"SELECT {', '.join(about)} FROM {relation.text}")
        few = [place for place, size in zip(places, sizes, strict=True) if size <= FEW]
        maps = ", ".join(f"HISTOGRAM(COALESCE(t{place}, ''))" for place in few)
        rows = relation.ask(f"SELECT {maps} FROM {relation.text}") if few else [()]
        counted = dict(zip(few, rows[0], strict=True))
        for place in places:
            counts = counted[place] if place in counted else dict(relation.ask(many.format(place)))
            for text, number in (counts or {}).items():
                found[names[place]][key_text(text or "")] += number
    return found


def _told(relation: Relation, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Pairs of columns: the first, with at least as many values, determines the second.

    Args:
        relation: of `loaded`.
        sizes: how many values each column has.
    """
    names = [name for name in sizes if sizes[name] > 1][:MOST_PAIRED]
    column = {name: f"t{place}" for place, name in enumerate(relation.types)}
    if len(names) < 2:
        return
    listed = ", ".join(column[name] for name in names)
    begin = relation.ask(f"SELECT {listed} FROM {relation.text} LIMIT {SAMPLE}")
    columns = dict(zip(names, zip(*begin, strict=True), strict=True)) if begin else {}
    told = set()
    for finer, coarser in permutations(names, 2):
        if sizes[finer] < sizes[coarser] or (coarser, finer) in told:
            continue
        pairs = {*zip(columns[finer], columns[coarser], strict=True)}
        pairs = {pair for pair in pairs if all(pair)}
        if not pairs or len({first for first, _ in pairs}) < len(pairs):
            continue
        one, two = column[finer], column[coarser]
        ((rows, different, firsts),) = relation.ask(
            f"SELECT COUNT(*), COUNT(DISTINCT ({one}, {two})), COUNT(DISTINCT {one})"
            f" FROM {relation.text} WHERE {one} <> '' AND {two} <> ''"
        )
        if different == firsts and rows >= 2 * sizes[finer]:
            told.add((finer, coarser))
            yield finer, coarser


def _attribute(texts: set[str]) -> dict[str, Any] | None:
    numeric = not any(is_code(text) or as_number(text) is None for text in texts)
    numbers = sorted(map(float, filter(_is_finite, texts))) if numeric else []
    if 0 < len(texts) <= MOST_KEYS:
        return {"keys": sorted(texts, key=float if numbers else str)}
    if len(numbers) < 2:
        return None
    return {"cuts": round_cuts(numbers[0], numbers[-1])}


def _is_finite(text: str) -> bool:
    return math.isfinite(float(text))


def round_cuts(low: float, high: float) -> list[int | float]:
    """Cuts at round numbers from below the lower number to above the upper one."""
    least, most = as_written(low), as_written(high)
    step = _round_step((most - least) / BINS)
    numbers = range(math.floor(least / step), math.floor(most / step) + 2)
    return [*dict.fromkeys(_plain(k * step) for k in numbers)]


def _round_step(width: Fraction) -> Fraction:
    """The next number of the form 1, 2, 5 times a power of ten."""
    digits = len(str(width.numerator)) - len(str(width.denominator))
    power = Fraction(10) ** (digits - 1)
    return next(m * power for m in (1, 2, 5, 10, 20, 50, 100) if m * power >= width)


def _plain(value: Fraction) -> int | float:
    """A number as a double has it; beyond all doubles the last one."""
    double = float(max(-LARGEST, min(value, LARGEST)))
    return int(double) if double.is_integer() and abs(double) < 2**53 else double
