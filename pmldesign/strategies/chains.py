"""Lower triangular strategies C with C^T C = X = sum_k c_k ((A^T U A)^-1 + s_k^2 W)^-1.

A are running sums or all intervals, for which (A^T U A)^-1 is tridiagonal
(`pmldesign_solvers.streams`). The strategy is its weights u, w and its K nodes s_k, c_k: C follows
by a recurrence with K numbers of state, column norms from diagonals of rational functions, in
O(n K) or O(n K^2). C >= 0, so that columns are at most 2^(1/2) times the longest one apart.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Self

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.recurrent import RecurrentStrategy
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.certificate import longest_column
from pmldesign_solvers.streams.chain import StreamProblem
from pmldesign_solvers.streams.factor import Factor, factor, generators
from pmldesign_solvers.streams.nodes import Nodes


class ChainStrategy(RecurrentStrategy):
    """What strategies for running sums and for all intervals share.

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
        """Largest l2 norm of a column of X^(1/2), and of the recurrence where that is short."""
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
