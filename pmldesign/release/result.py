"""What a release gives: a table and its manifest, and how they get into files."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmldesign.files.atomic import PathName, atomic_write, check_writable, sync_folder
from pmldesign.release.manifest import as_text
from pmldesign.release.tables import Table, check_table_path


@dataclass(frozen=True, eq=False)
class Release:
    """Published numbers.

    Attributes:
        table: a row for each query.
        manifest: what is published beside it.
        quantiles: a row for each that was asked for.
    """

    table: Table
    manifest: dict[str, Any]
    quantiles: tuple[dict[str, str | float], ...] = ()

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
        content = io.BytesIO()
        if Path(path).suffix.lower() == ".csv":
            self.table.write_csv(content)
        else:
            self.table.write_parquet(content)
        digest = hashlib.sha256(content.getvalue()).hexdigest()
        hashes = {**self.manifest["sha256"], "table": digest}
        with atomic_write(manifest_path(path), "w") as handle:
            handle.write(as_text({**self.manifest, "sha256": hashes}))
        if self.quantiles:
            with atomic_write(quantiles_path(path), "w") as handle:
                writer = csv.DictWriter(handle, list(self.quantiles[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(self.quantiles)
        with atomic_write(path, "wb") as handle:
            handle.write(content.getvalue())
        sync_folder(Path(path).resolve().parent)


def manifest_path(path: PathName) -> Path:
    """Where the manifest of a table is."""
    return Path(path).with_suffix(".manifest.json")


def quantiles_path(path: PathName) -> Path:
    """Where the quantiles beside a table are."""
    return Path(path).with_suffix(".quantiles.csv")


def check_paths(path: PathName) -> None:
    """Refuse a table that cannot be written; called before anything is spent.

    Raises:
        FileError: another extension, or the folder takes no files.
    """
    check_table_path(path)
    for target in (path, manifest_path(path)):
        check_writable(target)
