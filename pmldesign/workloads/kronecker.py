"""Products of workloads: A = A_1 (x) ... (x) A_k asks every combination of the factors' queries.

Rows and columns are in the order of np.kron: the last factor runs fastest. For A = P (x) Q, with
rows (i, l) and columns (j, k),

    gram(u)[(j,k), (j',k')] = sum_i P_ij P_ij' T_i[k, k'],      T_i = Q^T diag(u_i.) Q,
    row_quadratic(X)[i, l]  = sum_kk' Q_lk Q_lk' Y_i[k, k'],    Y_i[k, k'] = p_i^T X_kk' p_i,
    row_norms(H)[i, l]      = norm(q_l^T F_i)^2,                F_i[k, c] = sum_j P_ij H[(j,k), c],

with X_kk' the matrix of the entries ((., k), (., k')) of X (in the last line P and Q may change
places), so that all of them come from the same operations of the factors. More than two factors are
split in half, and each half is a product again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations_with_replacement

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.weighting import WeightedWorkload, factor_weights, scaled_factors
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.dense import NO_QUERIES, DenseOperator
from pmldesign_solvers.operators.operator import (
    EPS,
    Array,
    Indices,
    Merged,
    Operator,
    column_blocks,
)
from pmldesign_solvers.structure import kronecker

MERGED_ENTRIES = 2**24
"""Largest workload, in entries, whose rows and columns are compared with each other (128 MiB)."""
PAIR_ENTRIES = 2**14
"""Of a first half, products of pairs of entries that are written out for a Gram matrix; a call for
each pair of cells of the second half takes longer."""


class KroneckerOperator(Operator):
    """The Kronecker product of at least two operators, held as its factors."""

    def __init__(self, factors: Sequence[Operator]) -> None:
        self._factors = tuple(factors)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""
        rows, columns = zip(*(factor.shape for factor in self._factors), strict=True)
        return math.prod(rows), math.prod(columns)

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        if (weights == 1).all():
            grams = [factor.gram(np.ones(factor.shape[0])) for factor in self._factors]
            return reduce(lambda whole, gram: np.asarray(np.kron(whole, gram)), grams)
        outer, inner = self._halves()
        n, k = outer.shape[1], inner.shape[1]
        inner_grams = np.stack([inner.gram(u) for u in weights.reshape(outer.shape[0], -1)])
        if outer.shape[0] * n**2 <= PAIR_ENTRIES:
            rows = outer.to_dense()
            pairs = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), n**2)
            sums = (pairs.T @ inner_grams.reshape(len(rows), k**2)).reshape(n, n, k, k)
            whole = sums.transpose(0, 2, 1, 3).reshape(n * k, n * k)
            return np.asarray((whole + whole.T) / 2)  # both halves are rounded alike
        gram = np.empty((n, k, n, k))
        for a, b in combinations_with_replacement(range(k), 2):
            gram[:, a, :, b] = gram[:, b, :, a] = outer.gram(inner_grams[:, a, b])
        return gram.reshape(n * k, n * k)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        outer, inner = self._halves()
        n, k = outer.shape[1], inner.shape[1]
        blocks = matrix.reshape(n, k, n, k)
        inner_forms = np.empty((outer.shape[0], k, k))
        for a, b in combinations_with_replacement(range(k), 2):
            symmetric = 0.5 * (blocks[:, a, :, b] + blocks[:, b, :, a])
            inner_forms[:, a, b] = inner_forms[:, b, a] = outer.row_quadratic(symmetric)
        return np.concatenate([inner.row_quadratic(form) for form in inner_forms])

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,), for H of shape (n, c).

        A factor is asked for its norms once for each row of the other, which has fewer.
        """
        outer, inner = self._halves()
        (m, n), (k, width) = outer.shape, inner.shape
        total = np.zeros((m, k))
        for columns in column_blocks(min(m * width, n * k), half.shape[1]):
            block = half[:, columns]
            if m <= k:
                images = outer.matvec(block.reshape(n, -1)).reshape(m, width, -1)
                total += np.stack([inner.row_norms(image) for image in images])
            else:
                turned = block.reshape(n, width, -1).swapaxes(0, 1).reshape(width, -1)
                images = inner.matvec(turned).reshape(k, n, -1)
                total += np.stack([outer.row_norms(image) for image in images], axis=1)
        return total.ravel()

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        return kronecker.apply(
            [factor.matvec for factor in self._factors],
            [factor.shape[1] for factor in self._factors],
            x,
            [factor.shape[0] for factor in self._factors],
        )

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        return kronecker.apply(
            [factor.rmatvec for factor in self._factors],
            [factor.shape[0] for factor in self._factors],
            y,
            [factor.shape[1] for factor in self._factors],
        )

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        check_entries("the product", self.shape)
        dense: Array = self._factors[0].to_dense()
        for factor in self._factors[1:]:
            dense = np.kron(dense, factor.to_dense()).astype(np.float64, copy=False)
        return dense

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return kronecker.outer([factor.row_sizes() for factor in self._factors])

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""
        parts = [factor.merge() for factor in self._factors]
        factors = [part.operator for part in parts]
        # (c a) (x) b = a (x) (c b): products of distinct rows are equal only where two factors
        # have proportional ones, which no merged range workload has.
        dense = [f.to_dense() for f in factors if not isinstance(f, RangeWorkload)]
        if max(sum(map(_proportional, dense)), sum(_proportional(f.T) for f in dense)) > 1:
            return DenseOperator(self.to_dense()).merge()
        row_of = _combine([part.row_of for part in parts], [f.shape[0] for f in factors])
        column_of = _combine([part.column_of for part in parts], [f.shape[1] for f in factors])
        anything = all(factor.shape[0] for factor in factors)
        return Merged(KroneckerOperator(factors) if anything else NO_QUERIES, row_of, column_of)

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The same on vectors that sum to zero, without zero rows; and which rows are left."""
        return DenseOperator(self.to_dense()).relative(idle=idle)

    def _halves(self) -> tuple[Operator, Operator]:
        middle = len(self._factors) // 2
        first, last = self._factors[:middle], self._factors[middle:]
        return (
            first[0] if len(first) == 1 else KroneckerOperator(first),
            last[0] if len(last) == 1 else KroneckerOperator(last),
        )


class KroneckerWorkload(KroneckerOperator, Workload):
    """Every combination of the queries of several workloads, one for each attribute.

    Args:
        factors: at least two workloads, the first one slowest; products among them are flattened.
        name: what messages and tables call it; by default the factors' names joined by "*".

    Raises:
        InvalidInputError: fewer than two factors.
    """

    def __init__(self, factors: Sequence[Workload], *, name: str | None = None) -> None:
        self._workloads = tuple(part for factor in factors for part in factor.factors)
        if len(self.factors) < 2:
            raise InvalidInputError(
                f"a product needs at least two workloads, got {len(self.factors)}"
            )
        super().__init__(self.factors)
        self.binary = all(factor.binary for factor in self.factors)
        self.name = "*".join(factor.name for factor in self.factors) if name is None else name

    @property
    def factors(self) -> tuple[Workload, ...]:
        """A_1 ... A_k."""
        return self._workloads

    @property
    def domain(self) -> tuple[int, ...]:
        """The number of cells of each factor."""
        return tuple(factor.shape[1] for factor in self.factors)

    def times(self, weights: Array | float) -> Workload:
        """The factors with weights, where those of the queries are products of theirs."""
        if isinstance(weights, float):
            return KroneckerWorkload(scaled_factors(self.factors, weights))
        vectors = factor_weights(self, weights)
        if vectors is None:
            return super().times(weights)
        pairs = zip(self.factors, vectors, strict=True)
        return KroneckerWorkload(
            [
                factor
                if (vector == 1).all()
                else WeightedWorkload(factor, vector, name=factor.name)
                for factor, vector in pairs
            ]
        )

    @property
    def non_negative(self) -> bool:
        """Whether all factors are."""
        return all(factor.non_negative for factor in self.factors)

    @property
    def distinct_shape(self) -> tuple[int, int]:
        """Number of distinct queries and of distinct cells.

        For a large product those of the factors multiplied: if several factors have proportional
        rows or columns, there may be fewer.
        """
        if math.prod(self.shape) <= MERGED_ENTRIES:
            return super().distinct_shape
        rows, columns = zip(*(factor.distinct_shape for factor in self.factors), strict=True)
        return math.prod(rows), math.prod(columns)

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns."""
        return kronecker.outer([factor.column_squares() for factor in self.factors])

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up."""
        if self.shape[1] <= WRITTEN_CELLS:
            return super().longest_difference()
        from pmldesign_solvers.structure.kronecker import largest_distance_of_grams

        grams = [factor.gram(np.ones(factor.shape[0])) for factor in self.factors]
        rounding = sum(sum(factor.shape) for factor in self.factors) * EPS
        longest = math.prod(float(gram.diagonal().max()) for gram in grams)
        return largest_distance_of_grams(grams) ** 2 + 8 * rounding * longest

    def row_label(self, index: int) -> str:
        """The labels of the factors' rows that query `index` combines."""
        rows = np.unravel_index(index, [factor.shape[0] for factor in self.factors])
        return " x ".join(
            factor.row_label(int(row)) for factor, row in zip(self.factors, rows, strict=True)
        )


def _combine(labels: list[Indices], sizes: list[int]) -> Indices:
    """Number the combinations of merged rows; -1 where one of them is zero."""

    def pair(first: tuple[Indices, int], second: tuple[Indices, int]) -> tuple[Indices, int]:
        (outer, _), (inner, size) = first, second
        number = outer[:, None] * size + inner[None, :]
        number[outer < 0] = number[:, inner < 0] = -1
        return number.ravel(), first[1] * size

    return reduce(pair, zip(labels, sizes, strict=True))[0]


def _proportional(matrix: Array) -> bool:
    """Whether two of the rows, none of them zero, are multiples of each other."""
    if not matrix.size:
        return False
    leads = matrix[np.arange(len(matrix)), (matrix != 0).argmax(axis=1)]
    return len(DenseOperator(matrix / leads[:, None]).merge().operator.to_dense()) < len(matrix)
