"""The mechanism: a strategy, noise on what it measures, and the guarantee that they meet.

M(x) = L (R x + scale z), L R = A, with z i.i.d. standard Gaussian or Laplace(1). The error is that
of scale L z and does not depend on the data. Under the replace relation (always for PML) the number
of records is public, and R and A count without their total (`workloads.centred`).

Without a guarantee the scale is the sensitivity itself, so that errors compare strategies: that is
1/2-zCDP for Gaussian noise and 1-DP for Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pmldesign._arguments import exponent
from pmldesign.calibration import Calibration, calibrate, require_attainable
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import PML, Guarantee, PureDP
from pmldesign.neighbours import Neighbours, l1_sensitivity, l2_sensitivity
from pmldesign.noise import (
    Noise,
    gaussian_error,
    laplace_error,
    laplace_exponent,
    largest_standard_deviation,
    root_mean_squared_error,
    standard_deviations,
)
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.centred import CentredWorkload, centre
from pmldesign_solvers.operators import Array

NoiseChoice = Literal["auto", "gaussian", "laplace"]


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A strategy with calibrated noise, and its exact error on a workload.

    Attributes:
        workload: A, what is answered; without its total under replace.
        strategy: R, what is measured; without its total under replace.
        noise: Gaussian or Laplace.
        neighbours: the relation that the sensitivity speaks of.
        sensitivity: largest distance of neighbours' measurements: l2 for Gaussian noise, l1 for
            Laplace noise.
        scale: standard deviation (Gaussian) or b (Laplace) of the noise on each measurement.
        calibration: how the scale was found; None without a guarantee.
    """

    workload: Workload
    strategy: Strategy
    noise: Noise
    neighbours: Neighbours
    sensitivity: float
    scale: float
    calibration: Calibration | None

    @cached_property
    def variances(self) -> Array:
        """diag(L L^T), shape (m,): variance of each answer per unit variance of the noise."""
        return self.strategy.variances(self.workload)

    def error(self, p: float) -> float:
        """Exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.

        Raises:
            InvalidInputError: p below 2 or NaN.
        """
        p = exponent(p)
        if self.noise is Noise.GAUSSIAN:
            return gaussian_error(self.variances, p=p, scale=self.scale)
        if p == 2:
            return self.rmse * float(np.sqrt(self.workload.shape[0]))
        if np.isinf(p):
            return self.max_std
        reconstruction = self.strategy.reconstruction(self.workload)
        return laplace_error(reconstruction, p=p, scale=self.scale)

    @property
    def rmse(self) -> float:
        """Root mean squared error of a query."""
        return root_mean_squared_error(self.variances, noise=self.noise, scale=self.scale)

    @property
    def max_std(self) -> float:
        """Largest standard deviation of a query."""
        return largest_standard_deviation(self.variances, noise=self.noise, scale=self.scale)

    @property
    def standard_deviations(self) -> Array:
        """Standard deviation of each answer, shape (m,)."""
        return standard_deviations(self.variances, noise=self.noise, scale=self.scale)


def mechanism(
    strategy: Strategy,
    workload: Workload,
    *,
    guarantee: Guarantee | None = None,
    noise: NoiseChoice = "auto",
    p: float = 2.0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    allow_vacuous: bool = False,
) -> Mechanism:
    """Put the noise on a strategy that a guarantee asks for.

    Args:
        strategy: R, shape (r, n).
        workload: A, shape (m, n).
        guarantee: what is to be met; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", or "auto" for the one with the smaller error at p among those
            that can meet the guarantee (Gaussian without a guarantee).
        p: in [2, inf], for noise "auto".
        neighbours: "add-remove" or "replace", where there is no guarantee to say it.
        allow_vacuous: accept a guarantee that every mechanism satisfies.

    Raises:
        InvalidInputError: the strategy cannot answer the workload, or an argument out of range.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: the guarantee needs no noise at all, and that is not allowed.
    """
    if noise not in ("auto", "gaussian", "laplace"):
        raise InvalidInputError(f"noise must be auto, gaussian or laplace, got {noise!r}")
    relation = Neighbours(neighbours) if guarantee is None else guarantee.neighbours
    if relation is Neighbours.REPLACE:
        workload, strategy = CentredWorkload(workload), without_total(strategy)
    strategy.require_answers(workload)

    def build(kind: Noise) -> Mechanism:
        norm: Callable[..., float] = l2_sensitivity if kind is Noise.GAUSSIAN else l1_sensitivity
        sensitivity = norm(strategy.matrix, relation)
        calibration, scale = None, sensitivity
        if guarantee is not None:
            calibration = calibrate(
                strategy.matrix, guarantee, noise=kind, allow_vacuous=allow_vacuous
            )
            scale = calibration.scale
        return Mechanism(workload, strategy, kind, relation, sensitivity, scale, calibration)

    return min(map(build, admissible(guarantee, noise)), key=lambda one: one.error(p))


def admissible(guarantee: Guarantee | None, noise: NoiseChoice) -> tuple[Noise, ...]:
    """The kinds of noise to consider; a single one for the caller's explicit choice."""
    if noise != "auto":
        return (Noise(noise),)
    if guarantee is None:
        return (Noise.GAUSSIAN,)
    if isinstance(guarantee, PureDP | PML):
        return (Noise.LAPLACE,)
    return (Noise.GAUSSIAN, Noise.LAPLACE)


def require_feasible(
    guarantee: Guarantee | None, cells: int, *, noise: NoiseChoice, p: float
) -> None:
    """Refuse what no strategy can do with this noise; called before long work.

    Raises:
        InvalidInputError: alpha does not fit the number of cells, or p is too large for the noise.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    for kind in admissible(guarantee, noise):
        if guarantee is not None:
            require_attainable(guarantee, cells, noise=kind)
        if kind is Noise.LAPLACE:
            laplace_exponent(p)


def without_total(strategy: Strategy) -> Strategy:
    """R P: what a strategy tells beyond the number of records."""
    matrix = centre(strategy.matrix)
    kept = np.abs(matrix).max(axis=1) > 1e-12 * np.abs(strategy.matrix).max(axis=1)
    return Strategy(strategy.name, matrix[kept] if kept.any() else matrix)
