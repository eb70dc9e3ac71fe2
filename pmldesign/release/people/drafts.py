"""A schema drafted from a file of people, for somebody to review."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain, permutations
from typing import Any

from pmldesign.arguments import as_number
from pmldesign.errors import InvalidInputError, printable
from pmldesign.privacy.outward import as_written
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
LARGEST = Fraction(sys.float_info.max)
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
    'rows without a key or number, in {}, end a release; "outside": "drop" leaves them out, in an '
    "attribute or for all"
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
        counts = _counts(data, name) if is_name(name) else Counter[str]()
        values = _values(counts)
        entry = _attribute(values)
        if entry is None:
            left_out.append(str(name))
            continue
        attributes.append({"name": name, **entry})
        sizes[name] = len(values)
        empty += [name] * any(not is_key(text) for text in counts)
        if "cuts" in entry:
            finite = all(map(_is_finite, values))
            empty += [name] * (not finite and name not in empty)
            whole = finite and all(float(text).is_integer() for text in values)
            different += [name] * (whole and len(values) == counts.total())
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


def _counts(data: Any, name: str) -> Counter[str]:
    """The texts of a column, and in how many rows each is; nothing for one of lists."""
    counts: Counter[str] = Counter()
    for batch in batches(data, [name]):
        for value, count, _ in batch:
            if not isinstance(value, Hashable):
                return Counter()
            counts[text_of(value)] += count
    return counts


def _values(texts: Iterable[str]) -> set[str]:
    """The texts that may be keys, each value once."""
    keys = sorted(filter(is_key, texts), reverse=True)
    return {*{key_of(text): text for text in keys}.values()}


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
