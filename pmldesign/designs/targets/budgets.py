"""The least budget at which noise on a strategy is small enough, and lower bounds for every one.

Noise of scale s on a strategy R for B = diag(1/c) A, L R = B, has the largest weighted standard
deviation s v, v = (2)^(1/2) for Laplace noise times the largest row norm of L. It meets the targets
if s <= 1/v, and is private if s is at least the calibrated scale. At the least budget these two
scales are equal. With a sensitivity D, the budgets in all privacy definitions follow from t = D v
(`privacy.curves`). Targets for half-widths use the largest half-width instead of v (`accuracy`).

No strategy has t below gamma_(inf)(B) for Gaussian noise; for half-widths, this bound is multiplied
by the least ratio of half-widths to standard deviations. At a certified lower bound on gamma the
budget of t is thus a lower bound for all of them.

Under Laplace noise a step has ratios t_1, t_2, ... in the measurements. The root T of the sum of
their squares is at least 2^(1/2) gamma_(inf)(B), and their sum is at least T. The Renyi divergences
D(t_1) + D(t_2) + ... are at least D(T), D being concave in t^2: the slope of that of order a falls
over t, a (1 - x)/(a + (a - 1) x) with x = e^-(2a-1)t, which is 0 at t = 0 and concave. So T in one
measurement bounds epsilon, rho and Renyi epsilons. Gaussian DP of mu has a divergence of order 1 of
mu^2/2 at most: mu >= (2 rho(T))^(1/2). Many small ratios hide more at a delta than a single one;
there, and under PML, a budget is excluded by the bounds on the error (`bounds`).

Laplace noise on the grid of whole measurements (`mechanisms.discrete`) has the deviations of one
budget at a smaller one. Half-widths there are whole, and no law of them is inverted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from pmldesign.designs.targets.accuracy import largest_size, least_share
from pmldesign.error_bounds.bound import BoundProblem
from pmldesign.error_bounds.lower import gaussian_class, laplace_class, least_variance
from pmldesign.errors import InfeasibleError, PmldesignError, VacuousGuaranteeError
from pmldesign.factorization import Factorization
from pmldesign.mechanisms import Mechanism, calibrated, on_own_grid, own_grid_gain
from pmldesign.mechanisms.exact_error import INTEGER_LAPLACE
from pmldesign.privacy.calibration import Calibration, calibrate
from pmldesign.privacy.curves import PrivacyCurve, curve_of
from pmldesign.privacy.guarantees import (
    PML,
    ApproxDP,
    ApproxPML,
    CurrencyGuarantee,
    EnvelopePML,
    GaussianDP,
    Guarantee,
    PMLGuarantee,
    PureDP,
    RenyiDP,
)
from pmldesign.privacy.loss import leakage_at
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import WIDTH, private_end
from pmldesign.privacy.outward import at_least as rounded_up
from pmldesign.privacy.outward import at_most as rounded_down
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import Strategy

SAFETY = 1e-9
"""Relative: the scale stays below the one at which a target is reached."""
BUDGET_DIGITS = 10
"""Of a budget, rounded to the safe side."""
RAISES = (0.0, *(5e-8 * 2**k for k in range(40)))
"""Relative raises of a budget until its calibrated scale, a private end, is small enough."""
LEAST_BUDGET = 1e-12
"""Where even less would do."""
DELTA_ROUNDING = 1e-9
"""Of a delta in a lower bound."""


def with_budget(guarantee: Guarantee, value: float) -> Guarantee:
    """The guarantee with another epsilon, rho or mu."""
    changed: Guarantee = replace(guarantee, **{budget_name(guarantee): value})  # type: ignore[arg-type]
    return changed


def budget_name(guarantee: Guarantee) -> str:
    """Which number of the guarantee is looked for."""
    return guarantee.unit if isinstance(guarantee, CurrencyGuarantee) else "epsilon"


def budget_in(guarantee: Guarantee) -> float:
    """Its epsilon, rho or mu."""
    return float(getattr(guarantee, budget_name(guarantee)))


def least_noise(
    factorization: Factorization, guarantee: Guarantee, noise: Noise, largest: float
) -> Calibration:
    """The noise for the least budget at which this strategy for B has no deviation above 1.

    Args:
        factorization: of B.
        guarantee: the one whose budget is searched; the budget that it has does not count.
        noise: Gaussian or Laplace.
        largest: standard deviation, or half-width, of an answer under noise of scale 1.

    Returns:
        The calibration for a budget of ten digits, rounded up, whose scale is small enough.

    Raises:
        InfeasibleError: no budget does, or only one that protects no one.
    """
    strategy = factorization.strategy
    sensitivity, near = factorization.sensitivity(noise), None
    if largest == 0 or sensitivity == 0:
        return calibrate(strategy, with_budget(guarantee, LEAST_BUDGET), noise=noise)
    scale = (1 - SAFETY) / largest
    if isinstance(guarantee, OnPriors):  # for a scale less by what calibration may add to it
        near = scale / (1 + 2 * WIDTH)
        start = least_leakage(strategy, guarantee, noise, near)
    else:
        start = budget_of(curve_of(noise, sensitivity, scale), guarantee)
    start = max(start, LEAST_BUDGET)
    for step in RAISES:
        value = float(rounded_up(start * (1 + step), BUDGET_DIGITS))
        asked = with_budget(guarantee, value)
        found = calibrate(strategy, asked, noise=noise, allow_vacuous=True, near=near)
        if found.scale == 0:
            break
        if found.scale <= scale:
            return found
    raise _impossible(guarantee)


def budget_of(curve: PrivacyCurve, guarantee: Guarantee) -> float:
    """The budget that noise of this curve needs for a guarantee of this form."""
    if isinstance(guarantee, RenyiDP):
        return curve.renyi(guarantee.order)
    if isinstance(guarantee, CurrencyGuarantee):
        return guarantee.spent(curve)
    if guarantee.delta > 0:
        # Laplace noise is calibrated without delta
        return curve.epsilon(guarantee.delta) if curve.gaussian else curve.pure
    return curve.pure


def none_below(
    norm_lower: float, problem: BoundProblem, noise: Noise, level: float | None = None
) -> float:
    """A budget below which no noise of this kind on any strategy meets the targets, rounded down.

    Args:
        norm_lower: certified lower bound on gamma_(inf)(B) for the neighbours of the guarantee.
        problem: B at p = inf under the guarantee, whose own budget does not count.
        noise: Gaussian or Laplace.
        level: of intervals, as for `least_for`.
    """
    guarantee, share = problem.guarantee, least_share(noise, level)
    if isinstance(guarantee, OnPriors):
        most = -math.log(guarantee.least_probability(problem.workload.shape[1]))
        return _excluded(problem, noise, share, most)
    ratio = norm_lower * share * (1 if noise is Noise.GAUSSIAN else math.sqrt(2)) * (1 - 1e-14)
    if ratio <= 0:
        return 0.0
    curve = PrivacyCurve(noise, ratio)
    if noise is Noise.LAPLACE and guarantee.delta > 0:
        return _excluded(problem, noise, share, ratio)
    if noise is Noise.LAPLACE and isinstance(guarantee, GaussianDP):
        return float(rounded_down(math.sqrt(2 * curve.rho) * (1 - 1e-12), BUDGET_DIGITS))
    if guarantee.delta > 0:
        return float(rounded_down(_epsilon_below(curve, guarantee.delta), BUDGET_DIGITS))
    return float(rounded_down(budget_of(curve, guarantee) * (1 - 1e-12), BUDGET_DIGITS))


def none_at_all_below(problem: BoundProblem, most: float) -> float:
    """A budget up to `most` below which no mechanism meets the targets, rounded down."""
    return _excluded(problem, None, 1.0, most)


def _epsilon_below(curve: PrivacyCurve, delta: float) -> float:
    """An epsilon at which the noise has more than delta, whatever the rounding."""
    raised = min(delta * (1 + DELTA_ROUNDING), 1 - 2**-52)
    if curve.delta(0.0) <= raised:
        return 0.0
    low, high = 0.0, curve.epsilon(delta)
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if curve.delta(middle) > raised else (low, middle)
    return low


def least_leakage(strategy: Strategy, guarantee: PMLGuarantee, noise: Noise, scale: float) -> float:
    """The privacy loss of noise of a scale: for Gaussian noise the epsilon at the delta asked for.

    Args:
        strategy: R.
        guarantee: under PML; its epsilon does not count.
        noise: Gaussian, which needs a delta, or Laplace.
        scale: of the noise, positive.

    Raises:
        VacuousGuaranteeError: only a guarantee that every mechanism satisfies would do.
    """

    @cache
    def loss(value: float) -> float:
        asked = with_budget(guarantee, value)
        assert isinstance(asked, PML | ApproxPML | EnvelopePML)
        return leakage_at(strategy, asked, noise=noise, scale=scale)

    cells = strategy.cells
    most = -math.log(guarantee.least_probability(cells)) * (1 - 1e-7)
    if noise is Noise.LAPLACE:
        leaked = loss(most)
        if leaked >= most:
            raise _impossible(guarantee)
        return leaked
    start = min(1.0, most / 2)
    # delta falls as epsilon grows, as the loss of a calibration does as the scale grows
    if loss(start) > guarantee.delta and loss(most) > guarantee.delta:
        raise _impossible(guarantee)
    if loss(start) <= guarantee.delta and loss(LEAST_BUDGET) <= guarantee.delta:
        return LEAST_BUDGET
    return min(private_end(loss, guarantee.delta, start=start, width=1e-7), most)


def _excluded(problem: BoundProblem, noise: Noise | None, share: float, most: float) -> float:
    """The largest epsilon up to `most` at which bounds on the error exclude the targets, or 0.

    Of the classes of Gaussian and Laplace noise, or of every mechanism (None).

    A delta lets Laplace noise be (epsilon, delta)-private that is not epsilon-private: only the
    bound for all additive noise holds of it.
    """
    cells = problem.workload.shape[1]
    pure = problem.guarantee.delta == 0

    def allowed(value: float) -> bool:
        asked = with_budget(problem.guarantee, value)
        at_value = replace(problem, guarantee=asked, shifts=asked.shifts(cells))
        bounds = [least_variance(at_value)]
        if noise is Noise.GAUSSIAN:
            bounds.append(gaussian_class(at_value))
        elif pure and noise is Noise.LAPLACE:
            bounds.append(laplace_class(at_value))
        return all(bound.value is None or bound.value * share <= 1 for bound in bounds)

    if allowed(LEAST_BUDGET):
        return 0.0
    return float(rounded_down(_bisect(allowed, LEAST_BUDGET, most)[0], BUDGET_DIGITS))


def _bisect(enough: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Two numbers a relative 1e-7 apart: the second one is enough, the first is not."""
    if enough(low):
        return low, low
    while high > low * (1 + 1e-7):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return low, high


