"""Strategies for running sums and for all intervals with a few numbers of state.

In addition to C, its column norms and its recurrence, the variances of the running sums A x that
it was made for follow from diagonals of rational functions, in O(n K). For all N (N + 1) / 2
intervals only the total variance does; variances of single intervals are too many.

C is lower triangular, C^T C = X = sum_k c_k ((A^T U A)^-1 + s_k^2 W)^-1. A are running sums or all
intervals, for which (A^T U A)^-1 is tridiagonal (`pmldesign_solvers.streams`). The strategy is its
weights u, w and its K nodes s_k, c_k: C follows by a recurrence with K numbers of state, column
norms from diagonals of rational functions, in O(n K) or O(n K^2). C >= 0, so that columns are at
most 2^(1/2) times the longest one apart.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import factor_of, made_for, sums_of
from pmldesign.strategies.recurrent import RecurrentStrategy
from pmldesign.strategies.total import free_vector, norm_without_total
from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.running import AllRangesWorkload, query_ratios
from pmldesign_solvers.intervals.beside import covariances, variances_beside
from pmldesign_solvers.operators.operator import Array, power_mean
from pmldesign_solvers.streams.certificate import longest_column, variance_norm, variances
from pmldesign_solvers.streams.chain import AllRanges, RunningSums, StreamProblem
from pmldesign_solvers.streams.factor import Factor, factor, generators
from pmldesign_solvers.streams.nodes import Nodes


class ChainStrategy(RecurrentStrategy):
    """The common part of strategies for running sums and for all intervals.

    Args:
        name: how tables and messages call it.
        problem: A.
        u: weights of its queries, shape (n,), positive.
        w: weights of the cells, shape (n,), positive.
        nodes: s_k and c_k, K of each.

    Raises:
        InvalidInputError: weights or nodes that are not positive, or of another length.
    """

    def __init__(self, name: str, problem: StreamProblem, u: Array, w: Array, nodes: Nodes) -> None:
        self.name, self.problem, self.nodes = name, problem, nodes
        self.shape = problem.cells, problem.cells
        self.columns = problem.cells  # all of them differ
        self.u, self.w = read_only(np.array(u)), read_only(np.array(w))
        for label, values, size in (
            ("u", self.u, problem.cells),
            ("w", self.w, problem.cells),
            ("poles", nodes.poles, len(nodes.poles)),
            ("weights", nodes.weights, len(nodes.poles)),
        ):
            if values.shape != (size,) or not (np.isfinite(values) & (values > 0)).all():
                raise InvalidInputError(
                    f"strategy {name!r}: {label} must be {size} positive numbers, got an array of"
                    f" shape {values.shape}"
                )

    @property
    def buffers(self) -> int:
        """K, how many numbers a stream has to keep."""
        return len(self.nodes.poles)

    @cached_property
    def generators(self) -> tuple[Array, Array]:
        """c_k Y_k(i) and lambda_k(i), both of shape (n, K): X_ij is the sum of their products."""
        return generators(self.problem, self.u, self.w, self.nodes)

    @cached_property
    def factor(self) -> Factor:  # type: ignore[override]
        """C by its recurrence; O(n K^2) when it is asked for first."""
        try:
            return factor(*self.generators)
        except ValueError as error:
            raise InvalidInputError(f"strategy {self.name!r}: {error}") from None

    def _longest(self, norm: Norm) -> float:
        return self._longest_l2 if norm == "l2" else super()._longest(norm)

    @cached_property
    def _longest_l2(self) -> float:
        """Largest l2 norm of a column of X^(1/2), and of the recurrence if that is short."""
        square, rounding = longest_column(self.problem, self.u, self.w, self.nodes)
        longest = raised(math.sqrt(square * (1.0 + rounding)), 4)
        return longest if not self.few else max(longest, self.measured_length)

    @abstractmethod
    def with_nodes(self, nodes: Nodes) -> Self:
        """The strategy of the same weights and other nodes."""

    def scaled(self, factor: float) -> Self:
        """C times a positive number."""
        scaled = self.with_nodes(Nodes(self.nodes.poles, self.nodes.weights * factor**2))
        if "factor" in self.__dict__:  # it takes long
            scaled.factor = self.factor.scaled(factor)
        return scaled

    def normalised(self) -> Self:
        """The same strategy scaled to sensitivity 1."""
        return self.scaled(1.0 / self.sensitivity)


class StreamStrategy(ChainStrategy):
    """A lower triangular strategy for running sums, with K buffers.

    Given the number of records, which the last of them determines if nothing decays, the same
    diagonals give the variances.

    Args:
        name: how tables and messages call it.
        sums: the running sums A that it is made for.
        u: weights of their queries, shape (n,), positive.
        w: weights of the steps, shape (n,), positive.
        nodes: s_k and c_k, K of each.

    Raises:
        InvalidInputError: weights or nodes that are not positive, or of another length.
    """

    stays_beside: ClassVar[bool] = True

    def __init__(self, name: str, sums: RunningSums, u: Array, w: Array, nodes: Nodes) -> None:
        super().__init__(name, sums, u, w, nodes)
        self.sums = sums

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise.

        Raises:
            InvalidInputError: other cells; or no running sums with other weights of the queries,
                and C is too large for a matrix.
        """
        ratios = query_ratios(workload, self.sums)
        if ratios is None:
            return super().variances(workload)
        return ratios * self.sums_variances

    @cached_property
    def sums_variances(self) -> Array:
        """The variances of the running sums that it is made for, shape (n,)."""
        return variances(self.sums, self.u, self.w, self.nodes)

    @cached_property
    def _with_total(self) -> Array:
        """Covariances of plain sums with the last one, shape (n,)."""
        values = covariances(self.sums, self.u, self.w, self.nodes.reciprocal())
        q = np.sqrt(self.sums.query_squares)
        return np.asarray(values / (q * q[-1]))

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of the running sums that the strategy is made for."""
        ratios = query_ratios(workload, self.sums)
        if ratios is None or (ratios != 1).any():
            return None
        return power_mean(self.sums_variances, power)

    def with_nodes(self, nodes: Nodes) -> Self:
        """The strategy of the same weights and other nodes."""
        return type(self)(self.name, self.sums, self.u, self.w, nodes)


class AllRangesStrategy(ChainStrategy):
    """A lower triangular strategy for all intervals, with K buffers.

    Args:
        name: how tables and messages call it.
        w: weights of the cells, shape (n,), positive.
        nodes: s_k and c_k, K of each.

    Raises:
        InvalidInputError: weights or nodes that are not positive.
    """

    def __init__(self, name: str, w: Array, nodes: Nodes) -> None:
        super().__init__(name, AllRanges(np.size(w)), np.ones(np.size(w)), w, nodes)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,), if the queries can be materialized.

        Raises:
            InvalidInputError: all intervals, which are too many.
        """
        if isinstance(workload, AllRangesWorkload):
            raise workload.refusal()
        return super().variances(workload)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """The sum of the variances of all intervals."""
        complete = isinstance(workload, RangeWorkload) and workload.is_complete
        if power != 1 or not (complete or isinstance(workload, AllRangesWorkload)):
            return None
        return self._total if workload.shape[1] == self.cells else None

    @cached_property
    def _total(self) -> float:
        return variance_norm(self.problem, self.u, self.w, 2.0, self.nodes)[0]

    def with_nodes(self, nodes: Nodes) -> Self:
        """The strategy of the same weights and other nodes."""
        return type(self)(self.name, self.w, nodes)


