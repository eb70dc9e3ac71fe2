"""Queries that count cells of regions that nest, whatever they were written as.

Every query is the sum of some cells. They are counts of a tree where a query has its cells from one
query before it, of which it takes a part that no other between them has: its parent is the last one
before it that has these cells. Every cell is asked about alone, in order, so that the leaves are
the cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from pmldesign.workloads.base import Workload
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.union import stacked
from pmldesign_solvers.operators.operator import Indices
from pmldesign_solvers.trees.tree import Tree

REGION_CELLS = 512
"""Up to so many cells one matrix takes a second, and is 0.05 to 0.5 % better at p <= 4."""
DEEPEST = 64
"""Most queries that have a cell, on average: regions that nest deeper are left as they are."""


def as_nested(workload: Workload) -> Workload:
    """The same queries as counts of regions, where they nest and are many; else as they are."""
    cells, parts = workload.shape[1], stacked(workload)
    if not REGION_CELLS < cells <= workload.shape[0]:
        return workload
    if len(parts) == 1 and not _is_sparse(workload):
        return workload
    rows = [_rows(part) for part in parts]
    parents = None if any(row is None for row in rows) else _parents(scipy.sparse.vstack(rows))
    if parents is None:
        return workload
    scales = np.ones(len(parents))
    scales[: len(parents) - workload.shape[0]] = 0.0
    return RegionsWorkload(workload.name, Tree(parents), scales)


def _is_sparse(workload: Workload) -> bool:
    return hasattr(getattr(workload, "matrix", None), "indptr")


def _rows(part: Workload) -> Any:
    """The queries as a sparse matrix of ones; None for others."""
    if _is_sparse(part):
        matrix: Any = part.matrix  # type: ignore[attr-defined]
        few = matrix.nnz <= DEEPEST * part.shape[1] and bool((matrix.data == 1).all())
        return matrix if few else None
    if part.ends is None:
        return None
    starts, stops = part.ends
    lengths = stops - starts
    ends = np.append(0, np.cumsum(lengths))
    if ends[-1] > DEEPEST * part.shape[1]:
        return None
    first = np.repeat(starts - ends[:-1], lengths)
    cells = np.arange(ends[-1]) + first
    return scipy.sparse.csr_array((np.ones(len(cells)), cells, ends), shape=part.shape)


def _parents(matrix: Any) -> Indices | None:
    """The parent of every query, after that of a root where no query is one; None without tree."""
    matrix = matrix.tocsr()
    bounds, cells, n = matrix.indptr, matrix.indices, matrix.shape[1]
    added = int(bounds[1] - bounds[0] < n)
    owner = np.full(n, added - 1, dtype=np.intp)
    parents = np.full(len(bounds) - 1 + added, -1, dtype=np.intp)
    for number in range(added, len(parents)):
        own = cells[bounds[number - added] : bounds[number - added + 1]]
        above = owner[own]
        if not len(own) or (above != above[0]).any():
            return None
        parents[number], owner[own] = above[0], number
    leaves = np.flatnonzero(np.bincount(parents[1:], minlength=len(parents)) == 0)
    return parents if np.array_equal(leaves, owner) else None
