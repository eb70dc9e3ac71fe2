"""A strategy on a workload: sensitivities, variances, and errors at noise of scale 1.

All of it is the same for every guarantee. Under the replace relation (always for PML) the number of
records is public, and R and A count without their total (`workloads.centred`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pmldesign.neighbours import Neighbours, Norm
from pmldesign.noise import Noise, gaussian_error, gaussian_moment_root, laplace_error
from pmldesign.strategies import (
    BlockStrategy,
    MarginalsStrategy,
    ProductStrategy,
    PublicTotal,
    PublicTotalStrategy,
    Strategy,
)
from pmldesign.workloads import Workload
from pmldesign.workloads.base import WRITTEN_CELLS, check_entries
from pmldesign.workloads.centred import CentredWorkload, centre
from pmldesign_solvers.operators import Array


@dataclass(frozen=True, eq=False)
class Answering:
    """A strategy that answers a workload: all that no guarantee changes, computed once.

    Attributes:
        workload: A, what is answered; without its total under replace.
        strategy: R, what is measured; without its total under replace.
        neighbours: the relation that the sensitivity speaks of.
    """

    workload: Workload
    strategy: Strategy
    neighbours: Neighbours
    _unit_errors: dict[tuple[Noise, float], float] = field(default_factory=dict, repr=False)

    @cached_property
    def variances(self) -> Array:
        """diag(L L^T), shape (m,): variance of each answer per unit variance of the noise."""
        return self.strategy.variances(self.workload)

    @property
    def root_mean_square(self) -> float:
        """Root of the mean variance of the answers, per unit variance of the noise."""
        total = self.unit_error(Noise.GAUSSIAN, 2) ** 2
        return math.sqrt(total / self.workload.shape[0])

    def sensitivity(self, noise: Noise) -> float:
        """Largest distance of neighbours' measurements: l2 for Gaussian noise, l1 for Laplace."""
        norm: Norm = "l2" if noise is Noise.GAUSSIAN else "l1"
        return self.strategy.sensitivity_under(self.neighbours, norm)

    def norm(self, p: float) -> float:
        """What the strategy makes of gamma_(p)(A), or of its replace version: at least that norm.

        It is tr_{p/2}(L L^T)^(1/2) times the l2 sensitivity.
        """
        spread = self.unit_error(Noise.GAUSSIAN, p) / gaussian_moment_root(p)
        return spread * self.sensitivity(Noise.GAUSSIAN)

    def unit_error(self, noise: Noise, p: float) -> float:
        """Exact l_p^p error of noise of scale 1; p in [2, inf]."""
        if (noise, p) not in self._unit_errors:
            self._unit_errors[noise, p] = self._unit_error(noise, p)
        return self._unit_errors[noise, p]

    def _unit_error(self, noise: Noise, p: float) -> float:
        if noise is Noise.GAUSSIAN:
            norm = self.strategy.norm_by_structure(self.workload, p / 2)
            if norm is None:
                return gaussian_error(self.variances, p=p)
            return gaussian_moment_root(p) * math.sqrt(norm)
        if p == 2 or np.isinf(p):
            return math.sqrt(2) * self.unit_error(Noise.GAUSSIAN, p)
        queries, measurements = self.workload.shape[0], self.strategy.shape[0]
        check_entries(
            f"the reconstruction, which the error of Laplace noise at p = {p:g} needs,",
            (max(queries, self.strategy.cells), measurements),
            remedy="take p = 2 or inf, or Gaussian noise (a guarantee with a delta)",
        )
        return laplace_error(self.strategy.reconstruction(self.workload), p=p)

    def least_unit_error(self, noise: Noise, p: float) -> float:
        """At most `unit_error`, and cheap: Laplace noise is a mixture of Gaussians (Jensen)."""
        return math.sqrt(noise.variance) * self.unit_error(Noise.GAUSSIAN, p)


def answer(strategy: Strategy, workload: Workload, neighbours: Neighbours) -> Answering:
    """The strategy on the workload, both without their total under replace.

    Raises:
        InvalidInputError: the strategy cannot answer the workload.
    """
    if neighbours is Neighbours.REPLACE:
        workload, strategy = CentredWorkload(workload), without_total(strategy)
    strategy.require_answers(workload)
    return Answering(workload, strategy, neighbours)


def without_total(strategy: Strategy) -> Strategy:
    """R P: what a strategy tells beyond the number of records.

    Products and blocks with more than WRITTEN_CELLS cells and strategies of marginals keep their
    structure.
    """
    if isinstance(strategy, MarginalsStrategy) and strategy.residuals != ((),):
        return strategy.without_total()
    if isinstance(strategy, ProductStrategy) and strategy.cells > WRITTEN_CELLS:
        return PublicTotalStrategy(strategy)
    if isinstance(strategy, BlockStrategy) and strategy.cells > WRITTEN_CELLS:
        return PublicTotal(strategy)
    matrix = centre(strategy.matrix)
    kept = np.abs(matrix).max(axis=1) > 1e-12 * np.abs(strategy.matrix).max(axis=1)
    return Strategy(strategy.name, matrix[kept] if kept.any() else matrix)
