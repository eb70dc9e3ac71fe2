"""What the solver knows of a workload: diagonals of rational functions of T = S^(-1).

S = W^(1/2) A^T U A W^(1/2) = M^T M for weights u of queries and w of cells, all positive; r and g
are sums over poles (`nodes`), and all that is returned is a sum of positive numbers with a relative
rounding that is known (`rounding`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.nodes import Nodes


class DualProblem(ABC):
    """A workload whose diagonals take O(n) for every pole.

    Attributes:
        cells: n.
        queries: length of the weights u; 0 where u is all ones and p = 2, as for all ranges.
        smooth: whether neighbouring cells are so alike that a coarser workload helps.
    """

    cells: int
    queries: int
    smooth: bool = True

    def even(self, p: float) -> tuple[Array, Array]:  # noqa: ARG002
        """Weights u and w to start from: equal ones, not normalised."""
        return np.ones(self.queries or self.cells), np.ones(self.cells)

    @abstractmethod
    def measured(self, u: Array, w: Array, nodes: Nodes) -> Array:
        """diag(r(T)), shape (n,)."""

    def trace(self, u: Array, w: Array, nodes: Nodes) -> float:
        """The trace of r(T)."""
        return math.fsum(self.measured(u, w, nodes))

    @abstractmethod
    def spread(self, u: Array, w: Array, reciprocal: Nodes) -> Array:
        """U times the variances of the strategy W^(-1/2) r(T) W^(-1/2), from g = 1 / (x r(x)).

        Shape (m,) where there are weights of queries; else (n,), of the same sum. What is added by
        the origin of g is off by 4 n eps at most.
        """

    @abstractmethod
    def rounding(self, nodes: Nodes) -> float:
        """Of every number of `measured`, `trace` and `spread`, relatively, at most."""

    @abstractmethod
    def spectrum(self, u: Array, w: Array) -> tuple[float, float]:
        """The least and the largest eigenvalue of T, about."""

    def coarser(self) -> DualProblem:
        """The same kind of workload on a quarter of the cells, to start from; itself if none is."""
        return self
