"""Every source of people as a relation of DuckDB.

    people.csv, .csv.gz, .tsv       texts; the delimiter is a comma (.tsv: a tab) or, if the header
                                    has none, the semicolon, tab or bar that it has instead
    people.parquet                  columns with their types, bytes as UTF-8
    people.arrow, .feather          files and streams, through pyarrow or polars
    folder, people-*.parquet        all files of one kind, with the same columns
    pandas, polars, pyarrow ...     frames, through Arrow
    duckdb:///file.db#table         a table, opened for reading only

The type of a column must not depend on one record, so no library guesses it: a .csv is text, and
cells of columns of Python objects are converted to text one by one. A column of objects that mixes
texts and numbers is refused: readers that guess types make such columns (007 in one part of a file,
7 in the next).

A .csv is read by one thread: the parallel reader of DuckDB loses rows between its pieces. The other
one takes all rows behind an open quotation mark for none, so marks are checked first: they stand
around whole values, and are doubled within.
"""

from __future__ import annotations

import atexit
import codecs
import csv
import glob
import gzip
import io
import itertools
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Number
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from pmldesign.errors import FileError, InvalidInputError, PmldesignError, printable, require_extra
from pmldesign.files.arrays import file_name, reason
from pmldesign.release.people.query import table_name
from pmldesign.release.people.values import FLOATING, NESTED, literal, quoted, text_of

DUCKDB = "duckdb:///"
DELIMITERS = ",;\t|"
KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".arrow", ".feather")
ADVICE = "save the file as UTF-8 text"
SIGNATURES = {
    codecs.BOM_UTF16_LE: f"it is UTF-16 text; {ADVICE}",
    codecs.BOM_UTF16_BE: f"it is UTF-16 text; {ADVICE}",
    b"\x1f\x8b": "it is compressed (gzip); name it .csv.gz",
    b"\x28\xb5\x2f\xfd": "it is compressed (zstd); unpack it",
    b"PK\x03\x04": f"it is a .zip archive, or a workbook; {ADVICE}, values separated by commas",
}
"""First bytes of files that are not text."""
LONGEST_HEADER = 2**27
"""Bytes without an end of a row: a quotation mark is missing."""
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
        name: what messages call it.
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
    with reading(source.name), _connected(source.database) as connection:
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


def _connected(database: Any) -> Any:
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
    """Where a process puts what does not fit in memory: as confidential as the data."""
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
    floating = [name for name in person if types[name] in FLOATING]
    if floating:
        raise _floating(floating[0])


def _floating(name: str) -> InvalidInputError:
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
    return _of_frame(data)


