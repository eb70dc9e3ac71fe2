"""Verification of a file whose workload is given, or named in the file itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import shown
from pmldesign.errors import InvalidInputError
from pmldesign.files.atomic import as_path
from pmldesign.files.workloads import FINGERPRINT_ENTRIES, columns_of, load_workload, read_workload
from pmldesign.verifier import Verification
from pmldesign.verifier.queries import JointTable, Queries, Table
from pmldesign.workloads import Workload, as_workload, parse_workload
from pmldesign.workloads.tables.base import asks_counts
from pmldesign.workloads.tables.joined import joined_over
from pmldesign.workloads.tables.same import as_tables_over
from pmldesign.workloads.union import spread_out
from pmldesign.workloads.weighting import weighted

MOST_ENTRIES = 2**24
"""Entries of a workload that is written out to be checked."""
CHECKED_CELLS = 4096
"""Cells up to which the Gram matrix of a larger workload is."""
SUMS_CELLS = 2**21
"""Steps of running sums that are compared with those of a file."""


def verify_file(
    path: str | Path,
    *,
    workload: Any = None,
    weights: Any = None,
    parse: Callable[[str], Workload] = parse_workload,
    schema: str | None = None,
) -> Verification:
    """Check every number that a file claims; arguments and errors as `pmldesign.verify`.

    Args:
        path: of the file.
        workload: what a strategy answers.
        weights: of the queries.
        parse: makes the workloads that a file names.
        schema: hash of the schema of a release; None if it is not known.
    """
    from pmldesign.verifier.verification import check_file

    path = as_path(path)
    key = "workload" if weights is None else "unweighted"
    queries = _named_queries(path, key, parse) if workload is None else _read(workload)
    if weights is not None:
        queries = _weighted(path, queries, weights)
    known = _named_queries(path, "known", parse)
    if queries is None:
        return check_file(path, None, schema)
    public = None if known is None else _form(known)
    form = replace(_form(queries), known=public, named=workload is None)
    return check_file(path, form, schema)


def _weighted(path: Path, queries: Workload | None, weights: Any) -> Workload:
    """The queries times their weights.

    Raises:
        InvalidInputError: there are none, or other ones.
    """
    if queries is None:
        raise InvalidInputError(
            f"weights: {shown(str(path))} names no queries that they are for; give the workload too"
        )
    return weighted(queries, weights)


def _read(workload: Any) -> Workload:
    if isinstance(workload, Path):
        return read_workload(workload)
    return load_workload(workload) if isinstance(workload, str) else as_workload(workload)


def _named_queries(path: Path, key: str, parse: Callable[[str], Workload]) -> Workload | None:
    """The workload whose name a file has under a key, if it is the name of one."""
    from pmldesign.verifier.verification import is_state, read_archive

    if path.suffix.lower() in (".json", ".csv", ".parquet") or is_state(path):
        return None
    name = read_archive(path)[0].get(key)
    try:
        return parse(name) if isinstance(name, str) else None
    except InvalidInputError:
        return None


def _form(queries: Workload) -> Queries:
    """A as a matrix, unless that is too large, and the tables that it is made of."""
    m, n = queries.shape
    matrix = queries.to_dense() if m * n <= MOST_ENTRIES else None
    sizes = queries.domain
    made_of = _tables(queries, sizes)
    if not made_of and (parts := spread_out(queries)):
        sizes = parts[0].domain
        made_of = _tables(queries, sizes)
    gram = None
    if matrix is None and n <= CHECKED_CELLS:
        gram = partial(queries.gram, np.ones(m))
    hashed = matrix is None and m * n <= FINGERPRINT_ENTRIES
    columns = columns_of(queries) if hashed else None
    joint = _joint(queries) if queries.domain and not made_of else []
    sums = partial(_sums, queries)
    return Queries(matrix, sizes, made_of, m, gram, columns, sums, joint=joint, **queries.stated())


def _joint(queries: Workload) -> list[JointTable]:
    """The tables with queries that join attributes; nothing if it is no such, or too large."""
    listed = joined_over(queries, queries.domain) or []
    if sum(math.prod(factor.shape) for _, _, factor in listed) > MOST_ENTRIES:
        return []
    return [JointTable(T, weight * factor.to_dense()) for weight, T, factor in listed]


def _tables(queries: Workload, sizes: tuple[int, ...]) -> list[Table]:
    """What a workload over attributes is made of; nothing if it is no such, or too large."""
    tables = (as_tables_over(queries, sizes) if sizes else None) or []
    asked = [(i, factor) for _, factors in tables for i, factor in factors.items()]
    others = {i for i, factor in asked if not asks_counts(factor)}
    if any(i in others and math.prod(factor.shape) > MOST_ENTRIES for i, factor in asked):
        return []
    matrices: dict[tuple[int, bool], Any] = {}  # those of a factor that many tables share are one
    for i, factor in asked:
        if (id(factor), i in others) not in matrices:
            matrices[id(factor), i in others] = factor.to_dense() if i in others else None
    return [
        Table(weight, {i: matrices[id(factor), i in others] for i, factor in factors.items()})
        for weight, factors in tables
    ]


def _sums(queries: Workload) -> tuple[Any, Any, Any] | None:
    """Rates and weights of running sums; None for any other workload."""
    sums = queries.running_sums if queries.shape[1] <= SUMS_CELLS else None
    if sums is None:
        return None
    return sums.rates, np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
