"""From a guarantee and a strategy to the scale of the noise, always on the private side.

    epsilon-DP                    Laplace    b = Delta_1/eps
    (epsilon, delta)-DP           Gaussian   the analytic Gaussian mechanism
    epsilon-PML                   Laplace    Corollary 1 of [ZSO]
    (epsilon, delta)-PML, slack   Gaussian   psi_2 of [SPP], bounded by convexity
    the same, envelope            Gaussian   closed failure probability of [SPP], likewise

Laplace noise for a guarantee with a delta is calibrated to the same epsilon with delta = 0.
Releasing L (R x + z) leaks no more than R x + z, so only the strategy R counts.

Of a product or of marginals with more than WRITTEN_CELLS cells the loss is that of a profile of
distances (`DistanceProfile`), never below it, and every alpha_j counts as the smallest one.

Private end: the loss, evaluated in float64 at the scale that is returned, is at most the target;
at scale / (1 + 1e-6) it is above it. (Exceptions to the second half: a delta within 1e-7 of 1,
and an epsilon within 1e-9 of log(1/min alpha), where the loss hardly moves.)

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Cor. 1.
    [SPP] Saeidian, Pinzon and Palamidessi, Information leakage envelopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from pmldesign._arguments import finite_matrix, non_negative, positive
from pmldesign.errors import InfeasibleError, VacuousGuaranteeError
from pmldesign.gaussian_leakage import (
    distinct_columns,
    envelope_from_distances,
    slack_from_distances,
)
from pmldesign.gaussian_profile import (
    analytic_gaussian_scale,
    classical_gaussian_scale,
    gaussian_delta,
)
from pmldesign.guarantees import PML, ApproxDP, ApproxPML, Guarantee, PMLGuarantee, PureDP
from pmldesign.leakage import laplace_leakage_from_distances
from pmldesign.neighbours import (
    Neighbours,
    Norm,
    l1_sensitivity,
    l2_sensitivity,
    pairwise_distances,
)
from pmldesign.noise import Noise
from pmldesign.private_end import private_end
from pmldesign.strategies.base import Strategy
from pmldesign_solvers.operators import Array

__all__ = [
    "Calibration",
    "analytic_gaussian_scale",
    "calibrate",
    "classical_gaussian_scale",
    "gaussian_delta",
    "laplace_scale",
    "require_attainable",
]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How much of which noise meets a guarantee.

    Attributes:
        noise: Gaussian or Laplace.
        scale: standard deviation (Gaussian) or b (Laplace); 0 where no noise is needed.
        guarantee: what was asked for.
        achieved: the loss at this scale, at most what was asked for: an epsilon for Laplace
            noise, a delta (at the epsilon asked for) for Gaussian noise. Where a vacuous
            guarantee was allowed it is the loss without noise.
    """

    noise: Noise
    scale: float
    guarantee: Guarantee
    achieved: float


def calibrate(
    strategy: Strategy | ArrayLike,
    guarantee: Guarantee,
    *,
    noise: Noise | str,
    allow_vacuous: bool = False,
) -> Calibration:
    """Smallest scale of the noise on R x that meets the guarantee.

    Args:
        strategy: R, shape (r, k), as a Strategy or a matrix; column j is what one record in cell j
            contributes.
        guarantee: what is to be met.
        noise: "gaussian" or "laplace".
        allow_vacuous: accept a guarantee that needs no noise at all, and return scale 0.

    Returns:
        The calibration; its scale is 0 if R does not tell neighbours apart.

    Raises:
        InvalidInputError: an argument out of range, or alpha not fit for k cells.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: R x itself satisfies the guarantee, which protects nobody.
    """
    noise = Noise(noise)
    if isinstance(guarantee, PureDP | ApproxDP):
        return _calibrate_dp(strategy, guarantee, noise)
    if not isinstance(strategy, Strategy):
        strategy = finite_matrix("strategy", strategy)
    cells = strategy.shape[1]
    loss, target, diameter = _pml_loss(strategy, guarantee, noise)
    if diameter == 0:
        return Calibration(noise, 0.0, guarantee, 0.0)
    exposed = loss(0.0)
    if guarantee.is_vacuous(cells) or exposed <= target:
        if not allow_vacuous:
            raise VacuousGuaranteeError(_why_vacuous(guarantee, cells))
        return Calibration(noise, 0.0, guarantee, exposed)
    _require_possible(guarantee, noise)
    scale = private_end(loss, target, start=diameter / guarantee.epsilon)
    return Calibration(noise, scale, guarantee, loss(scale))


