"""Lower triangular strategies C >= 0 for streams, by their recurrences.

    C_ij = g_i^T prod_{j < m <= i} diag(lambda(m)) 1 for i > j,    C_ii = d_i,

so that a stream keeps K numbers. Running sums A x have the errors A C^-1 xi, xi of variance 1: with
z the state and a the sum,

    z <- lambda(t) z,    x_t = (xi_t - g_t^T z) / d_t,    z <- z + x_t,    a <- rate_t a + h_t x_t,

whose covariance goes from step to step in O(K^2).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import (
    buffers_of,
    factor_of,
    is_triangular,
    made_for,
    sums_of,
)
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.running import query_ratios
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.factor import Factor

MOST_STEPS = 4096
"""Up to so many a matrix is made for the lattice of a release: it takes two seconds."""


class RecurrentStrategy(StructuredStrategy):
    """The common part of strategies with a recurrence.

    Attributes:
        factor: C.
    """

    regular: ClassVar[bool] = True
    non_negative: ClassVar[bool] = True
    factor: Factor

    @property
    def buffers(self) -> int:
        """K, how many numbers a stream has to keep."""
        return int(self.factor.gains.shape[1])

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        return read_only(self.factor.solve(np.eye(self.cells))), self.cells

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most: sums of K products."""
        return float(self.cells + self.buffers + 2)

    def column_labels(self) -> Indices:
        """All columns differ: C is triangular, its diagonal positive."""
        return np.arange(self.cells)

    def _longest(self, norm: Norm) -> float:
        if norm == "l2":
            return self.measured_length
        return raised(float(self.factor.column_sums().max()), self.factor.column_units)

    @cached_property
    def measured_length(self) -> float:
        """Largest l2 norm of a column of C as its recurrence gives it, rounded up."""
        longest = math.sqrt(float(self.factor.column_squares().max()))
        return raised(longest, self.factor.column_units)

    def measure(self, x: Array) -> Array:
        """C x, shape (n,) or (n, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.factor.multiply(x)

    def estimate(self, measurements: Array) -> Array:
        """C^-1 y, shape (n,) or (n, c), for measurements y of the same shape."""
        return self.factor.solve(measurements)


class FactorStrategy(RecurrentStrategy):
    """C for running sums, given by the numbers of its recurrence.

    Args:
        name: how tables and messages call it.
        sums: the running sums A that it is made for.
        diagonal: d, shape (n,), positive.
        gains: g, shape (n, K), at least 0.
        decays: lambda, shape (n, K), from 0 to 1.

    Raises:
        InvalidInputError: other numbers, or arrays that do not fit.
    """

    def __init__(
        self, name: str, sums: RunningSums, diagonal: Array, gains: Array, decays: Array
    ) -> None:
        self.name, self.sums = name, sums
        self.shape = sums.cells, sums.cells
        self.columns = sums.cells  # all of them differ
        self.diagonal, self.gains, self.decays = (
            read_only(np.array(values, dtype=np.float64)) for values in (diagonal, gains, decays)
        )
        fits = self.gains.ndim == 2 and self.gains.shape == self.decays.shape
        if not fits or not self.diagonal.shape == self.gains.shape[:1] == self.shape[:1]:
            raise InvalidInputError(
                f"strategy {name!r}: diagonal, gains and decays must have a row for each of"
                f" {sums.cells} steps, got shapes {self.diagonal.shape}, {self.gains.shape} and"
                f" {self.decays.shape}"
            )
        right = (
            (self.diagonal > 0) & np.isfinite(self.diagonal),
            (self.gains >= 0) & np.isfinite(self.gains),
            (self.decays >= 0) & (self.decays <= 1),
        )
        if not all(entries.all() for entries in right):
            raise InvalidInputError(
                f"strategy {name!r}: diagonal must be positive, gains at least 0, and decays from"
                " 0 to 1"
            )
        self.factor = Factor(self.diagonal, self.gains, self.decays)

    @cached_property
    def generators(self) -> tuple[Array, Array]:
        """v(i) and lambda(i): (C^T C)_ij, i > j, is v(i)^T prod_{j < m <= i} diag(lambda(m)) 1.

        v(i) = d_i g_i + P 1, P the part of C^T C that later rows explain.
        """
        shares, explained = np.empty_like(self.gains), np.zeros((self.buffers, self.buffers))
        for i in range(self.cells - 1, -1, -1):
            row, fading = self.gains[i], self.decays[i]
            shares[i] = self.diagonal[i] * row + explained.sum(axis=1)
            explained = fading[:, None] * (explained + np.outer(row, row)) * fading
        return shares, self.decays

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        sums = workload.running_sums
        if sums is None or sums.cells != self.cells:
            return super().variances(workload)
        return self._variances(sums)

    def _variances(self, sums: RunningSums) -> Array:
        """The variances of running sums (see the module)."""
        size = self.buffers + 1
        spread, unit = np.zeros((size, size)), np.eye(size)
        kept = np.column_stack([self.decays, np.concatenate([[0.0], sums.rates])])
        added = np.ones((self.cells, size))
        added[:, -1] = np.sqrt(sums.step_squares)
        read = np.pad(self.gains, [(0, 0), (0, 1)]) / self.diagonal[:, None]
        answers = np.empty(self.cells)
        for t, diagonal in enumerate(self.diagonal.tolist()):
            step = (unit - np.outer(added[t], read[t])) * kept[t]
            spread = step @ spread @ step.T + np.outer(added[t], added[t]) / diagonal**2
            answers[t] = spread[-1, -1]
        return sums.query_squares * answers

    def scaled(self, factor: float) -> FactorStrategy:
        """C times a positive number."""
        numbers = self.diagonal * factor, self.gains * factor, self.decays
        return FactorStrategy(self.name, self.sums, *numbers)


@buffers_of.register
def _(strategy: RecurrentStrategy) -> int:
    """K, how many numbers a stream has to keep."""
    return strategy.buffers


@factor_of.register
def _(strategy: FactorStrategy) -> Factor:
    """C."""
    return strategy.factor


@sums_of.register
def _(strategy: FactorStrategy) -> tuple[RunningSums, Array]:
    """The running sums that it is made for, and their variances."""
    return strategy.sums, strategy._variances(strategy.sums)


@made_for.register
def _(strategy: FactorStrategy, workload: Workload) -> Strategy:
    """The same C for running sums with other weights of the queries."""
    ratios, sums = query_ratios(workload, strategy.sums), workload.running_sums
    if ratios is None or sums is None or (ratios == 1).all():
        return strategy
    return FactorStrategy(strategy.name, sums, strategy.diagonal, strategy.gains, strategy.decays)


@is_triangular.register
def _(strategy: RecurrentStrategy) -> bool:  # noqa: ARG001
    """All of them are."""
    return True
