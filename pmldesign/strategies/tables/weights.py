r"""What strategies share that measure tables, each with a weight.

R stacks theta_S D_S M_S, M_S the table by the attributes S and D_S a product of one matrix for each
of them. R^T R is that of a strategy of independent residuals, which knows what can be answered, and
how precisely.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.strategies.arguments import nothing_but
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.marginals.counts import CountsStrategy, without_mean
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import Public
from pmldesign.workloads.tables.attributes import attribute_sets, attribute_sizes, positive_weights
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign_solvers.operators.operator import Array


class WeightedStrategy(CountsStrategy):
    """Measures some tables, each with a weight of its own.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        subsets: the attributes of each table, in any order; () is the total.
        weights: theta_S > 0 for each of them.
        public: the number of records, where what the measurements say about it is taken out.

    Raises:
        InvalidInputError: sizes, sets or weights that are none.
    """

    residual: MarginalsStrategy | TablesStrategy
    """The strategy of the same Gram matrix."""

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike,
        *,
        public: Public,
    ) -> None:
        self.name, self.public = name, public
        self.sizes = attribute_sizes(sizes)
        self.subsets = attribute_sets("table", subsets, len(self.sizes))
        self.weights = positive_weights("table", weights, len(self.subsets))

    @cached_property
    def counts(self) -> MarginalsWorkload:
        """The tables by each S."""
        return MarginalsWorkload(self.sizes, self.subsets)

    @abstractmethod
    def rows_of_table(self, subset: tuple[int, ...], table: Array) -> Array:
        """D_S times the table by S, of shape (m,) or (m, c)."""

    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x, shape (r,) or (r, c), from the tables by each S, of shape (m,) or (m, c)."""
        measured = []
        for subset, weight, table in zip(self.subsets, self.weights, tables, strict=True):
            kept = without_mean(table) if self.public else table
            measured.append(weight * self.rows_of_table(subset, kept))
        return np.concatenate(measured)

    @abstractmethod
    def _as_residual(self, measurements: Array) -> Array:
        """What `residual` would have measured, by least squares."""

    @abstractmethod
    def _of_tables(self, subsets: Sequence[tuple[int, ...]], weights: Array) -> Self:
        """That of some tables alone, without what they say about the number of records."""

    def _beside(self, public: Public) -> Strategy:
        if public.kind != "records":
            return super()._beside(public)
        wide = [any(self.sizes[i] > 1 for i in subset) for subset in self.subsets]
        if not any(wide):
            raise nothing_but(public, self.name)
        return self._of_tables([*compress(self.subsets, wide)], self.weights[wide])

    def estimate(self, measurements: Array) -> Array:
        """A histogram as that of `residual`, shape (n,) or (n, c); refused if too large."""
        return self.residual.estimate(self._as_residual(measurements))

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,)."""
        self.require_answers(workload)
        return self.residual.answer(workload, self._as_residual(measurements))

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        self.residual.require_answers(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        return self.residual.variances(workload)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm`, table by table."""
        return self.residual.norm_by_structure(workload, power)
