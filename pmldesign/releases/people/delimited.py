"""Text files of people: .csv and .tsv, packed or not.

A .csv is read by one thread: the parallel reader of DuckDB loses rows between its pieces. The other
one takes all rows behind an open quotation mark for none, so marks are checked first: they stand
around whole values, and are doubled within.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from pmldesign.errors import FileError, printable
from pmldesign.files.arrays import file_name
from pmldesign.releases.people.relation import ADVICE, LONGEST_ROW, MARKS, PIECE, Source, reading
from pmldesign.releases.people.values import literal, quoted

DELIMITERS = ",;\t|"
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


def require_alike(files: list[Path], columns: list[list[Any]]) -> None:
    """Refuse files if one has other columns than the first."""
    for file, own in zip(files, columns, strict=True):
        if own != columns[0]:
            raise FileError(
                f"{file_name(file)} has other columns than {file_name(files[0])}; files that are"
                " read together have the same columns, in the same order"
            )


def of_texts(files: list[Path], kind: str, name: str) -> Source:
    """Text files of one kind with the same header; FileError for any that is damaged."""
    headers = [_header(file) for file in files]
    delimiter = "\t" if kind.startswith(".tsv") else _delimiter(headers[0])
    names = [_names(text, delimiter, file) for text, file in zip(headers, files, strict=True)]
    require_alike(files, [list[Any](own) for own in names])

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
        FileError: the first row is missing or too long, or the file is not text.
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
