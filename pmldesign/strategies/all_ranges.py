"""The strategy for all intervals of cells that is too long for matrices, at p = 2.

A are all N (N + 1) / 2 intervals: (A^T A)^-1 is tridiagonal (`strategies.chains`), and the total
variance follows in O(N K) too. Variances of single intervals are too many.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from pmldesign.strategies.chains import ChainStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.running import AllRangesWorkload
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.certificate import variance_norm
from pmldesign_solvers.streams.chain import AllRanges
from pmldesign_solvers.streams.nodes import Nodes


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
        """diag(L L^T), shape (m,), where the queries can be written out.

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
