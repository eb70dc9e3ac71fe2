"""A workload on differences of cells, for neighbours that replace one record.

Only vectors that sum to zero matter: the total is public. Where public answers tell the number of
records in every group of cells, a record is replaced by one of its group, and vectors sum to zero
in each. They are written in coordinates relative to a reference cell of each group,
A' = (a_j - a_ref) for j other than ref, in which e_j stands for e_j - e_ref. Equal columns of a
group are one, and groups of equal columns have none. Zero columns all are one cell that no query
asks about; where there is one, it is the reference. Queries on known numbers alone become zero rows
and are left out.

Back in the original cells a strategy has columns R'_j and 0 for the reference, minus their mean, so
that R 1 = 0; the right inverse has rows B'_j, shared among equal cells, and minus their sum for the
reference, so that 1^T B = 0 and A B = A' B'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import (
    ONLY_THE_KNOWN,
    ONLY_THE_TOTAL,
    Pairs,
    members_of,
)
from pmldesign_solvers.operators.merge import MergedWorkload, counts, is_definite, sharing_gram
from pmldesign_solvers.operators.operator import Array, Indices, Operator
from pmldesign_solvers.operators.reduce import numerical_rank


class GroundedWorkload:
    """A workload relative to a reference cell of each group.

    Args:
        operator: A', shape (m', k).
        row_of: shape (m,), the row that stands for each original one, -1 for a zero row.
        groups: the cells of each group with several distinct columns, and the class of each cell:
            equal ones have the same, in the order of coordinates, the reference's being the last.
        cells: n.

    Attributes:
        operator: A', its Gram matrix shared.
        row_copies: shape (m',), how many original rows each row stands for.
        differences: pairs of cells of one group in these coordinates.
        rank: of A'.
        decompositions: so far; whoever decomposes counts here.
    """

    def __init__(
        self,
        operator: Operator,
        row_of: Indices,
        groups: Sequence[tuple[Indices, Indices]],
        cells: int,
    ) -> None:
        self._row_of, self._groups, self._cells = row_of, groups, cells
        self.decompositions = 0
        self.operator, self.row_copies = sharing_gram(operator), counts(row_of)
        self.differences = Pairs(*(int(classes.max()) for _, classes in groups))
        self.rank = operator.shape[1]
        if not is_definite(self.operator.gram(self.row_copies)):
            self.decompositions += 1
            self.rank = numerical_rank(operator.to_dense())

    @classmethod
    def of(cls, merged: MergedWorkload) -> GroundedWorkload:
        """All cells being one group.

        Raises:
            ValueError: every query depends on the total alone.
        """
        classes = merged.column_of
        idle = bool((classes < 0).any())
        operator, rows = merged.operator.relative(idle=idle)
        if not rows.size:
            raise ValueError(ONLY_THE_TOTAL)
        number = np.full(merged.shape[0] + 1, -1)
        number[rows] = np.arange(rows.size)
        classes = np.where(classes < 0, merged.shape[1], classes)
        cells = np.arange(len(classes))
        return cls(operator, number[merged.row_of], [(cells, classes)], len(cells))

    @classmethod
    def in_groups(cls, matrix: Array, numbers: Indices) -> GroundedWorkload:
        """For a matrix of shape (m, n) and the number of the group of each cell.

        Raises:
            ValueError: the known numbers answer every query.
        """
        groups, columns = [], []
        for cells in members_of(numbers):
            moves = matrix[:, cells] - matrix[:, cells[-1:]]
            distinct, labels = np.unique(moves, axis=1, return_inverse=True)
            classes, last = labels.ravel(), distinct.shape[1] - 1
            if last:
                place = np.arange(last + 1)
                place[[classes[-1], last]] = last, classes[-1]
                groups.append((cells, place[classes]))
                columns.append(distinct[:, place[:-1]])
        if not columns:
            raise ValueError(ONLY_THE_KNOWN)
        relative = np.hstack(columns)
        asked = relative.any(axis=1)
        row_of = np.where(asked, np.cumsum(asked) - 1, -1)
        operator = DenseOperator(np.ascontiguousarray(relative[asked]))
        return cls(operator, row_of, groups, len(numbers))

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of the original workload, zero sums in each group, scaled to sensitivity 1."""
        rank, sensitivity = len(strategy), self.differences.diameter(strategy)
        full, shares = np.zeros((rank, self._cells)), np.zeros((self._cells, rank))
        for place, (cells, classes) in zip(self.differences.groups, self._groups, strict=True):
            columns = np.hstack([strategy[:, place], np.zeros((rank, 1))])[:, classes] / sensitivity
            full[:, cells] = columns - columns.mean(axis=1, keepdims=True)
            rows = np.vstack([right_inverse[place], -right_inverse[place].sum(axis=0)])
            shares[cells] = (rows / np.bincount(classes)[:, None] * sensitivity)[classes]
        return full, shares

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """u, shape (m,), and the symmetric matrix of the pairs' weights, shape (n, n)."""
        weights = np.zeros((self._cells, self._cells))
        matrices = self.differences.to_matrices(w)
        for (cells, classes), matrix in zip(self._groups, matrices, strict=True):
            first = cells[np.unique(classes, return_index=True)[1]]
            weights[np.ix_(first, first)] = matrix
        return np.where(self._row_of >= 0, u[self._row_of], 0.0), weights