@free_vector.register
def _(strategy: StreamStrategy) -> Array:
    """X^-1 1, shape (n,): if the total is one of the sums, differences of S e_n."""
    if not strategy.sums.tells_total:
        return free_vector.dispatch(Strategy)(strategy)
    return np.diff(strategy._with_total, prepend=0.0)


@norm_without_total.register
def _(strategy: StreamStrategy, workload: Workload, power: float) -> float | None:
    """`variance_norm` of the running sums before the last one, given the last: the total."""
    ratios = query_ratios(workload, strategy.sums)
    if ratios is None or not strategy.sums.tells_total:
        return None
    reciprocal = strategy.nodes.reciprocal()
    variances, explained = variances_beside(strategy.sums, strategy.u, strategy.w, reciprocal)
    return power_mean(ratios[:-1] * (variances - explained), power)


@factor_of.register
def _(strategy: StreamStrategy) -> Factor:
    """C."""
    return strategy.factor


@sums_of.register
def _(strategy: StreamStrategy) -> tuple[RunningSums, Array]:
    """The running sums that it is made for, and their variances."""
    return strategy.sums, strategy.sums_variances


@made_for.register
def _(strategy: StreamStrategy, workload: Workload) -> Strategy:
    """The same C for running sums with other weights q of the queries: u q^2 is the same."""
    ratios, sums = query_ratios(workload, strategy.sums), workload.running_sums
    if ratios is None or sums is None or (ratios == 1).all():
        return strategy
    return StreamStrategy(strategy.name, sums, strategy.u / ratios, strategy.w, strategy.nodes)
