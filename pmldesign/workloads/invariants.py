"""The invariants of --known: a partition of the cells, or tables (`public`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.beside import public_groups
from pmldesign.workloads.conversion import as_workload
from pmldesign.workloads.public import RECORDS, Public
from pmldesign.workloads.terms.over import as_terms
from pmldesign_solvers.limits import MAX_ENTRIES, WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Indices

DEPENDENT = 1e-9
"""Singular values of the distinct columns, relative to the largest, that count as zero."""


def as_public(known: Any, cells: int) -> Public:
    """The invariants.

    Args:
        known: "total"; a workload K as `as_workload` accepts it, with public answers; or a Public.
        cells: number of cells of the queries or measurements.

    Raises:
        InvalidInputError: K has other cells, or as `groups_of` and `table_of`.
    """
    if isinstance(known, str) and known == "total":
        return RECORDS
    public, own = RECORDS, cells
    if isinstance(known, Public):
        public = known
    else:
        queries = as_workload(known)
        total, own = _tells_total(queries), queries.shape[1]
        tables = None if total else tables_of(queries)
        if tables and (tables.several or own > WRITTEN_CELLS):
            public = tables
        elif not total:
            public = groups_of(queries)
    own = own if public.groups is None else len(public.groups)
    if own != cells:
        raise InvalidInputError(
            f"the known answers {getattr(known, 'name', known)!r} are about {own} cells, here are"
            f" {cells}; both must have the same cells"
        )
    return public


def groups_of(queries: Workload) -> Public:
    """The groups of cells that public answers distinguish; the number of records for one group.

    Raises:
        InvalidInputError: too many cells, or the answers do not determine the number of records in
            each group, or they distinguish all cells, so that nothing is left to protect.
    """
    name, n = queries.name, queries.shape[1]
    by_structure = public_groups(queries)
    if n > WRITTEN_CELLS and by_structure is None:
        raise InvalidInputError(
            f"known answers on more than {WRITTEN_CELLS} cells are the total, counts of places"
            " without other attributes, or tables: products of histograms and totals, such as"
            f" 'histogram:50*total:100'; got {name!r}"
        )
    groups, told = by_structure or _groups_of_columns(queries)
    count = int(groups.max()) + 1
    if count == n > 1:
        raise _nothing_left(name)
    if not told:
        raise InvalidInputError(
            f"the answers to {name!r} do not tell how many records there are in each of the"
            f" {count} groups of cells that they count alike, so that no replaced"
            " record accounts for what they leave open; give tables of counts over the same"
            " attributes, or a partition of the cells, such as 'total'"
        )
    return Public("groups", name, groups=groups) if count > 1 else RECORDS


def _groups_of_columns(queries: Workload) -> tuple[Indices, bool]:
    """The groups of equal columns, and whether the different ones are linearly independent."""
    columns, groups = np.unique(queries.to_dense(), axis=1, return_inverse=True)
    values = np.linalg.svd(columns, compute_uv=False)
    rank = int((values > DEPENDENT * values[0]).sum())
    return groups.ravel().astype(np.intp), rank == columns.shape[1]


def tables_of(queries: Workload) -> Public | None:
    """The tables that public answers are, without those that follow from others; None if none are.

    Raises:
        InvalidInputError: a table of all attributes.
    """
    if public_groups(queries) is not None:
        return None
    asked = as_terms(queries)
    sizes = asked.domain
    alone = frozenset(i for i, size in enumerate(sizes) if size == 1)
    subsets = {alone.union(subset) for subset in asked.subsets}
    if not asked.counts or subsets <= {alone}:
        return None
    largest = (S for S in subsets if not any(other > S for other in subsets))
    tables = tuple(sorted(largest, key=sorted))
    if len(tables[0]) == len(sizes):
        raise _nothing_left(queries.name)
    return Public("tables", queries.name, sizes=sizes, tables=tables)


def _nothing_left(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"the answers to {name!r} tell all cells apart: replacing a record would change them,"
        " and nothing would be protected; give known answers that tell less"
    )


def _tells_total(queries: Workload) -> bool:
    """Whether the only query sums over all cells, with one weight."""
    m, n = queries.shape
    if m > 1 or n > MAX_ENTRIES:
        factors = [factor for factor in queries.factors if factor is not queries]
        return m == 1 and all(map(_tells_total, factors))
    row = queries.rmatvec(np.ones(1))
    return bool(row[0] != 0 and row.min() == row.max())
