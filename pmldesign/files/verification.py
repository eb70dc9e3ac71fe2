"""Verification of a file whose workload is given, or named in the file itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import shown
from pmldesign.errors import InvalidInputError
from pmldesign.files.atomic import as_path
from pmldesign.files.workloads import FINGERPRINT_ENTRIES, columns_of, load_workload, read_workload
from pmldesign.verifier import Verification
from pmldesign.verifier.queries import JointTable, Queries, RegionTable, RegionTables, Table
from pmldesign.workloads import Workload, as_workload, parse_workload
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.nested.tables import RegionTablesWorkload
from pmldesign.workloads.ranges import asks_counts
from pmldesign.workloads.terms.over import crossed_over, terms_over
from pmldesign.workloads.weighting import weighted

MOST_ENTRIES = 2**24
"""Entries of a workload that is materialized to be checked."""
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
        workload: the queries that a strategy answers.
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
        InvalidInputError: the queries are unknown, or do not fit the weights.
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
    sizes, made_of = queries.domain, list[Table]()
    if len(queries.factors) > 1:  # a product, whatever its factors are
        sizes = tuple(factor.shape[1] for factor in queries.factors)
        made_of = _tables(queries, sizes)
    if not made_of:
        sizes = queries.domain
        made_of = _tables(queries, sizes)
    gram = None
    if matrix is None and n <= CHECKED_CELLS:
        gram = partial(queries.gram, np.ones(m))
    hashed = matrix is None and m * n <= FINGERPRINT_ENTRIES
    columns = columns_of(queries) if hashed else None
    joint = _joint(queries) if queries.domain and not made_of else []
    sums, regions = partial(_sums, queries), _regions(queries)
    return Queries(matrix, sizes, made_of, m, gram, columns, sums, regions, joint=joint)


def _joint(queries: Workload) -> list[JointTable]:
    """The tables with queries that join attributes; empty for other or too large workloads."""
    terms = terms_over(queries, queries.domain) or ()
    if sum(math.prod(term.shape) for term in terms) > MOST_ENTRIES:
        return []
    return [JointTable(term.attributes, term.dense()) for term in terms]


def _tables(queries: Workload, sizes: tuple[int, ...]) -> list[Table]:
    """The tables of a workload over attributes; empty for other or too large workloads."""
    terms = (crossed_over(queries, sizes) if sizes else None) or ()
    asked = [(i, factor) for term in terms for i, factor in term.of_attributes.items()]
    others = {i for i, factor in asked if not asks_counts(factor)}
    if any(i in others and math.prod(factor.shape) > MOST_ENTRIES for i, factor in asked):
        return []
    matrices: dict[tuple[int, bool], Any] = {}  # those of a factor that many tables share are one
    for i, factor in asked:
        if (id(factor), i in others) not in matrices:
            matrices[id(factor), i in others] = factor.to_dense() if i in others else None
    return [
        Table(
            term.weight,
            {i: matrices[id(q), i in others] for i, q in term.of_attributes.items()},
        )
        for term in terms
    ]


@singledispatch
def _regions(queries: Workload) -> RegionTables | None:  # noqa: ARG001
    """The counts and tables of regions that a workload consists of."""
    return None


@_regions.register
def _(queries: RegionsWorkload) -> RegionTables:
    counts = RegionTable((), queries.asked, queries.scales[queries.asked])
    return RegionTables(queries.tree.parents, (), [counts])


@_regions.register
def _(queries: RegionTablesWorkload) -> RegionTables:
    parts = [RegionTable(part.table, part.nodes, part.scales) for part in queries.parts]
    asked = {i: along.to_dense() for i, along in queries.queries.items()}
    return RegionTables(queries.tree.parents, queries.sizes, parts, asked)


def _sums(queries: Workload) -> tuple[Any, Any, Any] | None:
    """Rates and weights of running sums; None for any other workload."""
    sums = queries.running_sums if queries.shape[1] <= SUMS_CELLS else None
    if sums is None:
        return None
    return sums.rates, np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
