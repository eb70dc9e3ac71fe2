"""A workload on differences of cells within groups, and both bounds on its norm.

Where the number of records in every group of cells is public, only vectors that sum to zero in each
group matter, and neighbours differ by e_i - e_j with i and j in one group. As in `reference_cell`,
but group by group: the columns of a group are those relative to one of its cells, equal ones are a
single one, and groups whose columns are all equal have none. Queries on known numbers alone become
zero rows and are left out.

Both bounds are those of `certificate.pairs`. In the lower one the graph of the pairs has no edge
between groups, so that its Laplacian has a root for each group; the upper one takes the largest
distance of two columns of one group.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.certificate.factors import factor_sizes
from pmldesign_solvers.certificate.pairs import lower_bound_of_pairs
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import ONLY_THE_KNOWN, Pairs
from pmldesign_solvers.operators.operator import EPS, Array, Indices
from pmldesign_solvers.operators.reduce import numerical_rank


class GroupedWorkload:
    """A workload relative to one cell of each group.

    Args:
        matrix: A, shape (m, n).
        groups: shape (n,), the number of the group of each cell.

    Attributes:
        operator: A', shape (m', k).
        row_copies: shape (m',), 1 for each row.
        pairs: the difference vectors in these coordinates.
        rank: of A'.
        decompositions: so far; whoever decomposes counts here.

    Raises:
        ValueError: the known numbers answer every query.
    """

    def __init__(self, matrix: Array, groups: Indices) -> None:
        self._shape, self.decompositions = matrix.shape, 0
        self._relative = np.empty_like(matrix)  # columns less that of one cell of their group
        self._members: list[Indices] = []
        self._class_of: list[Indices] = []
        columns = []
        for group in range(int(groups.max()) + 1):
            members = np.flatnonzero(groups == group)
            moves = matrix[:, members] - matrix[:, members[-1:]]
            self._relative[:, members] = moves
            distinct, class_of = np.unique(moves, axis=1, return_inverse=True)
            # the class of the reference, whose column is zero, comes last
            last = int(class_of.ravel()[-1])
            order = np.append(np.delete(np.arange(distinct.shape[1]), last), last)
            if len(order) > 1:
                self._members.append(members)
                self._class_of.append(np.argsort(order)[class_of.ravel()])
                columns.append(distinct[:, order[:-1]])
        if not columns:
            raise ValueError(ONLY_THE_KNOWN)
        relative = np.hstack(columns)
        self._rows = np.flatnonzero(relative.any(axis=1))
        self.operator = DenseOperator(np.ascontiguousarray(relative[self._rows]))
        self.row_copies = np.ones(len(self._rows))
        self.pairs = Pairs(*(block.shape[1] for block in columns))
        self.rank = numerical_rank(self.operator.to_dense())

    def original_factors(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B of all cells, zero sums in each group, scaled to sensitivity 1."""
        rank, (_, n) = len(strategy), self._shape
        sensitivity = self.pairs.diameter(strategy)
        full, shares = np.zeros((rank, n)), np.zeros((n, rank))
        for columns, members, classes in self._parts():
            block = np.hstack([strategy[:, columns], np.zeros((rank, 1))])[:, classes]
            full[:, members] = (block - block.mean(axis=1, keepdims=True)) / sensitivity
            rows = (
                np.vstack([right_inverse[columns], -right_inverse[columns].sum(axis=0)])
                * sensitivity
            )
            shares[members] = (rows / np.bincount(classes)[:, None])[classes]
        return full, shares

    def original_weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """u, shape (m,), and the symmetric matrix of the pairs' weights, shape (n, n)."""
        m, n = self._shape
        rows, weights = np.zeros(m), np.zeros((n, n))
        rows[self._rows] = u
        parts = zip(self._parts(), self.pairs.to_matrices(w), strict=True)
        for (_, members, classes), matrix in parts:
            first = members[np.unique(classes, return_index=True)[1]]
            weights[np.ix_(first, first)] = matrix
        return rows, weights

    def certify(
        self, strategy: Array, right_inverse: Array, u: Array, weights: Array, p: float
    ) -> Certificate:
        """Both bounds from R, B, u and the weights of pairs on all cells."""
        return Certificate(
            lower=lower_bound_of_pairs(self._relative, u, weights),
            upper=self._upper(strategy, right_inverse, p),
        )

    def _upper(self, strategy: Array, right_inverse: Array, p: float) -> float:
        """As `pairs.upper_bound_of_pairs`; measuring every coordinate has the sensitivity 2^1/2."""
        moves, rows = [], []
        for _, members, classes in self._parts():
            first = members[np.unique(classes, return_index=True)[1]]
            moves.append(strategy[:, first[:-1]] - strategy[:, first[-1:]])
            rows.append(right_inverse[first[:-1]] * np.bincount(classes)[:-1, None])
        relative = np.hstack(moves)
        value, rest = factor_sizes(self.operator, relative, np.vstack(rows), p)
        sensitivity = self.pairs.diameter(relative)
        m, n = self._shape
        return float((value * sensitivity + rest * np.sqrt(2.0)) * (1.0 + (m + n) * EPS))

    def _parts(self) -> zip[tuple[slice, Indices, Indices]]:
        """Coordinates, cells and classes of cells of every group."""
        return zip(self.pairs.groups, self._members, self._class_of, strict=True)
