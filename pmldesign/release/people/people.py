"""Rows of people, counted: from .csv, .parquet, .arrow, or any data frame (`frames`).

The data frame library counts the different combinations of values, and what follows sees these
alone. Memory does not depend on the length of a file: a .csv is counted in pieces, other files by
the streaming engine of polars, and numbers between cuts become the lower cut before they are
counted, by their digits where a .csv would have other ones (32 bits, decimals).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.errors import FileError, InvalidInputError, PmldesignError, printable, require_extra
from pmldesign.files.arrays import file_name, reason
from pmldesign.files.atomic import PathName
from pmldesign.release.people.attribute import text_of
from pmldesign.release.people.csv_files import first_damage, header_problem, pieces
from pmldesign.release.people.frames import (
    BATCH,
    CountedRows,
    as_frame,
    frame_batches,
    frame_rows,
)
from pmldesign.release.people.schema import Schema
from pmldesign.strategies.whole.integers import Integers

SCANNERS = {
    ".csv": "scan_csv",
    ".parquet": "scan_parquet",
    ".arrow": "scan_ipc",
    ".feather": "scan_ipc",
}


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
                batch = _counted_rows(rows, columns, cuts or {}, start)
            yield batch
            start += sum(count for *_, count, _ in batch)
        return
    with _reading("the data frame"):
        yield from frame_batches(as_frame(data), columns)


def person_batches(data: Any, schema: Schema) -> Iterator[tuple[CountedRows, Integers, Any]]:
    """The rows of people with what tells them apart.

    Args:
        data: a path, or a data frame.
        schema: with the columns of a person.

    Yields:
        Different combinations of values as `batches`, the number of that of every row, and a data
        frame of polars with the texts of what tells people apart, p0, p1 ...

    Raises:
        FileError, InvalidInputError: as `batches`, or a row has no person.
    """
    columns, person = schema.columns, schema.person
    _require([*columns, *person], column_names(data))
    if isinstance(data, str | Path):
        start = 0
        for rows in _pieces(Path(data)):
            with _reading(Path(data)):
                batch, places = _placed_rows(rows, columns, schema.cuts, start)
                ids = _texts(rows.select(person).collect())
            _require_persons(ids, person, start)
            yield batch, places, ids
            start += len(places)
        return
    import polars as pl

    with _reading("the data frame"):
        start = 0
        for rows, names in frame_rows(as_frame(data), columns, person):
            texts = [[text_of(value) or None for value in column] for column in names]
            ids = pl.DataFrame(
                {f"p{i}": pl.Series(t, dtype=pl.String) for i, t in enumerate(texts)}
            )
            _require_persons(ids, person, start)
            yield rows, np.arange(len(rows)), ids
            start += len(rows)


def _pieces(path: Path) -> Iterator[Any]:
    """A file as lazy tables of polars of at most so many rows as a batch has."""
    import polars as pl

    for rows in _parts(path):
        with _reading(path):
            count = rows.select(pl.len()).collect().item()
        for start in range(0, max(count, 1), BATCH):
            yield rows.slice(start, BATCH)


def _placed_rows(
    rows: Any, columns: Sequence[str], cuts: Mapping[str, Sequence[float]], start: int
) -> tuple[CountedRows, Integers]:
    """As `_counted_rows`, and the number of the combination of every row."""
    import polars as pl

    counted = _grouped(rows, columns, cuts, start, [pl.col("row").alias("rows")]).collect()
    numbers = counted["rows"].explode().drop_nulls().to_numpy().astype(np.int64) - start - 1
    places = np.zeros(len(numbers), dtype=np.int64)
    places[numbers] = np.repeat(np.arange(len(counted)), counted["count"].to_numpy())
    return counted.drop("rows").rows(), places


def _texts(ids: Any) -> Any:
    """What tells people apart, as in a .csv; null where there is nothing."""
    import polars as pl

    names = [f"p{i}" for i in range(len(ids.columns))]
    frame = ids.select(pl.nth(i).cast(pl.String).alias(name) for i, name in enumerate(names))
    return frame.select(pl.when(pl.col(name) != "").then(pl.col(name)) for name in names)


def _require_persons(ids: Any, person: Sequence[str], start: int) -> None:
    """Refuse a row of which nobody knows whose it is."""
    for name, texts in zip(person, ids.iter_columns(), strict=True):
        if texts.null_count():
            row = start + 1 + int(texts.is_null().arg_max())
            raise InvalidInputError(
                f"row {row}, column {name!r}: there is no value, so nobody knows whose row it is"
            )


def column_names(data: Any) -> list[str]:
    """The columns of a table of people."""
    if isinstance(data, str | Path):
        with _reading(Path(data)):
            return list(_scan(Path(data)).collect_schema().names())
    with _reading("the data frame"):
        return list(as_frame(data).columns)


def first_rows(data: Any, columns: Sequence[str], count: int) -> list[tuple[Any, ...]]:
    """The values of the first rows."""
    is_file = isinstance(data, str | Path)
    with _reading(Path(data) if is_file else "the data frame"):
        frame = _scan(Path(data)).head(count).collect() if is_file else as_frame(data)
        rows: list[tuple[Any, ...]] = frame.select(columns)[:count].rows()
        return rows


def _parts(path: Path) -> Iterator[Any]:
    """A file as lazy tables of polars, one after the other."""
    if path.suffix.lower() != ".csv":
        yield _scan(path)
        return
    import polars

    with _reading(path):
        for piece in pieces(path):
            yield polars.read_csv(piece, infer_schema=False).lazy()


def _counted_rows(
    rows: Any, columns: Sequence[str], cuts: Mapping[str, Sequence[float]], start: int
) -> CountedRows:
    counted: CountedRows = _grouped(rows, columns, cuts, start).collect(engine="streaming").rows()
    return counted


def _grouped(
    rows: Any,
    columns: Sequence[str],
    cuts: Mapping[str, Sequence[float]],
    start: int,
    more: Sequence[Any] = (),
) -> Any:
    """The different combinations of values, their number and first row, and more."""
    import polars as pl

    types = rows.collect_schema()
    keys = []
    for i, name in enumerate(columns):
        key = pl.col(name)
        digits = types[name] == pl.Float32 or types[name].is_decimal()
        text = digits or types[name] == pl.String
        if digits:
            key = key.cast(pl.String)
        if name in cuts and (text or types[name].is_numeric()):
            key = _lower_cut(key, cuts[name], text=text)
        keys.append(key.alias(f"c{i}"))
    return (
        rows.select(keys)
        .with_row_index("row", offset=start + 1)
        .group_by([f"c{i}" for i in range(len(columns))])
        .agg(pl.len().alias("count"), pl.col("row").min().alias("first"), *more)
    )


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
        raise InvalidInputError(f"the data have no column {missing[0]!r}; columns are {listed}")


def _scan(path: Path) -> Any:
    require_extra("a table of people", "polars", "release")
    import polars

    if path.suffix.lower() not in SCANNERS:
        raise FileError(f"{str(path)!r}: a table of people ends in {', '.join(SCANNERS)}")
    if not path.is_file():
        raise FileError(f"cannot read {str(path)!r}: there is no such file")
    scan = getattr(polars, SCANNERS[path.suffix.lower()])
    if path.suffix.lower() != ".csv":
        return scan(path)
    problem = header_problem(path)
    if problem is not None:
        raise FileError(f"{file_name(path)}: {problem}")
    return scan(path, infer_schema=False)


@contextmanager
def _reading(data: Path | str) -> Iterator[None]:
    """Errors of the reader as one line with the name of the file, and the row of a .csv."""
    try:
        yield
    except PmldesignError:
        raise
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        name, row = str(data), None
        if isinstance(data, Path):
            name = file_name(data)
            row = first_damage(data) if data.suffix.lower() == ".csv" else None
        raise FileError(
            f"{name} is damaged or no table of people: {row or reason(error)}"
        ) from None
