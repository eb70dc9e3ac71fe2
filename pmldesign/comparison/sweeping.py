"""A sweep: every unit of a study, wherever there are workers, into a file that survives.

The file is CSV from the first unit on, and every unit is added by one write that is flushed to the
disk: whatever ends the process, only the last unit can be cut off. That tail is removed when the
file is opened again. `finish` puts the units into the order of the study, so that the rows do not
depend on who was ready first, and writes a Parquet file where one was asked for; until then its
rows are in a CSV file of that name with ".part" added.

A line is a text for every column: numbers with as many digits as tell them apart, nothing for what
does not apply.

A unit is computed if the file does not have all of its rows: a sweep that was killed goes on where
it stopped, and no norm is computed twice. Without limits of time the rows are the same whatever
computes them, whoever is ready first, and however often the sweep was killed; only their times are
not.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from pmldesign.arguments import flags
from pmldesign.comparison.parallel import LOST, Backend, Workers, run
from pmldesign.comparison.study import read_study
from pmldesign.comparison.units import COLUMNS, COUNTS, DONE, STOPPED, TEXTS, Unit
from pmldesign.errors import FileError, require_extra
from pmldesign.files import as_path, atomic_write, check_writable
from pmldesign.workloads.display import Displayed, Drawn, Facts, data_frame

Line = list[str]
KINDS: Mapping[str, type] = {
    name: str if name in TEXTS else int if name in COUNTS else float for name in COLUMNS
}
"""What the columns hold."""


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
        self.working = _working(path)
        self._new = not self.working.exists()
        self._handle = self._opened()
        try:
            lines = [] if restart else read_lines(path)
            self.units: dict[str, list[Line]] = {
                key: [*group] for key, group in groupby(lines, key=lambda line: line[-1])
            }
        except (FileError, OSError):
            os.close(self._handle)
            raise

    def __enter__(self) -> Sheet:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        if error is not None and self._new and not self.units:
            self.working.unlink(missing_ok=True)
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
        lines = [_as_line(record) for record in records]
        self.units[key] = lines
        self._append(_as_csv(lines).encode())

    def finish(self, units: Sequence[Unit]) -> None:
        """Put all rows into the order of the study, under the final name."""
        lines = [line for unit in units for line in self.units.get(unit.key, [])]
        if self.working != self.path:
            with atomic_write(self.path, "wb") as handle:
                _write_parquet(lines, handle)
            self.working.unlink(missing_ok=True)
        else:
            with atomic_write(self.path, "w") as handle:
                handle.write(_as_csv([[*COLUMNS], *lines]))

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

    def _replace(self, units: Iterable[list[Line]]) -> None:
        """Cut off what follows these units, or write them anew; a rename would lose the lock."""
        text = _as_csv([[*COLUMNS], *(line for unit in units for line in unit)])
        present = self.working.read_bytes()
        data = text.encode()
        if present.startswith(data):
            os.ftruncate(self._handle, len(data))
        else:
            os.ftruncate(self._handle, 0)
            self._append(data)

    def _append(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError as error:
            raise FileError(
                f"cannot write {str(self.working)!r}: {error.strerror or error}"
            ) from None


def read_lines(path: Path) -> list[Line]:
    """The rows that a sweep has written for this file, also while it is not complete.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    working = _working(path)
    try:
        if working != path and path.exists() and not (working.exists() and working.stat().st_size):
            return _parquet_lines(path)
        return _csv_lines(working)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from None


def check_sheet(path: Path) -> None:
    """Refuse a file that rows cannot be written to; called before long work.

    Raises:
        FileError: another ending, or a file that cannot be written.
        InvalidInputError: polars is missing for .parquet.
    """
    check_writable(path, "the file of a sweep", ".csv", ".parquet")
    if path.suffix.lower() == ".parquet":
        require_extra("a .parquet file", "polars", "release", ", or write .csv")


def _working(path: Path) -> Path:
    """The CSV file that rows are added to."""
    return path.with_name(path.name + ".part") if path.suffix.lower() == ".parquet" else path


def _as_line(record: Mapping[str, Any]) -> Line:
    """The text of a row."""
    return [_text(record[name]) for name in COLUMNS]


