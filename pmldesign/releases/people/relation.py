"""Sources of people, their columns as relations of DuckDB, and the faults of damaged data."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pmldesign.errors import FileError, InvalidInputError, PmldesignError, printable, require_extra
from pmldesign.files.arrays import reason
from pmldesign.releases.people.values import FLOATING, NESTED, quoted

ADVICE = "save the file as UTF-8 text"
PIECE = 2**24
"""Bytes that are checked at a time."""
MARKS = "has a quotation mark within a value; put marks around the value, and double those in it"
LONGEST_ROW = 2**24
"""Bytes of a row of a .csv."""
MIXED_ENDS = (
    "lines end in different ways, or a carriage return stands alone; end all of them with \\n"
)
PEOPLE = "people"


@dataclass(frozen=True)
class Source:
    """Data that are read.

    Attributes:
        name: of the source, for messages.
        columns: the names of its columns, of any type.
        relation: makes a relation of some columns in a connection, and returns its text after
            FROM; with the columns of a person, whose cells are checked.
        database: a file of DuckDB that is opened, or a connection that holds the data; None for a
            new connection.
    """

    name: str
    columns: list[Any]
    relation: Callable[[Any, Sequence[str], Sequence[str]], str]
    database: Any = None

    def require(self, columns: Sequence[str], labels: Sequence[str] = ()) -> None:
        """Refuse data without some columns, or with names that differ in case only.

        Args:
            columns: that are needed.
            labels: keys of the schema, which the first row of a file without a header has.

        Raises:
            InvalidInputError: there is such a column.
        """
        present = set(filter(lambda name: isinstance(name, str), self.columns))
        missing = [name for name in columns if name not in present]
        if missing:
            listed = printable(", ".join(map(str, self.columns[:20])))[:100] or "none"
            known = {name.strip().casefold(): name for name in present}
            similar = known.get(missing[0].casefold())
            hint = "" if similar is None else f"; did you mean {similar!r}?"
            if set(labels) & present or all(map(_is_number, present)):
                raise InvalidInputError(
                    f"the data have no column {missing[0]!r}, and their first line looks like a row"
                    f" of values; write a header before it: {','.join(columns)}"
                )
            raise InvalidInputError(
                f"the data have no column {missing[0]!r}; columns are {listed}{hint}"
            )
        folded = Counter(map(str.casefold, present))
        twice = [name for name in columns if folded[name.casefold()] > 1]
        if twice:
            raise InvalidInputError(
                f"two columns of the data are called {twice[0]!r} in different cases; rename one"
            )


@dataclass(frozen=True)
class Relation:
    """Columns of a source in a connection of DuckDB.

    Attributes:
        connection: in which it is.
        text: as it is written after FROM.
        types: of the columns, in the words of DuckDB.
    """

    connection: Any
    text: str
    types: dict[str, str]

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a query returns."""
        rows: list[tuple[Any, ...]] = self.connection.execute(query, list(values)).fetchall()
        return rows


@contextmanager
def opened(
    source: Source, columns: Sequence[str], person: Sequence[str] = (), *, nested: bool = False
) -> Iterator[Relation]:
    """Columns of a source as a relation.

    Args:
        source: of the data.
        columns: their names, all present.
        person: further columns, which distinguish persons.
        nested: whether columns of lists and structs are left in.

    Raises:
        FileError: the data cannot be read.
        InvalidInputError: a column holds lists or structs, or identifiers in floating point.
    """
    every = list(dict.fromkeys([*columns, *person]))
    with reading(source.name), connected(source.database) as connection:
        text = source.relation(connection, every, person)
        names = ", ".join(map(quoted, every)) or "1"
        described = connection.execute(f"DESCRIBE SELECT {names} FROM {text}").fetchall()
        types = {name: kind for name, (_, kind, *_) in zip(every, described, strict=False)}
        if not nested:
            _require_flat(types, person)
        binary = [name for name in columns if types[name] == "BLOB" and name not in person]
        if binary:
            decoded = ", ".join(f"DECODE({quoted(name)}) AS {quoted(name)}" for name in binary)
            text = f"(SELECT * REPLACE ({decoded}) FROM {text})"
        yield Relation(connection, text, types)


def connected(database: Any) -> Any:
    """A connection in which no setting of others has an influence."""
    require_extra("a table of people", "duckdb", "release")
    import duckdb

    if isinstance(database, Path):
        connection = duckdb.connect(str(database), read_only=True)
    else:
        connection = _instance(os.getpid()).cursor() if database is None else database.cursor()
    for setting, value in (
        ("TimeZone", "UTC"),
        ("temp_directory", _folder(os.getpid())),
        ("default_collation", ""),
        ("preserve_insertion_order", "false"),
        ("pandas_analyze_sample", "0"),  # no guess from a sample
        ("enable_progress_bar", "false"),
    ):
        connection.execute(f"SET {setting} = '{value}'")
    return connection


@cache
def _instance(_process: int) -> Any:
    """The database in memory of a process, whose threads a forked process does not have."""
    import duckdb

    return duckdb.connect()


@cache
def _folder(_process: int) -> str:
    """Folder for parts of the data that do not fit in memory: as confidential as the data."""
    folder = tempfile.mkdtemp(prefix="pmldesign-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _require_flat(types: dict[str, str], person: Sequence[str]) -> None:
    """Refuse lists and structs, and identifiers in floating point."""
    wrong = [name for name, kind in types.items() if NESTED.search(kind)]
    if wrong:
        raise InvalidInputError(
            f"column {wrong[0]!r} holds lists or structs, which are not values; write texts or"
            ' numbers, of persons several columns as a list: "person": ["household", "member"]'
        )
    doubles = [name for name in person if types[name] in FLOATING]
    if doubles:
        raise floating(doubles[0])


def floating(name: str) -> InvalidInputError:
    """The refusal of identifiers in floating point."""
    return InvalidInputError(
        f"column {name!r} has numbers in floating point, each of which stands for several whole"
        " numbers, so that rows of two persons would be those of one; write identifiers as texts or"
        " integers"
    )


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Errors of DuckDB and of Arrow as one line.

    Raises:
        FileError: there is one.
    """
    import duckdb

    try:
        yield
    except (PmldesignError, KeyboardInterrupt):
        raise
    except duckdb.Error as error:
        raise FileError(f"{name}: {_damage(str(error))}") from None
    except Exception as error:  # parsers of damaged files raise anything
        raise FileError(f"{name} is damaged or not a table: {reason(error)}") from None


def _damage(text: str) -> str:
    """What is wrong with data, in one line."""
    if "state machine reached an invalid state" in text:
        return MIXED_ENDS
    line = re.search(r"CSV Error on Line: (\d+)", text)
    if line is None:
        return " ".join(text.split())[:200]
    where = f"line {line[1]}"
    if "not utf-8" in text.lower() or "unicode" in text.lower():
        return f"{where} is not UTF-8; {ADVICE}"
    if "nterminated quote" in text:
        return f"{where} {MARKS}"
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if counts:
        return f"{where} has {counts[2]} values for {counts[1]} columns"
    if "Maximum line size" in text:
        return f"{where} has more than {LONGEST_ROW} bytes; perhaps a quotation mark is missing"
    return f"{where}: {' '.join(text.split(chr(10))[-1].split())[:150]}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r" *[-+]?[0-9]+([.,][0-9]+)? *", text) is not None
