"""Matrices as .csv: numbers separated by commas, optionally under a header line."""

from __future__ import annotations

import csv
import io
from array import array
from typing import IO

import numpy as np

from pmldesign.errors import FileError, InvalidInputError
from pmldesign_solvers.operators import Array


def read_csv(handle: IO[bytes]) -> Array:
    """The matrix in a .csv file.

    The first line is a header if none of its fields is a number. Blank lines are skipped.

    Args:
        handle: open for reading bytes; UTF-8.

    Returns:
        Shape (m, n).

    Raises:
        FileError: not UTF-8 text, or lines of different lengths.
        InvalidInputError: a field that is not a number, or no numbers at all.
    """
    values = array("d")
    width = rows = 0
    # Not closed: it belongs to the caller.
    text = io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(text)
        for position, fields in enumerate(reader):
            if len(fields) < 2 and not "".join(fields).strip():
                continue
            if position == 0 and not any(map(_is_number, fields)):
                continue
            width = width or len(fields)
            if len(fields) != width:
                raise FileError(
                    f"line {reader.line_num} has {len(fields)} fields, the lines before have "
                    f"{width}; every query needs one number for each cell"
                )
            try:
                values.extend(map(float, fields))
            except ValueError:
                wrong = next(field for field in fields if not _is_number(field))
                raise InvalidInputError(
                    f"line {reader.line_num}: {wrong[:40]!r} is not a number; numbers are "
                    "separated by commas"
                ) from None
            rows += 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"not a text file of comma-separated numbers: {error}") from None
    finally:
        text.detach()
    if not rows:
        raise InvalidInputError("there are no numbers in it")
    return np.frombuffer(values).reshape(rows, width)


def write_csv(handle: IO[bytes], matrix: Array) -> None:
    """Write a matrix with the fewest digits that read back to the same numbers.

    Args:
        handle: open for writing bytes.
        matrix: shape (m, n).
    """
    for row in matrix:
        line = ",".join(repr(value).removesuffix(".0") for value in row.tolist())
        handle.write(line.encode() + b"\n")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
