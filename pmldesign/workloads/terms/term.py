r"""A term: every combination of the queries on some groups of attributes, times a weight.

Attributes have n_1 ... n_d values, a cell is a combination of values, and the last attribute runs
fastest (np.kron). The groups g of a term are disjoint sets of attributes in increasing order, Q_g
are queries on the cells of g, and all other attributes are summed over:

    A_t = c (x)_g Q_g (x)_{i in no g} 1^T.

The table of a term has an axis for each group; its queries are (x)_g Q_g of the table. For a
product P (x) Q with rows (i, l) and columns (j, k)

    gram(u)[(j,k), (j',k')] = sum_i P_ij P_ij' T_i[k, k'],      T_i = Q^T diag(u_i.) Q,
    row_quadratic(X)[i, l]  = sum_kk' Q_lk Q_lk' Y_i[k, k'],    Y_i[k, k'] = p_i^T X_kk' p_i,
    row_norms(H)[i, l]      = norm(q_l^T F_i)^2,                F_i[k, c] = sum_j P_ij H[(j,k), c],

with X_kk' the matrix of the entries ((., k), (., k')) of X, so that all of them come from the same
operations of the factors. More than two factors are split in half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, combinations_with_replacement

import numpy as np

from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import asks_counts
from pmldesign_solvers.limits import GRAM_CELLS
from pmldesign_solvers.operators.operator import EPS, Array, column_blocks
from pmldesign_solvers.structure import kronecker

PAIR_ENTRIES = 2**20
"""Of a factor, products of pairs of entries that are materialized (8 MiB). A call for each pair of
cells of the others takes 2 to 8 times as long on 1,000 to 2,000 cells."""
ASKED_ONCE = 1024
"""Up to so many combinations of rows of all other groups, the last group is asked for the norms of
its rows once for each, which ranges round up; beyond, products with A are squared."""

Group = tuple[int, ...]


class Term:
    """The queries on some groups of attributes, summed over all others.

    Args:
        weight: c > 0.
        queries: Q_g for each group g, in increasing order.
        name: the user's name for it; "" without one.

    Attributes:
        attributes: all that are in a group.
        shape: number of queries, and of cells of the table.
        counts: whether every group is asked for the counts of its cells.
    """

    __slots__ = "attributes", "counts", "name", "queries", "shape", "weight"

    def __init__(self, weight: float, queries: Mapping[Group, Workload], name: str = "") -> None:
        self.weight, self.queries, self.name = weight, queries, name
        self.attributes: Group = tuple(chain.from_iterable(queries))
        factors = queries.values()
        self.shape = (
            math.prod([q.shape[0] for q in factors]),
            math.prod([q.shape[1] for q in factors]),
        )
        self.counts = all(map(asks_counts, factors))

    @property
    def crossed(self) -> bool:
        """Whether every group is a single attribute."""
        return len(self.queries) == len(self.attributes)

    @property
    def of_attributes(self) -> dict[int, Workload]:
        """The queries of each attribute, where groups are single ones."""
        return {i: queries for (i,), queries in self.queries.items()}

    def times(self, weight: float) -> Term:
        """The same times another weight."""
        return Term(weight * self.weight, self.queries, self.name)

    def answer(self, table: Array) -> Array:
        """The answers, shape (m,) or (m, c), of the table, shape (k,) or (k, c)."""
        maps = [None if asks_counts(q) else q.matvec for q in self.queries.values()]
        rows, cells = self._sizes
        return self.weight * kronecker.apply(maps, cells, table, rows)

    def spread(self, answers: Array) -> Array:
        """The transpose of `answer`, shape (k,) or (k, c), of answers, shape (m,) or (m, c)."""
        maps = [None if asks_counts(q) else q.rmatvec for q in self.queries.values()]
        rows, cells = self._sizes
        return self.weight * kronecker.apply(maps, rows, answers, cells)

    def dense(self) -> Array:
        """The queries of the table, shape (m, k)."""
        matrices = [queries.to_dense() for queries in self.queries.values()]
        matrix = kronecker.product(matrices or [np.ones((1, 1))])
        return matrix if self.weight == 1 else self.weight * matrix

    def gram(self, weights: Array, *, ones: bool) -> Array:
        """A_t^T diag(weights) A_t of the table where a cell of counted groups agrees with itself.

        Args:
            weights: shape (m,).
            ones: whether all are 1.

        Returns:
            Shape (cells of counted groups, k', k'), k' cells of all others; the first dimension
            is 1 if the matrix is the same for all.
        """
        others = self._others
        if ones:
            grams = [queries.gram(np.ones(queries.shape[0])) for queries in others]
            gram = kronecker.product(grams or [np.ones((1, 1))])
            return (gram if self.weight == 1 else self.weight**2 * gram)[None]
        rows = self._counted_first(weights)
        values = _grams(others, rows) if others else rows[..., None]
        return np.asarray(self.weight**2 * values)

    def row_quadratic(self, matrices: Array) -> Array:
        """diag(A_t X A_t^T), shape (m,), for X of the shape that `gram` has."""
        others = self._others
        values = _quadratics(others, matrices) if others else matrices[..., 0]
        sizes = [q.shape[0] for q in self.queries.values()]
        order = self._order
        rows = values.reshape([sizes[axis] for axis in order])
        return np.asarray(self.weight**2 * rows.transpose(np.argsort(order)).ravel())

    def row_norms(self, half: Array) -> Array:
        """diag(A_t H H^T A_t^T), shape (m,), for H of the table, shape (k, c)."""
        factors = [*self.queries.values()]
        rows, cells = self._sizes
        last = max(
            (axis for axis, queries in enumerate(factors) if not asks_counts(queries)),
            key=rows.__getitem__,
            default=None,
        )
        if last is None or self.shape[0] > ASKED_ONCE * rows[last]:
            return np.asarray(np.square(self.answer(half)).sum(axis=1))
        maps = [
            None if axis == last or asks_counts(queries) else queries.matvec
            for axis, queries in enumerate(factors)
        ]
        images = [*rows[:last], cells[last], *rows[last + 1 :]]
        total = np.zeros([*rows[:last], *rows[last + 1 :], rows[last]])
        for columns in column_blocks(math.prod(images), half.shape[1]):
            image = kronecker.apply(maps, cells, half[:, columns], images).reshape(*images, -1)
            tables = np.moveaxis(image, last, -2).reshape(-1, cells[last], image.shape[-1])
            norms = [factors[last].row_norms(table) for table in tables]
            total += np.stack(norms).reshape(total.shape)
        return np.asarray(self.weight**2 * np.moveaxis(total, -1, last).ravel())

    def squares(self, table: Array) -> Array:
        """diag(A_t diag(w) A_t^T), shape (m,), for weights w >= 0 of the table, shape (k,)."""
        rows, cells = self._sizes
        maps = [
            None if asks_counts(queries) else partial(_weighted_squares, queries)
            for queries in self.queries.values()
        ]
        return self.weight**2 * kronecker.apply(maps, cells, table, rows)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns of the table without the weight, rounded up.

        An upper bound for products with a factor of more than GRAM_CELLS cells.
        """
        factors = [*self.queries.values()]
        if self.counts:
            return 2.0 if self.shape[1] > 1 else 0.0
        if len(factors) == 1:
            return factors[0].longest_difference()
        if max(factor.shape[1] for factor in factors) > GRAM_CELLS:
            longest = math.prod(factor.longest_column() for factor in factors)
            return 4 * longest * (1 + 2 * len(factors) * EPS)
        grams = [factor.gram(np.ones(factor.shape[0])) for factor in factors]
        rounding = sum(sum(factor.shape) for factor in factors) * EPS
        longest = math.prod(float(gram.diagonal().max()) for gram in grams)
        return kronecker.largest_distance_of_grams(grams) ** 2 + 8 * rounding * longest

    @property
    def _sizes(self) -> tuple[list[int], list[int]]:
        """The number of queries and of cells of each group."""
        shapes = [queries.shape for queries in self.queries.values()]
        return [m for m, _ in shapes], [k for _, k in shapes]

    @property
    def _order(self) -> list[int]:
        """The numbers of groups that are counted, then of all others."""
        counted = [asks_counts(queries) for queries in self.queries.values()]
        return sorted(range(len(counted)), key=lambda axis: not counted[axis])

    @property
    def _others(self) -> list[Workload]:
        """The queries of groups that are not counted."""
        return [queries for queries in self.queries.values() if not asks_counts(queries)]

    def _counted_first(self, values: Array) -> Array:
        """Values of queries, shape (m,), by those of counted groups and of all others."""
        others = math.prod([queries.shape[0] for queries in self._others])
        table = values.reshape([q.shape[0] for q in self.queries.values()])
        return table.transpose(self._order).reshape(-1, others)


