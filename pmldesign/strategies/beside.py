r"""R P for a strategy R and the invariants, materialized only if R is (`workloads.public`).

For x = (N/n) 1 + x0 the measurements R x are known except R x0, and x0 sums to zero. Least squares
over the histograms that sum to zero change the estimate by a multiple of one vector. If R
determines the total, so that v = (R^T R)^+ 1 is not orthogonal to 1 and R^+ R 1 = 1,

    (R P)^+ y = R^+ y - v (1^T R^+ y) / (1^T v),
    diag(L L^T)_i = norm(a_i R^+)^2 - (a_i v)^2 / (1^T v),

and for a product v is one of vectors, up to the weights. If R does not, with e = 1 - R^+ R 1 the
part of 1 that it misses, e replaces v in the estimate, and

    diag(L L^T)_i = norm(a_i R^+)^2

for the queries a_i that R answers.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.strategies.arguments import (
    centring_units,
    read_only,
    require_same_cells,
)
from pmldesign.strategies.base import Strategy, inverse_known
from pmldesign.strategies.online import made_for
from pmldesign.strategies.total import (
    along_total,
    free_vector,
    knows,
    norm_without_total,
    tells_total,
    varying,
)
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import RECORDS
from pmldesign_solvers.operators.operator import Array, Indices

KNOWN = 1e-12
"""Variances below this part of those without the public total are rounding."""


class BesideStrategy(Strategy):
    """R P for data whose number of records is public.

    Args:
        whole: R, with structure or a known inverse of R^T R.
    """

    def __init__(self, whole: Strategy) -> None:
        self.name, self.whole, self.public = whole.name, whole, RECORDS
        self._kept, self._uncentred = varying(whole), whole
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
        """The part of estimates by R^+ that sums to zero, shape (n,) or (n, c)."""
        direction = self._free if self._complete else self._missed
        part = estimates.sum(axis=0) / float(direction.sum())
        return np.asarray(estimates - np.multiply.outer(direction, part))

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        if not inverse_known(self):
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
        along, size = along_total(self.whole, workload.inner)
        explained = along**2 / size
        return np.where(explained >= variances * (1 - KNOWN), 0.0, variances - explained)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` if the structure gives it, else None."""
        if not self._complete:
            return None
        return norm_without_total(self.whole, workload.inner, power)

    def _knows(self, workload: Workload) -> bool:
        return knows(self.whole, workload.inner)

    @cached_property
    def _free(self) -> Array:
        """The vector v = (R^T R)^+ 1, shape (n,)."""
        return free_vector(self.whole)

    @cached_property
    def _missed(self) -> Array:
        """The vector e = 1 - R^+ R 1, the part of 1 that R misses, shape (n,)."""
        ones = np.ones(self.whole.cells)
        return np.asarray(ones - self.whole.estimate(self.whole.measure(ones)))

    @cached_property
    def _complete(self) -> bool:
        return tells_total(self.whole)


@inverse_known.register
def _(strategy: BesideStrategy) -> bool:
    """Whether that of R gives it."""
    return strategy.whole.regular or bool(strategy.whole.factors[1:])


@made_for.register
def _(strategy: BesideStrategy, workload: Workload) -> Strategy:
    """R P for the R that is made for other weights."""
    made = made_for(strategy.whole, workload.whole)
    return strategy if made is strategy.whole else made.beside(strategy.public)


def uncentred(strategy: Strategy) -> Strategy:
    """R with its structure, if the strategy is R P."""
    return strategy._uncentred or strategy
