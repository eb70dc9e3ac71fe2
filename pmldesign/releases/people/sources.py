"""Every source of people as a relation of DuckDB.

people.csv, .csv.gz, .tsv       texts; the delimiter is a comma (.tsv: a tab) or, if the header
has none, the semicolon, tab or bar that it has instead
people.parquet                  columns with their types, bytes as UTF-8
people.arrow, .feather          files and streams, through pyarrow or polars
folder, people-*.parquet        all files of one kind, with the same columns
pandas, polars, pyarrow ...     frames, through Arrow
duckdb:///file.db#table         a table, opened for reading only
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.files.arrays import file_name
from pmldesign.releases.people.delimited import escaped, of_texts, require_alike
from pmldesign.releases.people.frames import of_frame
from pmldesign.releases.people.query import table_name
from pmldesign.releases.people.relation import Source, reading
from pmldesign.releases.people.values import literal

DUCKDB = "duckdb:///"
KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".arrow", ".feather")


def source_of(data: Any) -> Source:
    """The source that data are.

    Args:
        data: a path, a folder, a pattern, duckdb:///file.db#table, or a data frame.

    Raises:
        FileError: a file that is missing or cannot be read.
        InvalidInputError: data of another type.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, str) and data.startswith(DUCKDB):
        return _of_database(data)
    if isinstance(data, str | Path):
        return _of_files(data)
    return of_frame(data)


def files_of(path: str | Path) -> list[Path]:
    """The files of a path, a folder or a pattern, all of one kind.

    Raises:
        FileError: no files, or files of several kinds.
    """
    whole = Path(path)
    if whole.is_dir():
        found = sorted(p for p in whole.iterdir() if _kind(p) in KINDS)
    elif whole.exists() or not glob.has_magic(str(path)):
        found = [whole]
    else:
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True))  # noqa: PTH207 # perhaps absolute
    if not found:
        raise FileError(f"cannot read {str(path)!r}: there is no file of people there")
    if not found[0].is_file():
        raise FileError(f"cannot read {str(found[0])!r}: there is no such file")
    kinds = sorted({_kind(p) for p in found})
    if kinds[0] not in KINDS:
        raise FileError(f"{str(found[0])!r}: a table of people ends in {', '.join(KINDS)}")
    if len(kinds) > 1:
        raise FileError(f"{str(path)!r} has files of several kinds ({', '.join(kinds)}); name one")
    return found


def is_people(path: Path) -> bool:
    """Whether a path is called as a table of people is."""
    return path.is_dir() or _kind(path) in KINDS or glob.has_magic(str(path))


def _kind(path: Path) -> str:
    """The end of the name of a file."""
    name = path.name.lower()
    return next((kind for kind in KINDS if name.endswith(kind)), path.suffix.lower())


def _of_database(address: str) -> Source:
    path, mark, table = address.removeprefix(DUCKDB).partition("#")
    if not path or not mark or not table:
        raise InvalidInputError(f"a table of DuckDB is written as {DUCKDB}file.db#table")
    if not Path(path).is_file():
        raise FileError(f"cannot read {path!r}: there is no such file")
    require_extra("a database of DuckDB", "duckdb", "release")
    import duckdb

    text, name = table_name(table), Path(path).name
    with reading(name), duckdb.connect(path, read_only=True) as connection:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {text}").fetchall()
    return Source(name, [row[0] for row in rows], lambda *_: text, Path(path))


def _of_files(path: str | Path) -> Source:
    files = files_of(path)
    kind, name = _kind(files[0]), file_name(Path(path))
    if kind in (".arrow", ".feather"):
        if len(files) > 1:
            raise FileError(f"{name}: only one file of Arrow is read at a time; write .parquet")
        return of_frame(_arrow(files[0]), name)
    if kind == ".parquet":
        return _of_parquet(files, name)
    return of_texts(files, kind, name)


def _of_parquet(files: list[Path], name: str) -> Source:
    require_extra("a table of people", "duckdb", "release")
    import duckdb

    options = "hive_partitioning = false"
    described = []
    with reading(name), duckdb.connect() as connection:
        for file in files:
            text = f"read_parquet([{literal(escaped(file))}], {options})"
            described.append(connection.execute(f"DESCRIBE SELECT * FROM {text}").fetchall())
    require_alike(files, [[(row[0], row[1]) for row in rows] for rows in described])
    listed = ", ".join(literal(escaped(file)) for file in files)
    return Source(
        name,
        [row[0] for row in described[0]],
        lambda *_: f"read_parquet([{listed}], {options})",
    )


def _arrow(path: Path) -> Any:
    """A file or stream of Arrow as a frame."""
    with path.open("rb") as handle:
        is_file = handle.read(6) == b"ARROW1"
    with reading(file_name(path)):
        try:
            import pyarrow.ipc
        except ImportError:
            require_extra("a file of Arrow", "polars", "release", ", or write .parquet")
            import polars

            read = polars.read_ipc if is_file else polars.read_ipc_stream
            return read(path)
        opener = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
        return opener(str(path)).read_all()
