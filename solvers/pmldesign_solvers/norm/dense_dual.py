"""One point of the diagonal-scaling method: both bounds, the next weights, the factors.

With weights u on the queries and w on the cells, diag(u)^(1/2) A diag(w)^(1/2) = P S Q^T,
s = trace(S) and X = diag(w)^(1/2) Q S^-1 Q^T diag(w)^(1/2):

    lower bound      s                                                   (u, w normalised)
    factors          R = S^(1/2) Q^T diag(w)^(-1/2),   L = A B,   B = diag(w)^(1/2) Q S^(-1/2)
    column norms     d_j = norm(R e_j)^2 = (Q S Q^T)_jj / w_j
    row norms        v_i = (L L^T)_ii = a_i^T X a_i
    stationarity     w_j = w_j d_j / s,   u_i = (u_i v_i / s)^(1/q),   1/q = (p - 2)/p

Two upper bounds follow. The plain one is tr_{p/2}(v)^(1/2) max_j d_j^(1/2); its error is of first
order in the distance to the optimum, since the largest d_j counts. Dividing every column of R by
its norm makes all of them count alike: R' = R diag(d)^(-1/2), L' = A diag(d)^(1/2) R^-1 has the row
norms diag(A diag(d)^(1/2) X diag(d)^(1/2) A^T). At finite p this error is of second order, so the
bounds meet at the square root of the distance. It needs R to be square and invertible.

A workload with fewer queries than cells is treated as its transpose, with the two norms exchanged,
so that the matrices to decompose are min(m, n) x min(m, n).

Where many weights tend to zero, small singular values drown in the rounding error of a Gram matrix.
They are then taken from diag(u)^(1/2) A diag(w)^(1/2) itself (`operators.jacobi`).

Stopping at p = 2 without a second decomposition.
With diag(w)^(1/2) K diag(w)^(1/2) = Q S^2 Q^T, s = trace(S), column norms d_j and
T = Q^T diag(d / s)^(1/2) Q, the strategy whose columns are divided by their norms has the error

    tr L' L'^T = s sum_ab T_ab^2 s_a^2 / s_b,

exactly. The weights w_j (d_j / s)^2, twice as far as the fixed point goes, have the dual value
trace(M)^(1/2), M = T^2 S^2 T^2. To second order in d_j / s - 1 that is

    s + sum_j w_j d_j (d_j / s - 1) + sum_ab T_ab^2 (s_a - s_b)^2 / (s_a + s_b),

from tr (S^2 + E)^(1/2) = s + sum_a E_aa / (2 s_a) - sum_ab E_ab^2 / (4 s_a s_b (s_a + s_b)). Where
it promises to raise the bound by a factor of 1 + x, it has been too high by 0.1 x^2 at most (from
equal weights: running sums, ranges, random queries); a quarter of x^2 is taken off.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Lemma 2.10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.certificate.cells import upper_bound
from pmldesign_solvers.norm.fixed_point import WeightsPoint
from pmldesign_solvers.operators.dense import JACOBI_ENTRIES, jacobi_svd
from pmldesign_solvers.operators.merge import MergedWorkload, right_inverse_of
from pmldesign_solvers.operators.operator import (
    DIRECT_ENTRIES,
    EPS,
    Array,
    Operator,
    dual_exponent,
    dual_norm,
    power_mean,
    sum_of_roots,
)

ACCURATE = 1e-12
"""Eigenvalues of a Gram matrix below this fraction of the largest have too few digits, three or
four."""
EVEN = 100.0
"""Largest ratio of scales of cells up to which the inverse of R is taken in closed form: two digits
are lost. Chosen, not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class DensePoint(WeightsPoint):
    """A point of the fixed point, of weights per original row and column, and its factors.

    Attributes:
        vectors, values: Q, shape (n, r), and the diagonal of S, shape (r,).
        scale: shape (n,), the column norms that R is divided by.
        expected: about the lower bound at u and at w moved twice as far as next_w, 0 where unknown;
            it bounds nothing.
    """

    vectors: Array
    values: Array
    scale: Array
    expected: float

    def looking_ahead(self, rel_gap: float) -> DensePoint:
        """At twice as far from w as next_w, if there the bounds are expected to be so close."""
        if self.upper > (1.0 + rel_gap) * self.expected:
            return self
        return replace(self, lower=self.expected, w=np.asarray(self.next_w**2 / self.w))


