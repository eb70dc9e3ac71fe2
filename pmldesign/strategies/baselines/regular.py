r"""Strategies with a regular Gram matrix G = R^T R whose inverse is known or cheap.

They answer every query, with the variances

    diag(L L^T)_i = a_i G^-1 a_i^T,      L = A R^+,      R^+ = G^-1 R^T,

so that neither a pseudo-inverse nor L is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.beside import BesideStrategy
from pmldesign.strategies.total import free_vector, varying
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Array, Flags

LEAST_CONDITION = 1e-8
"""Reciprocal condition number of A^T A (prefix:2048 has 1e-7): variances keep eight digits."""
CONSTANT = 1e-12
"""Relative differences within a measurement below this are rounding: the total answers it."""


class RegularStrategy(Strategy):
    """A strategy that answers every query.

    Args:
        name: how tables and messages call it.
        matrix: R, shape (r, n), of rank n.
        invert: computes G^-1, shape (n, n).
        distances: the largest distance of two columns in each norm, if it is known.
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
    def _inverse_and_rank(self) -> tuple[Array, int]:
        return read_only(self.inverse_gram @ self.matrix.T), self.cells

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        self.require_answers(workload)
        return workload.row_quadratic(self.inverse_gram).clip(min=0.0)

    def _beside(self, public: Public) -> Strategy:
        """R P, with its inverse if the number of records is public."""
        return BesideStrategy(self) if public.kind == "records" else super()._beside(public)


@varying.register
def _(strategy: RegularStrategy) -> Flags:
    """Which measurements depend on more than the total, shape (r,); all of them on one cell."""
    spread: Array = np.ptp(strategy.matrix, axis=1)
    kept: Flags = spread > CONSTANT * np.abs(strategy.matrix).max(axis=1)
    return kept if kept.any() else ~kept


@free_vector.register
def _(strategy: RegularStrategy) -> Array:
    """G^-1 1, shape (n,)."""
    return np.asarray(strategy.inverse_gram.sum(axis=0))
