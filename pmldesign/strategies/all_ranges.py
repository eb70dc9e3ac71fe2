"""The strategy for all intervals of cells that is too long for matrices, at p = 2.

X = sum_k c_k ((A^T A)^-1 + s_k^2 W)^-1, A all N (N + 1) / 2 intervals: (A^T A)^-1 is tridiagonal,
and column norms, the total variance and the factor C, C^T C = X, follow from weights and nodes in
O(N K) and O(N K^2) (`pmldesign_solvers.streams`). Variances of single intervals are too many.
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
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.running import AllRangesWorkload
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.streams.certificate import longest_column, variance_norm
from pmldesign_solvers.streams.chain import AllRanges
from pmldesign_solvers.streams.factor import Factor, factor
from pmldesign_solvers.streams.nodes import Nodes


class AllRangesStrategy(Strategy):
    """A lower triangular strategy for all intervals, with K buffers.

    Args:
        name: how tables and messages call it.
        w: weights of the cells, shape (n,), positive.
        nodes: s_k and c_k, K of each.

    Raises:
        InvalidInputError: weights or nodes that are not positive.
    """

    def __init__(self, name: str, w: Array, nodes: Nodes) -> None:
        self.name, self.nodes, self.w = name, nodes, read_only(np.array(w))
        for label, values in (("w", self.w), ("poles", nodes.poles), ("weights", nodes.weights)):
            if values.ndim != 1 or not (np.isfinite(values) & (values > 0)).all():
                raise InvalidInputError(
                    f"strategy {name!r}: {label} must be positive numbers, got an array of shape"
                    f" {values.shape}"
                )
        if len(nodes.poles) != len(nodes.weights):
            raise InvalidInputError(f"strategy {name!r}: a weight for each of the poles is needed")
        self.ranges, self.u = AllRanges(self.w.size), np.ones(self.w.size)

    @property
    def buffers(self) -> int:
        """K."""
        return len(self.nodes.poles)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of measurements and of cells, which are equal."""
        return self.w.size, self.w.size

    @cached_property
    def factor(self) -> Factor:
        """C by its recurrence; O(n K^2) when it is asked for first."""
        try:
            return factor(self.ranges, self.u, self.w, self.nodes)
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

        Under replace it is a bound: C >= 0.
        """
        if norm == "l1":
            longest = raised(float(self.factor.column_sums().max()), self.factor.column_units)
            apart = 2.0
        else:
            longest, apart = self._longest, root_above(2.0)
        return longest if neighbours == Neighbours.ADD_REMOVE else raised(apart * longest, 1)

    @cached_property
    def _longest(self) -> float:
        square, rounding = longest_column(self.ranges, self.u, self.w, self.nodes)
        return raised(math.sqrt(square * (1.0 + rounding)), 4)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most: sums of K products."""
        return float(self.cells + self.buffers + 2)

    def column_labels(self) -> Indices:
        """All columns differ: C is triangular, its diagonal positive."""
        return np.arange(self.cells)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload on other cells; C is regular.

        Raises:
            InvalidInputError: the numbers of cells differ.
        """
        if workload.shape[1] != self.cells:
            super().require_answers(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,), where the queries can be written out.

        Raises:
            InvalidInputError: all intervals, which are too many.
        """
        if isinstance(workload, AllRangesWorkload):
            raise workload.refusal()
        return super().variances(workload)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """The sum of the variances of all intervals."""
        if power != 1 or not isinstance(workload, AllRangesWorkload):
            return None
        return self._total if workload.cells == self.cells else None

    @cached_property
    def _total(self) -> float:
        return variance_norm(self.ranges, self.u, self.w, 2.0, self.nodes)[0]

    def measure(self, x: Array) -> Array:
        """C x, shape (n,) or (n, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.factor.multiply(x)

    def estimate(self, measurements: Array) -> Array:
        """C^-1 y, shape (n,) or (n, c), for measurements y of the same shape."""
        return self.factor.solve(measurements)

    def scaled(self, factor: float) -> AllRangesStrategy:
        """C times a positive number."""
        nodes = Nodes(self.nodes.poles, self.nodes.weights * factor**2)
        return AllRangesStrategy(self.name, self.w, nodes)

    def normalised(self) -> AllRangesStrategy:
        """The same strategy scaled to sensitivity 1."""
        return self.scaled(1.0 / self.sensitivity)

    def streaming(self) -> Strategy:
        """The strategy itself: it is lower triangular."""
        return self.renamed(f"{self.name} (streaming)")
