"""A .csv of people as bytes: its header, pieces that end with rows, and what is wrong with it.

A row ends at an end of a line with an even number of quotation marks before it, and so does the
header. Of several columns a blank line is no row; of one column it is a row without a value. Marks
stand around whole values, and are doubled within: to a reader that only counts them a single one
makes all rows behind it a part of its value, and one person would move everybody.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from pmldesign.errors import FileError, printable

ADVICE = "save the file as UTF-8 text"
ENDS = "save the file with ends of lines \\n"
SIGNATURES = {
    codecs.BOM_UTF16_LE: f"it is UTF-16 text; {ADVICE}",
    codecs.BOM_UTF16_BE: f"it is UTF-16 text; {ADVICE}",
    b"\x1f\x8b": "it is compressed (gzip); unpack it",
    b"\x28\xb5\x2f\xfd": "it is compressed (zstd); unpack it",
    b"PK\x03\x04": f"it is a .zip archive, or a workbook; {ADVICE}, values separated by commas",
}
"""The first bytes of what is no text."""
MARKS = "perhaps a value has quotation marks in it, and none around it"
"""Of a .csv that is refused, of which every row is one."""
BLANK_LINES = re.compile(rb"\n(?:\r?\n)+")
PIECE = 2**24
"""Bytes of a piece; the reader needs several times as many."""
LONGEST_ROW = 2**27
"""Bytes without an end of a row: a quotation mark is missing."""


def pieces(path: Path) -> Iterator[bytes]:
    """The rows of a .csv in pieces, each after the header; at least one, perhaps without rows.

    Raises:
        FileError: no row ends.
    """
    with path.open("rb") as handle:
        header = _header(handle)
        rest, rows = b"", False
        while block := handle.read(PIECE):
            rest += block
            end = rest.rfind(b"\n") + 1
            while end and rest.count(b'"', 0, end) % 2:
                end = rest.rfind(b"\n", 0, end - 1) + 1
            if end:
                yield header + rest[:end]
                rest, rows = rest[end:], True
            elif len(rest) > LONGEST_ROW:
                raise _endless_row()
        if rest or not rows:
            yield header + rest


def _header(handle: IO[bytes]) -> bytes:
    """The first row with anything in it: a name may have ends of lines between quotation marks.

    Raises:
        FileError: it does not end.
    """
    lines: list[bytes] = []
    marks = size = 0
    while line := handle.readline(LONGEST_ROW).removeprefix(codecs.BOM_UTF8 * (not lines)):
        if lines or line.strip():
            lines.append(line)
            marks, size = marks + line.count(b'"'), size + len(line)
        if size > LONGEST_ROW:
            raise _endless_row()
        if lines and marks % 2 == 0:
            break
    return b"".join(lines)


def _endless_row() -> FileError:
    return FileError(f"a row has more than {LONGEST_ROW} bytes")


def without_blank_lines(rows: bytes) -> bytes:
    """Rows of a .csv with several columns, of which a blank line is none."""
    if b"\n\n" not in rows and b"\n\r\n" not in rows:
        return rows
    parts = rows.split(b'"')
    parts[::2] = [BLANK_LINES.sub(b"\n", part) for part in parts[::2]]
    return b'"'.join(parts)


def require_rows(piece: bytes) -> None:
    """Refuse quotation marks that are not around whole values, and lone carriage returns.

    Raises:
        ValueError: there are some; `first_damage` says where.
    """
    if b'"' not in piece and piece.count(b"\r") == piece.count(b"\r\n"):
        return
    letters = np.frombuffer(b"\n" + piece + b",", dtype=np.uint8)
    marks = np.flatnonzero(letters == ord('"'))
    begins, ends = marks[::2], marks[1::2]
    returns = np.flatnonzero(letters == ord("\r"))
    alone = returns[letters[returns + 1] != ord("\n")]
    if (
        len(begins) > len(ends)
        or not np.isin(letters[begins - 1], [*b',\n"']).all()
        or not np.isin(letters[ends + 1], [*b',\r\n"']).all()
        or (np.searchsorted(marks, alone) % 2 == 0).any()
    ):
        raise ValueError(MARKS)


def all_rows(piece: bytes) -> list[list[str]]:
    """The rows after the header.

    Raises:
        ValueError: one has more values than there are names; `first_damage` says which.
    """
    names, *rows = csv.reader(io.StringIO(piece.decode(), newline=""), strict=True)
    if max(map(len, rows), default=0) > len(names):
        raise ValueError("a row has too many values")
    return rows


def header_problem(path: Path) -> str | None:
    """What is wrong with the beginning of a .csv; None if it is a header."""
    with path.open("rb") as handle:
        begin = handle.read(4)
    problems = (problem for sign, problem in SIGNATURES.items() if begin.startswith(sign))
    if problem := next(problems, None):
        return problem
    first, *more = _header_rows(path) or [[]]
    if not first:
        return "it is empty"
    if not all(map(_is_text, first)):
        return f"its header is not UTF-8; {ADVICE}"
    twice = [name for name in first if first.count(name) > 1]
    if twice:
        return f"column {printable(twice[0])[:40]!r} occurs twice in the header"
    if more:
        return f"its header ends with a carriage return alone; {ENDS}"
    if len(first) == 1 and {";", "\t"} & set(first[0]):
        return f"its header is one column, {first[0][:60]!r}; separate values by commas"
    return None


def header_names(path: Path) -> list[str]:
    """The names in the header of a .csv, doubled quotation marks as one."""
    return next(iter(_header_rows(path)), [])


def _header_rows(path: Path) -> list[list[str]]:
    """The header; two rows where a line of the file ends within it."""
    with path.open("rb") as handle:
        text = _header(handle).decode(errors="surrogateescape")
    return [*itertools.islice(csv.reader(io.StringIO(text, newline="")), 2)]


def first_damage(path: Path) -> str | None:
    """The first row that is no row of a table; None if every row is one."""
    row, names, ending = 0, list[str](), [""]

    def told(line: str) -> str:
        ending[0] = line[-1:]
        return line

    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        try:
            for fields in csv.reader(map(told, handle), strict=True):
                row += bool(names) and bool(fields or len(names) == 1)
                names = names or fields
                if len(fields) > len(names):
                    return f"row {row} has {len(fields)} values for {len(names)} columns"
                if ending == ["\r"]:
                    return f"row {row} ends with a carriage return alone; {ENDS}"
                wrong = [place for place, field in enumerate(fields) if not _is_text(field)]
                if wrong:
                    name = printable(names[wrong[0]])[:40]
                    return f"row {row}, column {name!r}: not UTF-8; {ADVICE}"
        except csv.Error as error:
            return f"row {row + 1}: {error}"
    return None


def _is_text(field: str) -> bool:
    return field.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in field)
