"""A workload on the scale that solvers work on; nothing is rounded on the way.

gamma_(p)(2^k A) = 2^k gamma_(p)(A), and a constant added to a row changes nothing for pairs of
cells. So the largest entry is brought near 1 by a power of two, and for pairs a row whose entries
lie within a factor of two of each other loses the one nearest to zero: such differences are exact
(Sterbenz).

The searched workload differs from that by less than any bound shows:

* Rows far smaller than the largest are enlarged, to FAINT gap/(m n)^(1/2) of it. With A' the
  result, gamma_(p)(A) <= gamma_(p)(A') <= gamma_(p)(A) + (sum_i norm(A'_i - A_i)_2^p)^(1/p), and a
  strategy for A' answers A.
* Entries below NOTHING of the largest in their row count as 0.

The certificate is that of the exact workload and counts both. For pairs, rows whose entries differ
by one rounding alone count as constant, that is 0 (`without_offsets`). What they differ by,
d_i <= eps norm(a_i)_inf, is added to the upper bound: sqrt 2 (sum_i (sqrt n d_i)^p)^(1/p), for
measuring all cells but one has the sensitivity sqrt 2.

Rows have weights, diag(c) A, for A of any form. gram(u) = A^T diag(c^2 u) A, row_quadratic(X) = c^2
diag(A X A^T): whatever A does fast, diag(c) A does as fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.operators.operator import Array, Indices, Merged, Operator, power_mean


class ScaledRows(Operator):
    """What diag(c) A makes of A.

    Attributes:
        operator: A, shape (m, n).
        weights: c > 0, shape (m,).
    """

    def __init__(self, operator: Operator, weights: Array) -> None:
        self.operator, self.weights = operator, weights

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""
        return self.operator.shape

    @property
    def work(self) -> tuple[int, int]:
        """Shape of a matrix on which a step takes as long."""
        return self.operator.work

    def gram(self, weights: Array) -> Array:
        """A^T diag(c^2 weights) A, shape (n, n), for weights of shape (m,)."""
        return self.operator.gram(self.weights**2 * weights)

    def gram_rounding(self, weights: Array) -> float:
        """gram(u) is off by at most this times d d^T, d_j = norm(diag(u)^(1/2) c A e_j)."""
        return self.operator.gram_rounding(self.weights**2 * weights)

    def row_quadratic(self, matrix: Array) -> Array:
        """c^2 diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return self.weights**2 * self.operator.row_quadratic(matrix)

    def row_norms(self, half: Array) -> Array:
        """c^2 diag(A H H^T A^T), shape (m,)."""
        return self.weights**2 * self.operator.row_norms(half)

    def matvec(self, x: Array) -> Array:
        """C A x, for x of shape (n,) or (n, k)."""
        return np.asarray((self.weights * self.operator.matvec(x).T).T)

    def rmatvec(self, y: Array) -> Array:
        """A^T c y, for y of shape (m,) or (m, k)."""
        return self.operator.rmatvec((self.weights * y.T).T)

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        return np.asarray(self.weights[:, None] * self.operator.to_dense())

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return self.weights * self.operator.row_sizes()


FAINT = 0.01
"""Rows are enlarged that change the norm by at most this part of the gap, all of them together."""
LARGEST_GAP = 1e-6
"""Of which FAINT is a part at most. Chosen, not measured."""
ZERO_ENTRY = 2.0**-300
"""Part of the largest entry of its row at which an entry counts as 0."""
MODERATE = 200
"""Operators other than matrices keep their form while exponents of two, those of their entries and
of the scale, are at most this: squares stay in range."""

NEAR = 16
"""Such operators are not scaled at all if the exponent of the largest entry is at most this."""

Exponents = NDArray[np.int_]


