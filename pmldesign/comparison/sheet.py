"""The file that a sweep writes: rows of finished units, added as they come, sorted at the end.

The file is CSV from the first unit on, and every unit is added by one write that is flushed to the
disk: whatever ends the process, only the last unit can be cut off. That tail is removed when the
file is opened again. `finish` puts the units into the order of the study, so that the rows do not
depend on who was ready first, and writes a Parquet file where one was asked for; until then its
rows are in a CSV file of that name with ".part" added.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any

from pmldesign.comparison.units import COLUMNS, COUNTS, TEXTS, Unit
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import atomic_write, check_writable

Line = list[str]
ENDINGS = (".csv", ".parquet")


class Sheet:
    """Rows by unit, in a file that one process at a time may add to.

    Args:
        path: .csv or .parquet; what it holds is kept.
        restart: begin with an empty file.

    Raises:
        FileError: another ending, a file that holds something else, that is in use, or that cannot
            be written.
    """

    def __init__(self, path: Path, *, restart: bool = False) -> None:
        check_sheet(path)
        self.path = path
        self.parquet = path.suffix.lower() == ".parquet"
        self.working = path.with_name(path.name + ".part") if self.parquet else path
        self._handle = self._opened()
        try:
            lines = [] if restart else self._read()
            self.units: dict[str, list[Line]] = {
                key: [*group] for key, group in groupby(lines, key=lambda line: line[-1])
            }
        except (FileError, OSError):
            os.close(self._handle)
            raise

    def __enter__(self) -> Sheet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self._handle)

    def keep(self, units: Sequence[Unit]) -> None:
        """Keep the finished ones of these units, and begin to add to them.

        Raises:
            FileError: the file has rows of other units.
        """
        sizes = {unit.key: unit.size for unit in units}
        strange = [key for key in self.units if key not in sizes]
        if strange:
            row = dict(zip(COLUMNS, self.units[strange[0]][0], strict=True))
            raise FileError(
                f"{str(self.path)!r} has rows that this study does not ask for, or not with these"
                f" settings or this version, such as {row['workload']} at p = {row['p']}; give"
                " another file, or --restart"
            )
        self.units = {key: rows for key, rows in self.units.items() if len(rows) == sizes[key]}
        self._replace(self.units.values())

    def add(self, key: str, records: Sequence[dict[str, Any]]) -> None:
        """Add the rows of a unit, durably."""
        lines = [[_text(record[name]) for name in COLUMNS] for record in records]
        self.units[key] = lines
        self._append(_csv(lines))

    def finish(self, units: Sequence[Unit]) -> None:
        """Put all rows into the order of the study, under the final name."""
        lines = [line for unit in units for line in self.units.get(unit.key, [])]
        if self.parquet:
            with atomic_write(self.path, "wb") as handle:
                _frame(lines).write_parquet(handle)
            self.working.unlink(missing_ok=True)
        else:
            with atomic_write(self.path, "w") as handle:
                handle.write(_csv([[*COLUMNS], *lines]))

    def _opened(self) -> int:
        """The working file, locked; it may be replaced by another process until the lock is had."""
        try:
            while True:
                handle = os.open(self.working, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.path.samestat(os.fstat(handle), self.working.stat()):
                        return handle
                except BlockingIOError:
                    os.close(handle)
                    raise FileError(f"{str(self.path)!r} is in use by another sweep") from None
                os.close(handle)
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"cannot use {str(self.path)!r}: {error.strerror or error}") from None

    def _read(self) -> list[Line]:
        text = self.working.read_text(encoding="utf-8", errors="replace")
        if not text and self.parquet and self.path.exists():
            return _parquet_lines(self.path)
        whole = text[: text.rfind("\n") + 1]  # what follows was cut off
        lines = [*csv.reader(io.StringIO(whole))]
        if (lines and lines[0] != [*COLUMNS]) or (text and not lines and text != _header(text)):
            raise FileError(
                f"{str(self.working)!r} does not hold the rows of a sweep; give another file"
            )
        return [line for line in lines[1:] if len(line) == len(COLUMNS)]

    def _replace(self, units: Iterable[list[Line]]) -> None:
        """Write the working file anew; a rename would lose the lock."""
        text = _csv([[*COLUMNS], *(line for unit in units for line in unit)])
        if self.working.read_text(encoding="utf-8", errors="replace") != text:
            os.ftruncate(self._handle, 0)
            self._append(text)

    def _append(self, text: str) -> None:
        try:
            data = text.encode()
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError as error:
            raise FileError(
                f"cannot write {str(self.working)!r}: {error.strerror or error}"
            ) from None


def check_sheet(path: Path) -> None:
    """Refuse a file that rows cannot be written to; called before long work.

    Raises:
        FileError: another ending, or a file that cannot be written.
        InvalidInputError: polars is missing for .parquet.
    """
    if path.suffix.lower() not in ENDINGS:
        raise FileError(
            f"cannot write {str(path)!r}: rows of a sweep end in {' or '.join(ENDINGS)}"
        )
    if path.suffix.lower() == ".parquet" and find_spec("polars") is None:
        raise InvalidInputError(
            "a .parquet file needs polars; install it with: pip install 'pmldesign[release]', or"
            " write .csv"
        )
    check_writable(path)


def _header(text: str) -> str:
    """As much of the header as the text is long: a first write that was cut off."""
    return (",".join(COLUMNS) + "\n")[: len(text)]


def _csv(lines: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def _text(value: Any) -> str:
    """Numbers with as many digits as tell them apart; nothing for None."""
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _value(name: str, text: str) -> Any:
    if not text:
        return None
    return text if name in TEXTS else int(text) if name in COUNTS else float(text)


def _frame(lines: Sequence[Line]) -> Any:
    import polars as pl

    kinds = {
        name: pl.String if name in TEXTS else pl.Int64 if name in COUNTS else pl.Float64
        for name in COLUMNS
    }
    rows = [
        [_value(name, text) for name, text in zip(COLUMNS, line, strict=True)] for line in lines
    ]
    return pl.DataFrame(rows, schema=kinds, orient="row")


def _parquet_lines(path: Path) -> list[Line]:
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FileError(f"cannot read {str(path)!r} as Parquet: {error}") from None
    if frame.columns != [*COLUMNS]:
        raise FileError(f"{str(path)!r} does not hold the rows of a sweep; give another file")
    return [[_text(value) for value in row] for row in frame.rows()]
