r"""Strategies with a regular Gram matrix G = R^T R whose inverse is known or cheap.

They answer every query, with the variances

    diag(L L^T)_i = a_i G^-1 a_i^T,      L = A R^+,      R^+ = G^-1 R^T,

so that neither a pseudo-inverse nor L is needed. Without the total (P = I - 1 1^T / n,
`public_total`)

    (P G P)^+ = X - X 1 1^T X / (1^T X 1),      X = G^-1:

it is zero on 1, and P G P times it is P.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.strategies.arguments import centring_units, read_only, require_same_cells
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public_total import CentredWorkload, centre
from pmldesign_solvers.operators.operator import Array

CONSTANT = 1e-12
"""What differs less than this, relatively, in a measurement is rounding: the total answers it."""

Flags = NDArray[np.bool_]


class RegularStrategy(Strategy):
    """A strategy that answers every query.

    Args:
        name: how tables and messages call it.
        matrix: R, shape (r, n), of rank n.
        invert: computes G^-1, shape (n, n).
        distances: the largest distance of two columns in each norm, where it is known.
    """

    regular: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        matrix: ArrayLike,
        *,
        invert: Callable[[], Array],
        distances: Mapping[Norm, float],
    ) -> None:
        super().__init__(name, matrix)
        self._invert = invert
        self._distances = dict(distances)

    @cached_property
    def inverse_gram(self) -> Array:
        """G^-1, shape (n, n)."""
        return read_only(self._invert())

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm."""
        if neighbours == Neighbours.REPLACE and norm in self._distances:
            return self._distances[norm]
        return super().sensitivity_under(neighbours, norm)

    @cached_property
    def varying(self) -> Flags:
        """Which measurements tell more than the total, shape (r,); all of them on one cell."""
        spread: Array = np.ptp(self.matrix, axis=1)
        kept: Flags = spread > CONSTANT * np.abs(self.matrix).max(axis=1)
        return kept if kept.any() else ~kept

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        return read_only(self.inverse_gram @ self.matrix.T), self.cells

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        self.require_answers(workload)
        return workload.row_quadratic(self.inverse_gram).clip(min=0.0)

    def without_total(self) -> Strategy:
        """R P, which has the same distances."""
        return CentredStrategy(self)


class CentredStrategy(RegularStrategy):
    """R P for a regular R: it answers every query but the total, which is public.

    Args:
        whole: R.
    """

    regular: ClassVar[bool] = False

    def __init__(self, whole: RegularStrategy) -> None:
        self.name = whole.name
        self.whole = whole
        self.shape = int(whole.varying.sum()), whole.cells  # without what the total answers

    @cached_property
    def matrix(self) -> Array:
        """R P, shape (r, n), float64, read-only."""
        return read_only(centre(self.whole.matrix[self.whole.varying]))

    @cached_property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by, relative to its columns."""
        return centring_units(self.whole.matrix[self.whole.varying], self.matrix)

    @cached_property
    def inverse_gram(self) -> Array:
        """(P G P)^+, shape (n, n)."""
        inverse = self.whole.inverse_gram
        sums = inverse.sum(axis=0)
        return read_only(inverse - np.outer(sums, sums / sums.sum()))

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm."""
        if neighbours == Neighbours.REPLACE:
            return self.whole.sensitivity_under(neighbours, norm)
        return Strategy.sensitivity_under(self, neighbours, norm)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        return read_only(self.inverse_gram @ self.matrix.T), self.cells - 1

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that is not without its total.

        Raises:
            InvalidInputError: the numbers of cells differ, or a query needs the total.
        """
        if isinstance(workload, CentredWorkload):
            require_same_cells(self.name, self.cells, workload)
        else:
            super().require_answers(workload)

    def without_total(self) -> Strategy:
        """The strategy itself."""
        return self
