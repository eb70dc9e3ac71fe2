"""The workload as the search for l1 strategies sees it: merged, ordered, one cell a column.

Equal columns of A are one cell: averaging the columns of R over them keeps L R = A and raises no
norm and no distance. Cells that no query counts are nothing under add-remove; where the total is
public they are one more cell, since a record may move there.

Cells are put in an order in which neighbours resemble each other, so that rows with bumps can serve
as starts: sorted by the Fiedler vector of the correlations between columns of A, which recovers the
order of prefix sums and ranges however the cells were permuted (spectral seriation).

Where the total N is public, x = (N/n) 1 + v with v summing to zero: only R v is measured, so
R 1 = 0 and L R = A - A 1 1^T / n.

References:
    Atkins, Boman and Hendrickson, A spectral algorithm for seriation, SIAM J. Comput. 28, 1998.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign_solvers.operators.deadline import CALL, DECOMPOSED, ENTRY, SOLVED
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.operator import RANK_CUTOFF, Array, Indices, Operator, power_mean
from pmldesign_solvers.search.laplace_noise import is_exact, log_moment

SMALL, REGULAR = 128, 1e-7
"""Up to so many cells a pseudo-inverse takes milliseconds; beyond, a Gram matrix with a reciprocal
condition number above REGULAR is factored instead, ten times faster, to 1e-9 of the error."""
WRITTEN = 2**14
"""Up to so many entries the workload is a matrix: prefix:128 has its quadratic forms in 160 us, by
its structure in 1,100; all-range:32, beyond, in 55 either way."""
UNANSWERED = 1e-7
"""A query with a larger unmeasured part is not answered."""


class SearchProblem:
    """A merged and ordered workload, the exponent p, and the exact error of a strategy for it.

    Attributes:
        p: in [2, inf].
        public_total: whether the number of records is public.
        ordered: whether neighbouring cells were said to be alike.
        cells: number of merged cells.
        cell_of: shape (n,), the merged cell of each original one, -1 for none.
        counts: shape (m',), how many queries each merged row stands for.
    """

    def __init__(
        self, operator: Operator, p: float, *, public_total: bool, ordered: bool = False
    ) -> None:
        merged = operator.merge()
        self.p, self.public_total, self.ordered = p, public_total, ordered
        small = math.prod(merged.operator.shape) <= WRITTEN
        self._operator = DenseOperator(merged.operator.to_dense()) if small else merged.operator
        rows, labels = merged.row_of, merged.column_of.copy()
        self.counts = np.bincount(rows[rows >= 0]).astype(np.float64)
        self._counted = merged.operator.shape[1]
        self.cells = self._counted
        if public_total and (labels < 0).any():
            labels[labels < 0] = self.cells
            self.cells += 1
        if self.cells == 0 or (public_total and self.cells == 1):
            raise ValueError("every answer is known without measuring anything")
        self._order, self._in_order = np.arange(self.cells), False
        self._gram = self.gram(self.counts)
        if not ordered:
            self._order = _seriation(self._gram)
            self._gram = self._gram[np.ix_(self._order, self._order)]
        self._in_order = small or (ordered and self._counted == self.cells)
        if small:
            padded = np.pad(self._operator.to_dense(), ((0, 0), (0, self.cells - self._counted)))
            self._operator = DenseOperator(np.ascontiguousarray(padded[:, self._order]))
        rank = np.argsort(self._order)
        self.cell_of: Indices = np.where(labels >= 0, rank[labels], -1)
        self._sizes = np.bincount(self.cell_of[labels >= 0], minlength=self.cells)

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A of the merged, ordered cells."""
        gram = self._operator.gram(weights)
        if self._in_order:
            return gram
        padded = np.zeros((self.cells, self.cells))
        padded[: self._counted, : self._counted] = gram
        return padded[np.ix_(self._order, self._order)]

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), non-negative."""
        if not self._in_order:
            original = np.empty_like(matrix)
            original[np.ix_(self._order, self._order)] = matrix
            matrix = np.ascontiguousarray(original[: self._counted, : self._counted])
        return np.asarray(np.maximum(self._operator.row_quadratic(matrix), 0.0))

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (cells, c)."""
        if self._in_order:
            return self._operator.matvec(x)
        original = np.empty_like(x)
        original[self._order] = x
        return self._operator.matvec(np.ascontiguousarray(original[: self._counted]))

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m', c)."""
        if self._in_order:
            return self._operator.rmatvec(y)
        padded = np.zeros((self.cells, y.shape[1]))
        padded[: self._counted] = self._operator.rmatvec(y)
        return padded[self._order]

    def p_trace(self, inverse: Array, power: float) -> tuple[float, Array]:
        """Trace t = tr_power(A X A^T) and the matrix K with dt = <K, dX>."""
        if power == 1:
            return float((self._gram * inverse).sum()), self._gram
        values = self.row_quadratic(inverse)
        total = power_mean(values, power, self.counts)
        return total, self.gram(self.counts * (values / total) ** (power - 1))

    @property
    def weighted_gram(self) -> Array:
        """A^T diag(counts) A of the merged, ordered cells."""
        return self._gram

    def pseudo_inverse(self, strategy: Array) -> Array:
        """R^+ after centring the rows of R where the total is public; shape (cells, r)."""
        return np.asarray(np.linalg.pinv(self.centred(strategy), rcond=RANK_CUTOFF))

    def centred(self, strategy: Array) -> Array:
        """R with R 1 = 0 where the total is public, R otherwise."""
        if self.public_total:
            return np.asarray(strategy - strategy.mean(axis=1, keepdims=True))
        return strategy

    def unit_error(self, strategy: Array) -> float:
        """Error at noise scale 1, see `SearchSolution.error`; inf if R does not determine A."""
        regular = self._regular_inverse(strategy) if self.cells > SMALL else None
        if regular is not None:
            if self.p == 2:
                return math.sqrt(2 * float((self._gram * regular).sum()))
            if not is_exact(self.p):
                variances = 2 * self.row_quadratic(regular)
                return math.sqrt(power_mean(variances, self.p / 2, self.counts))
            inverse = regular @ self.centred(strategy).T
            return math.exp(log_moment(self.matvec(inverse), self.p, self.counts)[0])
        inverse = self.pseudo_inverse(strategy)
        missed = np.eye(self.cells) - inverse @ self.centred(strategy)
        if self.public_total:
            missed -= 1 / self.cells
        norms = self.row_quadratic(np.eye(self.cells))
        if (self.row_quadratic(missed @ missed.T) > UNANSWERED**2 * norms).any():
            return math.inf
        if self.p > 2 and is_exact(self.p):
            return math.exp(log_moment(self.matvec(inverse), self.p, self.counts)[0])
        variances = 2 * self.row_quadratic(inverse @ inverse.T)
        return math.sqrt(power_mean(variances, self.p / 2, self.counts))

    def _regular_inverse(self, strategy: Array) -> Array | None:
        """(R^T R)^+ by Cholesky; None unless R^T R is well conditioned."""
        centred = self.centred(strategy)
        gram = centred.T @ centred
        if self.public_total:
            gram += gram.trace() / self.cells**2
        try:
            factor = scipy.linalg.cho_factor(gram)
        except scipy.linalg.LinAlgError:
            return None
        size = float(np.abs(gram).sum(axis=0).max())
        if scipy.linalg.lapack.dpocon(factor[0], size, uplo="U")[0] < REGULAR:
            return None
        inverse = np.asarray(scipy.linalg.cho_solve(factor, np.eye(self.cells)))
        if self.public_total:
            inverse = inverse - inverse.mean(axis=0)
            inverse -= inverse.mean(axis=1, keepdims=True)
        return inverse

    def error_work(self, rows: int) -> float:
        """Units of `Work` of `unit_error`, for so many rows, and of their distances."""
        m, n = self.counts.size, self.cells
        each = DECOMPOSED if n <= SMALL else 1.0
        units = CALL + each * rows * n**2 + SOLVED * n**3
        if self.public_total:
            units += ENTRY * rows * n**2 / 2
        if self.p > 2:
            units += self.trace_work
            units += ENTRY * m * rows * self.p / 2 if is_exact(self.p) else 0.0
        return units

    @property
    def trace_work(self) -> float:
        """Units of `Work` of `p_trace`."""
        if self.p == 2:
            return self.cells**2
        m, n = self._operator.shape
        return 2.0 * min(m * n**2, ENTRY * (m + n**2))

    def fold(self, strategy: Array) -> Array:
        """A strategy on the original cells as one on the merged cells, by averaging."""
        kept = np.flatnonzero(self.cell_of >= 0)
        order = kept[np.argsort(self.cell_of[kept], kind="stable")]
        starts = np.cumsum(self._sizes) - self._sizes
        return np.asarray(np.add.reduceat(strategy[:, order], starts, axis=1) / self._sizes)

    def unfold(self, strategy: Array) -> Array:
        """A strategy on the merged cells as one on the original cells."""
        full: Array = np.where(self.cell_of >= 0, strategy[:, self.cell_of], 0.0)
        return np.ascontiguousarray(full)


def _seriation(gram: Array) -> Indices:
    norms = np.sqrt(gram.diagonal())
    norms = np.where(norms > 0, norms, 1.0)
    alike = np.abs(gram / norms / norms[:, None])
    laplacian = np.diag(alike.sum(axis=1)) - alike
    vectors = np.linalg.eigh(laplacian)[1]
    fiedler = np.round(vectors[:, min(1, len(gram) - 1)], 9)
    # either direction would do; the skewness makes the same choice for permuted cells
    if (fiedler**3).sum() > 0:
        fiedler = -fiedler
    return np.asarray(np.argsort(fiedler, kind="stable"), dtype=np.intp)
