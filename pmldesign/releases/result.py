"""What a release gives: a table and its manifest, and how they get into files.

The table has a row for each query, with labels, estimate and interval. Sums of published numbers
are published numbers, to the last digit (`estimates`). The rounding widens the intervals.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.files.atomic import PathName, as_path, atomic_write, check_writable, sync_folder
from pmldesign.releases.manifest import as_text
from pmldesign.workloads.display import (
    MOST_ROWS,
    Displayed,
    Drawn,
    Facts,
    data_frame,
    html_table,
)
from pmldesign_solvers.operators.operator import Array, Indices

if TYPE_CHECKING:
    from pmldesign.releases.measured.measurements import Measurements
FINE = 1e-4
"""The rounding moves an answer by at most half of this part of the smallest standard deviation."""
ROUNDED_DEVIATION = 1e-5
"""Of the largest standard deviation: less may be the rounding of one that is 0."""
EXACT = 2.0**52
"""Sums of whole numbers below are exact in float64, with a bit to spare."""
FORMATS = (".csv", ".parquet")
NUMBERS = ("estimate", "standard_deviation", "lower", "upper")
"""Columns next to the labels."""


@dataclass(frozen=True, eq=False, repr=False)
class Release(Drawn, Displayed):
    """Published numbers: a table and its manifest.

    Attributes:
        table: a row for each query.
        manifest: the facts published with it.
        known: a row for each group of cells that the invariants distinguish, with the exact number
            of its records.
        measurements: the noisy measurements, for further questions.
        library: of the data frame that was released, "pandas" or "polars"; None for other data.
    """

    table: ReleasedTable
    manifest: dict[str, Any]
    known: tuple[dict[str, str | int], ...] = ()
    measurements: Measurements | None = None
    library: str | None = None

    def to_frame(self) -> Any:
        """The table as a data frame of the library of the data, else of pandas if installed.

        Raises:
            InvalidInputError: the library is unknown.
        """
        return self.table.to_frame(self.library)

    def _display(self) -> tuple[str, Facts]:
        noise, intervals = self.manifest["noise"], self.manifest["intervals"]
        title = f"Release of {self.manifest['workload']!r}: {self.table.summary}"
        return title, [
            ("noise", f"{noise['law']} on {noise['measurements']} measurements"),
            ("intervals of level", f"{intervals['level']:g}"),
            ("guarantee", self.manifest["guarantee"]["words"]),
        ]

    def _repr_html_(self) -> str:
        title, facts = self._display()
        return html_table(title, facts) + self.table.html()

    def save(self, path: PathName) -> tuple[Path, ...]:
        """Write the manifest next to the table, and the table last: its name appears at the end.

        The manifest has the hash of its table, which distinguishes it from an older table. The
        invariants of an older release are removed if the new one has none.

        Args:
            path: .csv or .parquet.

        Returns:
            The files that are written, the table first.

        Raises:
            FileError: another extension, or the folder takes no files.
        """
        check_paths(path)
        content = table_bytes(path, self.table)
        hashes = {**self.manifest["sha256"], "table": _digest(content)}
        known = csv_text(self.known) if self.known else None
        if known is not None:
            hashes["known"] = _digest(known.encode())
        with atomic_write(manifest_path(path), "w") as handle:
            handle.write(as_text({**self.manifest, "sha256": hashes}))
        if known is not None:
            with atomic_write(known_path(path), "w") as handle:
                handle.write(known)
        with atomic_write(path, "wb") as handle:
            handle.write(content)
        if known is None and known_path(path).is_file():
            known_path(path).unlink()
        sync_folder(Path(os.path.realpath(path)).parent)
        beside = () if known is None else (known_path(path),)
        return (Path(path), manifest_path(path), *beside)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a .csv."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest_path(path: PathName) -> Path:
    """Where the manifest of a table is."""
    return Path(path).with_suffix(".manifest.json")


def known_path(path: PathName) -> Path:
    """Where the invariants of a table are, with their exact answers."""
    return Path(path).with_suffix(".known.csv")


def check_paths(
    path: PathName, *, used: Iterable[PathName] = (), more: Iterable[Path] = ()
) -> None:
    """Refuse a table that cannot be written; called before anything is spent.

    Args:
        path: of the table.
        used: other files of the release, which it must not replace.
        more: other files that are written.

    Raises:
        FileError: another extension, the folder takes no files, or a file is used otherwise.
        InvalidInputError: duckdb is missing for .parquet.
    """
    check_table_path(path)
    others = {os.path.realpath(other) for other in used}
    for target in (Path(path), manifest_path(path), known_path(path), *more):
        if os.path.realpath(target) in others:
            raise FileError(f"{str(target)!r} would be replaced by the table; take another name")
        check_writable(target)


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one table of a release.

    Attributes:
        table: the product of queries, as written.
        rows: how many answers it has.
        typical: median half-width of the intervals that have two ends; inf if none has.
        largest: the largest one.
        without: how many answers have no estimate: they are suppressed, or not determined.
    """

    table: str
    rows: int
    typical: float
    largest: float
    without: int


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedTable(Displayed):
    """The table that is published.

    Attributes:
        labels: for each attribute the label of every query; {"query": numbers} without a schema.
        estimate: shape (m,); NaN if it is missing.
        standard_deviation: of the noise, shape (m,).
        lower: ends of the intervals, shape (m,).
        upper: ends of the intervals, shape (m,).
        decimals: how many digits after the point estimates and intervals have, one number for all
            or shape (m,).
        tables: the names of the products of the queries, with the rows of each; () for one.
    """

    labels: dict[str, list[str]]
    estimate: Array
    standard_deviation: Array
    lower: Array
    upper: Array
    decimals: int | Indices
    tables: tuple[tuple[str, int], ...] = ()

    @property
    def accuracy(self) -> list[Accuracy]:
        """How far the intervals of each table reach, and how many estimates are suppressed."""
        found, start = [], 0
        for name, rows in self.tables or (("all answers", len(self.estimate)),):
            part = slice(start, start + rows)
            start += rows
            reach = (self.upper[part] - self.lower[part]) / 2
            reach = reach[~np.isnan(reach)]
            typical, largest = (np.median(reach), reach.max()) if reach.size else (np.inf, np.inf)
            left_out = int(np.isnan(self.estimate[part]).sum())
            found.append(Accuracy(name, rows, float(typical), float(largest), left_out))
        return found

    def columns(self) -> dict[str, list[Any]]:
        """Names and columns, numbers as they are printed."""
        numbers = {
            name: [float(text) if text else None for text in texts]
            for name, texts in self._printed().items()
        }
        return {**self.labels, **numbers}

    def without_noisy(self, relative_error: float) -> ReleasedTable:
        """The table without estimates below their standard deviation over `relative_error`.

        It is a function of the published numbers. Intervals stay: if those with small estimates
        were left out, the others would cover less often than stated.
        """
        noisy = ~(self.standard_deviation <= relative_error * np.abs(self.estimate))
        return replace(self, estimate=np.where(noisy, np.nan, self.estimate))

    def write_csv(self, handle: IO[bytes]) -> None:
        """Write the table as UTF-8 text with a header."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        columns = self.labels | self._printed()
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        handle.write(text.getvalue().encode())

    def write_parquet(self, handle: IO[bytes]) -> None:
        """Write the table as Parquet."""
        require_extra("a .parquet file", "duckdb", "release", ", or write .csv")
        import duckdb

        arrays = {
            name: np.array(values, dtype=object if name in self.labels else np.float64)
            for name, values in self.columns().items()
        }
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
            connection.execute("SET pandas_analyze_sample = 0")  # labels are texts
            connection.register("answers", arrays)
            path = Path(folder, "table.parquet")
            connection.sql("SELECT * FROM answers").write_parquet(str(path))
            handle.write(path.read_bytes())

    def to_frame(self, library: str | None = None) -> Any:
        """The table as a data frame: of pandas if installed, else of polars.

        Args:
            library: "pandas" or "polars", for one of them.

        Raises:
            InvalidInputError: the library is unknown.
        """
        columns = self.columns()
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        kinds = {name: str if name in self.labels else float for name in columns}
        return data_frame(rows, kinds, library)

    @property
    def summary(self) -> str:
        """How many answers there are, and their standard deviations."""
        spread = self.standard_deviation[np.isfinite(self.standard_deviation)]
        ends = f"{spread.min():.4g} to {spread.max():.4g}" if spread.size else "unknown"
        return f"{len(self.estimate)} answers, standard deviations {ends}"

    def _display(self) -> tuple[str, Facts]:
        return f"Table: {self.summary}", []

    def html(self) -> str:
        """The first rows, for a notebook."""
        columns = {**self.labels, **self._printed()}
        rows = [*zip(*(values[:MOST_ROWS] for values in columns.values()), strict=True)]
        left = len(self.estimate) - len(rows)
        return html_table(f"and {left} more rows" if left else "", rows, [*columns])

    def _printed(self) -> dict[str, list[str]]:
        """The columns of numbers."""
        return {
            "estimate": self._texts(self.estimate),
            "standard_deviation": [
                "" if math.isnan(value) else f"{value:.6g}" for value in self.standard_deviation
            ],
            "lower": self._texts(self.lower),
            "upper": self._texts(self.upper),
        }

    def _texts(self, values: Array) -> list[str]:
        digits = np.broadcast_to(self.decimals, values.shape).tolist()
        texts = (f"{value:.{d}f}" for value, d in zip((values + 0.0).tolist(), digits, strict=True))
        return [_plain(text) for text in texts]


def _plain(text: str) -> str:
    """A number without a sign before zero; nothing for NaN."""
    if text == "nan":
        return ""
    return text[1:] if float(text) == 0 and text[0] == "-" else text


def table_bytes(path: PathName, table: ReleasedTable) -> bytes:
    """The table in the format of the ending of a path."""
    content = io.BytesIO()
    if Path(path).suffix.lower() == ".csv":
        table.write_csv(content)
    else:
        table.write_parquet(content)
    return content.getvalue()


def check_table_path(path: PathName) -> None:
    """Refuse a path that no table can have.

    Raises:
        FileError: another extension, or the folder takes no files.
        InvalidInputError: duckdb is missing for .parquet.
    """
    path = as_path(path)
    if path.suffix.lower() not in FORMATS:
        raise FileError(f"cannot write {str(path)!r}: a table ends in {' or '.join(FORMATS)}")
    if path.suffix.lower() == ".parquet":
        require_extra("a .parquet file", "duckdb", "release", ", or write .csv")
    check_writable(path)


def decimals_for(cells: int, deviations: Array, size: float) -> int:
    """Digits after the point: fine relative to the noise, with sums that are exact.

    Args:
        cells: that a query may sum.
        deviations: standard deviations of the answers.
        size: of the numbers that are summed, together.

    Raises:
        InvalidInputError: the numbers are too large.
    """
    positive = deviations[deviations > ROUNDED_DEVIATION * deviations.max(initial=0.0)]
    least = float(positive.min()) if positive.size else 1.0
    wanted = math.ceil(math.log10(cells / (FINE * least)))
    allowed = math.floor(math.log10(EXACT / max(size, 1.0)))
    if allowed < 0:
        raise InvalidInputError("the counts are too large to be summed exactly")
    return max(0, min(wanted, allowed, 12))