def _weighted_squares(queries: Workload, weights: Array) -> Array:
    """`weighted_squares` for every column of weights."""
    return np.stack([queries.weighted_squares(column) for column in weights.T], axis=1)


def _grams(factors: Sequence[Workload], weights: Array) -> Array:
    """Gram matrices of a product, shape (b, n, n), for weights of shape (b, m)."""
    outer, inner, b = *_halves(factors), len(weights)
    m, n = _shape(outer)
    if not inner:
        if m * n**2 > PAIR_ENTRIES or b == 1:
            return np.stack([outer[0].gram(row) for row in weights])
        return _symmetric((weights @ _pairs(outer)).reshape(b, n, n))
    grams = _grams(inner, weights.reshape(b * m, -1))
    k = grams.shape[1]
    if m * n**2 <= PAIR_ENTRIES:
        sums = (_pairs(outer).T @ grams.reshape(b, m, k**2)).reshape(b, n, n, k, k)
        return _symmetric(sums.transpose(0, 1, 3, 2, 4).reshape(b, n * k, n * k))
    whole = np.empty((b, n, k, n, k))
    for i, j in combinations_with_replacement(range(k), 2):
        between = _grams(outer, grams[:, i, j].reshape(b, m))
        whole[:, :, i, :, j] = whole[:, :, j, :, i] = between
    return whole.reshape(b, n * k, n * k)


