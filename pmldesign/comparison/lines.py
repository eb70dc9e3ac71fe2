"""The rows of a sweep as text, as files have them, and as values.

A line is a text for every column: numbers with as many digits as tell them apart, nothing for what
does not apply.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pmldesign.comparison.units import COLUMNS, COUNTS, TEXTS
from pmldesign.errors import FileError

Line = list[str]
KINDS: Mapping[str, type] = {
    name: str if name in TEXTS else int if name in COUNTS else float for name in COLUMNS
}
"""What the columns hold."""


def as_line(record: Mapping[str, Any]) -> Line:
    """The text of a row."""
    return [_text(record[name]) for name in COLUMNS]


def as_csv(lines: Iterable[Sequence[str]]) -> str:
    """Lines of a .csv file, without its header."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def csv_lines(path: Path) -> list[Line]:
    """The whole lines of a .csv file, whose end may be cut off.

    Raises:
        FileError: it holds something else.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]  # what follows was cut off
    lines = [*csv.reader(io.StringIO(whole))]
    header = (",".join(COLUMNS) + "\n")[: len(text)]  # a first write may be cut off as well
    if (lines and lines[0] != [*COLUMNS]) or (not lines and text != header):
        raise FileError(f"{str(path)!r} does not hold the rows of a sweep; give another file")
    return [line for line in lines[1:] if len(line) == len(COLUMNS)]


def parquet_lines(path: Path) -> list[Line]:
    """The lines of a .parquet file.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FileError(f"cannot read {str(path)!r} as Parquet: {error}") from None
    if frame.columns != [*COLUMNS]:
        raise FileError(f"{str(path)!r} does not hold the rows of a sweep; give another file")
    return [[_text(value) for value in row] for row in frame.rows()]


def write_parquet(lines: Iterable[Line], handle: IO[bytes]) -> None:
    """Write lines as Parquet."""
    import polars as pl

    rows = [[*record.values()] for record in records_of(lines)]
    pl.DataFrame(rows, schema=dict(KINDS), orient="row").write_parquet(handle)


def records_of(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """The values of rows; None for what does not apply."""
    for line in lines:
        yield {
            name: KINDS[name](text) if text else None
            for name, text in zip(COLUMNS, line, strict=True)
        }


def _text(value: Any) -> str:
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)
