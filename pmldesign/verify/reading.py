"""Files as they are: the header and the arrays of an .npz, the content of a .json, or a state.

The digest of a file tells whether anything in it was changed after it was written: SHA-256 of the
header as JSON with sorted keys, without the digest itself, and of the name, type, shape and bytes
of every array in the order of their names. It guards against damage and slips: who changes a file
on purpose can write another digest, but not make false numbers hold. A JSON object has its digest
under `sha256`, `object`.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from pmldesign.errors import FileError

KEY = "sha256"
"""Of the digest in a header."""
OBJECT = "object"
"""Of the digest of a whole JSON object, among its hashes."""
MOST_BYTES = 2**32
"""Bytes of an array that is read."""


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a strategy file.

    Raises:
        FileError: missing, unreadable, or no such file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = once([(entry.filename, entry) for entry in archive.infolist()])
            arrays = {
                name.removesuffix(".npy"): _array(archive, entry) for name, entry in entries.items()
            }
        header = json.loads(str(arrays.pop("header")), object_pairs_hook=once)
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
    except (OSError, MemoryError) as error:
        raise FileError(f"cannot read {str(path)!r}: {error}") from None
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(f"{str(path)!r} is damaged or no strategy file: {reason}") from None
    return header, arrays


def is_state(path: Path) -> bool:
    """Whether a file begins as a state does."""
    try:
        with path.open("rb") as file:
            return file.read(10) == b'{"stream":'
    except OSError:
        return False


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        FileError: missing, unreadable, or no such file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{str(path)!r} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise FileError(f"{str(path)!r} is no JSON object")
    return content


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What has these names; ValueError if one comes twice, as readers take different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} comes twice")
    return found


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    """An array whose header promises no more than is there; never unpickled."""
    with archive.open(entry) as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, dtype = read(member)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size > min(entry.file_size, MOST_BYTES):
            raise ValueError(f"array {entry.filename!r} promises more than is there")
        content = bytearray(member.read(size))
    array = np.ndarray(shape, dtype, content, order="F" if by_columns else "C")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"array {entry.filename!r} has an entry that is not finite")
    return array


def digest_of_object(content: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object with sorted keys, without the entry "object" of its hashes."""
    hashes = {key: value for key, value in content.get(KEY, {}).items() if key != OBJECT}
    text = json.dumps({**content, KEY: hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """The digest of a header, whose own entry KEY does not count, and of its arrays."""
    rest = {key: value for key, value in header.items() if key != KEY}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