def _quadratics(factors: Sequence[Workload], matrices: Array) -> Array:
    """diag(A X A^T) of a product, shape (b, m), for symmetric X of shape (b, n, n)."""
    outer, inner, b = *_halves(factors), len(matrices)
    m, n = _shape(outer)
    if not inner:
        if m * n**2 > PAIR_ENTRIES or b == 1:
            return np.stack([outer[0].row_quadratic(matrix) for matrix in matrices])
        return np.asarray(matrices.reshape(b, n**2) @ _pairs(outer).T)
    k = matrices.shape[1] // n
    blocks = matrices.reshape(b, n, k, n, k)
    if m * n**2 <= PAIR_ENTRIES:
        cells = blocks.transpose(0, 2, 4, 1, 3).reshape(b, k * k, n * n)
        forms = (_pairs(outer) @ cells.transpose(0, 2, 1)).reshape(b, m, k, k)
        return _quadratics(inner, _symmetric(forms.reshape(b * m, k, k))).reshape(b, -1)
    forms = np.empty((b, m, k, k))
    for i, j in combinations_with_replacement(range(k), 2):
        symmetric = 0.5 * (blocks[:, :, i, :, j] + blocks[:, :, j, :, i])
        forms[:, :, i, j] = forms[:, :, j, i] = _quadratics(outer, symmetric)
    return _quadratics(inner, forms.reshape(b * m, k, k)).reshape(b, -1)


def _halves(factors: Sequence[Workload]) -> tuple[Sequence[Workload], Sequence[Workload]]:
    middle = max(1, len(factors) // 2)
    return factors[:middle], factors[middle:]


def _shape(factors: Sequence[Workload]) -> tuple[int, int]:
    rows, cells = zip(*(factor.shape for factor in factors), strict=True)
    return math.prod(rows), math.prod(cells)


def _pairs(factors: Sequence[Workload]) -> Array:
    """a_i a_i^T for every row of a product, shape (m, n^2)."""
    rows = kronecker.product([factor.to_dense() for factor in factors])
    return (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def _symmetric(matrices: Array) -> Array:
    """Both halves rounded alike."""
    return np.asarray((matrices + matrices.transpose(0, 2, 1)) / 2)
