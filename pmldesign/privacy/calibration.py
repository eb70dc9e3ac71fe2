"""From a guarantee and a strategy to the scale of the noise, always on the private side.

    epsilon-DP                    Laplace    b = Delta_1/eps
    epsilon-DP                    cube       b = Delta_inf/eps
    (epsilon, delta)-DP           Gaussian   the analytic Gaussian mechanism
    rho-zCDP, mu-GDP, Renyi       both       closed forms (`curves`)
    epsilon-PML                   Laplace    Corollary 1 of [ZSO]
    (epsilon, delta)-PML, slack   Gaussian   psi_2 of [SPP], bounded by convexity
    the same, envelope            Gaussian   closed failure probability of [SPP], bounded too

Laplace and cube noise for a guarantee with a delta are calibrated to the same epsilon without it.
Releasing L (R x + z) leaks no more than R x + z, so only the strategy R counts.

Private end: the loss, rounded upwards at the scale that is returned, is at most the target, and so
it is in exact arithmetic for the entries of R as they are; at scale / (1 + 1e-6) it is above it.
Matrices of any size are divided by a power of two first, which changes no digit. (Exceptions to the
second half: a delta within 1e-7 of 1, an epsilon within 1e-9 of log(1/min alpha), near which the
loss is almost constant, and Gaussian noise for an epsilon above 1e22.)

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Cor. 1.
    [SPP] Saeidian, Pinzon and Palamidessi, Information leakage envelopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix, flags, member, non_negative, positive
from pmldesign.errors import InfeasibleError, InvalidInputError
from pmldesign.privacy.analytic_gaussian import MARGIN
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale as analytic_gaussian_scale
from pmldesign.privacy.analytic_gaussian import classical_gaussian_scale as classical_gaussian_scale
from pmldesign.privacy.analytic_gaussian import gaussian_delta as gaussian_delta
from pmldesign.privacy.curves import curve_of
from pmldesign.privacy.guarantees import ApproxDP, CurrencyGuarantee, Guarantee, PureDP
from pmldesign.privacy.neighbours import Measurable, Neighbours, sensitivity_above
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import (
    WIDTH,
    at_least,
    private_end,
    quotient_above,
    root_above,
    unscaled,
)
from pmldesign.privacy.priors import OnPriors
from pmldesign.workloads.display import Displayed, Facts

NEAR = 1e-2
"""Relative width of where the scale may be, after a look at a few of many columns."""


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Displayed):
    """The kind and scale of noise that satisfy a guarantee.

    Attributes:
        noise: its kind.
        scale: standard deviation (Gaussian) or b (Laplace, cube); 0 if no noise is needed.
        guarantee: the requested one.
        achieved: the loss at this scale, at most the requested one: an epsilon for Laplace
            noise, a delta (at the requested epsilon) for Gaussian noise; rho, mu, or the epsilon of
            the order for a guarantee in these. If a vacuous guarantee was allowed it is the loss
            without noise.
    """

    noise: Noise
    scale: float
    guarantee: Guarantee
    achieved: float

    @property
    def loss(self) -> str:
        """What `achieved` is: "epsilon", "delta", "rho" or "mu"."""
        if isinstance(self.guarantee, CurrencyGuarantee):
            return self.guarantee.unit
        return "delta" if self.noise is Noise.GAUSSIAN else "epsilon"

    def _display(self) -> tuple[str, Facts]:
        title = f"Calibration: {self.noise} noise of scale {at_least(self.scale)}"
        return title, [
            ("for", repr(self.guarantee)),
            (f"achieved {self.loss}", at_least(self.achieved)),
        ]


def calibrate(
    strategy: Measurable | ArrayLike,
    guarantee: Guarantee,
    *,
    noise: Noise | str,
    allow_vacuous: bool = False,
    near: float | None = None,
) -> Calibration:
    """Smallest scale of the noise on R x that meets the guarantee.

    Args:
        strategy: R, shape (r, k), a strategy or a matrix; column j is the contribution of a
            record in cell j.
        guarantee: to be satisfied.
        noise: "gaussian" or "laplace".
        allow_vacuous: accept a guarantee that needs no noise at all, and return scale 0.
        near: a scale about which it is looked for first under PML; None for none that is known.

    Returns:
        The calibration; its scale is 0 if neighbours have equal measurements.

    Raises:
        InvalidInputError: an argument out of range, or alpha not fit for k cells.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: R x without noise satisfies the guarantee.
    """
    noise = member("noise", noise, Noise)
    flags(allow_vacuous=allow_vacuous)
    if not isinstance(guarantee, OnPriors):
        return _calibrate_dp(strategy, guarantee, noise)
    if not isinstance(strategy, Measurable):
        strategy = finite_matrix("strategy", strategy)
    cells = strategy.shape[1]
    from pmldesign.privacy.loss import pml_loss

    loss = pml_loss(strategy, guarantee, noise)
    if loss.diameter == 0:
        return Calibration(noise, 0.0, guarantee, 0.0)
    loss_at = cache(loss)
    exposed = loss_at(0.0)
    if guarantee.is_vacuous(cells) or exposed <= loss.target:
        if not allow_vacuous:
            raise guarantee.vacuous(cells)
        return Calibration(noise, 0.0, guarantee, exposed)
    _require_possible(guarantee, noise)
    start, ratio = loss.diameter / guarantee.epsilon, 2.0
    rough = loss.rough() if near is None else None
    if near is not None:
        start, ratio = math.ldexp(near, -loss.exponent), 1 + 0.99 * WIDTH
    elif rough is not None and rough(0.0) > loss.target:
        start, ratio = private_end(rough, loss.target, start=start, width=NEAR), 1 + NEAR
    scale = private_end(loss_at, loss.target, start=start, ratio=ratio)
    return Calibration(
        noise, unscaled("the scale of the noise", scale, loss.exponent), guarantee, loss_at(scale)
    )


def require_attainable(guarantee: Guarantee, cells: int, *, noise: Noise | str) -> None:
    """Refuse a guarantee that `calibrate` refuses whatever the strategy.

    Args:
        guarantee: to be satisfied.
        cells: number of cells k.
        noise: "gaussian" or "laplace".

    Raises:
        InvalidInputError: alpha not fit for k cells.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    if isinstance(guarantee, OnPriors) and guarantee.is_vacuous(cells):
        raise guarantee.vacuous(cells)
    _require_possible(guarantee, member("noise", noise, Noise))