class ScalingProblem:
    """A merged and oriented workload with the two norms of gamma_(p).

    Rows carry the norm p and columns the norm inf, or the reverse after transposing. Weights are
    those of one original row or column; equal ones share them.
    """

    def __init__(self, merged: MergedWorkload, p: float) -> None:
        self._merged = merged
        self._rank = merged.rank
        one_each = np.ones_like(merged.column_copies)
        self.transposed = merged.wide
        self.operator: Operator = merged.tall
        if self.transposed:
            self.row_p, self.column_p = np.inf, p
            self.row_counts, self.column_counts = one_each, merged.row_copies
        else:
            self.row_p, self.column_p = p, np.inf
            self.row_counts, self.column_counts = merged.row_copies, one_each

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the merged and oriented workload; the second number is decomposed."""
        return self.operator.shape

    @property
    def plain(self) -> bool:
        """Whether all columns are independent and no row or column stands for several."""
        counts = (self._merged.row_copies, self._merged.column_copies)
        return self.shape[1] == self._rank and all(bool((c == 1).all()) for c in counts)

    def normalise(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Scale the weights to unit dual norms."""
        return (
            np.asarray(u / dual_norm(u, self.row_p, self.row_counts)),
            np.asarray(w / dual_norm(w, self.column_p, self.column_counts)),
        )

    def evaluate(self, u: Array, w: Array) -> DensePoint:
        """Both bounds and the fixed point's answer at normalised weights."""
        root = np.sqrt(self.column_counts * w)
        values, vectors = self._decompose(self.row_counts * u, root)
        columns = vectors**2 @ values / root**2
        total = float(values.sum())
        rows = None  # at p = 2 only their sum counts, and that is s
        if not self._sums_rows(u, values):
            rows = self.operator.row_norms(root[:, None] * vectors * values**-0.5)
        lower = total
        if self.operator.shape[0] * len(root) > DIRECT_ENTRIES:  # as the certificate will have it
            rounding = self.operator.gram_rounding(self.row_counts * u)
            lower = sum_of_roots(values**2, float(values @ values), rounding)
        upper, scale, expected = np.inf, np.ones_like(columns), 0.0
        if len(values) == self._rank:
            row_size = total if rows is None else self._row_size(rows)
            column_size = power_mean(columns, self.column_p / 2, self.column_counts)
            upper = float(np.sqrt(row_size * column_size))
        if len(values) == self._rank == len(columns) and np.isinf(self.column_p):
            levelled = self._levelled_rows if rows is not None else self._levelled_sum
            row_size, expected = levelled(columns, root, vectors, values)
            if row_size < upper**2:
                upper, scale = float(np.sqrt(row_size)), np.sqrt(columns)
        return DensePoint(
            u=u,
            w=w,
            next_u=u if rows is None else (u * rows / total) ** dual_exponent(self.row_p),
            next_w=(w * columns / total) ** dual_exponent(self.column_p),
            lower=lower,
            upper=upper,
            vectors=vectors,
            values=values,
            scale=scale,
            # a value above the upper bound is invalid
            expected=expected if expected <= upper else 0.0,
        )

    def _row_size(self, rows: Array) -> float:
        """tr_{p/2} of L L^T from its diagonal."""
        return power_mean(rows, self.row_p / 2, self.row_counts)

    def _levelled_rows(
        self, columns: Array, root: Array, vectors: Array, values: Array
    ) -> tuple[float, float]:
        """tr_{p/2} of L' L'^T; nothing is known of the next lower bound."""
        norms = np.sqrt(columns)
        half = (norms * root)[:, None] * vectors * values**-0.5
        return self._row_size(self.operator.row_norms(half)), 0.0

    def _levelled_sum(
        self, columns: Array, root: Array, vectors: Array, values: Array
    ) -> tuple[float, float]:
        """At p = 2: the trace of L' L'^T, and the expected value of the next lower bound."""
        ratios = columns / values.sum()
        # a product of a matrix with itself takes half the time of others
        half = np.sqrt(np.sqrt(ratios))[:, None] * vectors
        squares = (half.T @ half) ** 2
        size = row_size(squares, values)
        return size, lower_ahead(squares, values, root**2, ratios)

    def _decompose(self, row_weights: Array, root: Array) -> tuple[Array, Array]:
        """S and Q of diag(row_weights)^(1/2) A diag(root), without the null space of A."""
        m, n = self.shape
        eigenvalues, vectors = np.linalg.eigh(
            root[:, None] * self.operator.gram(row_weights) * root
        )
        self._merged.decompositions += 1
        smallest = eigenvalues[n - self._rank]
        if smallest < ACCURATE * eigenvalues[-1] and m * n <= JACOBI_ENTRIES:
            self._merged.decompositions += 1
            matrix = np.sqrt(row_weights)[:, None] * self.operator.to_dense() * root
            return jacobi_svd(matrix, self._rank)
        kept = min(self._rank, int((eigenvalues > n * EPS * eigenvalues[-1]).sum()))
        return np.sqrt(eigenvalues[n - kept :]), vectors[:, n - kept :]

    def _sums_rows(self, u: Array, values: Array) -> bool:
        """Whether only the sum of the row norms counts, and the Gram matrix gives it accurately."""
        return self.row_p == 2 and _accurate(values) and bool((u == 1).all())

    def turn(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Weights of rows and columns of the merged workload as those of the oriented one."""
        return (w, u) if self.transposed else (u, w)

    def factors(self, point: DensePoint) -> tuple[Array, Array]:
        """R, shape (r, n), and B, shape (n, r), of the original workload, max column norm 1."""
        norms = np.sqrt(self.column_counts * point.w) * point.scale
        vectors = point.vectors
        right_inverse = np.asarray(norms[:, None] * vectors / np.sqrt(point.values))
        if self.transposed:
            # L of the transposed workload, turned round
            strategy = np.asarray(self.operator.matvec(right_inverse).T)
            return self._merged.original_factors(strategy, right_inverse_of(strategy))
        strategy = np.ascontiguousarray((vectors * np.sqrt(point.values) / norms[:, None]).T)
        if len(point.values) == len(norms):
            # B R = diag(norms) Q Q^T diag(norms)^-1 is the identity up to rounding
            closed = _accurate(point.values) and norms.max() <= EVEN * norms.min()
            inverse = right_inverse if closed else right_inverse_of(strategy)
            return self._merged.original_factors(strategy, inverse)
        # the same, made of rows of A: it spans them even where weights vanish, but less closely
        # than the other where small singular values are mostly rounding
        rows = (self.row_counts * point.u)[:, None] * self.operator.matvec(right_inverse)
        spanned = np.asarray(self.operator.rmatvec(rows).T / point.values[:, None])
        candidates = [
            self._merged.original_factors(factor, right_inverse_of(factor))
            for factor in (strategy, spanned)
        ]
        original = self._merged.original
        return min(candidates, key=lambda both: upper_bound(original, both[0], both[1], self.row_p))

    def weights(self, u: Array, w: Array) -> tuple[Array, Array]:
        """The weights of the original workload, shapes (m,) and (n,)."""
        return self._merged.original_weights(*self.turn(u, w))


def _accurate(values: Array) -> bool:
    """Whether a Gram matrix gives all of these singular values accurately."""
    return bool(values.min() ** 2 >= ACCURATE * values.max() ** 2)


def row_size(squares: Array, values: Array) -> float:
    """The trace of L' L'^T, given T_ab^2, shape (n, n), and the diagonal of S."""
    return float(values.sum() * (values**2 @ squares @ (1.0 / values)))


def lower_ahead(squares: Array, values: Array, masses: Array, ratios: Array) -> float:
    """About the lower bound at the next weights, none that holds.

    Args:
        squares: T_ab^2, shape (n, n).
        values: the diagonal of S.
        masses: w, of sum 1.
        ratios: d / s.
    """
    total = float(values.sum())
    distances = np.subtract.outer(values, values)
    distances *= distances
    distances /= np.add.outer(values, values)
    second = float(np.vdot(distances, squares))
    then = total * float(1.0 + masses * ratios @ (ratios - 1.0)) + second
    promised = then / total / float(np.sqrt(masses @ ratios**2))
    return total * (promised - (promised - 1.0) ** 2 / 4)
