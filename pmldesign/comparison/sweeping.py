"""A sweep: every unit of a study, wherever there are workers, into one SQLite file.

The table `rows` has a row for every setting. Its key is the unit that computes it, which names all
that the row follows from, and its number there. The table `units` has the units of the study in its
order. The rows of a unit are added in one transaction when they are there: whatever ends the
process, a unit is in the file as a whole or not at all.

A unit is computed if the file does not have it, so a sweep that was killed resumes at its last
unit, and no norm is computed twice. Without time limits the rows do not depend on the workers, on
the order in which they finish, or on how often the sweep was killed; only their times do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmldesign.arguments import flags
from pmldesign.comparison.parallel import LOST, Backend, Workers, run
from pmldesign.comparison.study import read_study
from pmldesign.comparison.units import COLUMNS, COUNTS, DONE, STOPPED, TEXTS, Unit
from pmldesign.errors import FileError
from pmldesign.files import as_path, check_writable
from pmldesign.store import Connection, Kind, opened, transaction
from pmldesign.workloads.display import Displayed, Drawn, Facts, data_frame

KINDS: Mapping[str, type] = {
    name: str if name in TEXTS else int if name in COUNTS else float for name in COLUMNS
}
"""What the columns hold."""
TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
TABLES = f"""
    CREATE TABLE units (unit TEXT PRIMARY KEY, place INTEGER);
    CREATE TABLE rows (
        {", ".join(f'"{name}" {TYPES[kind]}' for name, kind in KINDS.items())},
        number INTEGER, PRIMARY KEY (unit, number)
    )
"""


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Drawn, Displayed):
    """How a sweep ended, and its rows.

    Attributes:
        path: the file with the rows.
        rows: how many the study has.
        present: how many of them the file had before.
        computed: how many were added.
        refused: how many of all have no numbers, and a status with the reason.
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
        """A dictionary for every row that the file has; None for columns that do not apply.

        Raises:
            FileError: the file cannot be read any more.
        """
        with opened(self.path, Kind.SWEEP, TABLES, new=False) as database:
            names = ", ".join(f'"{name}"' for name in COLUMNS)
            rows = database.execute(
                f"SELECT {names} FROM rows JOIN units USING (unit) ORDER BY place, number"
            )
            return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

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
    backend: Backend = "loky",
    address: str | None = None,
    restart: bool = False,
    announce: Callable[[str], None] | None = None,
) -> Sweep:
    """Compute the rows of a study into a file; the same call resumes it.

    Args:
        study: a TOML file (docs/guides/studies.md), or a dictionary with its content.
        output: .sqlite.
        jobs: how many units at a time; 1 by default, for a cluster all that it has.
        backend: "loky" for processes here (jobs > 1 needs joblib), "dask" or "ray".
        address: of the scheduler of a running cluster; without one it is started here.
        restart: discard the rows of the file.
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
    check_writable(path, "the file of a sweep", ".sqlite")
    workers = Workers(jobs, backend, address)
    units = read_study(study).units()
    began = not path.exists()
    try:
        with opened(path, Kind.SWEEP, TABLES, new=True, alone=True) as database:
            return _computed(database, path, units, workers, restart=restart, announce=announce)
    except BaseException:
        if began and _is_empty(path):
            path.unlink()
        raise


def _is_empty(path: Path) -> bool:
    with suppress(FileError), opened(path, Kind.SWEEP, TABLES, new=False) as database:
        return database.execute("SELECT 1 FROM rows").fetchone() is None
    return False


def _computed(
    database: Connection,
    path: Path,
    units: Sequence[Unit],
    workers: Workers,
    *,
    restart: bool,
    announce: Callable[[str], None] | None,
) -> Sweep:
    lost, interrupted, computed = 0, False, 0
    missing = _missing(database, path, units, restart=restart)
    total = sum(unit.size for unit in units)
    present = total - sum(unit.size for unit in missing)
    try:
        with closing(run(missing, workers)) as results:
            for done, (index, rows) in enumerate(results, start=1):
                if rows is None:
                    raise KeyboardInterrupt
                if rows is LOST:
                    lost += missing[index].size
                    continue
                _add(database, rows)
                computed += len(rows)
                if announce is not None:
                    announce(f"{done} of {len(missing)} units are done, {computed} rows")
    except KeyboardInterrupt:
        interrupted = True
    counts = dict(database.execute("SELECT status, count(*) FROM rows GROUP BY status"))
    stopped = sum(counts.pop(status, 0) for status in STOPPED)
    return Sweep(
        path=path,
        rows=total,
        present=present,
        computed=computed,
        refused=sum(counts.values()) - counts.get(DONE, 0),
        stopped=stopped,
        lost=lost,
        interrupted=interrupted,
    )


def _missing(
    database: Connection, path: Path, units: Sequence[Unit], *, restart: bool
) -> list[Unit]:
    """The units that the file does not have; it has the study then.

    Raises:
        FileError: the file has rows of other units.
    """
    with transaction(database):
        if restart:
            database.execute("DELETE FROM rows")
        database.execute("DELETE FROM units")
        database.executemany(
            "INSERT INTO units VALUES (?, ?)", [(unit.key, i) for i, unit in enumerate(units)]
        )
        strange = database.execute(
            "SELECT workload, p FROM rows WHERE unit NOT IN (SELECT unit FROM units) LIMIT 1"
        ).fetchone()
        if strange:
            raise FileError(
                f"{str(path)!r} has rows that this study does not ask for, or not with these"
                f" settings or this version, such as {strange[0]} at p = {strange[1]}; give"
                " another file, or `restart`"
            )
        present = {unit for (unit,) in database.execute("SELECT DISTINCT unit FROM rows")}
    return [unit for unit in units if unit.key not in present]


def _add(database: Connection, records: Iterable[Mapping[str, Any]]) -> None:
    """Add the rows of a unit; nothing for an empty text."""
    places = ", ".join("?" * (len(COLUMNS) + 1))
    with transaction(database):
        database.executemany(
            f"INSERT INTO rows VALUES ({places})",
            [
                [*(None if record[name] == "" else record[name] for name in COLUMNS), number]
                for number, record in enumerate(records)
            ],
        )
