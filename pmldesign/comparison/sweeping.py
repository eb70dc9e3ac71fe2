"""A sweep: every unit of a study, wherever there are workers, into a file that survives.

A unit is computed if the file does not have all of its rows: a sweep that was killed goes on where
it stopped, and no norm is computed twice. Without limits of time the rows are the same whatever
computes them, whoever is ready first, and however often the sweep was killed; only their times are
not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmldesign.comparison.parallel import LOST, Backend, Workers, run
from pmldesign.comparison.sheet import KINDS, Sheet, check_sheet, read_lines, records_of
from pmldesign.comparison.study import read_study
from pmldesign.comparison.units import COLUMNS, DONE, STOPPED
from pmldesign.workloads.display import Displayed, Drawn, Facts, data_frame


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
    path = Path(output)
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
