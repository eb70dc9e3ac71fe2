"""Reading and writing workload files.

A workload file is .npy, .npz (one dense array, or a scipy sparse matrix), .csv (numbers, optional
header line) or .mtx (Matrix Market, dense or sparse). What the system or the format refuses is a
FileError; a sound file that does not hold a workload is an InvalidInputError. Nothing is ever
unpickled.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from pmldesign.errors import FileError, PmldesignError
from pmldesign.files.atomic import PathName, atomic_write
from pmldesign.files.tables import read_csv, write_csv
from pmldesign.workloads import DenseWorkload, Workload, named_workloads, parse_workload

T = TypeVar("T")


def load_workload(text: str) -> Workload:
    """The workload that a command-line argument means.

    Args:
        text: "-" for standard input (.csv unless it starts as one of the other formats), a file,
            or a name for parse_workload. A file is what contains a path separator or ends in
            .npy, .npz, .csv or .mtx, and any existing path that does not start with a known name.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: its contents are not a workload, or the name is not known.
    """
    if text == "-":
        return read_standard_input(_as_workload)
    return read_workload(text) if _looks_like_file(text) else parse_workload(text)


def read_workload(path: PathName) -> Workload:
    """The workload in a file, its format told by the extension.

    Args:
        path: a .npy, .npz, .csv or .mtx file. An .npz with several arrays must call one of them
            "workload"; a .csv may start with a header line, of which no field is a number.

    Raises:
        FileError: missing, unreadable, empty, truncated, pickled, or of another format.
        InvalidInputError: the contents are not a real, finite, non-empty matrix.
    """
    return read_matrix_file(path, _as_workload)


def read_matrix_file(path: PathName, build: Callable[[Any, str], T]) -> T:
    """What `build` makes of the matrix in a file and of the file's name; as read_workload."""
    path = Path(path)
    extension = _extension(path)
    try:
        with path.open("rb") as handle:
            return _read(handle, extension, path.name, build)
    except PmldesignError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {str(path)!r}: {reason}") from None


def write_workload(path: PathName, workload: Workload) -> None:
    """Write the matrix of a workload.

    Args:
        path: .npy, .npz (compressed, the array is called "workload"), .csv or .mtx (in
            coordinates if the workload is sparse); an existing file is replaced at the end.
        workload: what to write.

    Raises:
        FileError: the extension is another one, or the file cannot be written.
        InvalidInputError: the matrix is too large to be written out.
    """
    writer = _WRITERS[_extension(Path(path))]
    with atomic_write(path, "wb") as handle:
        writer(handle, workload)


def read_standard_input(build: Callable[[Any, str], T]) -> T:
    """What `build` makes of the matrix on standard input; .csv unless it starts as another."""
    data = sys.stdin.buffer.read()
    extension = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), ".csv")
    return _read(io.BytesIO(data), extension, "standard input", build)


def _looks_like_file(text: str) -> bool:
    if not text:
        return False  # Path("") is the current folder
    path = Path(text)
    if path.suffix.lower() in _READERS or os.sep in text or (os.altsep or os.sep) in text:
        return True
    name = text.partition("*")[0].partition(":")[0].strip()
    if any(name == known.name for known in named_workloads()):
        return False  # a folder of that name must not hide the workload
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


def _read(handle: IO[bytes], extension: str, name: str, build: Callable[[Any, str], T]) -> T:
    if not handle.read(1):
        raise FileError(f"{name} is empty")
    handle.seek(0)
    try:
        matrix = _READERS[extension](handle)
        return build(matrix, name)
    except PmldesignError as error:
        raise type(error)(f"{name}: {error}") from None
    except MemoryError:
        raise FileError(f"{name}: the matrix does not fit into memory") from None
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if "allow_pickle" in reason:
            reason = "it holds pickled Python objects, which are never loaded; save numbers"
        raise FileError(f"{name} is damaged or not {extension}: {reason}") from None


def _as_workload(matrix: Any, name: str) -> Workload:
    if isinstance(matrix, np.ndarray):
        return DenseWorkload(matrix, name=name, copy=False)
    from pmldesign.workloads.sparse import SparseWorkload

    return SparseWorkload(matrix, name=name)


def _read_npy(handle: IO[bytes]) -> Any:
    _check_magic(handle, b"\x93NUMPY")
    return np.load(handle, allow_pickle=False)


def _read_npz(handle: IO[bytes]) -> Any:
    _check_magic(handle, b"PK")
    with np.load(handle, allow_pickle=False) as arrays:
        names = list(arrays)
        if "format" in names:
            from scipy import sparse

            handle.seek(0)
            return sparse.load_npz(handle)
        numbered = [name for name in names if name.startswith("arr_")]
        if "workload" in names:
            chosen = "workload"
        elif len(names) == 1:
            chosen = names[0]
        elif numbered == ["arr_0"]:
            chosen = "arr_0"
        else:
            listed = ", ".join(names)[:100] or "none"
            raise FileError(f'one array must be called "workload"; found: {listed}')
        return np.asarray(arrays[chosen])


def _read_mtx(handle: IO[bytes]) -> Any:
    from scipy import io as scipy_io

    _check_magic(handle, b"%%MatrixMarket")
    return scipy_io.mmread(handle)


def _check_magic(handle: IO[bytes], magic: bytes) -> None:
    if handle.read(len(magic)) != magic:
        raise FileError(f"the contents do not start with {magic!r}, as this format does")
    handle.seek(0)


def _write_npy(handle: IO[bytes], workload: Workload) -> None:
    np.save(handle, workload.to_dense(), allow_pickle=False)


def _write_npz(handle: IO[bytes], workload: Workload) -> None:
    np.savez_compressed(handle, allow_pickle=False, workload=workload.to_dense())


def _write_csv(handle: IO[bytes], workload: Workload) -> None:
    write_csv(handle, workload.to_dense())


def _write_mtx(handle: IO[bytes], workload: Workload) -> None:
    from scipy import io as scipy_io

    from pmldesign.workloads.sparse import SparseWorkload

    matrix: Any = workload.matrix if isinstance(workload, SparseWorkload) else workload.to_dense()
    scipy_io.mmwrite(handle, matrix, symmetry="general", precision=17)


_READERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": read_csv,
    ".mtx": _read_mtx,
}
_WRITERS: dict[str, Callable[[IO[bytes], Workload], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".mtx": _write_mtx,
}
_MAGIC = {b"\x93NUMPY": ".npy", b"PK": ".npz", b"%%MatrixMarket": ".mtx"}
