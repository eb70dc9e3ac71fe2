"""Rows of people, counted: from .csv, .parquet, .arrow, or any data frame (`frames`).

The data frame library counts the different combinations of values, and what follows sees these
alone. Memory does not depend on the length of a file: a .csv is counted in pieces, other files by
the streaming engine of polars, and numbers between cuts become the lower cut before they are
counted, by their digits where a .csv would have other ones (32 bits, decimals). A .csv that the
reader refuses is read again, a row at a time, for the row and the column (`comma_separated`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmldesign.errors import FileError, InvalidInputError, PmldesignError, printable, require_extra
from pmldesign.files.arrays import file_name, reason
from pmldesign.files.atomic import PathName
from pmldesign.release.people.comma_separated import (
    MARKS,
    all_rows,
    first_damage,
    header_names,
    header_problem,
    pieces,
    require_rows,
    without_blank_lines,
)
from pmldesign.release.people.frames import BATCH, CountedRows, as_frame, frame_batches, frame_rows
from pmldesign.release.people.identifiers import as_series, told_apart
from pmldesign.release.people.schema import Schema
from pmldesign.strategies.whole.integers import Integers
from pmldesign_solvers.operators.operator import Indices

SCANNERS = {
    ".csv": "scan_csv",
    ".parquet": "scan_parquet",
    ".arrow": "scan_ipc",
    ".feather": "scan_ipc",
}


class Column(NamedTuple):
    """Values, and the place of that of each row among them."""

    values: Sequence[Any]
    places: Indices


class Rows(NamedTuple):
    """Rows by columns: how many each stands for, and the number of its first, from 1."""

    columns: list[Column]
    counts: Integers
    numbers: Integers


def rows_of(counted: CountedRows) -> Rows:
    """Combinations of values as rows; at least one."""
    *columns, counts, numbers = zip(*counted, strict=True)
    places = np.arange(len(counts))
    whole = (np.array(values, dtype=np.int64) for values in (counts, numbers))
    return Rows([Column(values, places) for values in columns], *whole)


@dataclass(frozen=True)
class CountedPeople:
    """People who were counted by combinations of values, as texts.

    Attributes:
        source: of the counts, a path or the address of a table.
        load: makes the rows for the names of columns.
        schema: by which the rows are read: of people of whom as many were kept as count.
    """

    source: PathName
    load: Callable[[Sequence[str]], CountedRows]
    schema: Schema


def batches(
    data: Any, columns: Sequence[str], cuts: Mapping[str, Sequence[float]] | None = None
) -> Iterator[CountedRows]:
    """The rows of people, counted.

    Args:
        data: a path, a data frame (pandas, polars, pyarrow ...), or people who were counted.
        columns: their names.
        cuts: of columns of which only the bin of a number matters.

    Raises:
        FileError: a file that cannot be read.
        InvalidInputError: a column is missing, or this is no data frame.
    """
    if isinstance(data, CountedPeople):
        yield data.load(columns)
        return
    _require(columns, column_names(data))
    if isinstance(data, str | Path):
        start = 0
        for rows in _parts(Path(data)):
            with _reading(Path(data)):
                batch = (
                    _grouped(rows, columns, cuts or {}, start).collect(engine="streaming").rows()
                )
            yield batch
            start += sum(count for *_, count, _ in batch)
        return
    with _reading("the data frame"):
        yield from frame_batches(as_frame(data), columns)


def row_batches(data: Any, schema: Schema) -> Iterator[tuple[Rows, Any]]:
    """The rows of people one by one, with what tells people apart.

    Args:
        data: a path, or a data frame.
        schema: with the columns of a person, if any.

    Yields:
        Rows, at least one, and a data frame of polars with what tells people apart, p0, p1 ...

    Raises:
        FileError, InvalidInputError: as `batches`, or a row has no person.
    """
    columns, person = schema.columns, schema.person
    _require([*columns, *person], column_names(data))
    if isinstance(data, str | Path):
        parts = _rows_of_file(Path(data), schema)
    else:
        parts = _rows_of_frame(as_frame(data), schema)
    start = 0
    for rows, ids in parts:
        if len(rows.counts):
            yield rows._replace(numbers=rows.numbers + start), told_apart(ids, start)
            start += len(rows.counts)


def _rows_of_file(path: Path, schema: Schema) -> Iterator[tuple[Rows, Any]]:
    """At most so many rows as a batch has, numbers from 1 in each."""
    import polars as pl

    for part in _parts(path):
        with _reading(path):
            count = part.select(pl.len()).collect().item()
        for begin in range(0, count, BATCH):
            with _reading(path):
                rows = part.slice(begin, BATCH)
                keys = rows.select(_keys(rows, schema.columns, schema.cuts)).collect()
                columns = [_distinct(series) for series in keys.iter_columns()]
                ids = rows.select(schema.person).collect()
            ones = np.ones(len(keys), dtype=np.int64)
            yield Rows(columns, ones, np.cumsum(ones)), ids


def _rows_of_frame(frame: Any, schema: Schema) -> Iterator[tuple[Rows, Any]]:
    import polars as pl

    with _reading("the data frame"):
        for rows, ids in frame_rows(frame, schema.columns, schema.person):
            if rows:
                yield rows_of(rows), pl.DataFrame([as_series(ids[name]) for name in schema.person])


def _distinct(series: Any) -> Column:
    """The different values of a column, and where they are."""
    import polars as pl

    if series.dtype.is_nested() or series.dtype == pl.Object:
        return Column(series.to_list(), np.arange(len(series)))
    values = series.unique()
    places = pl.Series(np.arange(len(values)))
    return Column(values.to_list(), series.replace_strict(values, places).to_numpy())


def column_names(data: Any) -> list[str]:
    """The columns of a table of people."""
    if isinstance(data, str | Path):
        with _reading(Path(data)):
            return _names(Path(data))
    with _reading("the data frame"):
        return list(as_frame(data).columns)


def first_rows(data: Any, columns: Sequence[str], count: int) -> list[tuple[Any, ...]]:
    """The values of the first rows."""
    is_file = isinstance(data, str | Path)
    rows: list[tuple[Any, ...]] = []
    with _reading(Path(data) if is_file else "the data frame"):
        for part in _parts(Path(data)) if is_file else [as_frame(data)]:
            first = part.select(columns).head(count - len(rows))
            first = first.collect() if is_file else first
            values = [first[name].to_list() for name in columns]  # polars may hang in rows()
            rows += zip(*values, strict=True)
            if len(rows) == count:
                break
    return rows


def _parts(path: Path) -> Iterator[Any]:
    """A file as lazy tables of polars, one after the other."""
    import polars

    with _reading(path):
        names = _names(path)
        if path.suffix.lower() != ".csv":
            yield getattr(polars, SCANNERS[path.suffix.lower()])(path)
            return
        for piece in pieces(path):
            if len(names) > 1:
                piece = without_blank_lines(piece)
            require_rows(piece)
            yield _table(piece, names).lazy()


def _table(piece: bytes, names: list[str]) -> Any:
    """The rows of a .csv as texts.

    Polars refuses most with quotation marks in a row that lacks values: these are read one by one.
    """
    import polars as pl

    try:
        return pl.read_csv(piece, infer_schema=False, new_columns=names)
    except pl.exceptions.PolarsError:
        rows = [row + [""] * (len(names) - len(row)) for row in all_rows(piece)]
        return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _grouped(
    rows: Any, columns: Sequence[str], cuts: Mapping[str, Sequence[float]], start: int
) -> Any:
    """The different combinations of values, their number and first row."""
    import polars as pl

    return (
        rows.select(_keys(rows, columns, cuts))
        .with_row_index("row", offset=start + 1)
        .group_by([f"c{i}" for i in range(len(columns))])
        .agg(pl.len().alias("count"), pl.col("row").min().alias("first"))
    )


def _keys(rows: Any, columns: Sequence[str], cuts: Mapping[str, Sequence[float]]) -> list[Any]:
    """The values that are counted: digits where a .csv would have these, and lower cuts."""
    import polars as pl

    types = rows.collect_schema()
    keys = []
    for i, name in enumerate(columns):
        key = pl.col(name)
        digits = types[name] == pl.Float32 or types[name].is_decimal()
        text = digits or types[name] == pl.String
        if digits:
            key = key.cast(pl.String)
            if types[name] == pl.Float32:
                key = pl.when(pl.col(name).is_not_nan()).then(key)
        if name in cuts and (text or types[name].is_numeric()):
            key = _lower_cut(key, cuts[name], text=text)
        keys.append(key.alias(f"c{i}"))
    return keys


def _lower_cut(key: Any, cuts: Sequence[float], *, text: bool) -> Any:
    """The cut below a number; what is no number within the cuts stays as it is."""
    import polars as pl

    number = key.cast(pl.Float64, strict=False)
    lower: Any = pl.when(number >= cuts[-1]).then(None)  # so is NaN, the largest number here
    for cut in reversed(cuts[:-1]):
        lower = lower.when(number >= cut).then(pl.lit(float(cut)))
    least = lower.otherwise(None)
    if text:
        return pl.when(least.is_not_null()).then(least.cast(pl.String)).otherwise(key)
    return pl.coalesce(least, number)


def _require(columns: Sequence[str], present: Sequence[str]) -> None:
    missing = [name for name in columns if name not in present]
    if missing:
        listed = printable(", ".join(map(str, present)))[:100] or "none"
        known = {str(name).strip().casefold(): name for name in present}
        alike = known.get(missing[0].casefold())
        hint = "" if alike is None else f"; did you mean {alike!r}?"
        raise InvalidInputError(
            f"the data have no column {missing[0]!r}; columns are {listed}{hint}"
        )


def _names(path: Path) -> list[str]:
    """The columns of a file: polars keeps quotation marks that are doubled in a .csv."""
    require_extra("a table of people", "polars", "release")
    import polars

    if path.suffix.lower() not in SCANNERS:
        raise FileError(f"{str(path)!r}: a table of people ends in {', '.join(SCANNERS)}")
    if not path.is_file():
        raise FileError(f"cannot read {str(path)!r}: there is no such file")
    if path.suffix.lower() != ".csv":
        table = getattr(polars, SCANNERS[path.suffix.lower()])(path)
        return list(table.collect_schema().names())
    problem = header_problem(path)
    if problem is not None:
        raise FileError(f"{file_name(path)}: {problem}")
    return header_names(path)


@contextmanager
def _reading(data: Path | str) -> Iterator[None]:
    """Errors of the reader as one line with the name of the file, and the row of a .csv."""
    try:
        yield
    except PmldesignError:
        raise
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        name, why = str(data), None
        if isinstance(data, Path):
            name = file_name(data)
            if data.suffix.lower() == ".csv":
                why = first_damage(data) or MARKS
        raise FileError(
            f"{name} is damaged or no table of people: {why or reason(error)}"
        ) from None
