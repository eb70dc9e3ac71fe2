r"""R P for a strategy R and what is public, never written out where R is not (`workloads.public`).

What R measures of x = (N/n) 1 + x0 is known but for R x0, and x0 sums to zero. Least squares over
the histograms that sum to zero change the estimate by a multiple of one vector. If R determines the
total, so that v = (R^T R)^+ 1 is not orthogonal to 1 and R^+ R 1 = 1,

    (R P)^+ y = R^+ y - v (1^T R^+ y) / (1^T v),
    diag(L L^T)_i = norm(a_i R^+)^2 - (a_i v)^2 / (1^T v),

and for a product v is one of vectors, up to the weights. If R does not, with e = 1 - R^+ R 1 the
part of 1 that it misses, e takes the place of v in the estimate, and

    diag(L L^T)_i = norm(a_i R^+)^2

for the queries a_i that R answers.

Beside several public tables any record is replaced by any other, which changes what is public, and
R P has other distances than R. What is measured is R x + noise, as it is: R has the distances, and
R P x + noise, which follows from it and from what is public, the least squares.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.arguments import (
    centring_units,
    no_form,
    nothing_but,
    read_only,
    require_same_cells,
)
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import RECORDS, Public
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Flags, Indices

KNOWN = 1e-12
"""Variances below this part of what they are without the total are rounding."""
KNOWN_ROWS = 1e-12
"""Rows of R P below this part of what they are in R are rounding."""


def matrix_beside(strategy: Strategy, public: Public) -> Strategy:
    """R P as a matrix, with R^+ where that is known and the same.

    Raises:
        InvalidInputError: R measures nothing but what is public, or is too large for tables.
    """
    if public.several and strategy.cells <= WRITTEN_CELLS:
        return BesideTables(strategy, public)
    if public.kind == "tables":
        raise no_form(public, strategy.name)
    matrix, kept, same = _without_known(strategy.name, strategy.matrix, public)
    inverse = strategy._inverse if same and public.kind == "records" else None
    return Strategy(strategy.name, matrix[kept] if kept.any() else matrix, inverse, public=public)


class BesideStrategy(Strategy):
    """R P for data whose number of records is public.

    Args:
        whole: R, with structure or a known inverse of R^T R.
    """

    def __init__(self, whole: Strategy) -> None:
        self.name, self.whole, self.public = whole.name, whole, RECORDS
        self._kept, self._uncentred = whole.varying, whole
        rows = whole.shape[0] if isinstance(self._kept, slice) else int(self._kept.sum())
        self.shape = rows, whole.cells

    @cached_property
    def matrix(self) -> Array:
        """R P, shape (r, n), without rows that the total answers; refused if too large."""
        return read_only(RECORDS.centre(self.whole.matrix[self._kept]))

    @cached_property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by, relative to its columns."""
        whole = self.whole.matrix[self._kept]
        return centring_units((1 + self.whole.entry_units / 32) * whole, self.matrix)

    def column_labels(self) -> Indices | None:
        """Columns are equal where those of R are."""
        return self.whole.column_labels()

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm."""
        if neighbours == Neighbours.ADD_REMOVE:
            return super().sensitivity_under(neighbours, norm)
        return self.whole.sensitivity_under(neighbours, norm)

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """The profile of R: the total is the same for all neighbours."""
        return self.whole.distance_profile(norm)

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Those of R."""
        return self.whole.pair_distances(norm)

    def measure(self, x: Array) -> Array:
        """R P x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.whole.measure(x - x.mean(axis=0))[self._kept]

    def estimate(self, measurements: Array) -> Array:
        """(R P)^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        every = np.zeros((self.whole.shape[0], *measurements.shape[1:]))
        every[self._kept] = measurements
        return self._balanced(self.whole.estimate(every))

    def _balanced(self, estimates: Array) -> Array:
        """What sums to zero of estimates by R^+, shape (n,) or (n, c)."""
        direction = self._free if self._complete else self._missed
        part = estimates.sum(axis=0) / float(direction.sum())
        return np.asarray(estimates - np.multiply.outer(direction, part))

    @property
    def inverse_known(self) -> bool:
        """Whether that of R gives it."""
        return self.whole.regular or bool(self.whole.factors[1:])

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        if not self.inverse_known:
            return super()._inverse_and_rank
        rank = self.cells if self.whole.regular else self.whole.rank
        inverse = self.whole.pseudo_inverse[:, self._kept]
        return read_only(self._balanced(inverse)), rank - self._complete

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R P does not determine."""
        if self.whole.regular and workload.public:
            require_same_cells(self.name, self.cells, workload)
        elif self._knows(workload):
            self.whole.require_answers(workload.inner)
        else:
            super().require_answers(workload)

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y, shape (m,), for measurements y of shape (r,)."""
        self.require_answers(workload)
        return workload.inner.matvec(self.estimate(measurements))

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        self.require_answers(workload)
        if not (self.whole.regular or self._knows(workload)):
            return super().variances(workload)
        variances = self.whole.variances(workload.inner)
        if not self._complete:
            return variances
        along, size = self.whole.along_total(workload.inner)
        explained = along**2 / size
        return np.where(explained >= variances * (1 - KNOWN), 0.0, variances - explained)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` where structure tells it, else None."""
        return self.whole.norm_beside(workload.inner, power) if self._complete else None

    def _knows(self, workload: Workload) -> bool:
        return self.whole.knows(workload.inner)

    @cached_property
    def _free(self) -> Array:
        """The vector v = (R^T R)^+ 1, shape (n,)."""
        return self.whole.free_vector()

    @cached_property
    def _missed(self) -> Array:
        """The vector e = 1 - R^+ R 1, the part of 1 that R misses, shape (n,)."""
        ones = np.ones(self.whole.cells)
        return np.asarray(ones - self.whole.estimate(self.whole.measure(ones)))

    @cached_property
    def _complete(self) -> bool:
        return self.whole.tells_total


class BesideTables(Strategy):
    """R for data of which several tables are public.

    Args:
        whole: R, of few cells.
        public: the tables.

    Raises:
        InvalidInputError: R measures nothing but what is public.
    """

    def __init__(self, whole: Strategy, public: Public) -> None:
        matrix, kept, same = _without_known(whole.name, whole.matrix, public)
        inverse = whole.pseudo_inverse if same else None
        super().__init__(whole.name, matrix[kept], inverse, public=public)
        self.whole = whole if kept.all() else Strategy(whole.name, whole.matrix[kept])

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """That of R."""
        self._require_same_answers(neighbours)
        return self.whole.sensitivity_under(neighbours, norm)

    def sensitivity_for(self, neighbours: Neighbours, noise: Noise) -> float:
        """That of R."""
        self._require_same_answers(neighbours)
        return self.whole.sensitivity_for(neighbours, noise)

    def column_labels(self) -> Indices | None:
        """Columns are equal where those of R are."""
        return self.whole.column_labels()

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Those of R."""
        return self.whole.pair_distances(norm)


def _without_known(name: str, matrix: Array, public: Public) -> tuple[Array, Flags, bool]:
    """R P, which of its rows are not known, and whether it is R.

    Raises:
        InvalidInputError: every row is known from what is public, which has a name.
    """
    centred = public.centre(matrix)
    kept = np.abs(centred).max(axis=1) > KNOWN_ROWS * np.abs(matrix).max(axis=1)
    if public.name and not kept.any():
        raise nothing_but(public, name)
    least = KNOWN_ROWS * np.abs(centred).max()
    return centred, kept, bool(kept.all() and np.abs(centred - matrix).max() <= least)
