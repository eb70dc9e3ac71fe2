"""One SQLite file for each thing that outlives a process: a ledger, a stream's state, a sweep.

    with opened(path, Kind.SWEEP, TABLES, new=True) as database, transaction(database):
        database.execute("INSERT INTO rows VALUES (?, ?)", (number, text))

A file is created for its owner alone (0600). Its header names the kind (`application_id`) and the
one FORMAT (`user_version`); every other file is refused. `synchronous = EXTRA`: a transaction is on
the disk when its block ends, and after a crash it is there completely or not at all. Its first
statement is BEGIN IMMEDIATE, so that no other process writes between its reads and its
writes.

`alone` keeps every other process out until the connection is closed, and writes through a log
(WAL): one flush per transaction, where a rollback journal takes three or four. Until it is closed,
or after a kill, the last transactions are in PATH-wal, which belongs to the file.

A process that is forked off must not even close a connection: SQLite would take the log of the
parent for its own. There it is never closed.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum
from pathlib import Path
from weakref import WeakSet

from pmldesign._version import FORMAT
from pmldesign.errors import FileError

WAIT = 60.0
"""Seconds for which a transaction waits for those of other processes."""
SYNCHRONOUS = "EXTRA"
"""OFF in tests, whose processes are killed, but not the system."""


class Kind(Enum):
    """The kind of a file; the value is its name in messages."""

    LEDGER = "ledger"
    STREAM = "stream state"
    SWEEP = "sweep file"

    @property
    def number(self) -> int:
        """The `application_id`: the first letters of pmld and the kind."""
        return int.from_bytes(f"pm{self.value[:2]}".encode(), "big")


class Connection(sqlite3.Connection):
    """A connection of SQLite that is never closed in a forked process.

    Attributes:
        empty: whether the file has no tables yet, as after a crash while it was created.
    """

    empty = inherited = False

    def close(self) -> None:
        """Close the connection in the process that opened it."""
        if not self.inherited:
            super().close()


_open: WeakSet[Connection] = WeakSet()


def _forked() -> None:
    for connection in _open:
        connection.inherited = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # its end would close it


os.register_at_fork(after_in_child=_forked)


def connect(path: Path, kind: Kind, tables: str, *, new: bool, alone: bool = False) -> Connection:
    """Open a file; the caller closes the connection.

    Args:
        path: of the file.
        kind: of its contents.
        tables: the statements that create its tables.
        new: whether a file that is not there, or is empty, is begun.
        alone: whether other processes are kept out until the connection is closed.

    Raises:
        FileError: the file cannot be opened, holds something else, or is in use.
    """
    try:
        if new:
            with suppress(FileExistsError):  # to close an old file would end all locks on it
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"cannot open the {kind.value} {str(path)!r}: it is not a regular file")
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        if isinstance(error, FileError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot open the {kind.value} {str(path)!r}: {reason}") from None
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        factory=Connection,
        timeout=0.0 if alone else WAIT,
        isolation_level=None,
        check_same_thread=False,
    )
    _open.add(connection)
    try:
        with refusals(path, kind):
            if alone:  # before any other statement, which would open the log for sharing
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
            _require_kind(connection, path, kind)
            if new and connection.empty:
                _begin(connection, path, kind, tables)
            if alone and not connection.empty:
                connection.execute("PRAGMA journal_mode=WAL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def opened(
    path: Path, kind: Kind, tables: str, *, new: bool, alone: bool = False
) -> Iterator[Connection]:
    """Open a file during a block; arguments and errors as `connect`.

    Errors of SQLite in the block are a FileError in one line.
    """
    connection = connect(path, kind, tables, new=new, alone=alone)
    with closing(connection), refusals(path, kind):
        yield connection


@contextmanager
def transaction(connection: Connection) -> Iterator[Connection]:
    """One transaction: on the disk when the block ends, undone if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def refusals(path: Path, kind: Kind) -> Iterator[None]:
    """Errors of SQLite as one line.

    Raises:
        FileError: the block raised one.
    """
    try:
        yield
    except sqlite3.Error as error:
        if error.sqlite_errorname.startswith("SQLITE_BUSY"):
            raise FileError(
                f"the {kind.value} {str(path)!r} is in use by another process; end that one first"
            ) from None
        raise FileError(f"cannot use the {kind.value} {str(path)!r}: {error}") from None


def flush(handle: int) -> None:
    """Put the data written to an open file on the disk."""
    if SYNCHRONOUS != "OFF":
        getattr(os, "fdatasync", os.fsync)(handle)


def _begin(connection: Connection, path: Path, kind: Kind, tables: str) -> None:
    """Create the tables of an empty file, its kind and its format, all at once."""
    with transaction(connection):
        if path.stat().st_size == 0:  # no other process has begun it meanwhile
            for statement in filter(str.strip, tables.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={kind.number}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
    _require_kind(connection, path, kind)


def _require_kind(connection: Connection, path: Path, kind: Kind) -> None:
    """Refuse any other file; SQLite itself takes one that was cut to a part of a page for empty."""
    names = "application_id", "user_version"
    found = tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    connection.empty = path.stat().st_size == 0
    if not connection.empty and found != (kind.number, FORMAT):
        others = [other.value for other in Kind if other.number == found[0] != kind.number]
        what = f"it is a {others[0]}" if others else f"it is no {kind.value} of this version"
        raise FileError(f"cannot use {str(path)!r} as a {kind.value}: {what}; name another file")
