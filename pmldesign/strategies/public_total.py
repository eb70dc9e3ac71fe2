r"""A strategy with structure for data whose number of records is public, never written out.

What R measures of x = (N/n) 1 + x0 is known but for R x0, and x0 sums to zero: R counts as R P
(`workloads.centred`). Least squares over the histograms that sum to zero change the estimate by a
multiple of one vector. If R determines the total, so that 1 = R^T h for h = (R^+)^T 1,

    (R P)^+ y = R^+ y - R^+ h (h^T y) / (h^T h),
    diag(L L^T)_i = norm(a_i R^+)^2 - (a_i R^+ h)^2 / (h^T h),

and for a product h is one of vectors, up to the weights. If R does not, with e = 1 - R^+ R 1 the
part of 1 that it misses,

    (R P)^+ y = R^+ y - e (1^T R^+ y) / (e^T e),      diag(L L^T)_i = norm(a_i R^+)^2

for the queries a_i that R answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.strategies.arguments import centring_units, read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public_total import centre, with_total
from pmldesign.workloads.union import products_over
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.structure.farthest_columns import largest_sum

COMPLETE = 1e-9
"""A factor determines the total of its cells if no more of it is missing than this."""
KNOWN = 1e-12
"""Variances below this part of what they are without the total are rounding."""


class PublicTotal(Strategy):
    """R P for a strategy R with structure.

    Args:
        whole: R.
    """

    def __init__(self, whole: ProductStrategy | BlockStrategy | IdentityAndRows) -> None:
        self.name, self.shape = whole.name, whole.shape
        self.whole = whole

    @cached_property
    def matrix(self) -> Array:
        """R P, shape (r, n); refused if too large."""
        return read_only(centre(self.whole.matrix))

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by, relative to its columns."""
        whole = self.whole.matrix
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
        """That of R: the total is the same for all neighbours."""
        return self.whole.distance_profile(norm)

    def measure(self, x: Array) -> Array:
        """R P x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.whole.measure(x - x.mean(axis=0))

    def estimate(self, measurements: Array) -> Array:
        """(R P)^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        estimates = self.whole.estimate(measurements)
        if self._complete:
            direction = self.whole.estimate(self._total)
            part = self._total @ measurements / float(self._total @ self._total)
        else:
            direction = self._missed
            part = estimates.sum(axis=0) / float(direction @ direction)
        return np.asarray(estimates - np.multiply.outer(direction, part))

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        if self._parts(workload) is None:
            super().require_answers(workload)
        else:
            self.whole.require_answers(with_total(workload))

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y, shape (m,), for measurements y of shape (r,)."""
        self.require_answers(workload)
        return with_total(workload).matvec(self.estimate(measurements))

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        if self._parts(workload) is None:
            return super().variances(workload)
        variances = self.whole.variances(with_total(workload))
        if not self._complete:
            return variances
        covariances = with_total(workload).matvec(self.whole.estimate(self._total))
        explained = covariances**2 / float(self._total @ self._total)
        return np.where(explained >= variances * (1 - KNOWN), 0.0, variances - explained)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of products without weights, at power 1 and inf."""
        parts, whole = self._parts(workload), self.whole
        if not isinstance(whole, ProductStrategy) or whole.weights is not None or parts is None:
            return None
        if power not in (1, math.inf) or not self._complete:
            return None
        norms = [_part_norm(whole.factors, part, power) for part in parts]
        return power_mean(np.array(norms), power)

    def _parts(self, workload: Workload) -> list[tuple[Workload, ...]] | None:
        """The workload as a union of products over the attributes of R, if it is one."""
        return products_over(with_total(workload), self.whole.sizes)

    @cached_property
    def _total(self) -> Array:
        """The vector h = (R^+)^T 1, shape (r,)."""
        return self.whole.total_weights()

    @cached_property
    def _missed(self) -> Array:
        """The vector e = 1 - R^+ R 1, the part of 1 that R misses, shape (n,)."""
        if isinstance(self.whole, ProductStrategy):
            sums = [factor.pseudo_inverse.sum(axis=0) for factor in self.whole.factors]
            pairs = zip(sums, self.whole.factors, strict=True)
            return np.asarray(1 - mode_products.outer([h @ factor.matrix for h, factor in pairs]))
        ones = np.ones(self.whole.cells)
        return np.asarray(ones - self.whole.estimate(self.whole.measure(ones)))

    @cached_property
    def _complete(self) -> bool:
        return float(np.abs(self._missed).max()) <= COMPLETE


def _part_norm(factors: Sequence[Strategy], part: Sequence[Workload], power: float) -> float:
    """Sum or maximum of v - c^2 / (h^T h) over the queries of a product."""
    points = []
    for factor, queries in zip(factors, part, strict=True):
        h = factor.pseudo_inverse.sum(axis=0)
        covariances = queries.matvec(factor.pseudo_inverse @ h)
        points.append(np.stack([factor.variances(queries), covariances**2 / float(h @ h)], axis=1))
    if power == 1:
        all_of, explained = np.prod([values.sum(axis=0) for values in points], axis=0).tolist()
        return 0.0 if explained >= all_of * (1 - KNOWN) else float(all_of - explained)
    return largest_sum(points, np.array([1.0, -1.0]))
