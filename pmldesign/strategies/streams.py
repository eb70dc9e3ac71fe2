"""Strategies for running sums with a few numbers of state.

R = C is lower triangular with C^T C = X = sum_k c_k ((A^T U A)^-1 + s_k^2 W)^-1, A the running sums
that it was made for (`pmldesign_solvers.streams`). The strategy is its weights u, w and nodes
s_k, c_k: everything follows from them in O(n K) or O(n K^2), C by a recurrence with K numbers of
state, column norms and the variances of A x from diagonals of rational functions. C >= 0, so that
columns are at most 2^(1/2) times the longest one apart.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import raised, root_above
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import WRITTEN_CELLS, Workload, check_entries
from pmldesign.workloads.running import stream_problem
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.streams.certificate import longest_column, variance_norm, variances
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.factor import Factor, factor, generators
from pmldesign_solvers.streams.nodes import Nodes


class StreamStrategy(Strategy):
    """A lower triangular strategy for running sums, with K buffers.

    Args:
        name: how tables and messages call it.
        sums: the running sums A that it is made for.
        u: weights of their queries, shape (n,), positive.
        w: weights of the steps, shape (n,), positive.
        nodes: s_k and c_k, K of each.

    Raises:
        InvalidInputError: weights or nodes that are not positive, or of another length.
    """

    def __init__(self, name: str, sums: RunningSums, u: Array, w: Array, nodes: Nodes) -> None:
        self.name = name
        self.sums, self.nodes = sums, nodes
        self.u, self.w = read_only(np.array(u)), read_only(np.array(w))
        for label, values, size in (
            ("u", self.u, sums.cells),
            ("w", self.w, sums.cells),
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

    @property
    def shape(self) -> tuple[int, int]:
        """Number of measurements and of cells, which are equal."""
        return self.sums.cells, self.sums.cells

    @cached_property
    def generators(self) -> tuple[Array, Array]:
        """c_k Y_k(i) and lambda_k(i), both of shape (n, K): X_ij is the sum of their products."""
        return generators(self.sums, self.u, self.w, self.nodes)

    @cached_property
    def factor(self) -> Factor:
        """C by its recurrence; O(n K^2) when it is asked for first."""
        try:
            return factor(self.sums, self.u, self.w, self.nodes)
        except ValueError as error:
            raise InvalidInputError(f"strategy {self.name!r}: {error}") from None

    @cached_property
    def matrix(self) -> Array:
        """C, shape (n, n), where it is not too large to be written out."""
        check_entries(f"strategy {self.name!r}", self.shape)
        return read_only(self.factor.multiply(np.eye(self.cells)))

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        return read_only(self.factor.solve(np.eye(self.cells))), self.cells

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up.

        Under replace with more than WRITTEN_CELLS cells it is a bound: C >= 0.
        """
        if neighbours == Neighbours.REPLACE and self.cells <= WRITTEN_CELLS:
            return super().sensitivity_under(neighbours, norm)
        if norm == "l1":
            longest, apart = float(self.factor.column_sums().max()), 2.0
            longest = raised(longest, self.factor.column_units)
        else:
            longest, apart = self._longest, root_above(2.0)
        return longest if neighbours == Neighbours.ADD_REMOVE else raised(apart * longest, 1)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most: sums of K products."""
        return float(self.cells + self.buffers + 2)

    def column_labels(self) -> Indices:
        """All columns differ: C is triangular, its diagonal positive."""
        return np.arange(self.cells)

    @cached_property
    def _longest(self) -> float:
        """Largest l2 norm of a column of X^(1/2), and of the recurrence where that is short."""
        square, rounding = longest_column(self.sums, self.u, self.w, self.nodes)
        longest = raised(math.sqrt(square * (1.0 + rounding)), 4)
        return longest if self.cells > WRITTEN_CELLS else max(longest, self.measured_length)

    @cached_property
    def measured_length(self) -> float:
        """Largest l2 norm of a column of C as its recurrence gives it, rounded up."""
        longest = math.sqrt(float(self.factor.squares.max()))
        return raised(longest, self.factor.column_units)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload on other cells; C is regular.

        Raises:
            InvalidInputError: the numbers of cells differ.
        """
        if workload.shape[1] != self.cells:
            super().require_answers(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise.

        Raises:
            InvalidInputError: other cells; or no running sums with other weights of the queries,
                and C is too large for a matrix.
        """
        ratios = self._query_ratios(workload)
        if ratios is None:
            return super().variances(workload)
        return ratios * self.sums_variances

    @cached_property
    def sums_variances(self) -> Array:
        """The variances of the running sums that it is made for, shape (n,)."""
        return variances(self.sums, self.u, self.w, self.nodes)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of the running sums that the strategy is made for."""
        ratios = self._query_ratios(workload)
        if ratios is None or (ratios != 1).any():
            return None
        if power not in self._norms:
            value, _ = variance_norm(self.sums, self.u, self.w, 2 * power, self.nodes)
            self._norms[power] = value
        return self._norms[power]

    @cached_property
    def _norms(self) -> dict[float, float]:
        """Those that are known already."""
        return {}

    def _query_ratios(self, workload: Workload) -> Array | None:
        """Squares of the queries' weights over those of `sums`; None for other running sums."""
        problem = stream_problem(workload)
        if (
            problem is None
            or problem.cells != self.cells
            or not np.array_equal(problem.rates, self.sums.rates)
            or not np.array_equal(problem.step_squares, self.sums.step_squares)
        ):
            return None
        return np.asarray(problem.query_squares / self.sums.query_squares)

    def measure(self, x: Array) -> Array:
        """C x, shape (n,) or (n, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.factor.multiply(x)

    def estimate(self, measurements: Array) -> Array:
        """C^-1 y, shape (n,) or (n, c), for measurements y of the same shape."""
        return self.factor.solve(measurements)

    def reconstruction(self, workload: Workload) -> Array:
        """L = A C^-1, shape (m, n)."""
        check_entries(f"the reconstruction of strategy {self.name!r}", (*workload.shape,))
        return super().reconstruction(workload)

    def normalised(self) -> StreamStrategy:
        """The same strategy scaled to sensitivity 1."""
        return self.scaled(1.0 / self.sensitivity)

    def scaled(self, factor: float) -> StreamStrategy:
        """C times a positive number."""
        nodes = Nodes(self.nodes.poles, self.nodes.weights * factor**2)
        return StreamStrategy(self.name, self.sums, self.u, self.w, nodes)

    def streaming(self) -> Strategy:
        """The strategy itself: it is lower triangular."""
        return self.renamed(f"{self.name} (streaming)")
