"""Exponentially decaying prefix sums: row t is the sum over s <= t of rate^(t - s) x_s.

In general A_ts = q_t h_s prod_{s < i <= t} rate_i, with a weight for each query and each step.
Products with vectors take O(n): y_t = rate_t y_{t-1} + h_t x_t, answers q_t y_t.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries, different_cells, distinct_shape
from pmldesign.workloads.display import count_text
from pmldesign.workloads.ranges import separable_gram
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums

MOST_ARRAYS = 5792
"""Cells up to which all intervals are stored as arrays."""
LARGEST_WEIGHT = 1e50
"""Weights and rates lie between its inverse and this."""


class RunningWorkload(Workload):
    """Query t is q_t times the sum over s <= t of h_s prod_{s < i <= t} rate_i x_s.

    Args:
        rates: shape (n - 1,), positive: the fraction kept from each step to the next.
        query_weights: q, shape (n,), positive; None for ones.
        step_weights: h, shape (n,), positive; None for ones.
        name: its name in messages and tables.

    Raises:
        InvalidInputError: lengths that do not fit, or numbers that are not positive and finite.
    """

    def __init__(
        self,
        rates: ArrayLike,
        query_weights: ArrayLike | None = None,
        step_weights: ArrayLike | None = None,
        *,
        name: str = "running sums",
    ) -> None:
        self.rates = np.atleast_1d(np.array(rates, dtype=np.float64))
        cells = self.rates.size + 1
        self._shape = cells, cells
        self.query_weights = _weights(query_weights, cells)
        self.step_weights = _weights(step_weights, cells)
        self.name = name
        for label, values, size in (
            ("rates", self.rates, cells - 1),
            ("query_weights", self.query_weights, cells),
            ("step_weights", self.step_weights, cells),
        ):
            if values.shape != (size,):
                raise InvalidInputError(
                    f"{label} must have shape ({size},), got {values.shape}: n - 1 rates for n "
                    "steps and queries"
                )
            if not ((values >= 1 / LARGEST_WEIGHT) & (values <= LARGEST_WEIGHT)).all():
                raise InvalidInputError(
                    f"{label} must be positive, from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
                )

    @property
    def running_sums(self) -> RunningSums:
        """The workload itself."""
        return RunningSums(self.rates, self.query_weights, self.step_weights)

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns."""
        return self.running_sums.gram_diagonal(np.ones(self.shape[0]))

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        sums = (self.step_weights * x.T).T
        for before, after, rate in _steps(sums, self.rates):
            after += rate * before
        return np.asarray((self.query_weights * sums.T).T)

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        sums = (self.query_weights * y.T).T
        for before, after, rate in _steps(sums[::-1], self.rates[::-1]):
            after += rate * before
        return np.asarray((self.step_weights * sums.T).T)

    def row_sizes(self) -> Array:
        """Largest entry of every row, shape (n,)."""
        sizes = self.step_weights.copy()
        for before, after, rate in _steps(sizes, self.rates):
            np.maximum(after, rate * before, out=after)
        return np.asarray(self.query_weights * sizes)

    def to_dense(self) -> Array:
        """The matrix itself, shape (n, n)."""
        check_entries(self.name, self.shape)
        return self.matvec(np.eye(self.shape[1]))


class AllRangesWorkload(Workload):
    """Every interval of cells, too many for arrays of them: only their number is stored.

    Args:
        cells: n, at least 1.
        name: its name in messages and tables.
    """

    binary = True

    def __init__(self, cells: int, *, name: str) -> None:
        self.cells, self.name = cells, name
        self._shape = cells * (cells + 1) // 2, cells

    def _refused(self, *_: Any, **__: Any) -> Any:
        """For operations that need an array of the queries."""
        raise self.refusal()

    gram = row_quadratic = matvec = rmatvec = to_dense = _refused

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): how many intervals contain each cell."""
        before = np.arange(1.0, self.cells + 1.0)
        return before * before[::-1]

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return np.ones(self.shape[0])

    def refusal(self) -> InvalidInputError:
        """The error for operations that need an array of the queries."""
        queries = count_text(self.shape[0])
        return InvalidInputError(
            f"{self.name} has {queries} queries, too many for an array of them; only p = 2 with"
            f" add-remove neighbours works; everything does up to all-range:{MOST_ARRAYS}"
        )


@separable_gram.register
def _(workload: AllRangesWorkload) -> tuple[Array, Array]:
    cells = np.arange(workload.cells, dtype=np.float64)
    return cells + 1, workload.cells - cells


@distinct_shape.register
def _(workload: AllRangesWorkload) -> tuple[int, int]:
    """No two queries are equal, and no two cells."""
    return workload.shape


@different_cells.register
def _(workload: AllRangesWorkload) -> int:
    return workload.cells


def lists_queries(workload: Workload) -> bool:
    """Whether there are arrays with a number for each query."""
    return not isinstance(workload, AllRangesWorkload)


def sums_of(rates: Array, query_weights: Array, step_weights: Array) -> RunningSums:
    """Running sums, their numbers checked as those of a `RunningWorkload`."""
    return RunningWorkload(rates, query_weights, step_weights).running_sums


def query_ratios(workload: Workload, sums: RunningSums) -> Array | None:
    """Squares of a workload's query weights over those of running sums; None for other queries."""
    problem = workload.running_sums
    if (
        problem is None
        or not np.array_equal(problem.rates, sums.rates)
        or not np.array_equal(problem.step_squares, sums.step_squares)
    ):
        return None
    return np.asarray(problem.query_squares / sums.query_squares)


def is_same_sums(workload: Workload, sums: RunningSums) -> bool:
    """Whether a workload is these running sums."""
    ratios = query_ratios(workload, sums)
    return ratios is not None and bool((ratios == 1).all())


def _weights(values: ArrayLike | None, cells: int) -> Array:
    return np.ones(cells) if values is None else np.array(values, dtype=np.float64)


def _steps(rows: Array, rates: Array) -> zip[tuple[Array, Array, float]]:
    """Rows before and after each step, as views."""
    table = rows.reshape(len(rows), -1)
    return zip(table[:-1], table[1:], rates.tolist(), strict=True)
