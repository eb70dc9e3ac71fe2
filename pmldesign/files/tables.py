"""Matrices as .csv: numbers separated by commas, optionally under a header line."""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from pmldesign.arguments import as_number
from pmldesign.errors import FileError, InvalidInputError, printable
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import Array

LONGEST_LINE = 2**25
"""Characters of a line: what has no end of a line is no table."""
MANY = 8
"""A table with so many times more rows than columns may be one of people."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberTable:
    """The numbers of a .csv file, shape (m, n), and the names of its columns, if any."""

    values: Array
    header: tuple[str, ...]

    def reading(self) -> str | None:
        """How the table was read, where it looks like records of people; None where it does not.

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

    The first line is a header if none of its fields is a number. Blank lines are skipped.

    Args:
        handle: open for reading bytes; UTF-8.

    Raises:
        FileError: not UTF-8 text, or lines of different lengths.
        InvalidInputError: a field that is not a number, no numbers at all, or too many.
    """
    values = array("d")
    header: tuple[str, ...] = ()
    width = rows = 0
    # Not closed: it belongs to the caller.
    text = io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(_lines(text))
        for position, fields in enumerate(reader):
            if len(fields) < 2 and not "".join(fields).strip():
                continue
            if position == 0 and all(as_number(field) is None for field in fields):
                header = tuple(fields)
                continue
            width = width or len(fields)
            if len(fields) != width:
                raise FileError(
                    f"line {reader.line_num} has {len(fields)} fields, the lines before have "
                    f"{width}; every query needs one number for each cell"
                )
            values.extend(_numbers(fields, reader.line_num))
            rows += 1
            if len(values) > MAX_ENTRIES:
                raise InvalidInputError(f"it has more than the {MAX_ENTRIES} numbers that are read")
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"not a text file of comma-separated numbers: {error}") from None
    finally:
        text.detach()
    if not rows:
        raise InvalidInputError("there are no numbers in it")
    return NumberTable(
        np.frombuffer(values).reshape(rows, width), header if len(header) == width else ()
    )


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST_LINE):
        if "\0" in line or len(line) == LONGEST_LINE:
            raise FileError(
                "not a text file of comma-separated numbers: "
                + ("it has null bytes" if "\0" in line else "a line does not end")
            )
        yield line


def _numbers(fields: list[str], line: int) -> list[float]:
    try:
        if not "".join(fields).isascii() or any("_" in field for field in fields):
            raise ValueError  # Python reads 1_0 and digits of other scripts
        return [float(field) for field in fields]
    except ValueError:
        wrong = next(field for field in fields if as_number(field) is None)
        raise InvalidInputError(
            f"line {line}: {wrong[:40]!r} is not a number; numbers are separated by commas"
        ) from None


def write_csv(handle: IO[bytes], matrix: Array) -> None:
    """Write a matrix with the fewest digits that read back to the same numbers.

    Args:
        handle: open for writing bytes.
        matrix: shape (m, n).
    """
    for row in matrix:
        line = ",".join(repr(value).removesuffix(".0") for value in row.tolist())
        handle.write(line.encode() + b"\n")


def _whole(values: Array) -> bool:
    return bool((values == np.floor(values)).all())
