"""Reading and writing workload files.

A workload file is .npy, .npz (one dense array, or a scipy sparse matrix), .csv (numbers, optional
header line) or .mtx (Matrix Market, dense or sparse). A file that the system or the format refuses
is a FileError; a sound file that does not hold a workload is an InvalidInputError. Nothing is ever
unpickled, and a file of a few bytes never takes memory for entries that it only promises. Other
files identify a workload by a hash of its shape and entries (`fingerprint`).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import scipy

from pmldesign.arguments import instance
from pmldesign.errors import FileError, PmldesignError, printable
from pmldesign.files.arrays import Archive, file_name, read_array, read_sparse, reason, size_of
from pmldesign.files.atomic import PathName, as_path, atomic_write
from pmldesign.files.tables import NumberTable, read_table, write_csv
from pmldesign.workloads import DenseWorkload, Workload, as_nested, parse_workload
from pmldesign.workloads.parsing import WEIGHT, starts_with_name
from pmldesign.workloads.sparse import sparse_rows
from pmldesign_solvers.operators.operator import Array

T = TypeVar("T")
Note = Callable[[str], None]

STANDARD_INPUT = 2**28
"""Most bytes of standard input (256 MiB), which may have no end; a file may be larger."""
FINGERPRINT_COLUMNS = 64
"""Columns that are materialized at a time."""
FINGERPRINT_ENTRIES = 2**26
"""Largest workload that is hashed: 512 MiB, a second or two."""
WIDE = 8
"""Times as many cells as queries, from which on the rows of A are written instead of columns."""


def load_workload(text: str, *, note: Note | None = None) -> Workload:
    """The workload that a command-line argument means.

    Args:
        text: "-" for standard input (.csv unless it starts as one of the other formats), a file,
            or a name for parse_workload, in which files may be factors. A file is what ends in
            .npy, .npz, .csv or .mtx, and any other path with a separator, or that exists, which
            does not start with a known name.
        note: called with a line on how a table was read that looks like records of people.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: its contents are not a workload, or the name is not known.
    """
    if text == "-":
        return read_standard_input(_as_workload, note)
    if _looks_like_file(text):
        return read_matrix_file(text, _as_workload, note)
    return parse_workload(text, read=_file_in_product)


def _file_in_product(factor: str) -> Workload | None:
    """The matrix in the file that a factor names, if it ends as one does and is not a name."""
    named = starts_with_name(factor)  # such as regions:places.csv
    return read_workload(factor) if is_matrix_path(factor) and not named else None


def read_workload(path: PathName) -> Workload:
    """The workload in a file, whose extension determines the format.

    Args:
        path: a .npy, .npz, .csv or .mtx file. An .npz with several arrays must call one of them
            "workload"; a .csv may start with a header line without numbers.

    Raises:
        FileError: missing, unreadable, empty, truncated, pickled, or of another format.
        InvalidInputError: the contents are not a real, finite, non-empty matrix.
    """
    return read_matrix_file(path, _as_workload)


def read_matrix_file(path: PathName, build: Callable[[Any, str], T], note: Note | None = None) -> T:
    """What `build` makes of the matrix in a file and of the file's name; as read_workload."""
    path = as_path(path)
    extension = _extension(path)
    with opened(path) as handle:
        return _read(handle, extension, file_name(path), build, note)


def is_matrix_path(text: str) -> bool:
    """Whether a text is the name of a file for a matrix, by its ending."""
    return Path(text).suffix.lower() in _READERS


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A regular file for reading: a device may have no end, a named pipe no writer.

    Raises:
        FileError: missing, unreadable, or not a regular file.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise FileError(
                f"cannot read {str(path)!r}: it is not a regular file; for the output of another "
                "command use - (standard input)"
            )
        with path.open("rb") as handle:
            yield handle
    except PmldesignError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {str(path)!r}: {why}") from None


def write_workload(path: PathName, workload: Workload) -> None:
    """Write the matrix of a workload.

    Args:
        path: .npy, .npz (compressed, the array is called "workload"), .csv or .mtx (in
            coordinates if the workload is sparse); an existing file is replaced at the end.
        workload: the workload to write.

    Raises:
        FileError: the extension is another one, or the file cannot be written.
        InvalidInputError: the matrix is too large to be materialized.
    """
    instance("workload", workload, Workload, "a Workload (pmldesign.workload makes one)")
    writer = _WRITERS[_extension(as_path(path))]
    with atomic_write(path, "wb") as handle:
        writer(handle, workload)


def standard_input(read: Callable[[Any], bytes]) -> bytes:
    """What is read from standard input, a stream of bytes."""
    if sys.stdin is None:
        raise FileError("cannot read standard input: it is closed")
    try:
        return read(sys.stdin.buffer)
    except OSError as error:
        raise FileError(f"cannot read standard input: {error.strerror or error}") from None


def read_standard_input(build: Callable[[Any, str], T], note: Note | None = None) -> T:
    """What `build` makes of the matrix on standard input; .csv unless it starts as another."""
    data = standard_input(lambda source: source.read(STANDARD_INPUT + 1))
    if len(data) > STANDARD_INPUT:
        raise FileError(
            f"standard input has more than the {STANDARD_INPUT} bytes that are read from it; give "
            "the name of a file"
        )
    extension = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), ".csv")
    return _read(io.BytesIO(data), extension, "standard input", build, note)


def _looks_like_file(text: str) -> bool:
    if not text:
        return False  # Path("") is the current folder
    path = Path(text)
    if text.startswith("regions:"):
        return False  # the rest is a file of places
    factors = re.split("[*+]", text)
    if len(factors) > 1 and not _exists(path) and all(map(_is_factor, factors)):
        return False  # a product or a union in which files are factors
    if path.suffix.lower() in _READERS:
        return True
    if starts_with_name(text):
        return False  # a folder of that name must not hide the workload
    if os.sep in text or (os.altsep or os.sep) in text:
        return True
    return _exists(path)


