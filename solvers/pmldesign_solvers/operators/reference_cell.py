"""A workload on differences of cells, for neighbours that replace one record.

Only vectors that sum to zero matter: the total is public. They are written in coordinates relative
to a reference cell, A' = (a_j - a_ref) for j other than ref, in which e_j stands for e_j - e_ref.
Zero columns all are one cell that no query asks about; where there is one, it is the reference.
Queries on the total alone become zero rows and are left out.

Back in the original cells a strategy has columns R'_j and 0 for the reference, minus their mean, so
that R 1 = 0; the right inverse has rows B'_j, shared among equal cells, and minus their sum for the
reference, so that 1^T B = 0 and A B = A' B'.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.differences import ONLY_THE_TOTAL, Pairs
from pmldesign_solvers.operators.merge import MergedWorkload, is_definite, sharing_gram
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.operators.reduce import numerical_rank


class GroundedWorkload:
    """A merged workload relative to a reference cell.

    Attributes:
        operator: A', shape (m, k).
        row_copies: shape (m,), how many original rows each row stands for.
        pairs: the difference vectors in these coordinates.
        rank: of A'.

    Raises:
        ValueError: every query depends on the total alone.
    """

    def __init__(self, merged: MergedWorkload) -> None:
        groups = merged.column_of
        idle = bool((groups < 0).any())
        if idle:
            groups = np.where(groups < 0, merged.shape[1], groups)
        operator, rows = merged.operator.relative(idle=idle)
        if not rows.size:
            raise ValueError(ONLY_THE_TOTAL)
        self._merged, self._rows, self._groups = merged, rows, groups
        self._sizes = np.asarray(np.bincount(groups), dtype=np.float64)
        self.operator = sharing_gram(operator)
        self.row_copies = merged.row_copies[rows]
        self.pairs = Pairs(operator.shape[1])
        self.rank = self._measure_rank()

    def _measure_rank(self) -> int:
        if is_definite(self.operator.gram(self.row_copies)):
            return self.operator.shape[1]
        self._merged.decompositions += 1
        return numerical_rank(self.operator.to_dense())

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload, R 1 = 0, scaled to sensitivity 1."""
        columns = np.hstack([strategy, np.zeros((len(strategy), 1))])
        sensitivity = self.pairs.diameter(strategy)
        full = columns[:, self._groups] / sensitivity
        full -= full.mean(axis=1, keepdims=True)
        shares = (
            np.vstack([right_inverse, -right_inverse.sum(axis=0)])
            / self._sizes[:, None]
            * sensitivity
        )
        return np.ascontiguousarray(full), shares[self._groups]

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """u, shape (m,), and the symmetric matrix of the pairs' weights, shape (n, n)."""
        rows = np.zeros(self._merged.shape[0])
        rows[self._rows] = u
        first: Indices = np.unique(self._groups, return_index=True)[1]
        matrix = np.zeros((len(self._groups), len(self._groups)))
        matrix[np.ix_(first, first)] = self.pairs.to_matrix(w)
        return self._merged.original_rows(rows), matrix
