"""An operator that is another one but for what a subclass changes."""

from __future__ import annotations

from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.operator import Array, Indices, Merged, Operator


class ForwardingOperator:
    """An operator that is another one; subclasses change what they need."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def forwarded(self) -> Operator:
        """The other operator if it is a matrix and this one changes nothing, else this one."""
        plain = type(self).gram is ForwardingOperator.gram
        return self._operator if plain and isinstance(self._operator, DenseOperator) else self

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n."""
        return self._operator.shape

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        return self._operator.gram(weights)

    def gram_rounding(self, weights: Array) -> float:
        """gram(u) is off by at most this times d d^T, d_j = norm(diag(u)^(1/2) A e_j)."""
        return self._operator.gram_rounding(weights)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,)."""
        return self._operator.row_quadratic(matrix)

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,)."""
        return self._operator.row_norms(half)

    def matvec(self, x: Array) -> Array:
        """A x."""
        return self._operator.matvec(x)

    def rmatvec(self, y: Array) -> Array:
        """A^T y."""
        return self._operator.rmatvec(y)

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        return self._operator.to_dense()

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return self._operator.row_sizes()

    def without_offsets(self) -> tuple[Operator, Array]:
        """The same on vectors that sum to zero, and what is left out of each row."""
        return self._operator.without_offsets()

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns."""
        return self._operator.merge()

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """On vectors that sum to zero, without zero rows; which rows are left."""
        return self._operator.relative(idle=idle)
