"""Matrices as .mtx (Matrix Market), read by checks of our own: the file may promise anything.

    %%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric
    % comments
    ROWS COLUMNS [ENTRIES]
    ROW COLUMN VALUE      (coordinate: one line an entry, counted from 1; pattern: without VALUE)
    VALUE                 (array: column by column, of symmetric ones the lower triangle)

Numbers are decimal, separated by spaces; text that is not a number is refused, never cut off.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import scipy

from pmldesign.arguments import APART
from pmldesign.errors import InvalidInputError
from pmldesign.files.arrays import require_sparse_shape, size_of
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array

LONGEST_LINE = 2**16
"""Characters of the lines before the entries; the format itself allows 1024."""
LONGEST_ENTRY = 256
"""Characters of a line with an entry, on average; two indices and a number have fewer than 80."""
LARGEST_BODY = 2**32
"""Bytes of all entries."""
REAL = ("real", "double", "integer", "unsigned-integer")
NUMBER = re.compile(rb"[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf|infinity|nan)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heading:
    """The content of the first line and the size line."""

    sparse: bool
    pattern: bool
    symmetry: str
    rows: int
    columns: int
    entries: int
    lines: int

    @property
    def width(self) -> int:
        """How many numbers a line holds."""
        return 1 if not self.sparse else 2 if self.pattern else 3


def read_matrix_market(handle: IO[bytes]) -> Any:
    """The matrix in a .mtx file: an array, or a scipy sparse array for coordinates.

    Args:
        handle: open for reading bytes, at its beginning.

    Raises:
        ValueError: it is damaged, or not of the format.
        InvalidInputError: complex numbers, or a matrix that is larger than is ever read.
    """
    size = size_of(handle)
    heading = _heading(handle)
    rows, columns = heading.rows, heading.columns
    if heading.sparse:
        require_sparse_shape((rows, columns), heading.entries)
    else:
        check_entries("the file", (rows, columns))
    allowed = min(heading.entries * LONGEST_ENTRY + LONGEST_LINE, LARGEST_BODY)
    left = size - handle.tell()
    if left > allowed:
        raise ValueError(
            f"{left} bytes follow the size line, at most {allowed} belong to "
            f"{heading.entries} entries"
        )
    numbers = _numbers(handle.read(), heading)
    return _coordinates(numbers, heading) if heading.sparse else _dense(numbers[:, 0], heading)


def _heading(handle: IO[bytes]) -> Heading:
    words = _line(handle).lower().split()
    if len(words) != 5 or words[1] != "matrix" or words[2] not in ("coordinate", "array"):
        raise ValueError(
            "the first line must be '%%MatrixMarket matrix' and a layout (coordinate, array), a "
            "field (real, integer, pattern) and a symmetry (general, symmetric, skew-symmetric)"
        )
    layout, field, symmetry = words[2:]
    if field == "complex" or symmetry == "hermitian":
        raise InvalidInputError(f"a workload holds real numbers, got complex128 entries; {APART}")
    sparse, pattern = layout == "coordinate", field == "pattern"
    if field not in REAL and not (pattern and sparse):
        raise ValueError(f"field {field[:40]!r} in the first line is not real, integer or pattern")
    if symmetry not in ("general", "symmetric", "skew-symmetric"):
        raise ValueError(
            f"symmetry {symmetry[:40]!r} in the first line is not general, symmetric or "
            "skew-symmetric"
        )
    lines = 1
    while not (text := _line(handle)).strip() or text.startswith("%"):
        lines += 1
    numbers = text.split()
    if len(numbers) != 2 + sparse or not all(re.fullmatch("[0-9]{1,18}", part) for part in numbers):
        wanted = "rows, columns and entries" if sparse else "rows and columns"
        raise ValueError(f"line {lines + 1} must be the numbers of {wanted}, got {text[:40]!r}")
    rows, columns, *rest = map(int, numbers)
    if min(rows, columns) < 1:
        raise InvalidInputError(
            f"a workload has at least one query and one cell, got {text[:40]!r}"
        )
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a matrix of {rows} x {columns} is not {symmetry}")
    triangle = rows * (columns + (1 if symmetry == "symmetric" else -1)) // 2
    entries = rest[0] if sparse else rows * columns if symmetry == "general" else triangle
    return Heading(sparse, pattern, symmetry, rows, columns, entries, lines + 1)


def _line(handle: IO[bytes]) -> str:
    line = handle.readline(LONGEST_LINE + 1)
    if not line:
        raise ValueError("it ends before the line with its size")
    if len(line) > LONGEST_LINE or not line.isascii() or b"\0" in line:
        raise ValueError("its first lines are not text")
    return line.decode("ascii").rstrip("\r\n")


def _numbers(body: bytes, heading: Heading) -> Array:
    """The numbers after the size line, shape (entries, width)."""
    if not any(line.partition(b"%")[0].strip() for line in io.BytesIO(body)):
        numbers = np.empty((0, heading.width))  # numpy would warn about it
    else:
        try:
            numbers = np.loadtxt(io.BytesIO(body), comments="%", ndmin=2)
        except ValueError:
            raise ValueError(_first_wrong(body, heading)) from None
    if numbers.size and numbers.shape[1] != heading.width:
        raise ValueError(_first_wrong(body, heading))
    if len(numbers) != heading.entries:
        raise ValueError(f"the size line asks for {heading.entries} entries, {len(numbers)} follow")
    return numbers


def _first_wrong(body: bytes, heading: Heading) -> str:
    """Which line is not as many numbers as it should be."""
    for number, line in enumerate(body.split(b"\n"), start=heading.lines + 1):
        parts = line.partition(b"%")[0].split()
        if parts and (len(parts) != heading.width or not all(map(NUMBER.fullmatch, parts))):
            shown = line[:40].decode("ascii", "backslashreplace").strip()
            return (
                f"line {number}, {shown!r}, is not {heading.width} decimal "
                f"number{'s' * (heading.width > 1)} separated by spaces"
            )
    return "its entries are not decimal numbers"


def _coordinates(numbers: Array, heading: Heading) -> Any:
    for name, column, count in zip(
        ("row", "column"), numbers.T, (heading.rows, heading.columns), strict=False
    ):
        wrong = ~((column >= 1) & (column <= count) & (column == np.floor(column)))
        if wrong.any():
            at = int(wrong.argmax())
            raise ValueError(f"entry {at + 1} is in {name} {column[at]:g} of {count}")
    i, j = (numbers[:, axis].astype(np.int64) - 1 for axis in (0, 1))
    values = np.ones(len(i)) if heading.pattern else numbers[:, 2]
    if heading.symmetry != "general":
        if (i < j).any() and (i > j).any():
            raise ValueError(f"entries of a {heading.symmetry} matrix are of one triangle")
        sign = 1.0 if heading.symmetry == "symmetric" else -1.0
        other = i != j
        i, j = np.append(i, j[other]), np.append(j, i[other])
        values = np.append(values, sign * values[other])
    return scipy.sparse.coo_array((values, (i, j)), shape=(heading.rows, heading.columns))


def _dense(values: Array, heading: Heading) -> Array:
    shape = (heading.rows, heading.columns)
    if heading.symmetry == "general":
        return values.reshape(shape, order="F")
    symmetric = heading.symmetry == "symmetric"
    j, i = np.triu_indices(heading.rows, 0 if symmetric else 1)
    matrix = np.zeros(shape)
    matrix[i, j] = values
    matrix[j, i] = values if symmetric else -values
    return matrix
