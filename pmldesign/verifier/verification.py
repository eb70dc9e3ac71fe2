"""A file, whatever it is: the header and arrays of an .npz, a .json or a state; and its checks."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from pmldesign.errors import FileError, PmldesignError, require_extra, require_format
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Checks, Header, Verification, once

MOST_BYTES, MOST_TIMES = 2**28, 16
"""Bytes of arrays that are read from any file, and from a large one, as a multiple of its size."""
BITS = 192
"""Of ball arithmetic."""


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a strategy file.

    Raises:
        FileError: missing, unreadable, or of another kind.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = once([(entry.filename, entry) for entry in archive.infolist()])
            others = [name for name in entries if not name.endswith(".npy")]
            if others:  # some readers pass over them, others take them for x.npy
                raise ValueError(f"{others[0]!r} is no array")
            whole = sum(entry.file_size for entry in entries.values())
            if whole > max(MOST_BYTES, MOST_TIMES * path.stat().st_size):
                raise ValueError(f"its arrays promise {whole} bytes, far more than are there")
            arrays = {
                name.removesuffix(".npy"): _array(archive, entry) for name, entry in entries.items()
            }
        header = json.loads(str(arrays.pop("header")), object_pairs_hook=once)
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {str(path)!r}: {why}") from None
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(f"{str(path)!r} is damaged or no strategy file: {reason}") from None
    return header, arrays


def is_state(path: Path) -> bool:
    """Whether a file begins as the state of a stream: SQLite with its `application_id`."""
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except (OSError, ValueError):  # ValueError: a null byte in the path
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:] == b"pmst"


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        FileError: missing, unreadable, or of another kind.
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


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    """An array whose header promises no more than is there; never unpickled."""
    with archive.open(entry) as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, dtype = read(member)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size > entry.file_size:
            raise ValueError(f"array {entry.filename!r} promises more than is there")
        content = bytearray(member.read(size))
    array = np.ndarray(shape, dtype, content, order="F" if by_columns else "C")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"array {entry.filename!r} has an entry that is not finite")
    return array


def check_file(path: str | Path, queries: Any = None, schema: str | None = None) -> Verification:
    """Check the claims of a file.

    Args:
        path: a strategy file or measurements (.npz), the manifest of a release (.json) or its table
            (.csv, .parquet), the certificate of an envelope (.json), or the state of a stream.
        queries: A, shape (m, n), which a strategy is for, or its `Queries`; None if it is not
            known.
        schema: hash of the schema of a release; None if it is not known.

    Raises:
        FileError: missing, unreadable, or of another kind.
        InvalidInputError: python-flint is not installed.
    """
    require_extra("verification", "flint", "verify")
    from flint import ctx

    from pmldesign.verifier.measurements import check_measurements
    from pmldesign.verifier.strategies import check_strategy
    from pmldesign.verifier.streams.state import check_state

    run: Callable[[], str]
    path, checks = manifest_of(Path(path)), Checks()
    if is_state(path):
        kind, run = "state of a stream", partial(check_state, path, checks)
    elif path.suffix.lower() == ".json":
        kind, run = _of_object(path, read_object(path), schema, checks)
    else:
        header, arrays = read_archive(path)
        require_format(path.name, header.get("format"))
        asked = queries if isinstance(queries, Queries | None) else Queries(np.asarray(queries))
        if "manifest" in header:
            kind = "measurements"
            run = partial(check_measurements, header, arrays, asked, schema, checks)
        else:
            kind, run = "strategy", partial(check_strategy, header, arrays, asked, checks)
    arithmetic = "none"
    with ctx.workprec(BITS):
        try:
            arithmetic = run()
        except (PmldesignError, MemoryError):
            raise
        except Exception as error:  # a claim may be anything
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            checks.state("contents", False, f"cannot be computed with ({reason})")
    return Verification(path.name, kind, arithmetic, tuple(checks.rows))


def manifest_of(path: Path) -> Path:
    """The manifest of a published table; any other path as it is.

    Raises:
        FileError: the manifest is missing.
    """
    from pmldesign.verifier.manifests import MANIFEST, TABLES

    endings = [ending for part in TABLES.values() for ending in part]
    ending = max((e for e in endings if path.name.endswith(e)), key=len, default=None)
    if ending is None:
        return path
    manifest = path.with_name(path.name.removesuffix(ending) + MANIFEST)
    if not manifest.is_file():
        raise FileError(f"{path.name} has no manifest {manifest.name} beside it")
    return manifest


def _of_object(
    path: Path, content: Header, schema: str | None, checks: Checks
) -> tuple[str, Callable[[], str]]:
    """The kind of a JSON file, and its checks."""
    from pmldesign.verifier.envelopes import check_envelope
    from pmldesign.verifier.manifests import check_manifest

    if "post_processing" in content and "dual" in content:
        require_format(path.name, content.get("format"))
        return "envelope", partial(check_envelope, content, checks)
    if "lattice" in content:
        require_format(path.name, content.get("format"))
        return "manifest", partial(check_manifest, content, path, schema, checks)
    raise FileError(
        f"{path.name} is neither the manifest of a release nor the certificate of an envelope"
    )
