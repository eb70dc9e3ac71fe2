"""The lines of a ledger: in a file under a lock, or in a database that several machines share.

A line is JSON, first the budget, then one for each release. Costs are exact fractions without a
sign, so that nothing is paid back. A last line that was not written to its end, a key that comes
twice and a number that is none refuse everything until somebody looks.

A store gives all lines that were ever written, in their order, and takes one more at a stated
place, only while there is nothing at that place. So a line is written by nobody who has not seen
all lines before it. For a file a lock sees to that, held from reading to writing. In a database the
place is a part of the primary key: of two that write to the same place one is refused, reads what
the other has written, and decides again. Locks of files are not safe on network drives.

Both have the line on the disk when `append` returns: fsync of the file and its folder; `synchronous
= EXTRA` of SQLite, `synchronous_commit` of PostgreSQL.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Protocol

from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.files.atomic import PathName, sync_folder
from pmldesign.release.costs.budget import Cost
from pmldesign.release.costs.plan import Plan
from pmldesign.verify.report import once

MOST_BYTES = 2**28
"""Of a ledger that is read: a million releases."""
DURABLE = {"sqlite": "PRAGMA synchronous=EXTRA", "postgresql": "SET synchronous_commit TO on"}
"""What a connection to each kind of database begins with."""
WAIT = 60
"""Seconds for which a writer waits for others."""
FORMAT = 2
LIMITS = ("epsilon", "delta", "pure")
HEADS = {1: {"ledger", "data", "unit", *LIMITS}, 2: {"ledger", "people", "key", "unit", *LIMITS}}
"""Keys of the first line by format; a plan adds one. The first format knew the path of the data."""
ENTRY, BESIDE = {"release", "pure", "squared_ratio"}, {"delta", "planned", "date", "data"}
"""Keys of each line of a release, and those that may be missing."""
FRACTION = re.compile(r"[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?")


class Store(Protocol):
    """The lines of a ledger.

    Attributes:
        name: of the ledger, for messages.
    """

    name: str

    def read(self) -> list[bytes]:
        """All lines; a last one that was not written to its end is empty."""

    def append(self, place: int, line: bytes) -> bool:
        """Write a line to the disk, as the one of this number; False if there is one already.

        Raises:
            FileError: the system refuses to write.
        """


class FileStore:
    """A file of lines, locked while it is open, without a buffer."""

    def __init__(self, path: Path, handle: IO[bytes]) -> None:
        self.name, self._path, self._handle = str(path), path, handle

    def read(self) -> list[bytes]:
        """As `Store.read`."""
        try:
            if self._handle.seek(0, os.SEEK_END) > MOST_BYTES:
                return [b""]
            self._handle.seek(0)
            content = self._handle.read()
        except OSError as error:
            raise FileError(
                f"cannot read the ledger {self.name!r}: {error.strerror or error}"
            ) from None
        return content.splitlines() if content.endswith(b"\n") or not content else [b""]

    def append(self, place: int, line: bytes) -> bool:  # noqa: ARG002 - under the lock it is free
        """As `Store.append`; what cannot be written to its end is taken back."""
        end, rest = self._handle.seek(0, os.SEEK_END), line + b"\n"
        try:
            if not os.path.samestat(os.fstat(self._handle.fileno()), self._path.stat()):
                raise OSError(errno.ESTALE, "it was replaced by another file")
            while rest:
                rest = rest[self._handle.write(rest) :]
            os.fsync(self._handle.fileno())
            sync_folder(Path(os.path.realpath(self._path)).parent)
        except OSError as error:
            with suppress(OSError):
                self._handle.truncate(end)
            raise FileError(
                f"cannot write the ledger {self.name!r}: {error.strerror or error}"
            ) from None
        return True


class SharedStore:
    """A table of lines in a database, which holds the ledgers of several sets of people."""

    def __init__(self, engine: Any, table: Any, people: str) -> None:
        self.name, self.people = f"{engine.url.render_as_string()} of {people}", people
        self._engine, self._table = engine, table

    def read(self) -> list[bytes]:
        """As `Store.read`."""
        import sqlalchemy

        columns = self._table.c
        found = sqlalchemy.select(columns.place, columns.line).order_by(columns.place)
        with _database(self.name), self._engine.connect() as connection:
            rows = connection.execute(found.where(columns.people == self.people)).all()
            sound = True
            if connection.dialect.name == "sqlite":  # a file that was cut short may have no rows
                sound = connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        sound = sound and [place for place, _ in rows] == list(range(len(rows)))
        sound = sound and all(isinstance(line, str) for _, line in rows)
        return [line.encode() for _, line in rows] if sound else [b""]

    def append(self, place: int, line: bytes) -> bool:
        """As `Store.append`."""
        import sqlalchemy

        values = {"people": self.people, "place": place, "line": line.decode()}
        try:
            with self._engine.begin() as connection:
                connection.execute(self._table.insert().values(**values))
        except sqlalchemy.exc.IntegrityError:
            return False
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise _refused(self.name, error) from None
        return True


def is_shared(place: PathName) -> bool:
    """Whether a ledger is in a database."""
    return "://" in str(place)


@contextmanager
def opened_store(place: PathName, people: str | None, *, new: bool) -> Iterator[Store]:
    """The store of a ledger, while it is open.

    Args:
        place: a path, or the address of a database.
        people: whose ledger it is in a database.
        new: whether a ledger that is not there may be made.

    Raises:
        FileError: it cannot be read.
        InvalidInputError: a database of another kind, or without the name of the people.
    """
    if is_shared(place):
        with _shared(str(place), people) as shared:
            yield shared
        return
    path = Path(place)
    try:
        handle = path.open("a+b" if new else "rb", buffering=0)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot open the ledger {str(path)!r}: {reason}") from None
    with handle:
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            raise FileError(f"the ledger {str(path)!r} is not a regular file; name another")
        _lock(handle, shared=not new)
        yield FileStore(path, handle)


@contextmanager
def _shared(address: str, people: str | None) -> Iterator[SharedStore]:
    require_extra("a shared ledger", "sqlalchemy", "sql")
    import sqlalchemy

    if people is None:
        raise InvalidInputError("a database holds several ledgers; say whose with --people NAME")
    with _database(address.split("@")[-1]):
        url = sqlalchemy.make_url(address)
        kind = url.get_backend_name()
        if kind not in DURABLE:
            raise InvalidInputError(
                f"a shared ledger is in SQLite or PostgreSQL, sqlite:///budget.db or "
                f"postgresql://..., not in {kind}"
            )
        options = {"timeout": WAIT} if kind == "sqlite" else {}
        engine = sqlalchemy.create_engine(url, connect_args=options)

        def begin(connection: Any, _record: Any) -> None:
            cursor = connection.cursor()
            cursor.execute(DURABLE[kind])
            cursor.close()
            connection.commit()

        sqlalchemy.event.listen(engine, "connect", begin)
        table = sqlalchemy.Table(
            "pmldesign_ledger",
            sqlalchemy.MetaData(),
            sqlalchemy.Column("people", sqlalchemy.String(200), primary_key=True),
            sqlalchemy.Column("place", sqlalchemy.Integer, primary_key=True, autoincrement=False),
            sqlalchemy.Column("line", sqlalchemy.Text, nullable=False),
        )
        try:
            with engine.begin() as connection:
                connection.execute(sqlalchemy.schema.CreateTable(table, if_not_exists=True))
        except sqlalchemy.exc.DatabaseError:  # another process made it at the same moment
            if not sqlalchemy.inspect(engine).has_table(table.name):
                raise
    try:
        yield SharedStore(engine, table, people)
    finally:
        engine.dispose()


@contextmanager
def _database(name: str) -> Iterator[None]:
    """Errors of a database as one line."""
    import sqlalchemy

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        raise _refused(name, error) from None


def _refused(name: str, error: Exception) -> FileError:
    reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
    return FileError(f"the shared ledger {name!r} cannot be used: {reason}")


def _lock(handle: IO[bytes], *, shared: bool) -> None:
    try:
        import fcntl
    except ImportError:
        raise FileError("a ledger needs file locks, which this system does not have") from None
    fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def entry_of(release: str, cost: Cost) -> dict[str, Any]:
    """The line of a release."""
    more: dict[str, Any] = {} if cost.planned is None else {"planned": cost.planned}
    more |= {"delta": str(cost.delta)} if cost.delta else {}
    costs = {"pure": str(cost.pure), "squared_ratio": str(cost.squared_ratio)}
    return {"release": release, **costs, **more}


def total_of(releases: list[dict[str, Any]]) -> Cost:
    """What releases cost together; ValueError or KeyError for lines that do not say."""
    pure = sum((_fraction(entry["pure"]) for entry in releases), Fraction(0))
    ratio = sum((_fraction(entry["squared_ratio"]) for entry in releases), Fraction(0))
    delta = sum((_fraction(entry.get("delta", "0")) for entry in releases), Fraction(0))
    float(pure), float(ratio), float(delta)  # OverflowError where no release can have cost so much
    return Cost(pure, ratio, delta)


def _fraction(text: str) -> Fraction:
    """A cost as `entry_of` writes it."""
    if not FRACTION.fullmatch(text):
        raise ValueError
    return Fraction(text)


def numbers_of(releases: list[dict[str, Any]], plan: Plan | None) -> list[int]:
    """Which of the planned releases were made, each once."""
    if plan is None:
        if any("planned" in entry for entry in releases):
            raise ValueError
        return []
    numbers = [entry["planned"] for entry in releases]
    foreseen = range(len(plan.releases))
    if any(type(number) is not int or number not in foreseen for number in numbers):
        raise ValueError
    if len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def read_lines(store: Store) -> list[dict[str, Any]]:
    """The lines of a ledger; each key once, and every number finite."""
    try:
        entries = [json.loads(line, object_pairs_hook=once) for line in store.read()]
        if not entries:
            return []
        head, *releases = entries
        keys = HEADS[head["ledger"]]
        if not keys <= {*head} <= {*keys, "plan"}:
            raise ValueError
        if not all({*ENTRY} <= {*entry} <= ENTRY | BESIDE for entry in releases):
            raise ValueError
        texts = [head[key] for key in ("people", "data", "key", "unit") if key in head]
        texts += [
            entry[key] for entry in releases for key in ("release", "date", "data") if key in entry
        ]
        "".join(texts)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(store) from None
    return entries


def append_line(store: Store, place: int, entry: dict[str, Any]) -> bool:
    """Write a line at a place; False where another one has come in between."""
    return store.append(place, json.dumps(entry).encode())


def damaged(store: Store) -> FileError:
    """Why nothing is released."""
    return FileError(
        f"the ledger {store.name!r} is damaged, perhaps its last line was not written to the end; "
        "what was spent is not known, so nothing is released"
    )
