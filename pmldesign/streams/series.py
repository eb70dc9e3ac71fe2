"""Several series at once: `prefix:24*histogram:12` is 24 steps of 12 sums.

The workload is A x 1_d, and so is the best strategy R x 1_d: each series is measured by R. One
record changes one series in a step.
"""

from __future__ import annotations

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.strategy import participation_of
from pmldesign.workloads.base import Workload


def series_of(workload: Workload) -> tuple[Workload, int]:
    """What is asked of each series, and how many there are: A and d."""
    if len(workload.factors) == 2:
        steps, values = workload.factors
        cells = np.arange(values.shape[1])
        ends = values.ends
        if ends is not None and np.array_equal(ends, (cells, cells + 1)):
            return steps, cells.size
    return workload, 1


def one_series(strategy: Strategy, cells: int) -> Strategy:
    """What is measured of each series.

    Args:
        strategy: of one series, or R x 1_d.
        cells: steps of a series.

    Raises:
        InvalidInputError: it is neither, or a participation of R x 1_d.
    """
    count, rest = divmod(strategy.cells, cells)
    if count == 1 and not rest:
        return strategy
    if participation_of(strategy) is not None:
        raise InvalidInputError(
            "participation in steps is for the strategy of one series: design that, and name the"
            " series when it is streamed"
        )
    first = None if rest else _first_factor(strategy, count)
    if first is None:
        raise InvalidInputError(
            f"strategy {strategy.name!r} on {strategy.cells} cells is not one for series of"
            f" {cells} steps that are measured alike; design that of one series"
        )
    return first


def _first_factor(strategy: Strategy, count: int) -> Strategy | None:
    """R, if the strategy is R x c 1_d."""
    one = np.eye(count)
    if len(strategy.factors) == 2 and strategy.factors[1].cells == count:
        values = strategy.factors[1].matrix
        alike = np.array_equal(values, values[0, 0] * one)
        return strategy.factors[0] if alike and values[0, 0] else None
    part = strategy.matrix[::count, ::count]
    return Strategy(strategy.name, part) if _is_kron(strategy.matrix, part, one) else None


def _is_kron(matrix: np.ndarray, part: np.ndarray, one: np.ndarray) -> bool:
    return np.array_equal(matrix, np.kron(part, one))
