"""Workloads: the linear queries to answer, given as matrices, as structure or by name."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.arguments import of_columns
from pmldesign.errors import InvalidInputError
from pmldesign_solvers import face

if TYPE_CHECKING:
    from pmldesign.workloads.accepted import Matrix as Matrix
    from pmldesign.workloads.accepted import WorkloadLike as WorkloadLike
    from pmldesign.workloads.base import Workload as Workload
    from pmldesign.workloads.dense import DenseWorkload as DenseWorkload
    from pmldesign.workloads.kronecker import KroneckerWorkload as KroneckerWorkload
    from pmldesign.workloads.named import NamedWorkload as NamedWorkload
    from pmldesign.workloads.named import named_workloads as named_workloads
    from pmldesign.workloads.nested.regions import as_nested as as_nested
    from pmldesign.workloads.parsing import expand_family as expand_family
    from pmldesign.workloads.parsing import parse_workload as parse_workload
    from pmldesign.workloads.ranges import RangeWorkload as RangeWorkload
    from pmldesign.workloads.tables.marginals import MarginalsWorkload as MarginalsWorkload
    from pmldesign.workloads.tables.workload import TablesWorkload as TablesWorkload
    from pmldesign.workloads.union import UnionWorkload as UnionWorkload

__getattr__ = face(
    __name__,
    {
        "accepted": "Matrix WorkloadLike",
        "base": "Workload",
        "dense": "DenseWorkload",
        "beside": "as_public tables_of",
        "kronecker": "KroneckerWorkload",
        "named": "GROUP_STARTS NAMES NamedWorkload census_p12 named_workloads",
        "queries": "all_marginals",
        "nested.regions": "RegionsWorkload as_nested tops_of",
        "nested.tables": "RegionTable RegionTablesWorkload",
        "parsing": "expand_family parse_workload",
        "public": "NOTHING Public RECORDS",
        "ranges": "RangeWorkload",
        "running": "AllRangesWorkload RunningWorkload",
        "sparse": "SparseWorkload",
        "tables.joined": "JoinedWorkload as_joined",
        "tables.marginals": "MarginalsWorkload",
        "tables.same": "as_tables common_sizes",
        "tables.workload": "TablesWorkload",
        "union": "UnionWorkload as_marginals by_attribute products_over",
        "weighting": "WeightedWorkload near_one weighted weighted_parts",
    },
)


def as_workload(value: Any) -> Workload:
    """Whatever a caller may have as a workload.

    Args:
        value: a Workload (returned as it is), a name such as "prefix:64", a matrix as a numpy
            array or anything that converts to one, a scipy sparse matrix, a data frame with a row
            for each query and a column for each cell (messages call queries by its index), or an
            object with `shape`, `matvec` and `rmatvec`, such as a scipy LinearOperator
            (`workloads.dense`). A complex query is two, its real and its imaginary part.
            Many sums of cells that nest become counts of regions.

    Raises:
        InvalidInputError: something else, or the contents are not a workload.
    """
    from pmldesign.workloads.base import Workload
    from pmldesign.workloads.dense import DenseWorkload, complex_workload
    from pmldesign.workloads.nested.regions import as_nested
    from pmldesign.workloads.parsing import parse_workload
    from pmldesign.workloads.union import UnionWorkload

    if isinstance(value, UnionWorkload):
        nested = as_nested(value)
        nested.schema = value.schema
        return nested
    if isinstance(value, Workload):
        return value
    if isinstance(value, str):
        return parse_workload(value)
    # Without scipy.sparse in memory nothing can be a sparse matrix: no need to import it.
    if "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(value):
        from pmldesign.workloads.sparse import SparseWorkload

        return as_nested(SparseWorkload(value))
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        return _of_frame(value)
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        try:
            complex_entries = np.iscomplexobj(value)
        except (TypeError, ValueError):  # no array: DenseWorkload says why
            complex_entries = False
        return complex_workload(value) if complex_entries else DenseWorkload(value)
    from pmldesign.workloads.dense import by_products, workload_of_products

    if by_products(value):
        return workload_of_products(value)
    raise InvalidInputError(
        f"a workload is a Workload, a name such as 'prefix:64', or a matrix; got "
        f"{type(value).__name__} (pmldesign.workload reads files)"
    )


def _of_frame(frame: Any) -> Workload:
    """The queries in the rows of a data frame, called by its index where that holds text."""
    from pmldesign.workloads.dense import DenseWorkload

    numbers = of_columns(frame)
    workload = DenseWorkload(frame.to_numpy() if numbers is frame else numbers)
    index = tuple(getattr(frame, "index", ()))
    if len(index) == workload.shape[0] and all(isinstance(entry, str) for entry in index):
        workload.label = partial(_label, index)  # a partial can be sent to other processes
    return workload


def _label(index: tuple[str, ...], query: int) -> str:
    return f"query {index[query]!r}"