def require_attainable(guarantee: Guarantee, cells: int, *, noise: Noise | str) -> None:
    """Refuse a guarantee that `calibrate` refuses whatever the strategy.

    Args:
        guarantee: what is to be met.
        cells: number of cells k.
        noise: "gaussian" or "laplace".

    Raises:
        InvalidInputError: alpha not fit for k cells.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    if not isinstance(guarantee, PureDP | ApproxDP) and guarantee.is_vacuous(cells):
        raise VacuousGuaranteeError(_why_vacuous(guarantee, cells))
    _require_possible(guarantee, Noise(noise))


def laplace_scale(sensitivity: float, *, epsilon: float) -> float:
    """Smallest b of Laplace noise for epsilon-DP, rounded so that sensitivity / b <= epsilon.

    Args:
        sensitivity: largest l1 distance between neighbours, at least 0.
        epsilon: positive.

    Raises:
        InvalidInputError: an argument out of range.
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    epsilon = positive("epsilon", epsilon)
    scale = sensitivity / epsilon
    while scale > 0 and sensitivity / scale > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def _calibrate_dp(
    strategy: Strategy | ArrayLike, guarantee: PureDP | ApproxDP, noise: Noise
) -> Calibration:
    epsilon = guarantee.epsilon
    _require_possible(guarantee, noise)
    sensitivity = _sensitivity(strategy, guarantee.neighbours, noise)
    if isinstance(guarantee, ApproxDP) and noise is Noise.GAUSSIAN:
        scale = analytic_gaussian_scale(sensitivity, epsilon=epsilon, delta=guarantee.delta)
        return Calibration(noise, scale, guarantee, gaussian_delta(sensitivity, scale, epsilon))
    scale = laplace_scale(sensitivity, epsilon=epsilon)
    return Calibration(noise, scale, guarantee, sensitivity / scale if scale > 0 else 0.0)


def _sensitivity(strategy: Strategy | ArrayLike, neighbours: Neighbours, noise: Noise) -> float:
    if isinstance(strategy, Strategy):
        return strategy.sensitivity_under(neighbours, "l2" if noise is Noise.GAUSSIAN else "l1")
    norm = l2_sensitivity if noise is Noise.GAUSSIAN else l1_sensitivity
    return norm(strategy, neighbours)


def _require_possible(guarantee: Guarantee, noise: Noise) -> None:
    """Refuse Gaussian noise for a guarantee without a delta."""
    if noise is Noise.GAUSSIAN and isinstance(guarantee, PureDP):
        raise InfeasibleError(
            "noise 'gaussian' meets epsilon-DP at no scale: likelihood ratios are unbounded; "
            "use noise 'laplace', or add a delta"
        )
    if noise is Noise.GAUSSIAN and isinstance(guarantee, PML):
        raise InfeasibleError(
            "noise 'gaussian' meets epsilon-PML below log(1/alpha) at no scale: far outputs give "
            "the cell of a record away; use noise 'laplace', or add a delta"
        )


def _pml_loss(
    strategy: Strategy | Array, guarantee: PMLGuarantee, noise: Noise
) -> tuple[Callable[[float], float], float, float]:
    """The loss as a function of the scale, its target, and the largest distance of columns.

    With Gaussian noise epsilon-PML has a loss only without noise, where all noise is alike.
    """
    epsilon = guarantee.epsilon
    norm: Norm = "l1" if noise is Noise.LAPLACE or isinstance(guarantee, PML) else "l2"
    repeats = 1.0
    smallest = guarantee.least_probability(strategy.shape[1])
    profile = strategy.distance_profile(norm) if isinstance(strategy, Strategy) else None
    if profile is None:
        given = strategy.matrix if isinstance(strategy, Strategy) else strategy
        matrix = finite_matrix("strategy", given)
        least = guarantee.class_probabilities(matrix.shape[1])
        if norm == "l2":
            matrix, least = distinct_columns(matrix, least)
        distances = pairwise_distances(matrix, norm=norm)
    else:
        distances, least = profile.row(smallest)
        repeats = profile.columns
    diameter = float(distances.max())
    if norm == "l1" or isinstance(guarantee, PML):
        return (
            lambda scale: laplace_leakage_from_distances(distances, least, scale),
            epsilon,
            diameter,
        )
    if isinstance(guarantee, ApproxPML):
        return (
            lambda scale: slack_from_distances(distances, least, scale, epsilon),
            guarantee.delta,
            diameter,
        )
    return (
        lambda scale: envelope_from_distances(distances, least, scale, epsilon, repeats=repeats),
        guarantee.delta,
        diameter,
    )


def _why_vacuous(guarantee: PMLGuarantee, cells: int) -> str:
    least = guarantee.least_probability(cells)
    if guarantee.epsilon >= -math.log(least):
        return (
            f"epsilon must be below log(1/min alpha) = {-math.log(least):.6g}, got "
            f"{guarantee.epsilon:g}: every mechanism satisfies that, nobody is protected; "
            "lower epsilon (in Python, allow_vacuous=True accepts it)"
        )
    asked = [f"epsilon {guarantee.epsilon:g}"]
    if not isinstance(guarantee, PML):
        asked.append(f"delta {guarantee.delta:g}")
    return (
        f"{' and '.join(asked)} with min alpha {least:g} are met by this strategy without any "
        "noise, nobody is protected; lower them (in Python, allow_vacuous=True accepts it)"
    )
