r"""The identity with a few more rows, or none, R = [diag(d); Theta], never materialized.

With Theta of k rows, every d_j > 0 and C = (I + Theta D^-2 Theta^T)^-1 of order k (Woodbury),

    X = (R^T R)^-1 = D^-2 - B B^T,      B = D^-2 Theta^T C^(1/2)   (n x k),
    R^+ = X R^T,      diag(A X A^T) = diag(A D^-2 A^T) - diag(A B B^T A^T),

so that measuring, estimating and variances cost O(n k) plus the products with A. R has rank n, so
it answers every workload on its cells. (`pmldesign_solvers.search.tents` finds such strategies.)

X_jj is at least 1 / (d_j^2 + norm(Theta_j)^2), Theta_j a column, and is computed as 1 / d_j^2
minus a term: if d_j is small compared with Theta_j, the difference has lost that many digits.

Without rows any two columns are d_i + d_j apart in the l1 norm, (d_i^2 + d_j^2)^(1/2) in the l2 and
max(d_i, d_j) in the l_inf norm, however many there are.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm, distance_blocks, sensitivity_above
from pmldesign.privacy.outward import UNIT, is_whole, raised
from pmldesign.strategies.arguments import read_only, strategy_matrix
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.beside import BesideStrategy
from pmldesign.strategies.structured import StructuredStrategy, Term
from pmldesign.strategies.total import free_vector
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import Public
from pmldesign.workloads.ranges import RangeWorkload, separable_gram
from pmldesign.workloads.running import AllRangesWorkload
from pmldesign_solvers.limits import GRAM_CELLS
from pmldesign_solvers.operators.intervals import separable_trace
from pmldesign_solvers.operators.operator import Array, Indices

DENSE_ROWS = 512
"""Maximum cells for which it is a matrix given the total, whose pseudo-inverse and distances take
0.3 s; of 1000 cells they take 3 s, and from the rows 0.1 s."""
IN_RANGE = 1e100
"""Entries up to this, and not below its inverse, are added without leaving float64."""
LEAST_WEIGHT = 1e-3
"""Of d_j relative to norm(Theta_j): variances then have ten digits."""


def outweigh(diagonal: Array, rows: Array) -> bool:
    """Whether all d_j are positive, and none is too small compared with the rows."""
    norms = np.linalg.norm(rows, axis=0)
    return bool(((diagonal > 0) & (diagonal >= LEAST_WEIGHT * norms)).all())


class IdentityAndRows(StructuredStrategy):
    """Every cell by itself, each with a weight, and a few additional rows.

    Args:
        name: how tables and messages call it.
        diagonal: d, shape (n,), positive, at least LEAST_WEIGHT norm(Theta_j).
        rows: Theta, shape (k, n), not all zero; of shape (0, n) for none. Copied.

    Raises:
        InvalidInputError: arguments that are not such arrays.
    """

    regular: ClassVar[bool] = True

    def __init__(self, name: str, diagonal: ArrayLike, rows: ArrayLike) -> None:
        self.name = name
        none = np.ndim(rows) == 2 and np.size(rows) == 0
        self.rows = np.zeros(np.shape(rows)) if none else strategy_matrix(name, rows)
        weights = np.array(diagonal, dtype=np.float64)
        if weights.shape != self.rows.shape[1:] or not (weights > 0).all():
            raise InvalidInputError(
                f"strategy {name!r} needs a positive weight for each of its "
                f"{self.rows.shape[1]} cells"
            )
        if not outweigh(weights, self.rows):
            raise InvalidInputError(
                f"strategy {name!r} has a cell whose weight is less than {LEAST_WEIGHT:g} of the "
                "norm of its column of the rows, which leaves too few digits; give the whole matrix"
            )
        self.diagonal = read_only(strategy_matrix(name, weights[None, :])[0].copy())
        k, n = self.rows.shape
        self.shape, self.sizes = (n + k, n), (n,)
        self.columns = None if k else n

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, n); refused if too large."""
        check_entries(f"strategy {self.name!r}", self.shape)
        return read_only(np.vstack([np.diag(self.diagonal), self.rows]))

    @property
    def terms(self) -> list[Term]:  # type: ignore[override]
        """The cells, and the additional rows."""
        cells = Term((0,), (self.cells,), (None,), self.diagonal)
        return [cells, Term((0,), (self.cells,), (self.rows,))] if len(self.rows) else [cells]

    def column_labels(self) -> Indices:
        """All columns differ: each has a weight in a row of its own."""
        return np.arange(self.cells)

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up."""
        if neighbours == Neighbours.REPLACE and not len(self.rows):
            return self._two_largest(norm)
        sizes = np.abs(self._both[self._both != 0])
        in_range = sizes.min() >= 1 / IN_RANGE and sizes.max() <= IN_RANGE
        if neighbours == Neighbours.REPLACE and norm == "l1" and in_range:
            return self._l1_diameter
        return super().sensitivity_under(neighbours, norm)

    @property
    def _both(self) -> Array:
        """A matrix with the column norms of R; each column has a single entry of d."""
        return np.vstack([self.diagonal, self.rows])

    def _longest(self, norm: Norm) -> float:
        return sensitivity_above(self._both, Neighbours.ADD_REMOVE, norm)

    def _two_largest(self, norm: Norm) -> float:
        """The largest distance of two columns without rows, rounded up."""
        if self.cells == 1:
            return 0.0
        two = np.diag(np.sort(self.diagonal)[-2:])
        return sensitivity_above(two, Neighbours.REPLACE, norm)

    def _beside(self, public: Public) -> Strategy:
        large = public.kind == "records" and self.cells > DENSE_ROWS
        return BesideStrategy(self) if large else Strategy._beside(self, public)

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number."""
        return IdentityAndRows(self.name, factor * self.diagonal, factor * self.rows)

    @cached_property
    def _l1_diameter(self) -> float:
        """Largest d_i + d_j + norm(Theta_i - Theta_j)_1, rounded up."""
        k, largest = len(self.rows), 0.0
        if self.few or 2**k > self.cells:
            for start, stop, distances in distance_blocks(self.rows, norm="l1"):
                distances += self.diagonal[start:stop, None] + self.diagonal[start:]
                np.fill_diagonal(distances, 0.0)
                largest = max(largest, float(distances.max()))
            above = raised(largest, k + 3)
        else:
            largest = self._signed_diameter()
            sizes = self.diagonal + np.abs(self.rows).sum(axis=0)
            above = raised(largest + 2 * (k + 3) * UNIT * float(sizes.max()), 3)
        return largest if is_whole(self._both, above) else above

    def _signed_diameter(self) -> float:
        """The largest (d + s^T Theta)_i + (d - s^T Theta)_j, i != j, over all signs s."""
        largest = 0.0
        for signs in product((1.0, -1.0), repeat=len(self.rows) - 1):
            sums = np.array([1.0, *signs]) @ self.rows
            ends = self.diagonal + sums, self.diagonal - sums
            (second, first), (other, last) = (np.partition(end, -2)[-2:] for end in ends)
            apart = ends[0].argmax() != ends[1].argmax()
            largest = max(largest, first + last if apart else max(first + other, second + last))
        return float(largest)

    @cached_property
    def _half(self) -> Array:
        """B = D^-2 Theta^T C^(1/2), shape (n, k)."""
        scaled = self.rows / self.diagonal
        if not len(scaled):
            return scaled.T
        factor = scipy.linalg.cholesky(np.eye(len(scaled)) + scaled @ scaled.T, lower=True)
        half = scipy.linalg.solve_triangular(factor, scaled, lower=True)
        return np.ascontiguousarray((half / self.diagonal).T)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        inverse = self.estimate(np.eye(self.shape[0]))
        return read_only(inverse), self.cells

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return np.concatenate([(x.T * self.diagonal).T, self.rows @ x])

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        n = self.cells
        back = (measurements[:n].T * self.diagonal).T + self.rows.T @ measurements[n:]
        plain = (back.T / self.diagonal**2).T
        return np.asarray(plain - self._half @ (self._half.T @ back))

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        self.require_answers(workload)
        plain = workload.weighted_squares(self.diagonal**-2)
        if not len(self.rows):
            return plain
        return np.maximum(plain - workload.row_norms(self._half), 0.0)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` at power 1 from the Gram matrix of a workload of very many queries."""
        m, n = workload.shape
        parts = None
        if isinstance(workload, RangeWorkload | AllRangesWorkload):
            parts = separable_gram(workload)
        if power == 1 and parts is not None:
            self.require_answers(workload)
            first, last = parts
            saved = separable_trace(first, last, self._half)
            return float((first * last) @ self.diagonal**-2) - saved
        if power != 1 or m <= n or n > GRAM_CELLS or workload.public:
            return None
        self.require_answers(workload)
        gram = workload.gram(np.ones(m))
        saved = float(np.einsum("ij,ij->", self._half, gram @ self._half))
        return float(gram.diagonal() @ self.diagonal**-2) - saved


@free_vector.register
def _(strategy: IdentityAndRows) -> Array:
    """(R^T R)^-1 1, shape (n,)."""
    return np.asarray(strategy.diagonal**-2 - strategy._half @ strategy._half.sum(axis=0))
