"""The kind of a file, determined by its content: the first bytes, and the header of an archive.

A file of SQLite begins with its name and has the number of its kind in bytes 68 to 71
(`store.Kind`). Among the archives (.npz), those with a header hold a strategy, and those whose
header has a manifest the measurements of a release.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Literal

from pmldesign.errors import FileError
from pmldesign.files.arrays import Archive
from pmldesign.files.atomic import PathName, as_path
from pmldesign.files.workloads import opened
from pmldesign.store import Kind

SQLITE = b"SQLite format 3\x00"
NUMBER = slice(68, 72)
"""Where the header of SQLite has the number of the kind."""


def kind_of(path: PathName) -> Literal["matrix", "strategy", "measurements", "json"] | Kind:
    """The kind of a file: a matrix unless its content shows another kind.

    Raises:
        FileError: it is missing or unreadable, or of a kind that is not read as an object.
    """
    path = as_path(path)
    ending = path.suffix.lower()
    with opened(path) as handle:
        start = handle.read(NUMBER.stop)
        if start.startswith(SQLITE):
            return _kind_of_store(str(path), start)
        if ending == ".npz":
            handle.seek(0)
            with suppress(Exception):  # any error of a damaged file: its reader reports it
                arrays = Archive(handle)
                if "header" in arrays:
                    header = json.loads(str(arrays["header"]))
                    return "measurements" if "manifest" in header else "strategy"
    if path.name.lower().endswith(".manifest.json"):
        raise FileError(f"{str(path)!r} is the manifest of a release; pmldesign.verify checks it")
    return "json" if ending == ".json" else "matrix"


def _kind_of_store(name: str, start: bytes) -> Kind:
    """The kind of a file of SQLite that is read as an object."""
    if int.from_bytes(start[NUMBER], "big") == Kind.LEDGER.number:
        return Kind.LEDGER
    raise FileError(
        f"{name!r} is the state of a stream, a sweep file or another database; pmldesign.verify"
        " checks states, and pmldesign.sweep continues a sweep"
    )
