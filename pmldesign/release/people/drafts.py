"""A schema drafted from a file of people, for somebody to review."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.attribute import RESERVED, key_of, text_of
from pmldesign.release.people.people import batches, column_names

MOST_KEYS = 30
"""Columns with more different values get cuts, if all are numbers."""
BINS = 10
"""Cells of a column of numbers, about: whoever reviews the schema joins or splits them."""


def draft_schema(data: Any) -> dict[str, Any]:
    """A schema for all columns of a table of people, marked as not reviewed.

    Keys are the values that occur, cuts go from the smallest to the largest number: neither may be
    published before somebody has decided that it may. Columns of texts that are nearly all
    different (names, identifiers) are left out.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: no column can be an attribute.
    """
    attributes = []
    for name in column_names(data):
        entry = None if RESERVED & set(name) else _attribute(_values(data, name))
        if entry is not None:
            attributes.append({"name": name, **entry})
    if not attributes:
        raise InvalidInputError("no column of the data can be an attribute: write the schema")
    return {
        "reviewed": False,
        "attributes": attributes,
        "outside": "refuse",
        "rows_per_person": 1,
    }


def _values(data: Any, name: str) -> set[str]:
    """The values of a column as keys; nothing for one of lists, which has none."""
    texts: set[str] = set()
    for batch in batches(data, [name]):
        values = [value for value, *_ in batch]
        if not all(isinstance(value, Hashable) for value in values):
            return set()
        texts |= {text_of(value) for value in values}
    return {*{key_of(text): text for text in sorted(texts - {""}, reverse=True)}.values()}


def _attribute(texts: set[str]) -> dict[str, Any] | None:
    try:
        numbers = sorted(number for number in map(float, texts) if math.isfinite(number))
    except ValueError:
        numbers = []
    if 0 < len(texts) <= MOST_KEYS:
        return {"keys": sorted(texts, key=float if numbers else str)}
    if len(numbers) < 2:
        return None
    low, high = numbers[0], numbers[-1]
    step = _round_step((high - low) / BINS)
    first = math.floor(low / step)
    last = math.floor(high / step) + 1
    return {"cuts": [_plain(k * step) for k in range(first, last + 1)]}


def _round_step(width: float) -> float:
    """The next number of the form 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= width * (1 - 1e-12))


def _plain(value: float) -> int | float:
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded
