"""What a release gives: a table and its manifest, and how they get into files."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmldesign.errors import FileError
from pmldesign.files.atomic import PathName, atomic_write, check_writable, sync_folder
from pmldesign.release.manifest import as_text
from pmldesign.release.tables import ReleasedTable, check_table_path, table_bytes
from pmldesign.workloads.display import Drawn

if TYPE_CHECKING:
    from pmldesign.release.measured.measurements import Measurements


@dataclass(frozen=True, eq=False)
class Release(Drawn):
    """Published numbers: a table, and the manifest beside it.

    Attributes:
        table: a row for each query.
        manifest: what is published beside it.
        quantiles: a row for each that was asked for.
        known: a row for each group of cells that known answers tell apart, with the exact number
            of its records.
        measurements: what was measured, for further questions.
    """

    table: ReleasedTable
    manifest: dict[str, Any]
    quantiles: tuple[dict[str, str | float], ...] = ()
    known: tuple[dict[str, str | int], ...] = ()
    measurements: Measurements | None = None

    def to_frame(self) -> Any:
        """The table as a data frame of polars."""
        return self.table.to_frame()

    def to_csv(self, path: PathName) -> None:
        """Write the manifest, then the table; see `write`."""
        self.write(path)

    def write(self, path: PathName) -> None:
        """Write the manifest beside the table, and the table last: its name appears at the end.

        The manifest has the hash of its table, so that an older table is told from its own.

        Args:
            path: .csv or .parquet.

        Raises:
            FileError: another extension, or the folder takes no files.
        """
        check_paths(path)
        content = table_bytes(path, self.table)
        hashes = {**self.manifest["sha256"], "table": _digest(content)}
        beside = {name: csv_text(rows) for name, rows in self._beside() if rows}
        hashes |= {name: _digest(text.encode()) for name, text in beside.items()}
        with atomic_write(manifest_path(path), "w") as handle:
            handle.write(as_text({**self.manifest, "sha256": hashes}))
        for name, text in beside.items():
            with atomic_write(beside_path(path, name), "w") as handle:
                handle.write(text)
        with atomic_write(path, "wb") as handle:
            handle.write(content)
        sync_folder(Path(os.path.realpath(path)).parent)

    def _beside(self) -> Iterator[tuple[str, tuple[Mapping[str, Any], ...]]]:
        """Smaller tables in files of their own, by what these are called."""
        yield "quantiles", self.quantiles
        yield "known", self.known


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


def beside_path(path: PathName, name: str) -> Path:
    """Where a smaller table beside a table is: "quantiles", or "known"."""
    return Path(path).with_suffix(f".{name}.csv")


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
        InvalidInputError: polars is missing for .parquet.
    """
    check_table_path(path)
    others = {os.path.realpath(other) for other in used}
    beside = [beside_path(path, name) for name in ("quantiles", "known")]
    for target in (Path(path), manifest_path(path), *beside, *more):
        if os.path.realpath(target) in others:
            raise FileError(f"{str(target)!r} would be replaced by the table; take another name")
        check_writable(target)
