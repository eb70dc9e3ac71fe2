"""An operator that remembers its last Gram matrix.

The rank of a workload, the steps of a solver and both sides of a certificate ask for
A^T diag(u) A; at p = 2 all of them with equal weights u.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmldesign_solvers.operators.forwarding import ForwardingOperator
from pmldesign_solvers.operators.operator import Array, Merged, Operator


class SharedGram(ForwardingOperator):
    """The operator itself but for `gram`, whose last value is kept, read-only."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._weights, self._gram = np.zeros(0), np.zeros((0, 0))

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n); computed when the weights are others than before."""
        if not np.array_equal(self._weights, weights):
            gram = self._operator.gram(weights)
            gram.flags.writeable = False
            self._weights, self._gram = weights.copy(), gram
        return self._gram

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns; itself if it has none."""
        merged = self._operator.merge()
        same = merged.operator.shape == self.shape
        return replace(merged, operator=self if same else SharedGram(merged.operator))
