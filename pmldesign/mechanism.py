"""The mechanism: a strategy, noise on what it measures, and the guarantee that they meet.

M(x) = L (R x + scale z), L R = A, with z i.i.d. standard Gaussian or Laplace(1). The error is that
of scale L z and does not depend on the data (`answering`).

Without a guarantee the scale is the sensitivity itself, so that errors compare strategies: that is
1/2-zCDP for Gaussian noise and 1-DP for Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pmldesign._arguments import exponent
from pmldesign.answering import Answering, answer
from pmldesign.calibration import Calibration, calibrate, require_attainable
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import PML, Guarantee, PureDP
from pmldesign.neighbours import Neighbours
from pmldesign.noise import (
    Noise,
    laplace_exponent,
    standard_deviations,
)
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign_solvers.operators import Array

NoiseChoice = Literal["auto", "gaussian", "laplace"]


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A strategy with calibrated noise, and its exact error on a workload.

    Attributes:
        answering: the strategy and the workload.
        noise: Gaussian or Laplace.
        sensitivity: largest distance of neighbours' measurements: l2 for Gaussian noise, l1 for
            Laplace noise.
        scale: standard deviation (Gaussian) or b (Laplace) of the noise on each measurement.
        calibration: how the scale was found; None without a guarantee.
    """

    answering: Answering
    noise: Noise
    sensitivity: float
    scale: float
    calibration: Calibration | None

    @property
    def workload(self) -> Workload:
        """A, what is answered; without its total under replace."""
        return self.answering.workload

    @property
    def strategy(self) -> Strategy:
        """R, what is measured; without its total under replace."""
        return self.answering.strategy

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the sensitivity speaks of."""
        return self.answering.neighbours

    @property
    def variances(self) -> Array:
        """diag(L L^T), shape (m,): variance of each answer per unit variance of the noise."""
        return self.answering.variances

    def error(self, p: float) -> float:
        """Exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.

        Raises:
            InvalidInputError: p below 2 or NaN.
        """
        return self.scale * self.answering.unit_error(self.noise, exponent(p))

    @property
    def rmse(self) -> float:
        """Root mean squared error of a query."""
        unit = math.sqrt(self.noise.variance) * self.answering.root_mean_square
        return self.scale * unit

    @property
    def max_std(self) -> float:
        """Largest standard deviation of a query."""
        return self.error(math.inf)

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
    relation = Neighbours(neighbours) if guarantee is None else guarantee.neighbours
    kinds = admissible(guarantee, noise)
    answering = answer(strategy, workload, relation)
    made = (calibrated(answering, guarantee, kind, allow_vacuous=allow_vacuous) for kind in kinds)
    return smallest_error(tuple(made), exponent(p))


def calibrated(
    answering: Answering, guarantee: Guarantee | None, noise: Noise, *, allow_vacuous: bool = False
) -> Mechanism:
    """Noise of one kind at the scale that the guarantee asks for.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as in `mechanism`.
    """
    sensitivity = answering.sensitivity(noise)
    if guarantee is None:
        return Mechanism(answering, noise, sensitivity, sensitivity, None)
    found = calibrate(answering.strategy, guarantee, noise=noise, allow_vacuous=allow_vacuous)
    return Mechanism(answering, noise, sensitivity, found.scale, found)


def smallest_error(mechanisms: Sequence[Mechanism], p: float) -> Mechanism:
    """The one of smallest error at p, the first of equal ones; those far off are not evaluated.

    A product strategy that is too large to be written out has no error under Laplace noise but at
    p = 2 and inf; among several mechanisms it is then left out.

    Raises:
        InvalidInputError: the only mechanism has no error that can be computed.
    """
    best = mechanisms[0]
    for other in mechanisms[1:]:
        least = other.scale * other.answering.least_unit_error(other.noise, p)
        if least < best.error(p) and _error_or_inf(other, p) < best.error(p):
            best = other
    return best


def _error_or_inf(made: Mechanism, p: float) -> float:
    try:
        return made.error(p)
    except InvalidInputError:
        return math.inf


def admissible(guarantee: Guarantee | None, noise: NoiseChoice) -> tuple[Noise, ...]:
    """The kinds of noise to consider; a single one for the caller's explicit choice.

    Raises:
        InvalidInputError: there is no such noise.
    """
    if noise not in ("auto", "gaussian", "laplace"):
        raise InvalidInputError(f"noise must be auto, gaussian or laplace, got {noise!r}")
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