def files_of(path: str | Path) -> list[Path]:
    """The files of a path, a folder or a pattern, all of one kind.

    Raises:
        FileError: there are none, or they are of several kinds.
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
        return _of_frame(_arrow(files[0]), name)
    if kind == ".parquet":
        return _of_parquet(files, name)
    return _of_texts(files, kind, name)


def _of_parquet(files: list[Path], name: str) -> Source:
    require_extra("a table of people", "duckdb", "release")
    import duckdb

    options = "hive_partitioning = false"
    described = []
    with reading(name), duckdb.connect() as connection:
        for file in files:
            text = f"read_parquet([{literal(escaped(file))}], {options})"
            described.append(connection.execute(f"DESCRIBE SELECT * FROM {text}").fetchall())
    _require_alike(files, [[(row[0], row[1]) for row in rows] for rows in described])
    listed = ", ".join(literal(escaped(file)) for file in files)
    return Source(
        name,
        [row[0] for row in described[0]],
        lambda *_: f"read_parquet([{listed}], {options})",
    )


def _require_alike(files: list[Path], columns: list[list[Any]]) -> None:
    """Refuse files of which one has other columns than the first."""
    for file, own in zip(files, columns, strict=True):
        if own != columns[0]:
            raise FileError(
                f"{file_name(file)} has other columns than {file_name(files[0])}; files that are"
                " read together have the same columns, in the same order"
            )


def _of_texts(files: list[Path], kind: str, name: str) -> Source:
    headers = [_header(file) for file in files]
    delimiter = "\t" if kind.startswith(".tsv") else _delimiter(headers[0])
    names = [_names(text, delimiter, file) for text, file in zip(headers, files, strict=True)]
    _require_alike(files, [list[Any](own) for own in names])

    def relation(_connection: Any, columns: Sequence[str], _person: Sequence[str]) -> str:
        for file in files:
            _require_marks(file, delimiter)
        listed = ", ".join(literal(escaped(file)) for file in files)
        types = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(names[0])))
        chosen = ", ".join(f"c{names[0].index(c)} AS {quoted(c)}" for c in columns) or "c0"
        packed = "gzip" if kind.endswith(".gz") else "none"
        return (
            f"(SELECT {chosen} FROM read_csv([{listed}], auto_detect = false, header = true,"
            f" delim = {literal(delimiter)}, quote = '\"', escape = '\"', strict_mode = true,"
            f" parallel = false, compression = '{packed}', max_line_size = {LONGEST_ROW},"
            f" columns = {{{types}}}))"
        )

    return Source(name, names[0], relation)


def _header(path: Path) -> str:
    """The first row of a .csv.

    Raises:
        FileError: there is none, or the file is not text.
    """
    with reading(file_name(path)), _bytes_of(path) as handle:
        first = b""
        while line := handle.readline(LONGEST_HEADER):
            first += line
            if first.count(b'"') % 2 == 0 or len(first) > LONGEST_HEADER:
                break
    first = first.removeprefix(codecs.BOM_UTF8)
    problem = next((why for sign, why in SIGNATURES.items() if first.startswith(sign)), None)
    if problem is None and not first.strip():
        problem = "its first line is empty; it should have the names of the columns"
    if problem is None and len(first) > LONGEST_HEADER:
        problem = f"its first row has more than {LONGEST_HEADER} bytes"
    try:
        text = first.decode()
    except UnicodeDecodeError:
        problem = problem or f"its header is not UTF-8; {ADVICE}"
    if problem is not None:
        raise FileError(f"{file_name(path)}: {problem}")
    return text


def _bytes_of(path: Path) -> IO[bytes]:
    """A file of text, unpacked."""
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _require_marks(path: Path, delimiter: str) -> None:
    """Refuse quotation marks that are not around whole values.

    Raises:
        FileError: there is one, on the line that is named, or the last value does not end.
    """
    before = np.frombuffer(f'\n\r"{delimiter}'.encode(), dtype=np.uint8)
    mark, line, last, inside = ord('"'), 1, b"\n", False
    with reading(file_name(path)), _bytes_of(path) as handle:
        block = handle.read(PIECE).removeprefix(codecs.BOM_UTF8)
        while block:
            following = handle.read(PIECE)
            letters = np.frombuffer(last + block + (following[:1] or b"\n"), dtype=np.uint8)
            marks = np.flatnonzero(letters[1:-1] == mark) + 1
            begins, ends = (marks[1::2], marks[::2]) if inside else (marks[::2], marks[1::2])
            wrong = [
                *begins[~np.isin(letters[begins - 1], before)],
                *ends[~np.isin(letters[ends + 1], before)],
            ]
            if wrong:
                line += block.count(b"\n", 0, int(min(wrong)) - 1)
                raise FileError(f"{file_name(path)}: line {line} {MARKS}")
            inside ^= len(marks) % 2 == 1
            line += block.count(b"\n")
            last, block = block[-1:], following
    if inside:
        raise FileError(f"{file_name(path)}: a quotation mark is missing; the last value is open")


def _delimiter(header: str) -> str:
    """The most frequent of DELIMITERS outside quotation marks."""
    outside = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _names(header: str, delimiter: str, path: Path) -> list[str]:
    """The names in a header.

    Raises:
        FileError: one is there twice, or it is not a header.
    """
    rows = csv.reader(io.StringIO(header, newline=""), delimiter=delimiter, strict=True)
    with reading(file_name(path)):
        names = next(itertools.islice(rows, 1), [])
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FileError(
            f"{file_name(path)}: column {printable(twice[0])[:40]!r} occurs twice in the header"
        )
    return names


def escaped(path: Path) -> str:
    """A path in which no letter is part of a pattern."""
    return glob.escape(str(path))


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


class Stream:
    """A frame as DuckDB takes it: with nothing but a stream of Arrow."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