def _impossible(guarantee: Guarantee) -> PmldesignError:
    if isinstance(guarantee, OnPriors):
        return VacuousGuaranteeError(
            "the targets leave so little noise that only an epsilon of log(1/min alpha), which "
            "every mechanism satisfies, would do: nobody is protected; allow larger targets"
        )
    return InfeasibleError("no budget in the range of double precision meets these targets")


class Answer(NamedTuple):
    """The least budget of a strategy with one kind of noise, perhaps integer-valued.

    Attributes:
        calibration: of the noise, for the budget.
        factorization: the strategy on B.
        largest: standard deviation, or half-width, of an answer to B under noise of scale 1.
        own_grid: whether the noise is integer-valued.
    """

    calibration: Calibration
    factorization: Factorization
    largest: float
    own_grid: bool = False

    @property
    def budget(self) -> float:
        """The least one."""
        return budget_in(self.calibration.guarantee)

    @property
    def noise(self) -> Noise:
        """Its kind."""
        return self.calibration.noise

    @property
    def noise_name(self) -> str:
        """The name of the noise in tables."""
        return INTEGER_LAPLACE if self.own_grid else self.noise.value


def needed(
    factorization: Factorization,
    guarantee: Guarantee,
    noise: Noise,
    level: float | None,
    own_grid: bool | None,
) -> Answer:
    """The least budget of a strategy with one kind of noise.

    Args:
        factorization: of the strategy on the queries over their targets.
        guarantee: the one whose budget is searched.
        noise: Gaussian or Laplace.
        level: of intervals; None for standard deviations.
        own_grid: as for `on_own_grid`.

    Raises:
        InfeasibleError, VacuousGuaranteeError: no budget is enough.
    """
    largest = largest_size(factorization, noise, level)
    enough = least_noise(factorization, guarantee, noise, largest)
    if noise is Noise.LAPLACE and level is None:
        less = _least_on_grid(factorization, enough, own_grid)
        if less is not None:
            return Answer(less, factorization, largest, own_grid=True)
    return Answer(enough, factorization, largest)


def _least_on_grid(
    factorization: Factorization, enough: Calibration, asked: bool | None
) -> Calibration | None:
    """Noise on whole measurements that has the deviations of Laplace noise for less epsilon.

    Args:
        factorization: of B.
        enough: Laplace noise, with which no standard deviation is above 1.
        asked: as for `on_own_grid`.

    Returns:
        The calibration for ten digits, rounded up; None if the grid is declined or does not exist.
    """
    guarantee = enough.guarantee
    if asked is False or not isinstance(guarantee, PureDP | ApproxDP):
        return None
    sensitivity = factorization.sensitivity(Noise.LAPLACE)
    gain = own_grid_gain(Mechanism(factorization, Noise.LAPLACE, sensitivity, enough.scale, enough))
    if gain is None or gain[1] >= guarantee.epsilon:
        return None
    less = float(rounded_up(gain[1] * (1 + SAFETY), BUDGET_DIGITS))
    there = calibrated(factorization, with_budget(guarantee, less), Noise.LAPLACE)
    there = on_own_grid(there, math.inf, asked)
    return there.calibration if there.own_grid and there.max_std <= 1 else None