def _is_factor(text: str) -> bool:
    """Whether a text may stand in a product: a name, a weight or a file."""
    return starts_with_name(text) or is_matrix_path(text.strip()) or bool(WEIGHT.fullmatch(text))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a text too long for a file name
        return False


def _extension(path: Path) -> str:
    extension = path.suffix.lower()
    if extension not in _READERS:
        raise FileError(
            f"{str(path)!r}: a matrix file ends in {', '.join(_READERS)}, "
            + (f"not in {path.suffix}" if extension else "this one has no extension")
        )
    return extension


def _read(
    handle: IO[bytes],
    extension: str,
    name: str,
    build: Callable[[Any, str], T],
    note: Note | None,
) -> T:
    if not handle.read(1):
        raise FileError(f"{name} is empty")
    handle.seek(0)
    try:
        matrix = _READERS[extension](handle)
        reading = matrix.reading() if isinstance(matrix, NumberTable) else None
        built = build(matrix.values if isinstance(matrix, NumberTable) else matrix, name)
    except PmldesignError as error:
        raise type(error)(f"{name}: {error}") from None
    except MemoryError:
        raise FileError(f"{name}: the matrix does not fit into memory") from None
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        raise FileError(f"{name} is damaged or not {extension}: {reason(error)}") from None
    if reading is not None and note is not None:
        note(f"{name} {reading}")
    return built


def _as_workload(matrix: Any, name: str) -> Workload:
    if isinstance(matrix, np.ndarray):
        return DenseWorkload(matrix, name=name, copy=False)
    from pmldesign.workloads.sparse import SparseWorkload

    return as_nested(SparseWorkload(matrix, name=name))


def _read_npy(handle: IO[bytes]) -> Any:
    _check_magic(handle, b"\x93NUMPY")
    return read_array(handle, size_of(handle))


def _read_npz(handle: IO[bytes]) -> Any:
    _check_magic(handle, b"PK")
    arrays = Archive(handle)
    names = arrays.names
    if "format" in names:
        return read_sparse(handle, arrays)
    numbered = [name for name in names if name.startswith("arr_")]
    if "workload" in names:
        return np.asarray(arrays["workload"])
    if len(names) == 1 or numbered == ["arr_0"]:
        return np.asarray(arrays[(numbered or names)[0]])
    listed = printable(", ".join(names)[:100]) or "none"
    raise FileError(f'one array must be called "workload"; found: {listed}')


def _read_mtx(handle: IO[bytes]) -> Any:
    from pmldesign.files.matrix_market import read_matrix_market

    _check_magic(handle, b"%%MatrixMarket")
    return read_matrix_market(handle)


def _check_magic(handle: IO[bytes], magic: bytes) -> None:
    if handle.read(len(magic)) != magic:
        raise FileError(f"the contents do not start with {magic!r}, as this format does")
    handle.seek(0)


def _write_mtx(handle: IO[bytes], workload: Workload) -> None:

    from pmldesign.workloads.sparse import SparseWorkload

    matrix: Any = workload.matrix if isinstance(workload, SparseWorkload) else workload.to_dense()
    scipy.io.mmwrite(handle, matrix, symmetry="general", precision=17)


_READERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": read_table,
    ".mtx": _read_mtx,
}
_WRITERS: dict[str, Callable[[IO[bytes], Workload], None]] = {
    ".npy": lambda handle, queries: np.save(handle, queries.to_dense(), allow_pickle=False),
    ".npz": lambda handle, queries: np.savez_compressed(
        handle, allow_pickle=False, workload=queries.to_dense()
    ),
    ".csv": lambda handle, queries: write_csv(handle, queries.to_dense()),
    ".mtx": _write_mtx,
}
_MAGIC = {b"\x93NUMPY": ".npy", b"PK": ".npz", b"%%MatrixMarket": ".mtx"}


def columns_of(workload: Workload) -> Callable[[int, int], Array]:
    """Columns of A from one to before another, of a wide one from A^T, which has few of them.

    Only if no entry of A is rounded, as in counts: a product of several numbers is rounded one way
    in A and may be another way in A^T.
    """
    m, n = workload.shape
    rows = sparse_rows(workload)
    if rows is not None:
        columns = rows.tocsc()
        return lambda start, end: columns[:, start:end].toarray(order="C")
    kept = isinstance(workload, DenseWorkload)  # as it is, without rounding
    if kept or n > WIDE * m:
        dense = workload.to_dense()
        if kept or all(_of_one_size(row) for row in dense):
            return lambda start, end: dense[:, start:end]
    return lambda start, end: workload.matvec(np.eye(n, end - start, k=-start))


def _of_one_size(row: Array) -> bool:
    sizes = np.abs(row)
    return bool(((sizes == 0.0) | (sizes == sizes.max())).all())


def fingerprint(workload: Workload) -> str:
    """SHA-256 of the shape and the entries of a workload, whatever its form in memory."""
    m, n = workload.shape
    digest, columns = hashlib.sha256(f"{m} {n}".encode()), columns_of(workload)
    for start in range(0, n, FINGERPRINT_COLUMNS):
        block = columns(start, min(start + FINGERPRINT_COLUMNS, n)) + 0.0
        digest.update(np.ascontiguousarray(block).tobytes())
    return digest.hexdigest()


def fingerprint_or_none(workload: Workload) -> str | None:
    """None for a workload that takes long to hash."""
    m, n = workload.shape
    return fingerprint(workload) if m * n <= FINGERPRINT_ENTRIES else None
