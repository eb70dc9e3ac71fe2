"""What tells people apart: the same for all rows of one person, in every format.

Identifiers are compared by the type of their column: whole numbers, numbers in floating point (-0.0
is 0.0), decimals and instants as such, and all else as texts. A whole number in a text may be
written with a point, as programs do where some are missing: 1.0 is 1, and -0 is 0. Other texts are
of different people: 01 is not 1, nor 1.10 (the tenth of household 1) 1.1.

Rows of one person that count as those of two would break what is promised, and so would rows of two
that count as those of one, where the one decides which rows of the other are kept. So numbers that
stand for several whole ones are refused: those of 2^53 and more in floating point, of 2^24 and more
in 32 bits, and texts that programs write for such, as 1.23457E+17.
"""

from __future__ import annotations

from datetime import UTC, datetime
from numbers import Number
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.attribute import plain_key, text_of

NOBODY = ("nan", "inf", "-inf", "infinity", "-infinity")
"""Texts, but for the case of letters, that programs write for numbers that are missing."""
ZERO, WHOLE = "^-?0([.]0+)?$", "^(-?[0-9]+)[.]0+$"
ROUNDED = "^-?([0-9]+([.][0-9]+[eE][+]?|[eE][+])[0-9]+|[0-9]{16,}[.]0)$"
"""Patterns that databases read as well."""
MISSING = "there is no value but {}"
SEVERAL = "a number in floating point, which stands for several whole ones"


def told_apart(ids: Any, start: int) -> Any:
    """Columns p0, p1 ... of a data frame of polars that are equal for rows of one person.

    Args:
        ids: a data frame with the columns of a person.
        start: how many rows came before.

    Raises:
        InvalidInputError: a row of nobody, or of several people.
    """
    import polars as pl

    return pl.DataFrame(
        [
            _told(series, start).alias(f"p{number}")
            for number, series in enumerate(ids.iter_columns())
        ]
    )


def as_series(column: Any) -> Any:
    """A column of narwhals, as numbers in floating point or as texts."""
    import narwhals as nw
    import polars as pl

    floats = {nw.Float64: pl.Float64, nw.Float32: pl.Float32}
    values = column.to_list()
    kind = floats.get(type(column.dtype))
    if kind is not None:
        return pl.Series(column.name, values, dtype=kind)
    _require_flat(column.name, nested=column.dtype.is_nested())
    return pl.Series(column.name, [_text(value) for value in values], dtype=pl.String)


def _text(value: Any) -> str:
    """The same text for equal numbers and instants."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return text_of(value.astimezone(UTC))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return plain_key(text_of(value)) if isinstance(value, Number) else text_of(value)


def _told(series: Any, start: int) -> Any:
    """What tells people apart in a column."""
    import polars as pl

    kind = series.dtype
    _require_flat(series.name, nested=kind.is_nested())
    if kind.is_integer():
        _refuse(series, series.is_null(), start, MISSING)
        return series
    texts = series.bin.encode("hex") if kind == pl.Binary else series.cast(pl.String)
    missing = texts.is_null() | (texts == "") | texts.str.to_lowercase().is_in(NOBODY)
    _refuse(texts, missing.fill_null(value=True), start, MISSING)
    rounded = texts.str.contains(ROUNDED)
    if kind.is_float():
        rounded |= series.abs() >= (2**24 if kind == pl.Float32 else 2**53)
    _refuse(texts, rounded, start, f"{{}} is {SEVERAL}")
    return texts.str.replace(ZERO, "0").str.replace(WHOLE, "${1}")


def _require_flat(name: str, *, nested: bool) -> None:
    if nested:
        raise InvalidInputError(
            f"column {name!r} holds lists or structs, which tell nobody apart; give columns of"
            ' texts or numbers, several as a list: "person": ["household", "member"]'
        )


def _refuse(texts: Any, wrong: Any, start: int, say: str) -> None:
    """Refuse the first row that is wrong."""
    if wrong.any():
        place = int(wrong.arg_max())
        what = say.format(repr(texts[place])) if texts[place] else "there is no value"
        raise InvalidInputError(
            f"row {start + 1 + place}, column {texts.name!r}: {what}, so nobody knows whose row it"
            " is"
        )
