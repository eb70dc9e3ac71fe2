"""Types that callers may pass as a workload, for type checkers: `as_workload` accepts them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, Union

import numpy as np

from pmldesign.workloads.base import Workload


class Frame(Protocol):
    """A data frame of pandas or polars: a row for each query, a column for each cell."""

    @property
    def columns(self) -> Any:
        """Names of the columns."""

    def to_numpy(self) -> Any:
        """The numbers."""


class SparseMatrix(Protocol):
    """A sparse matrix or array of scipy."""

    @property
    def nnz(self) -> Any:
        """Number of stored entries."""

    def toarray(self) -> Any:
        """The entries."""


class Products(Protocol):
    """A linear operator: x to A x and y to A^T y."""

    shape: Any

    def matvec(self, x: Any, /) -> Any:
        """A x."""

    def rmatvec(self, y: Any, /) -> Any:
        """A^T y."""


Matrix: TypeAlias = Union["np.ndarray[Any, Any]", Sequence[Sequence[float]], Frame, SparseMatrix]
"""Numbers with a row for each query or measurement and a column for each cell."""
WorkloadLike: TypeAlias = Workload | str | Matrix | Products
"""A workload, its name, a matrix, or an operator."""
