"""An operator that remembers its last Gram matrix.

The rank of a workload, the steps of a solver and both sides of a certificate ask for
A^T diag(u) A; at p = 2 all of them with equal weights u.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pmldesign_solvers.operators.operator import Array, Operator


class _SharedGram:
    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._weights, self._gram = np.zeros(0), np.zeros((0, 0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n); computed when the weights are others than before."""
        if not np.array_equal(self._weights, weights):
            gram = self._operator.gram(weights)
            gram.flags.writeable = False
            self._weights, self._gram = weights.copy(), gram
        return self._gram


def sharing_gram(operator: Operator) -> Operator:
    """The operator itself but for `gram`, whose last value is kept, read-only."""
    return cast(Operator, _SharedGram(operator))
