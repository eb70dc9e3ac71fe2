"""Workloads given as a dense matrix."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmldesign.arguments import real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.dense import DenseOperator, without_offsets
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from pmldesign_solvers.streams.chain import RunningSums


class DenseWorkload(DenseOperator, Workload):
    """Queries written out as a matrix, kept as a read-only float64 array.

    Args:
        matrix: shape (m, n), m >= 1 queries over n >= 1 cells; booleans, integers or real numbers,
            all finite.
        name: what messages and tables call it.
        copy: False hands the array over: it is kept, and made read-only, without a copy if it
            already is float64 in C order.

    Raises:
        InvalidInputError: the matrix is not real, finite, two-dimensional and non-empty.
    """

    def __init__(self, matrix: ArrayLike, *, name: str = "matrix", copy: bool = True) -> None:
        given = _as_real(matrix)
        with np.errstate(over="ignore", invalid="ignore"):  # what float64 lacks is refused below
            kept = np.array(given, dtype=np.float64, order="C", copy=copy or None)
        finite = np.isfinite(kept)
        if not finite.all():
            row, column = (int(index) for index in np.unravel_index(finite.argmin(), kept.shape))
            raise InvalidInputError(
                f"workload entry ({row}, {column}) is {kept[row, column]}; every entry must be a "
                "finite number"
            )
        kept.flags.writeable = False
        self.name = name
        super().__init__(kept)

    @cached_property
    def running_sums(self) -> RunningSums | None:
        """Those that the matrix is to the last digit: A_ts = q_t h_s for s <= t, and 0 after.

        One of q and h begins or ends with 1, so that weights of queries or of steps alone are
        found again as they were.
        """
        m, n = self.matrix.shape
        first, last = self.matrix[:, 0], self.matrix[-1]
        if m != n or self.matrix[0, 1:].any() or not (np.minimum(first, last) > 0).all():
            return None
        from pmldesign.workloads.running import LARGEST_WEIGHT

        for q, h in ((first, last / last[0]), (first / first[-1], last)):
            sizes = np.concatenate([q, h])
            inside = sizes.min() >= LARGEST_WEIGHT**-1 and sizes.max() <= LARGEST_WEIGHT
            if inside and np.array_equal(np.tril(np.outer(q, h)), self.matrix):
                from pmldesign_solvers.streams.chain import RunningSums

                return RunningSums(np.ones(n - 1), q, h)
        return None

    def times(self, weights: Array | float) -> DenseWorkload:
        """The matrix, every row times its weight."""
        dense = DenseWorkload(np.reshape(weights, (-1, 1)) * self.matrix, copy=False)
        dense.label = self.row_label
        return dense

    def without_offsets(self) -> tuple[DenseWorkload, Array]:
        """The same on vectors that sum to zero, and what is left out of each row."""
        moved, left_out = without_offsets(self.matrix)
        same = moved is self.matrix
        return (self if same else DenseWorkload(moved, name=self.name, copy=False)), left_out


def complex_workload(matrix: ArrayLike) -> DenseWorkload:
    """Complex queries as pairs of real ones: the real part of each, then its imaginary part.

    The sum of the variances of the two is that of the complex answer.

    Raises:
        InvalidInputError: as `DenseWorkload`.
    """
    given = np.atleast_2d(np.asarray(matrix))
    check_matrix(given.shape, given.real.dtype)
    pairs = np.stack([given.real, given.imag], axis=1).reshape(-1, given.shape[1])
    workload = DenseWorkload(pairs, name="complex matrix", copy=False)
    workload.label = _part_label
    return workload


def _part_label(query: int) -> str:
    return f"row {query // 2}, {'imaginary' if query % 2 else 'real'} part"


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what cannot be a workload by its shape or its type of entries.

    Raises:
        InvalidInputError: not two-dimensional, empty, or not of real numbers.
    """
    if dtype.kind not in "biuf":
        raise InvalidInputError(
            f"a workload holds booleans, integers or real numbers, got entries of type {dtype}"
        )
    if len(shape) != 2:
        raise InvalidInputError(
            f"a workload is a matrix, one row for each query and one column for each cell; got "
            f"{len(shape)} dimensions, shape {shape}"
        )
    if 0 in shape:
        raise InvalidInputError(
            f"a workload has at least one query and one cell, got shape {shape}"
        )


def _as_real(matrix: ArrayLike) -> NDArray[Any]:
    given = real_numbers("workload", matrix)
    check_matrix(given.shape, given.dtype)
    return given
