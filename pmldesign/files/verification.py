"""Verification of a file whose workload is given, or named in the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pmldesign.errors import InvalidInputError
from pmldesign.files.workloads import load_workload, read_workload
from pmldesign.verify import Verification
from pmldesign.workloads import (
    KroneckerWorkload,
    MarginalsWorkload,
    Workload,
    as_workload,
    parse_workload,
)

LARGEST = 2**24
"""Entries of a workload that is written out to be checked."""


def verify_file(path: str | Path, *, workload: Any = None) -> Verification:
    """Check every number that a file claims, by code that shares nothing with the solvers.

    Args:
        path: a strategy file of `write_strategy` or `pmldesign optimize` (.npz), the manifest of a
            release or the certificate of `pmldesign envelope` (.json).
        workload: what the strategy answers: a name, a file, a matrix or a Workload; None for the
            one that the file names, where that is the name of one.

    Returns:
        A verdict for every claim; `holds` says whether all those that were checked hold.

    Raises:
        FileError: missing, unreadable, or of another kind.
        InvalidInputError: python-flint is not installed, or the workload is none.
    """
    from pmldesign.verify.verification import check_file

    queries = _named_queries(path) if workload is None else _read(workload)
    return check_file(path, None if queries is None else _form(queries))


def _read(workload: Any) -> Workload:
    if isinstance(workload, Path):
        return read_workload(workload)
    return load_workload(workload) if isinstance(workload, str) else as_workload(workload)


def _named_queries(path: str | Path) -> Workload | None:
    """The workload whose name is in a file, if it is the name of one."""
    from pmldesign.verify.reading import read_archive

    if Path(path).suffix.lower() == ".json":
        return None
    name = read_archive(Path(path))[0].get("workload")
    try:
        return parse_workload(name) if isinstance(name, str) else None
    except InvalidInputError:
        return None


def _form(queries: Workload) -> Any:
    """A as a matrix, or what it is made of where that is larger."""
    from pmldesign.verify.forms.marginals import Tables

    m, n = queries.shape
    if isinstance(queries, MarginalsWorkload):
        return Tables(queries.sizes, queries.subsets, queries.weights.tolist())
    if isinstance(queries, KroneckerWorkload) and m * n > LARGEST:
        return [factor.to_dense() for factor in queries.factors]
    return queries.to_dense() if m * n <= LARGEST else None
