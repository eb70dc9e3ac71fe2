"""Data frames of any library, counted in batches by narwhals.

Libraries merge values that are equal, 1 and True and Decimal("1.0") in a column of objects, and
narwhals calls such a column one of text after a look at a hundred rows: one person could decide how
all others are read. So objects are never counted by a library, but handed on cell by cell. A column
that mixes texts and numbers is refused: readers that guess types make them (007 in one part of a
file, 7 in the next). Numbers of 32 bits become their digits, which a .csv has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.release.people.attribute import text_of

BATCH = 1_000_000
"""Rows that are counted at a time."""

CountedRows = list[tuple[Any, ...]]
"""Different combinations of values: (values..., how many, first row) each, rows from 1."""


def as_frame(data: Any) -> Any:
    """The data frame of narwhals.

    Raises:
        InvalidInputError: this is no data frame, or narwhals is not installed.
    """
    require_extra("a data frame of people", "narwhals", "release")
    import narwhals as nw

    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        raise InvalidInputError(
            f"data must be a path or a data frame, got {type(data).__name__}; collect what is lazy"
        ) from None


def frame_batches(frame: Any, columns: Sequence[str]) -> Iterator[CountedRows]:
    """The rows of a data frame, counted, or as they are where a column holds objects.

    Raises:
        InvalidInputError: a column has values of several kinds.
    """
    values = _values(frame, columns)
    objects = any(_holds_objects(frame[name]) for name in columns)
    keys = [f"c{i}" for i in range(len(columns))]
    for start in range(0, len(frame), BATCH):
        batch = frame[start : start + BATCH].select(values)
        yield _uncounted(batch, start) if objects else _counted(batch, keys, start)


def frame_rows(
    frame: Any, columns: Sequence[str], person: Sequence[str]
) -> Iterator[tuple[CountedRows, Any]]:
    """The rows of a data frame as they are, and the columns of what tells people apart.

    Raises:
        InvalidInputError: a column has values of several kinds.
    """
    values = _values(frame, columns)
    for name in person:
        _require_one_type(frame[name])
    for start in range(0, len(frame), BATCH):
        batch = frame[start : start + BATCH]
        yield _uncounted(batch.select(values), start), batch.select(person)


def _values(frame: Any, columns: Sequence[str]) -> list[Any]:
    """The columns under new names, each with values of one kind, numbers of 32 bits as digits.

    Raises:
        InvalidInputError: a column has values of several kinds.
    """
    import narwhals as nw

    values = []
    for i, name in enumerate(columns):
        _require_one_type(frame[name])
        value = nw.col(name)
        if frame[name].dtype == nw.Float32:
            digits = value.cast(nw.String)  # "nan" in older versions of pandas
            value = nw.when(~nw.col(name).is_nan()).then(digits)
        values.append(value.alias(f"c{i}"))
    return values


def _require_one_type(column: Any) -> None:
    """Refuse a column whose type allows for several kinds, if it has them."""
    import narwhals as nw

    if _holds_objects(column):
        _require_one_kind(column.name, column)
    elif column.dtype in (nw.Categorical, nw.Enum):
        _require_one_kind(column.name, column.unique())


def _uncounted(batch: Any, start: int) -> CountedRows:
    columns = (batch[name].to_list() for name in batch.columns)  # polars may hang in rows()
    rows = enumerate(zip(*columns, strict=True), start + 1)
    return [(*row, 1, number) for number, row in rows]


def _counted(batch: Any, keys: list[str], start: int) -> CountedRows:
    import narwhals as nw

    counted = (
        batch.with_row_index("row")
        .group_by(*keys, drop_null_keys=False)
        .agg(nw.len().alias("count"), nw.col("row").min().alias("first"))
        .with_columns(first=nw.col("first") + 1 + start)
    )
    rows: CountedRows = counted.select([*keys, "count", "first"]).rows()
    return rows


def _holds_objects(column: Any) -> bool:
    import narwhals as nw

    return column.dtype == nw.Object or str(getattr(column.to_native(), "dtype", "")) == "object"


def _require_one_kind(name: str, values: Any) -> None:
    """Refuse values of several kinds; no value is of any kind."""
    kinds = {kind: value for value in values.to_list() if (kind := _kind(value))}
    if len(kinds) > 1:
        first, second, *_ = (f"a {kind} ({str(kinds[kind])[:40]!r})" for kind in sorted(kinds))
        raise InvalidInputError(
            f"column {name!r} has {first} and {second}: a reader that guesses types makes such "
            "columns, and what one person has decides for all; read the column as text"
        )


def _kind(value: Any) -> str:
    """What a value is; nothing where there is none."""
    if isinstance(value, Hashable) and not text_of(value):
        return ""
    kinds = {"truth value": bool | np.bool_, "number": Number, "text": str}
    named = (kind for kind, types in kinds.items() if isinstance(value, types))
    return next(named, type(value).__name__)
