"""A schema drafted from a file of people, for somebody to review."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain, permutations
from typing import Any

from pmldesign.arguments import as_number
from pmldesign.errors import InvalidInputError, printable
from pmldesign.release.people.attribute import (
    is_code,
    is_key,
    is_name,
    key_of,
    text_of,
)
from pmldesign.release.people.frames import CountedRows
from pmldesign.release.people.people import batches, column_names, first_rows

MOST_KEYS = 30
"""Columns with more different values get cuts, if all are numbers."""
BINS = 10
"""Cells of a column of numbers, about: whoever reviews the schema joins or splits them."""
SAMPLE = 1000
"""Rows in which most columns are seen not to tell others."""
UNORDERED = (
    "keys are in no order; for quantiles, running sums and ranges write those of an attribute in "
    'order, and "ordered": true beside them'
)
TOLD = (
    "noise on combinations that do not occur makes parts differ from their whole; make them one "
    'attribute with "levels" (docs/regions.md), or leave one of them out'
)
DIFFERENT = (
    "has another value in each row; if these are numbers of people or of rows, leave it out: a "
    'column that tells people apart is named by "person" (docs/people.md)'
)
EMPTY = (
    'rows without a value, in {}, end a release; "outside": "drop" leaves them out, in an attribute'
    " or for all"
)


def draft_schema(data: Any) -> dict[str, Any]:
    """A schema for all columns of a table of people, marked as not reviewed.

    Keys are the values that occur, cuts go from the smallest to the largest number: neither may be
    published before somebody has decided that it may. Notes say what else to look at, and which
    columns are left out: those of many different texts (names, identifiers, codes), without values,
    or with names that no attribute can have.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: no column can be an attribute.
    """
    attributes, sizes, left_out, empty, different = [], {}, [], [], []
    for name in column_names(data):
        values, filled, rows = _values(data, name) if is_name(name) else (set[str](), 0, 0)
        entry = _attribute(values)
        if entry is None:
            left_out.append(name)
        else:
            attributes.append({"name": name, **entry})
            sizes[name] = len(values)
            empty += [name] * (filled < rows)
            whole = all(number.is_integer() for number in map(as_number, values) if number)
            if "cuts" in entry and whole and len(values) == rows:
                different.append(name)
    if not attributes:
        raise InvalidInputError("no column of the data can be an attribute: write the schema")
    unordered = any("keys" in entry for entry in attributes)
    return {
        "reviewed": False,
        "notes": [UNORDERED] * unordered
        + [f"left out: {printable(', '.join(left_out))}"] * bool(left_out)
        + [EMPTY.format(printable(", ".join(empty)))] * bool(empty)
        + [f"{name!r} {DIFFERENT}" for name in different]
        + [f"{finer!r} tells {coarser!r}: {TOLD}" for finer, coarser in _told(data, sizes)],
        "attributes": attributes,
        "outside": "refuse",
        "rows_per_person": 1,
    }


def _told(data: Any, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Pairs of columns of which the first, with at least as many values, tells the second.

    Args:
        data: the table of people.
        sizes: how many values each column has.
    """
    begin = first_rows(data, [*sizes], SAMPLE)
    columns = dict(zip(sizes, zip(*begin, strict=True), strict=True))
    told = set()
    for finer, coarser in permutations(sizes, 2):
        fitting = sizes[finer] >= sizes[coarser] > 1 and (coarser, finer) not in told
        pairs = zip(columns[finer], columns[coarser], strict=True)
        if (
            fitting
            and _tells([[(*pair, 1, 0) for pair in pairs]], 1)
            and _tells(batches(data, [finer, coarser]), 2 * sizes[finer])
        ):
            told.add((finer, coarser))
            yield finer, coarser


def _tells(rows: Iterable[CountedRows], least: int) -> bool:
    """Whether equal first values have equal second ones, in at least so many rows with both."""
    second_of: dict[str, str] = {}
    number = 0
    for *values, count, _ in chain.from_iterable(rows):
        first, second = map(text_of, values)
        if first and second:
            number += count
            if second_of.setdefault(first, second) != second:
                return False
    return number >= least


def _values(data: Any, name: str) -> tuple[set[str], int, int]:
    """The values of a column as keys, none for one of lists; rows with a value, and all rows."""
    counts: Counter[str] = Counter()
    for batch in batches(data, [name]):
        for value, count, _ in batch:
            if not isinstance(value, Hashable):
                return set(), 0, 0
            counts[text_of(value)] += count
    keys = sorted(filter(is_key, counts), reverse=True)
    rows = counts.total()
    return {*{key_of(text): text for text in keys}.values()}, rows - counts[""], rows


def _attribute(texts: set[str]) -> dict[str, Any] | None:
    found = [None if is_code(text) else as_number(text) for text in texts]
    numbers = sorted(number for number in found if number is not None and math.isfinite(number))
    if None in found:
        numbers = []
    if 0 < len(texts) <= MOST_KEYS:
        return {"keys": sorted(texts, key=float if numbers else str)}
    if len(numbers) < 2:
        return None
    return {"cuts": round_cuts(numbers[0], numbers[-1])}


def round_cuts(low: float, high: float) -> list[int | float]:
    """Cuts at round numbers from below the lower number to above the upper one."""
    step = _round_step((high - low) / BINS)
    first = math.floor(low / step)
    last = math.floor(high / step) + 1
    return [_plain(k * step) for k in range(first, last + 1)]


def _round_step(width: float) -> float:
    """The next number of the form 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= width * (1 - 1e-12))


def _plain(value: float) -> int | float:
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded
