"""The law of the noise on measurements, which is published, and of the answers made of them.

Measurement j of a strategy is off by u_j eta_j, with eta_j of a discrete law, u_j the units. An
answer is off by sum_j L_ij u_j eta_j. Several releases have a law for each run of measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pmldesign.factorization import Factorization
from pmldesign.mechanisms import variance
from pmldesign.privacy.noise import Noise
from pmldesign.workloads import Workload
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Discrete noise on some measurements, independent but for the cube.

    Attributes:
        kind: Gaussian, Laplace or cube.
        scale: s or b, in units.
        units: u, shape (r,).
        own_grid: whether what is measured is whole without any rounding.
    """

    kind: Noise
    scale: float
    units: Array
    own_grid: bool = False

    @property
    def deviation(self) -> float:
        """Standard deviation on a measurement, the largest."""
        root = math.sqrt(variance(self.kind, self.scale, self.units.size))
        return root * float(self.units.max())

    def times(self, factor: float) -> NoiseLaw:
        """The law of measurements that are multiplied by a number."""
        return replace(self, units=self.units * factor)


@dataclass(frozen=True, eq=False)
class AnswerNoise:
    """The noise of answers.

    Attributes:
        factorization: the strategy on the queries.
        laws: of runs of its measurements, one after the other, of equal deviation.
    """

    factorization: Factorization
    laws: tuple[NoiseLaw, ...]

    @property
    def deviations(self) -> Array:
        """Standard deviation of every answer, shape (m,)."""
        deviation = max(law.deviation for law in self.laws)
        return np.asarray(deviation * np.sqrt(self.factorization.variances))

    def answering(self, queries: Workload) -> AnswerNoise:
        """That of the answers to other queries, made of the same measurements."""
        known = self.factorization
        asked = queries.beside(known.workload.public)
        return replace(self, factorization=Factorization(asked, known.strategy, known.neighbours))
