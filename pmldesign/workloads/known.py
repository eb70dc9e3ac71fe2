"""Which public answers there are (`public`): what --known says, as a partition of the cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import as_workload
from pmldesign.workloads.base import MAX_ENTRIES, WRITTEN_CELLS, Workload
from pmldesign.workloads.public import RECORDS, Public
from pmldesign.workloads.union import tables_asked
from pmldesign_solvers.operators.operator import Indices

DEPENDENT = 1e-9
"""Singular values of the distinct columns, relative to the largest, that count as zero."""


def as_public(known: Any, cells: int) -> Public:
    """What is public.

    Args:
        known: "total", or what `as_workload` takes: K, whose answers are public; or a Public.
        cells: of what is asked or measured.

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
        if own > WRITTEN_CELLS and not total and queries.public_groups() is None:
            return table_of(queries)
        public = public if total else groups_of(queries)
    own = own if public.groups is None else len(public.groups)
    if own != cells:
        raise InvalidInputError(
            f"the known answers {getattr(known, 'name', known)!r} are about {own} cells, here are"
            f" {cells}; both must have the same cells"
        )
    return public


def groups_of(queries: Workload) -> Public:
    """The groups of cells that public answers tell apart; the number of records for one group.

    Raises:
        InvalidInputError: they do not tell how many records there are in each group, or tell cells
            apart so far that nothing is left to protect. (If the distinct columns of K are not
            linearly independent, as of two margins of a table, databases with the same answers may
            differ by no single record of a group, and there is no such relation.)
    """
    name, n = queries.name, queries.shape[1]
    groups, told = queries.public_groups() or _groups_of_columns(queries)
    count = int(groups.max()) + 1
    if count == n > 1:
        raise _nothing_left(name)
    if not told:
        raise InvalidInputError(
            f"the answers to {name!r} do not tell how many records there are in each of the"
            f" {count} groups of cells that they count alike, so that no replaced"
            " record accounts for what they leave open; give a partition of the cells, such as"
            " 'total' or one table (the table of several attributes, not several tables)"
        )
    return Public("groups", name, groups=groups) if count > 1 else RECORDS


def _groups_of_columns(queries: Workload) -> tuple[Indices, bool]:
    """The groups of equal columns, and whether the different ones are linearly independent."""
    columns, groups = np.unique(queries.to_dense(), axis=1, return_inverse=True)
    values = np.linalg.svd(columns, compute_uv=False)
    rank = int((values > DEPENDENT * values[0]).sum())
    return groups.ravel().astype(np.intp), rank == columns.shape[1]


def table_of(queries: Workload) -> Public:
    """The table that public answers on many cells are; others beside it follow from it.

    Raises:
        InvalidInputError: they are no table of some of the attributes with tables that it tells,
            or one of all attributes.
    """
    tables = tables_asked(queries) or []
    subsets = [set(subset) for table in tables for subset in table.subsets]
    largest = max(subsets, key=len, default=set())
    if not tables or not all(subset <= largest for subset in subsets):
        raise InvalidInputError(
            f"known answers on more than {WRITTEN_CELLS} cells are the total, counts of places"
            " without other attributes, or one table, alone or with tables that follow from it: a"
            f" product of histograms and totals, such as 'histogram:50*total:100'; got"
            f" {queries.name!r}"
        )
    sizes = tables[0].sizes
    counted = tuple(i in largest or size == 1 for i, size in enumerate(sizes))
    if all(counted):
        raise _nothing_left(queries.name)
    return Public("table", queries.name, sizes=sizes, counted=counted)


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