def _of_frame(data: Any, name: str = "the data frame") -> Source:
    if hasattr(data, "to_native"):  # of narwhals
        data = data.to_native()
    library = type(data).__module__.partition(".")[0]
    known = {"pandas": ("DataFrame", _pandas), "polars": ("DataFrame", _polars)}
    kind, convert = known.get(library, ("", None))
    if convert is not None and type(data).__name__ == kind:

        def relation(connection: Any, columns: Sequence[str], person: Sequence[str]) -> str:
            connection.register(PEOPLE, convert(data, columns, person))
            return PEOPLE

        return Source(name, list(data.columns), relation)
    if not hasattr(data, "__arrow_c_stream__"):
        raise InvalidInputError(
            f"data must be a path or a data frame, got {type(data).__name__}; collect what is lazy"
        )
    import duckdb

    database = duckdb.connect()  # of which the tables are those of this source
    with reading(name), _connected(database) as connection:  # a stream flows once
        connection.register("stream", data.__arrow_c_stream__())
        connection.execute(f"CREATE TABLE {PEOPLE} AS SELECT * FROM stream")
        described = connection.execute(f"DESCRIBE {PEOPLE}").fetchall()
    return Source(name, [row[0] for row in described], lambda *_: PEOPLE, database)


def _polars(frame: Any, names: Sequence[str], person: Sequence[str]) -> Any:
    """Columns of polars, objects as texts."""
    import polars

    columns = []
    for name in names:
        column = frame[name]
        if column.dtype == polars.Object:
            texts = _texts(name, column, name in person)
            column = polars.Series(name, texts, dtype=polars.String)
        elif column.dtype in (polars.Categorical, polars.Enum):
            column = column.cast(polars.String)
        columns.append(column)
    return Stream(polars.DataFrame(columns))


def _pandas(frame: Any, names: Sequence[str], person: Sequence[str]) -> dict[str, Any]:
    """Columns of pandas as arrays of numpy: plain numbers and times, all others as texts."""
    import pandas

    columns: dict[str, Any] = {}
    for name in names:
        column, tells = frame[name], name in person
        if getattr(column, "ndim", 1) > 1:
            raise InvalidInputError(f"the data frame has two columns that are called {name!r}")
        kind = column.dtype
        if isinstance(kind, np.dtype) and (kind.kind in "biuM" or kind in ("f4", "f8")):
            columns[name] = column.to_numpy()
        elif isinstance(kind, pandas.CategoricalDtype):
            labels = _texts(name, column.cat.categories.tolist(), tells)
            texts = np.array([*labels, None], dtype=object)
            columns[name] = texts[column.cat.codes.to_numpy()]
        elif isinstance(kind, pandas.StringDtype):
            columns[name] = column.to_numpy(dtype=object, na_value=None)
        else:
            columns[name] = np.array(_texts(name, column, tells), dtype=object)
    return columns


def _texts(name: str, values: Any, tells: bool) -> list[str | None]:
    """Cells as texts, each by itself; None without a value.

    Args:
        name: of the column.
        values: the cells.
        tells: whether they distinguish persons.

    Raises:
        InvalidInputError: they are of several kinds, hold lists, or are identifiers in floating
            point.
    """
    kinds: dict[str, Any] = {}
    texts = []
    for value in values:
        text = value if isinstance(value, str) else _text(name, value, tells)
        texts.append(text or None)
        if text:
            kinds.setdefault(_kind_of(value), value)
    if len(kinds) > 1:
        first, second, *_ = (f"a {kind} ({str(kinds[kind])[:40]!r})" for kind in sorted(kinds))
        raise InvalidInputError(
            f"column {name!r} has {first} and {second}: a reader that guesses types makes such"
            " columns, and the value of one person decides for all; read the column as text"
        )
    return texts


def _text(name: str, value: Any, tells: bool) -> str:
    """The text of a cell that is not text."""
    if not isinstance(value, Hashable) or isinstance(value, tuple | frozenset):
        raise InvalidInputError(
            f"column {name!r} holds a {type(value).__name__}, which is neither text nor a number"
        )
    if isinstance(value, bytes):
        if tells:
            return value.hex()
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InvalidInputError(f"column {name!r} has bytes that are not UTF-8") from None
    text = text_of(value)
    if text and tells and isinstance(value, float | np.floating):
        raise _floating(name)
    return text


def _kind_of(value: Any) -> str:
    kinds = {"truth value": bool | np.bool_, "number": Number, "text": str}
    named = (kind for kind, types in kinds.items() if isinstance(value, types))
    return next(named, type(value).__name__)


def _is_number(text: str) -> bool:
    return re.fullmatch(r" *[-+]?[0-9]+([.,][0-9]+)? *", text) is not None
