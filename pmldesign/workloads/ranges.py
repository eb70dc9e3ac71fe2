"""Range queries: each row sums the cells of one interval.

Row i is the indicator of start_i <= j < stop_i. With H[s, t] the total weight of the rows from s
to t, the Gram matrix is a double cumulative sum of H, and diag(A X A^T) is the adjoint of that:

    gram(u)[a, b]       = sum of H[s, t] over s <= a, t > b          for a <= b,
    row_quadratic(X)[i] = sum over k < stop_i of (X_kk + 2 sum over start_i <= j < k of X_jk).

Both take O(n^2 + m). Neither subtracts one cumulative sum from another: every entry is a plain sum
of its terms, so that small ranges keep their digits even if others are large. X is
often the inverse of a Gram matrix, whose entries cancel; its sums are therefore carried in extended
precision where the machine has it. Products with vectors do subtract: their rounding is relative
to the largest prefix sum (integers below 2^53 are exact).

The rows of A H are differences of the prefix sums f_t = h_0 + ... + h_(t-1) of H. If there are
many more ranges than cells, their squared norms come from one product of n x n matrices,

    norm(f_t - f_s)^2 = norm(f_s)^2 + norm(f_t)^2 - 2 (F F^T)_st,

whose rounding, at most 2 (c + 4) eps (norm(f_s)^2 + norm(f_t)^2) for c columns, is added; ranges
for which that is not negligible are subtracted one by one. The prefix sums themselves are off by
at most n eps times sums of absolute values, which is added too.

Counts of all cells are their own class, without arrays, for attributes with any number of values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign_solvers.operators.dense import NO_QUERIES
from pmldesign_solvers.operators.intervals import latest_start, norms_between, numbered, prefix_sums
from pmldesign_solvers.operators.operator import EPS, Array, Indices, Merged, Operator

if TYPE_CHECKING:
    from pmldesign_solvers.streams.chain import RunningSums


class RangeWorkload(Workload):
    """Query i is the sum of the cells starts[i] ... stops[i] - 1.

    Args:
        starts: shape (m,), the first cell of each range.
        stops: shape (m,), one past the last cell, starts <= stops <= cells; a range may be empty.
        cells: the number of cells n.
        name: its name in messages and tables.
        label: what query i is called; by default "row 3 (cells 0 to 3)".

    Raises:
        InvalidInputError: not integers, different lengths, or a range outside the cells.
    """

    binary = True

    def __init__(
        self,
        starts: ArrayLike,
        stops: ArrayLike,
        cells: int,
        *,
        name: str = "ranges",
        label: Callable[[int], str] | None = None,
    ) -> None:
        self._ends = _whole(starts, "starts"), _whole(stops, "stops")
        self.cells = cells
        self.name = name
        self._label = label
        if cells < 1 or not self.starts.size:
            raise InvalidInputError(
                f"a range workload has at least one range and one cell, got {self.starts.size} "
                f"ranges and {cells} cells"
            )
        if self.starts.size != self.stops.size:
            raise InvalidInputError(
                f"starts and stops must have the same length, got {self.starts.size} and "
                f"{self.stops.size}"
            )
        wrong = (self.starts < 0) | (self.starts > self.stops) | (self.stops > cells)
        if wrong.any():
            row = int(wrong.argmax())
            raise InvalidInputError(
                f"range {row} goes from {self.starts[row]} to {self.stops[row]}; "
                f"0 <= start <= stop <= {cells} is required (stop is one past the last cell)"
            )
        self._shape = self.starts.size, cells

    @property
    def ends(self) -> tuple[Indices, Indices]:
        """Starts and stops."""
        return self._ends

    @property
    def starts(self) -> Indices:
        """The first cell of each range, shape (m,)."""
        return self.ends[0]

    @property
    def stops(self) -> Indices:
        """One past the last cell of each range, shape (m,)."""
        return self.ends[1]

    @cached_property
    def _corners(self) -> Indices:
        """A number for each range, equal for equal ones."""
        return self.starts * (self.cells + 1) + self.stops

    @cached_property
    def is_counts(self) -> bool:
        """Whether the queries are the counts of the cells, in their order."""
        cells = np.arange(self.cells)
        return np.array_equal(self.starts, cells) and np.array_equal(self.stops, cells + 1)

    @property
    def is_total(self) -> bool:
        """Whether the only query is the sum of all cells."""
        return self.shape[0] == 1 and self.starts[0] == 0 and self.stops[0] == self.cells

    @property
    def non_negative(self) -> bool:
        """True: entries are 0 or 1."""
        return True

    @property
    def running_sums(self) -> RunningSums | None:
        """The running sums of all cells in order, if it is these."""
        n = self.cells
        if len(self.stops) != n or self.starts.any() or (np.diff(self.stops, prepend=0) != 1).any():
            return None
        from pmldesign_solvers.streams.chain import RunningSums

        return RunningSums(np.ones(n - 1), np.ones(n), np.ones(n))

    @property
    def work(self) -> tuple[int, int]:
        """Shape of a matrix on which a step takes as long: its products take n^2 + m."""
        return min(self.shape), self.cells

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        size = self.cells + 1
        corners = np.bincount(self._corners, weights, size * size).reshape(size, size)
        later = np.cumsum(corners[:-1, :0:-1], axis=1)[:, ::-1]
        upper: Array = np.triu(np.cumsum(later, axis=0))
        return upper + np.triu(upper, 1).T

    @cached_property
    def is_complete(self) -> bool:
        """Whether every range that is not empty is there once."""
        whole = self.starts.size == self.cells * (self.cells + 1) // 2
        once = whole and bool((self.starts < self.stops).all())
        return once and bool(np.diff(np.sort(self._corners)).all())

    def gram_rounding(self, weights: Array) -> float:
        """gram(u) is off by at most this times d d^T, d_j = norm(diag(u)^(1/2) A e_j).

        Weights of equal ranges add up, then cells of two cumulative sums, all of them >= 0; whole
        numbers are exact.
        """
        if (weights == 1).all():
            return 0.0
        return (int(np.bincount(self._corners).max()) + 2 * self.cells) * EPS

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): how many ranges contain each cell, exactly."""
        ends = np.bincount(self.starts, minlength=self.cells + 1)
        ends -= np.bincount(self.stops, minlength=self.cells + 1)
        return np.cumsum(ends[:-1]).astype(np.float64)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        terms = 2.0 * np.triu(matrix, 1)
        np.fill_diagonal(terms, np.diagonal(matrix))
        sums = np.zeros((self.cells + 1, self.cells + 1))
        columns = np.cumsum(terms[::-1], axis=0, dtype=np.longdouble)[::-1]
        sums[:-1, 1:] = np.cumsum(columns, axis=1)
        return np.asarray(sums[self.starts, self.stops])

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,), for H of shape (n, c), rounded up."""
        sums = prefix_sums(half)
        # how far prefix sums may be off; a row is off by what those of its two ends are
        off = (self.cells + 1) * EPS * np.linalg.norm(prefix_sums(np.abs(half)), axis=1)
        values = norms_between(sums, self.starts, self.stops)
        return np.asarray((np.sqrt(values) + off[self.starts] + off[self.stops]) ** 2)

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T) = A w, shape (m,), for weights w >= 0 of shape (n,), rounded up."""
        sums = np.zeros(self.cells + 1, dtype=np.longdouble)
        np.cumsum(weights, out=sums[1:])
        ends = sums[self.stops]
        rounding = self.cells * np.finfo(np.longdouble).eps * ends
        values: Array = (ends - sums[self.starts] + rounding).astype(np.float64)
        return values * (1 + EPS)

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        if len(self.starts) == 1:
            return np.asarray(x[self.starts[0] : self.stops[0]].sum(axis=0, keepdims=True) + 0.0)
        sums = np.zeros((self.cells + 1, *x.shape[1:]))
        np.cumsum(x, axis=0, out=sums[1:])
        return np.asarray(sums[self.stops] - sums[self.starts])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        steps = np.zeros((self.cells + 1, *y.shape[1:]))
        np.add.at(steps, self.starts, y)
        np.subtract.at(steps, self.stops, y)
        return np.asarray(np.cumsum(steps[:-1], axis=0))

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        check_entries(self.name, self.shape)
        cells = np.arange(self.cells)
        inside = (self.starts[:, None] <= cells) & (cells < self.stops[:, None])
        return inside.astype(np.float64)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return (self.starts < self.stops).astype(np.float64)

    def merge(self) -> Merged:
        """The same workload without repeated or empty ranges and without repeated or idle cells."""
        rows, row_of = numbered(self._corners, self.starts == self.stops)
        starts, stops = self.starts[rows], self.stops[rows]
        # A set of ranges with a common cell is pinned down by its latest start and earliest stop:
        # cells with the same two lie in both, hence in the same ranges.
        latest = latest_start(starts, stops, self.cells)
        reflected = latest_start(self.cells - stops, self.cells - starts, self.cells)
        keys = latest * (self.cells + 1) + reflected[::-1]
        columns, column_of = numbered(keys, latest < 0)
        if not rows.size:
            return Merged(NO_QUERIES, row_of, column_of)
        merged = RangeWorkload(  # ranges stay ranges when cells are left out
            np.searchsorted(columns, starts),
            np.searchsorted(columns, stops),
            columns.size,
            name=self.name,
        )
        return Merged(merged, row_of, column_of)

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The same on vectors that sum to zero, without zero rows; and which rows are left.

        Ranges with the last cell become minus the cells that they leave out: ranges again.
        """
        starts, stops, cells = self.starts, self.stops, self.cells
        if not idle:
            cells -= 1
            ends = (starts <= cells) & (cells < stops)
            starts, stops = np.where(ends, 0, starts), np.where(ends, starts, stops)
        rows = np.flatnonzero(starts < stops)
        if not rows.size:
            return NO_QUERIES, rows
        return RangeWorkload(starts[rows], stops[rows], cells, name=self.name), rows

    def row_label(self, index: int) -> str:
        """The label of query `index` (from 0) in messages and tables."""
        if self._label is not None:
            return self._label(index)
        return f"row {index} ({cells_text(int(self.starts[index]), int(self.stops[index]))})"


class CountsWorkload(RangeWorkload):
    """The count of every cell, which needs no arrays.

    Args:
        cells: their number n, as large as it may be.
    """

    is_counts = True

    def __init__(self, cells: int) -> None:
        self.cells, self.name, self._shape = cells, f"histogram:{cells}", (cells, cells)

    @cached_property
    def ends(self) -> tuple[Indices, Indices]:
        """Starts and stops."""
        cells = np.arange(self.cells + 1)
        return cells[:-1], cells[1:]

    @property
    def is_total(self) -> bool:
        """Whether there is only one cell."""
        return self.cells == 1

    def longest_column(self) -> float:
        """One."""
        return 1.0

    def longest_difference(self) -> float:
        """Largest squared distance of two columns."""
        return 2.0 if self.cells > 1 else 0.0


@singledispatch
def separable_gram(workload: Workload) -> tuple[Array, Array] | None:  # noqa: ARG001
    """Vectors u, v with (A^T A)_ij = u_min(i,j) v_max(i,j); None if there are none.

    They exist for ranges that all start together or stop together (running sums), and for the
    workload of all ranges.
    """
    return None


@separable_gram.register
def _(workload: RangeWorkload) -> tuple[Array, Array] | None:
    n, m = workload.cells, workload.shape[0]
    starts, stops = workload.ends
    cells = np.arange(n, dtype=np.float64)
    if (starts == starts[0]).all():
        stopped = np.cumsum(np.bincount(stops, minlength=n + 1)[:n], dtype=np.float64)
        return np.where(cells >= starts[0], 1.0, 0.0), m - stopped
    if (stops == stops[0]).all():
        started = np.cumsum(np.bincount(starts, minlength=n)[:n], dtype=np.float64)
        return started, np.where(cells < stops[0], 1.0, 0.0)
    return (cells + 1, n - cells) if workload.is_complete else None


def total_of(size: int) -> RangeWorkload:
    """The sum over an attribute of so many values."""
    return RangeWorkload(np.array([0]), np.array([size]), size, name=f"total:{size}")


def asks_counts(queries: object) -> bool:
    """Whether the queries are the counts of an attribute, in the order of its values."""
    return isinstance(queries, RangeWorkload) and queries.is_counts


def asks_total(queries: object) -> bool:
    """Whether the only query is the sum over an attribute."""
    return isinstance(queries, RangeWorkload) and queries.is_total


def cells_text(start: int, stop: int) -> str:
    """The cells start ... stop - 1 in words."""
    if stop <= start:
        return "no cells"
    return f"cell {start}" if stop == start + 1 else f"cells {start} to {stop - 1}"


def _whole(values: ArrayLike, argument: str) -> Indices:
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{argument} must be a one-dimensional array of whole numbers, got {given.ndim} "
            f"dimensions of type {given.dtype}"
        )
    kept = given.astype(np.intp)
    kept.flags.writeable = False
    return kept
