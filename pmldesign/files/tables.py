"""Matrices as .csv: numbers separated by commas, optionally under a line of names.

numpy reads the numbers. The first line is a header if it has no numeric field; one that pandas
writes by itself is refused. Blank lines are skipped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO

import numpy as np

from pmldesign.arguments import as_number
from pmldesign.errors import FileError, InvalidInputError, PmldesignError, printable
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import Array

LONGEST_LINE = 2**25
"""Most characters of a line: a file without line ends is not a table."""
MANY = 8
"""A table with so many times more rows than columns may be one of people."""
NO_TABLE = "not a text file of comma-separated numbers"


@dataclass(frozen=True, slots=True, eq=False)
class NumberTable:
    """The numbers of a .csv file, shape (m, n), and the names of its columns, if any."""

    values: Array
    header: tuple[str, ...]

    def reading(self) -> str | None:
        """How the table was read, if it looks like records of people; otherwise None.

        Queries are sums and differences of cells: their entries are mostly 0, 1 and -1. Records
        have a header and other numbers, or are many and have whole numbers.
        """
        rows, columns = self.values.shape
        signs = bool((np.abs(self.values) <= 1).all())
        many = rows >= MANY * columns and not signs and _whole(self.values)
        if not many and not (self.header and (not signs or rows >= MANY * columns)):
            return None
        names = f" ({printable(', '.join(self.header))[:60]})" if self.header else ""
        return (
            f"was read as queries: {rows} rows, a query each, on {columns} columns, a cell each"
            f"{names}; if its rows are people, count how many fall into each cell first, and ask "
            "here for queries on that histogram, such as prefix:64"
        )


def read_table(handle: IO[bytes]) -> NumberTable:
    """The matrix in a .csv file, and its header.

    Args:
        handle: open for reading bytes, which can be read again; UTF-8.

    Raises:
        FileError: not UTF-8 text, or lines of different lengths.
        InvalidInputError: a field that is not a number, no numbers at all, too many, or a header
            that pandas writes by itself.
    """
    with closing(_lines(handle)) as lines:
        begin = [line for _, line in islice(lines, 2)]
        header = _header(begin)
        if len(begin) == bool(header):
            raise InvalidInputError("there are no numbers in it")
        width = len(_fields(begin[-1]))
        most = MAX_ENTRIES // width
        try:
            values = np.loadtxt(
                chain(begin[bool(header) :], (line for _, line in islice(lines, most))),
                delimiter=",",
                comments=None,
                quotechar='"',
                ndmin=2,
            )
        except ValueError:
            values = None
    if values is None:
        raise _first_wrong(handle, bool(header))
    if len(values) > most:
        raise InvalidInputError(f"it has more than the {MAX_ENTRIES} numbers that are read")
    return NumberTable(values, tuple(header) if len(header) == width else ())


def _lines(handle: IO[bytes]) -> Generator[tuple[int, str], None, None]:
    """The lines that are not blank, with their numbers."""
    handle.seek(0)
    text, number = io.TextIOWrapper(handle, encoding="utf-8-sig", newline=""), 0
    try:
        while line := text.readline(LONGEST_LINE):
            number += 1
            if "\0" in line or len(line) == LONGEST_LINE:
                wrong = "it has null bytes" if "\0" in line else "a line does not end"
                raise FileError(f"{NO_TABLE}: {wrong}")
            if line.strip():
                yield number, line
    except UnicodeDecodeError as error:
        raise FileError(f"{NO_TABLE}: {error}") from None
    finally:
        text.detach()  # not closed: the handle belongs to the caller


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r\n")]))
    except csv.Error as error:
        raise FileError(f"{NO_TABLE}: {error}") from None


def _header(begin: list[str]) -> list[str]:
    """The names in the first line; an empty list if it has numbers.

    Raises:
        InvalidInputError: 0, 1, ..., n - 1 over n columns, or nothing over the index.
    """
    fields = _fields(begin[0]) if begin else []
    over_index = len(fields) > 1 and not fields[0].strip()
    counted = [field.strip() for field in fields[over_index:]] == [
        str(i) for i in range(len(fields) - over_index)
    ]
    named = all(as_number(field) is None for field in fields)
    if len(begin) > 1 and (counted or (over_index and named)):
        raise InvalidInputError(
            f"its first line, {printable(begin[0].strip())[:40]!r}, is a header of pandas; write"
            " the file with to_csv(..., index=False, header=False)"
            + (", or 0.0 in place of 0 if these are numbers" if not over_index else "")
        )
    return fields if named else []


def _first_wrong(handle: IO[bytes], header: bool) -> PmldesignError:
    """What is wrong with the first line that is not as many numbers as those before."""
    width = 0
    for number, line in islice(_lines(handle), int(header), None):
        fields = _fields(line)
        width = width or len(fields)
        if len(fields) != width:
            return FileError(
                f"line {number} has {len(fields)} fields, the lines before have {width}; every"
                " query needs one number for each cell"
            )
        wrong = next((field for field in fields if as_number(field) is None), None)
        if wrong is not None:
            return InvalidInputError(
                f"line {number}: {wrong[:40]!r} is not a number; numbers are separated by commas"
            )
    return FileError(NO_TABLE)


def write_csv(handle: IO[bytes], matrix: Array) -> None:
    """Write a matrix with the fewest digits that read back to the same numbers.

    Args:
        handle: open for writing bytes.
        matrix: shape (m, n).
    """
    for i, row in enumerate(matrix):
        ending = ".0" if i or (row != np.arange(len(row))).any() else ""  # of no header of pandas
        line = ",".join(repr(value).removesuffix(ending) for value in row.tolist())
        handle.write(line.encode() + b"\n")


def _whole(values: Array) -> bool:
    return bool((values == np.floor(values)).all())
