"""Data frames of people: any that has a stream of Arrow, and pandas.

The type of a column must not depend on one record, so no library guesses it: cells of columns of
Python objects are converted to text one by one. A column of objects that mixes texts and numbers is
refused: readers that guess types make such columns (007 in one part of a file, 7 in the next).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.releases.people.relation import PEOPLE, Source, connected, floating, reading
from pmldesign.releases.people.values import text_of


class Stream:
    """A frame as DuckDB takes it: with nothing but a stream of Arrow."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


def of_frame(data: Any, name: str = "the data frame") -> Source:
    """A data frame, or a stream of Arrow; InvalidInputError for anything else."""
    if hasattr(data, "to_native"):  # of narwhals
        data = data.to_native()
    library = type(data).__module__.partition(".")[0]
    known = {"pandas": ("DataFrame", _pandas), "polars": ("DataFrame", _polars)}
    kind, convert = known.get(library, ("", None))
    if convert is not None and type(data).__name__ == kind:

        def relation(connection: Any, columns: Sequence[str], person: Sequence[str]) -> str:
            connection.register(PEOPLE, convert(data, columns, person))
            return PEOPLE

        return Source(name, list(data.columns), relation)
    if not hasattr(data, "__arrow_c_stream__"):
        raise InvalidInputError(
            f"data must be a path or a data frame, got {type(data).__name__}; collect what is lazy"
        )
    import duckdb

    database = duckdb.connect()  # its tables are those of this source
    with reading(name), connected(database) as connection:  # a stream flows once
        connection.register("stream", data.__arrow_c_stream__())
        connection.execute(f"CREATE TABLE {PEOPLE} AS SELECT * FROM stream")
        described = connection.execute(f"DESCRIBE {PEOPLE}").fetchall()
    return Source(name, [row[0] for row in described], lambda *_: PEOPLE, database)


def _polars(frame: Any, names: Sequence[str], person: Sequence[str]) -> Any:
    """Columns of polars, objects as texts."""
    import polars

    columns = []
    for name in names:
        column = frame[name]
        if column.dtype == polars.Object:
            texts = _texts(name, column, name in person)
            column = polars.Series(name, texts, dtype=polars.String)
        elif column.dtype in (polars.Categorical, polars.Enum):
            column = column.cast(polars.String)
        columns.append(column)
    return Stream(polars.DataFrame(columns))


def _pandas(frame: Any, names: Sequence[str], person: Sequence[str]) -> dict[str, Any]:
    """Columns of pandas as arrays of numpy: plain numbers and times, all others as texts."""
    import pandas

    columns: dict[str, Any] = {}
    for name in names:
        column, tells = frame[name], name in person
        if getattr(column, "ndim", 1) > 1:
            raise InvalidInputError(f"the data frame has two columns that are called {name!r}")
        kind = column.dtype
        if isinstance(kind, np.dtype) and (kind.kind in "biuM" or kind in ("f4", "f8")):
            columns[name] = column.to_numpy()
        elif isinstance(kind, pandas.CategoricalDtype):
            labels = _texts(name, column.cat.categories.tolist(), tells)
            texts = np.array([*labels, None], dtype=object)
            columns[name] = texts[column.cat.codes.to_numpy()]
        elif isinstance(kind, pandas.StringDtype):
            columns[name] = column.to_numpy(dtype=object, na_value=None)
        else:
            columns[name] = np.array(_texts(name, column, tells), dtype=object)
    return columns


def _texts(name: str, values: Any, tells: bool) -> list[str | None]:
    """Cells as texts, each by itself; None without a value.

    Args:
        name: of the column.
        values: the cells.
        tells: whether the cells distinguish persons.

    Raises:
        InvalidInputError: they are of several kinds, hold lists, or are identifiers in floating
            point.
    """
    kinds: dict[str, Any] = {}
    texts = []
    for value in values:
        text = value if isinstance(value, str) else _text(name, value, tells)
        texts.append(text or None)
        if text:
            kinds.setdefault(_kind_of(value), value)
    if len(kinds) > 1:
        first, second, *_ = (f"a {kind} ({str(kinds[kind])[:40]!r})" for kind in sorted(kinds))
        raise InvalidInputError(
            f"column {name!r} has {first} and {second}: a reader that guesses types makes such"
            " columns, and the value of one person decides for all; read the column as text"
        )
    return texts


def _text(name: str, value: Any, tells: bool) -> str:
    """The text of a cell that is not text."""
    if not isinstance(value, Hashable) or isinstance(value, tuple | frozenset):
        raise InvalidInputError(
            f"column {name!r} holds a {type(value).__name__}, which is neither text nor a number"
        )
    if isinstance(value, bytes):
        if tells:
            return value.hex()
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InvalidInputError(f"column {name!r} has bytes that are not UTF-8") from None
    text = text_of(value)
    if text and tells and isinstance(value, float | np.floating):
        raise floating(name)
    return text


def _kind_of(value: Any) -> str:
    kinds = {"truth value": bool | np.bool_, "number": Number, "text": str}
    named = (kind for kind, types in kinds.items() if isinstance(value, types))
    return next(named, type(value).__name__)
