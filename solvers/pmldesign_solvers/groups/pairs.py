"""Differences of cells within groups, for neighbours that replace a record by one of its group.

With the cells of every group relative to one of them, as `differences` has it for a single group,
the coordinates of the groups follow each other, and the Laplacian W has a block for each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.linalg import block_diag

from pmldesign_solvers.operators.differences import Pairs, diameter
from pmldesign_solvers.operators.operator import Array


class GroupedPairs:
    """The differences of `Pairs` within every group.

    Args:
        sizes: number of coordinates of each group, one less than it has cells; at least 1.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._parts = [Pairs(size) for size in sizes]
        ends = np.cumsum([0, *sizes])
        self.columns = [slice(a, b) for a, b in pairwise(ends)]
        self._weight_ends = np.cumsum([part.count for part in self._parts])
        self.count = int(self._weight_ends[-1])

    def _split(self, weights: Array) -> list[Array]:
        return np.split(weights, self._weight_ends[:-1])

    def weighted(self, strategy: Array, weights: Array) -> Array:
        """R W R^T."""
        total = np.zeros((len(strategy), len(strategy)))
        for part, columns, share in zip(
            self._parts, self.columns, self._split(weights), strict=True
        ):
            total += part.weighted(strategy[:, columns], share)
        return total

    def root(self, weights: Array) -> Array:
        """The Cholesky factors of the blocks."""
        roots = [
            part.root(share) for part, share in zip(self._parts, self._split(weights), strict=True)
        ]
        return np.asarray(block_diag(*roots))

    def products(self, strategy: Array, image: Array) -> Array:
        """v_k^T R^T X R v_k, group after group."""
        parts = zip(self._parts, self.columns, strict=True)
        return np.concatenate(
            [part.products(strategy[:, columns], image[:, columns]) for part, columns in parts]
        )

    def squared_norms(self, strategy: Array) -> Array:
        """norm(R v_k)^2, group after group."""
        return self.products(strategy, strategy)

    def vectors(self) -> Array:
        """The v_k as rows."""
        return np.asarray(block_diag(*[part.vectors() for part in self._parts]))

    def matrices(self, weights: Array) -> list[Array]:
        """Weights as a symmetric matrix over the cells of each group, its reference last."""
        return [
            part.to_matrix(share)
            for part, share in zip(self._parts, self._split(weights), strict=True)
        ]

    def diameter(self, strategy: Array) -> float:
        """Largest distance of two columns of one group, for R in these coordinates."""
        reference = np.zeros((len(strategy), 1))
        return max(
            diameter(np.hstack([strategy[:, columns], reference])) for columns in self.columns
        )
