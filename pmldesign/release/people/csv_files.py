""".csv files of any length in pieces, and what is wrong with one that the reader refuses.

A piece ends with a row: where the number of quotation marks before an end of line is even. A file
that was refused is read again, a row at a time, for the row and the column.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from pathlib import Path

from pmldesign.errors import FileError, printable

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ADVICE = "save the file as UTF-8 text"
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
        header = handle.readline()
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
                raise FileError(f"a row has more than {LONGEST_ROW} bytes")
        if rest or not rows:
            yield header + rest


def header_problem(path: Path) -> str | None:
    """What is wrong with the first line of a .csv: its encoding, or a name that occurs twice."""
    with path.open("rb") as handle:
        if handle.read(2) in WIDE:
            return f"it is UTF-16 text; {ADVICE}"
    names = header_names(path)
    twice = [name for name in names if names.count(name) > 1]
    return f"column {printable(twice[0])[:40]!r} occurs twice in the header" if twice else None


def header_names(path: Path) -> list[str]:
    """The names in the first line of a .csv, doubled quotation marks as one."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as handle:
        return next(csv.reader(handle), [])


def first_damage(path: Path) -> str | None:
    """The first row that is no row of a table; None if every row is one."""
    row, names = 0, ["?"]
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        try:
            for row, fields in enumerate(csv.reader(handle, strict=True)):
                names = fields if row == 0 else names
                if len(fields) > len(names):
                    return f"row {row} has {len(fields)} values for {len(names)} columns"
                wrong = [place for place, field in enumerate(fields) if not _is_text(field)]
                if wrong:
                    name = printable(names[wrong[0]])[:40]
                    return f"row {row}, column {name!r}: not UTF-8; {ADVICE}"
        except csv.Error as error:
            return f"row {row + 1}: {error}"
    return None


def _is_text(field: str) -> bool:
    return field.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in field)