def laplace_scale(sensitivity: float, *, epsilon: float) -> float:
    """Smallest b of Laplace noise for epsilon-DP: sensitivity <= b epsilon in exact arithmetic.

    Args:
        sensitivity: largest l1 distance between neighbours, at least 0.
        epsilon: positive.

    Raises:
        InvalidInputError: an argument out of range, or a scale that float64 does not hold.
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    epsilon = positive("epsilon", epsilon)
    (distance, place), (rate, shift) = math.frexp(sensitivity), math.frexp(epsilon)
    if distance == 0:
        return 0.0
    return unscaled("the scale of the noise", quotient_above(distance, rate), place - shift)


def _calibrate_dp(
    strategy: Measurable | ArrayLike,
    guarantee: PureDP | ApproxDP | CurrencyGuarantee,
    noise: Noise,
) -> Calibration:
    _require_possible(guarantee, noise)
    _require_same_known(strategy, guarantee)
    sampling = strategy.sampling if isinstance(strategy, Measurable) else None
    if sampling is not None:
        require_amplified(guarantee, noise)
    sensitivity = _sensitivity(strategy, guarantee.neighbours, noise)
    if noise is not Noise.GAUSSIAN:
        scale = laplace_scale(sensitivity, epsilon=guarantee.laplace_ratio)
    elif isinstance(guarantee, CurrencyGuarantee):
        scale = gaussian_scale(sensitivity, guarantee.gaussian_square)
    else:
        epsilon, delta = guarantee.epsilon, guarantee.delta
        if sampling is not None:
            scale = sampling.scale(epsilon, delta) * (1 + MARGIN)
            # of a larger scale the bound, by other transforms, may be above the smaller delta
            achieved = min(sampling.curve(sensitivity, scale).delta(epsilon), delta)
            return Calibration(noise, scale, guarantee, achieved)
        scale = analytic_gaussian_scale(sensitivity, epsilon=epsilon, delta=delta)
        return Calibration(noise, scale, guarantee, gaussian_delta(sensitivity, scale, epsilon))
    curve = curve_of(noise, sensitivity, scale)
    if isinstance(guarantee, CurrencyGuarantee):
        return Calibration(noise, scale, guarantee, min(guarantee.spent(curve), guarantee.budget))
    return Calibration(noise, scale, guarantee, curve.pure)


def gaussian_scale(sensitivity: float, squared_ratio: Fraction) -> float:
    """Smallest standard deviation with (sensitivity / scale)^2 <= squared_ratio, exactly.

    Raises:
        InvalidInputError: a scale that float64 does not hold.
    """
    distance, exponent = math.frexp(sensitivity)
    if distance == 0:
        return 0.0
    scale = root_above(Fraction(distance) ** 2 / squared_ratio)
    return unscaled("the scale of the noise", scale, exponent)


def _require_same_known(strategy: Measurable | ArrayLike, guarantee: Guarantee) -> None:
    """Refuse a strategy whose invariants are not those of the guarantee.

    Raises:
        InvalidInputError: they differ.
    """
    known = strategy.public.name if isinstance(strategy, Measurable) else ""
    if known != guarantee.public_answers:
        raise InvalidInputError(
            f"the strategy is for the known answers {known!r}, the guarantee for"
            f" {guarantee.public_answers!r}; give the workload and the guarantee the same known"
            " answers"
        )


def _sensitivity(strategy: Measurable | ArrayLike, neighbours: Neighbours, noise: Noise) -> float:
    if isinstance(strategy, Measurable):
        return strategy.sensitivity_for(neighbours, noise)
    return sensitivity_above(strategy, neighbours, noise.norm)


def require_amplified(guarantee: Guarantee, noise: Noise) -> None:
    """Refuse guarantees and noise without amplification by sampling.

    Raises:
        InvalidInputError: other than Gaussian noise, or than epsilon and delta.
    """
    if noise is not Noise.GAUSSIAN or not isinstance(guarantee, ApproxDP):
        raise InvalidInputError(
            f"amplification by sampling is for Gaussian noise and a guarantee of epsilon and"
            f" delta, got {noise} noise and {guarantee!r}; without it say how often a person takes"
            " part, such as 4,every=16"
        )


def _require_possible(guarantee: Guarantee, noise: Noise) -> None:
    """Refuse Gaussian noise without a delta, and cube noise for anything except epsilon-DP."""
    if guarantee.admits(noise):
        return
    if noise is Noise.CUBE:
        raise InfeasibleError(
            "noise 'cube' is for differential privacy with epsilon alone or beside a delta; use"
            " noise 'laplace', or PureDP(epsilon)"
        )
    if not guarantee.pml:
        raise InfeasibleError(
            "noise 'gaussian' meets epsilon-DP at no scale: likelihood ratios are unbounded; "
            "use `noise='laplace'`, or pass `delta`"
        )
    raise InfeasibleError(
        "noise 'gaussian' meets epsilon-PML below log(1/alpha) at no scale: far outputs give "
        "the cell of a record away; use `noise='laplace'`, or pass `delta`"
    )
