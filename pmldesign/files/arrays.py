"""Arrays as .npy and .npz, their headers checked before anything of their size is allocated.

A .npy file is a header (type, shape, order) and the entries; an .npz is a zip archive of them. The
header of a few bytes may promise any number of entries, and a sparse matrix of a few entries any
shape: all promised entries must be present. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy
from numpy.lib import format as npy

from pmldesign.errors import InvalidInputError, printable
from pmldesign_solvers.limits import MAX_ENTRIES

EMPTY_LINES = 2**20
"""A sparse matrix has at most so many more rows, or columns, than entries."""
LONGEST_REASON = 200
"""Characters of another library's message: two lines and a half of a terminal."""
INDEX_ARRAYS = {"indices", "indptr", "row", "col", "coords", "offsets"}
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def require_sparse_shape(shape: tuple[int, ...], entries: int) -> None:
    """Refuse a sparse matrix that is nearly all empty rows or columns.

    Raises:
        InvalidInputError: more than EMPTY_LINES rows or columns than entries.
    """
    if max(shape) > EMPTY_LINES + entries:
        raise InvalidInputError(
            f"a sparse matrix of {' x '.join(map(str, shape))} with {entries} entries is nearly "
            f"all empty rows or columns; at most {EMPTY_LINES} of them are read: leave them out"
        )


def read_array(handle: IO[bytes], size: int) -> Any:
    """The array in a .npy file or member of an archive, `size` bytes long.

    Raises:
        ValueError: it is damaged, or its entries are not there.
        InvalidInputError: more than MAX_ENTRIES entries.
    """
    version = npy.read_magic(handle)
    if version not in HEADERS:
        raise ValueError(f"version {version} of the format, which only tables of fields need")
    shape, _, dtype = HEADERS[version](handle)
    if dtype.hasobject:
        raise ValueError("pickled objects")
    entries = math.prod(shape)
    promised, there = entries * dtype.itemsize, size - handle.tell()
    if min(shape, default=0) < 0 or promised > there:
        raise ValueError(
            f"the header promises shape {shape}, {promised} bytes, and {there} bytes follow"
        )
    if entries > MAX_ENTRIES:
        raise InvalidInputError(
            f"an array of shape {shape} has more than the {MAX_ENTRIES} entries that are ever read"
        )
    handle.seek(0)
    return npy.read_array(handle, allow_pickle=False)


def size_of(handle: IO[bytes]) -> int:
    """Number of bytes of an open file, which is left at its beginning."""
    size = handle.seek(0, 2)
    handle.seek(0)
    return size


class Archive:
    """The arrays of an .npz file by name, each read when asked for.

    Args:
        handle: open for reading bytes.

    Raises:
        zipfile.BadZipFile: it is not an archive.
    """

    def __init__(self, handle: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(handle)
        members = [entry for entry in self._archive.infolist() if entry.filename.endswith(".npy")]
        self._members = {entry.filename.removesuffix(".npy"): entry for entry in members}

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> Any:
        if name not in self._members:
            raise ValueError(f"there is no array {name!r}")
        entry = self._members[name]
        with self._archive.open(entry) as member:
            return read_array(member, entry.file_size)

    def optional(self, name: str) -> Any:
        """The array of that name, or None."""
        return self[name] if name in self._members else None


def read_sparse(handle: IO[bytes], arrays: Archive) -> Any:
    """The scipy sparse matrix in an .npz file.

    Raises:
        ValueError: it is damaged.
        InvalidInputError: a shape that is far larger than the number of entries.
    """
    from pmldesign.workloads.sparse import check_indices

    shape = whole_numbers("shape", arrays["shape"])
    for name in {*arrays.names} & INDEX_ARRAYS:  # arrays that scipy reads again are sound
        whole_numbers(name, arrays[name])
    if len(shape) != 2 or min(shape) < 1:
        raise InvalidInputError(f"a workload is a matrix, got shape {tuple(shape)}")
    require_sparse_shape((shape[0], shape[1]), int(arrays["data"].size))
    handle.seek(0)
    matrix = scipy.sparse.load_npz(handle)
    check_indices(matrix)
    return matrix


def whole_numbers(name: str, array: Any) -> list[int]:
    """The entries of an array of whole numbers, as a list.

    Raises:
        ValueError: it has other entries.
    """
    if array.dtype.kind not in "iu":
        raise ValueError(f"array {name!r} must hold whole numbers, got entries of {array.dtype}")
    numbers: list[int] = np.ravel(array).tolist()
    return numbers


def file_name(path: Path) -> str:
    """How messages, tables and files call a file: the last part of its path."""
    return printable(path.name)


def reason(error: BaseException) -> str:
    """Why a parser gave up; never the advice of a library to load a file in an unsafe way."""
    text = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
    if "pickle" in text:
        return "it holds pickled Python objects, which are never loaded; save numbers"
    if "max_header_size" in text or "Header info length" in text:
        return "the header of an array is too long"
    return printable(text)
