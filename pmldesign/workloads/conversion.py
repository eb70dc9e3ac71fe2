"""Whatever a caller has as a workload."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from pmldesign.arguments import of_columns
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.dense import (
    DenseWorkload,
    by_products,
    complex_workload,
    workload_of_products,
)
from pmldesign.workloads.nested.regions import as_nested
from pmldesign.workloads.parsing import parse_workload
from pmldesign.workloads.sparse import SparseWorkload
from pmldesign.workloads.terms.workload import TermsWorkload


def as_workload(value: Any) -> Workload:
    """Whatever a caller may have as a workload.

    Args:
        value: a Workload (returned as it is), a name such as "prefix:64", a matrix as a numpy
            array or anything that converts to one, a scipy sparse matrix, a data frame with a row
            for each query and a column for each cell (messages call queries by its index), or an
            object with `shape`, `matvec` and `rmatvec`, such as a scipy LinearOperator
            (`workloads.dense`). A complex query is two, its real and its imaginary part.
            Many nested sums of cells become counts of regions.

    Raises:
        InvalidInputError: something else, or the contents are not a workload.
    """
    if isinstance(value, TermsWorkload):
        nested = as_nested(value)
        nested.schema = value.schema
        return nested
    if isinstance(value, Workload):
        return value
    if isinstance(value, str):
        return parse_workload(value)
    # Without scipy.sparse in memory nothing can be a sparse matrix: no need to import it.
    if "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(value):
        return as_nested(SparseWorkload(value))
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        return _of_frame(value)
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        try:
            complex_entries = np.iscomplexobj(value)
        except (TypeError, ValueError):  # no array: DenseWorkload says why
            complex_entries = False
        return complex_workload(value) if complex_entries else DenseWorkload(value)
    if by_products(value):
        return workload_of_products(value)
    raise InvalidInputError(
        f"a workload is a Workload, a name such as 'prefix:64', or a matrix; got "
        f"{type(value).__name__} (pmldesign.workload reads files)"
    )


def _of_frame(frame: Any) -> Workload:
    """The queries in the rows of a data frame; its index holds their labels if it is text."""
    index = tuple(getattr(frame, "index", ()))
    named = index and all(isinstance(entry, str) for entry in index)
    label = partial(_label, index) if named else None  # can be sent to other processes
    numbers = of_columns(frame)
    return DenseWorkload(frame.to_numpy() if numbers is frame else numbers, label=label)


def _label(index: tuple[str, ...], query: int) -> str:
    return f"query {index[query]!r}"