def _as_csv(lines: Iterable[Sequence[str]]) -> str:
    """Lines of a .csv file, without its header."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def _csv_lines(path: Path) -> list[Line]:
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


def _parquet_lines(path: Path) -> list[Line]:
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


def _write_parquet(lines: Iterable[Line], handle: IO[bytes]) -> None:
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


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Drawn, Displayed):
    """How a sweep ended, and its rows.

    Attributes:
        path: the file with the rows.
        rows: how many the study has.
        present: how many of them the file had before.
        computed: how many were added.
        refused: how many of all have no numbers, and a status that says why.
        stopped: how many of all rest on a norm that was not found to the gap asked for.
        lost: how many are missing because their worker died twice.
        interrupted: whether Ctrl-C ended it early.
    """

    path: Path
    rows: int
    present: int
    computed: int
    refused: int
    stopped: int
    lost: int
    interrupted: bool

    @property
    def complete(self) -> bool:
        """Whether the file has every row."""
        return self.present + self.computed == self.rows

    def to_records(self) -> list[dict[str, Any]]:
        """A dictionary for every row that the file has; None for what does not apply.

        Raises:
            FileError: the file cannot be read any more.
        """
        return [*records_of(read_lines(self.path))]

    def to_frame(self) -> Any:
        """A data frame of the rows: of pandas if it is installed, else of polars.

        Raises:
            FileError: the file cannot be read any more.
            InvalidInputError: neither is installed.
        """
        return data_frame(self.to_records(), KINDS)

    def _display(self) -> tuple[str, Facts]:
        counts = {"refused": self.refused, "stopped early": self.stopped, "lost": self.lost}
        facts = [(name, str(count)) for name, count in counts.items() if count]
        done = self.present + self.computed
        return f"Sweep in {str(self.path)!r}: {done} of {self.rows} rows", facts


def sweep(
    study: Mapping[str, Any] | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    backend: Backend = "processes",
    address: str | None = None,
    restart: bool = False,
    announce: Callable[[str], None] | None = None,
) -> Sweep:
    """Compute the rows of a study into a file; the same call goes on where it stopped.

    Args:
        study: a TOML file (docs/sweep.md), or a dictionary of what it would hold.
        output: .csv, or .parquet (which needs polars).
        jobs: how many units at a time; 1 by default, for a cluster all that it has.
        backend: "processes" here (jobs > 1 needs joblib), "dask" or "ray".
        address: of the scheduler of a running cluster; without one it is started here.
        restart: forget what the file has.
        announce: called with a line of text after every unit.

    Returns:
        How many rows there are. After Ctrl-C the file has all units that were done.

    Raises:
        FileError: a file cannot be read or written, or holds rows of another study.
        InvalidInputError: the study, or an argument, is not one.
        PmldesignError: the cluster cannot be reached.
    """
    path = as_path(output, "output")
    flags(restart=restart)
    check_sheet(path)
    workers = Workers(jobs, backend, address)
    units = read_study(study).units()
    lost, interrupted, computed = 0, False, 0
    with Sheet(path, restart=restart) as sheet:
        sheet.keep(units)
        missing = [unit for unit in units if unit.key not in sheet.units]
        present = sum(len(rows) for rows in sheet.units.values())
        try:
            with closing(run(missing, workers)) as results:
                for done, (index, rows) in enumerate(results, start=1):
                    if rows is None:
                        raise KeyboardInterrupt
                    if rows is LOST:
                        lost += missing[index].size
                        continue
                    sheet.add(missing[index].key, rows)
                    computed += len(rows)
                    if announce is not None:
                        announce(f"{done} of {len(missing)} units are done, {computed} rows")
        except KeyboardInterrupt:
            interrupted = True
        total = sum(unit.size for unit in units)
        if not interrupted:
            sheet.finish(units)
        place = COLUMNS.index("status")
        statuses = [line[place] for rows in sheet.units.values() for line in rows]
    return Sweep(
        path=path,
        rows=total,
        present=present,
        computed=computed,
        refused=sum(status != DONE and status not in STOPPED for status in statuses),
        stopped=sum(status in STOPPED for status in statuses),
        lost=lost,
        interrupted=interrupted,
    )