@dataclass(frozen=True, slots=True, eq=False)
class Normalised:
    """A workload as it is searched and as it is certified.

    Attributes:
        operator: 2^-exponent A; for pairs without the common part of the entries of a row.
        searched: nearly the same, without rows and entries that are too small for a search; the
            same object without any.
        exponent: an integer.
        left_out: of rows that count as constant, how far their entries are apart at most, on the
            same scale; shape (m,).
    """

    operator: Operator
    searched: Operator
    exponent: int
    left_out: Array

    def allowance(self, p: float) -> float:
        """What is to be added to an upper bound, on the scale of the operator."""
        if not self.left_out.any():
            return 0.0
        return float(np.sqrt(2.0 * self.operator.shape[1]) * power_mean(self.left_out, p)) * 1.001


class PowersOfTwo(ScaledRows):
    """diag(weights) A for powers of two, equal for equal rows."""

    def without_offsets(self) -> tuple[Operator, Array]:
        """The same on vectors that sum to zero, and the part left out of each row."""
        operator, left_out = self.operator.without_offsets()
        moved = PowersOfTwo(operator, self.weights)
        return moved, self.weights * left_out if left_out.size else left_out

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""
        merged = self.operator.merge()
        kept, first = np.unique(merged.row_of, return_index=True)
        weights = self.weights[first[kept >= 0]]
        return Merged(PowersOfTwo(merged.operator, weights), merged.row_of, merged.column_of)

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The same on vectors that sum to zero, without zero rows; and which rows are left."""
        operator, rows = self.operator.relative(idle=idle)
        return PowersOfTwo(operator, self.weights[rows]), rows


def normalised(operator: Operator, relation: Relation, rel_gap: float) -> Normalised:
    """The workload with its largest entry in [1, 2); without a matrix near that."""
    m, _ = operator.shape
    near = 0 if isinstance(operator, DenseOperator) else NEAR
    sizes, left_out = operator.row_sizes(), np.zeros(m)
    exponent = _exponent(sizes, near)
    operator, sizes = _scaled(operator, np.full(m, -exponent), sizes)
    if relation == "replace":
        operator, left_out = operator.without_offsets()
        sizes = operator.row_sizes()
        again = _exponent(sizes, near)
        operator, sizes = _scaled(operator, np.full(m, -again), sizes)
        exponent, left_out = exponent + again, np.ldexp(left_out, -again)
    return Normalised(operator, _searched(operator, sizes, rel_gap), exponent, left_out)


def _searched(operator: Operator, sizes: Array, rel_gap: float) -> Operator:
    """Without rows and entries that are too small."""
    least = FAINT * min(rel_gap, LARGEST_GAP) / math.sqrt(math.prod(operator.shape)) * sizes.max()
    faint = (sizes > 0) & (sizes < least)
    missing = np.frexp(least)[1] - np.frexp(sizes)[1]
    searched, _ = _scaled(operator, np.where(faint, missing, 0), sizes)
    if isinstance(searched, DenseOperator):
        entries = np.abs(searched.matrix)
        small = (entries > 0) & (entries < ZERO_ENTRY * entries.max(axis=1, keepdims=True))
        if small.any():
            return DenseOperator(np.where(small, 0.0, searched.matrix))
    return searched


def _scaled(operator: Operator, exponents: Exponents, sizes: Array) -> tuple[Operator, Array]:
    """The rows times powers of two, and the largest entry of each row before and after."""
    if not exponents.any():
        return operator, sizes
    scaled_sizes = np.ldexp(sizes, exponents)
    if isinstance(operator, DenseOperator):
        return DenseOperator(np.ldexp(operator.matrix, exponents[:, None])), scaled_sizes
    reach = np.frexp(sizes[sizes > 0])[1]
    if max(np.abs(reach).max(initial=0), np.abs(exponents).max()) <= MODERATE:
        return PowersOfTwo(operator, np.ldexp(1.0, exponents)), scaled_sizes
    return DenseOperator(np.ldexp(operator.to_dense(), exponents[:, None])), scaled_sizes


def _exponent(sizes: Array, near: int) -> int:
    """Of the largest power of two that is at most all entries; 0 if that is near 1."""
    largest = float(sizes.max())
    exponent = math.frexp(largest)[1] - 1 if largest > 0 else 0
    return exponent if abs(exponent) > near else 0
