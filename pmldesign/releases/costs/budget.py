"""Costs of releases, and the limit of their total (`ledger` has the rule of composition)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pmldesign.arguments import as_number, number, positive, probability
from pmldesign.errors import InfeasibleError, InvalidInputError
from pmldesign.mechanisms.lattice import SENSITIVITY_ROUNDING
from pmldesign.privacy.analytic_gaussian import gaussian_delta
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import as_written
from pmldesign.releases.costs.plan import Plan
from pmldesign.releases.costs.unit import Unit, unit_of
from pmldesign.releases.noise import ExactNoise
from pmldesign.releases.people.schema import Schema
from pmldesign.workloads.display import Displayed, Facts


@dataclass(frozen=True, repr=False)
class Budget(Displayed):
    """What all releases together may cost.

    Attributes:
        epsilon: of the guarantee.
        delta: of the guarantee; 0 for releases with Laplace noise alone.
        pure: the part of epsilon for releases with Laplace noise.
    """

    epsilon: float
    delta: float
    pure: float

    def __post_init__(self) -> None:
        positive("epsilon of the budget", self.epsilon)
        if number("delta of the budget", self.delta) != 0:
            probability("delta of the budget", self.delta)
        if not 0 <= number("pure of the budget", self.pure) <= self.epsilon:
            raise InvalidInputError(
                f"pure of the budget must be from 0 to epsilon, got {self.pure}"
            )

    def _display(self) -> tuple[str, Facts]:
        return f"Budget: {budget_text(self)}", []

    def allows(self, cost: Cost) -> bool:
        """Whether such costs together stay within the numbers as written: 0.3 is three tenths."""
        unspent = as_written(self.delta) - cost.delta
        if cost.pure > as_written(self.pure) or unspent < 0:
            return False
        if cost.squared_ratio == 0:
            return True
        mu = math.sqrt(cost.squared_ratio) * (1 + SENSITIVITY_ROUNDING)
        rest = math.nextafter(float(as_written(self.epsilon) - as_written(self.pure)), 0.0)
        left = self.delta if cost.delta == 0 else math.nextafter(float(unspent), 0.0)
        return left > 0 and gaussian_delta(mu, 1.0, rest) <= left


@dataclass(frozen=True)
class Cost:
    """What one release costs.

    Attributes:
        pure: epsilon of Laplace noise.
        squared_ratio: mu^2 of Gaussian noise.
        delta: of a release with Laplace noise that is (epsilon, delta)-private.
        planned: its number in the plan, if there is one.
    """

    pure: Fraction
    squared_ratio: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    planned: int | None = None

    def __add__(self, other: Cost) -> Cost:
        """Both together."""
        names = ("pure", "squared_ratio", "delta")
        return Cost(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True)
class Charge:
    """What a ledger is to pay for.

    Attributes:
        release: description of the release, in words.
        unit: of privacy.
        cost: of all of it.
        noise: of a table; None for releases that a plan cannot contain.
    """

    release: str
    unit: Unit
    cost: Cost
    noise: ExactNoise | None = None


def parse_budget(text: str) -> Budget:
    """The budget that "epsilon=3,delta=1e-6,pure=1" means.

    Raises:
        InvalidInputError: something else is written, or out of range.
    """
    values: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        parsed = as_number(value)
        known = key in ("epsilon", "delta", "pure") and key not in values
        if not known or parsed is None or math.isnan(parsed):
            raise InvalidInputError(
                f"a budget is written as epsilon=3,delta=1e-6,pure=1, got {text[:60]!r}"
            )
        values[key] = parsed
    epsilon, delta = values.get("epsilon", math.nan), values.get("delta", 0.0)
    return Budget(epsilon, delta, values.get("pure", 0.0 if delta else epsilon))


def require_within(plan: Plan, budget: Budget) -> None:
    """Refuse a plan that is more than the budget.

    Raises:
        InfeasibleError: its epsilon at the delta of the budget, and the budget.
    """
    if budget.delta == 0 and plan.mu:
        raise InfeasibleError(
            f"the plan {plan.text} has Gaussian noise, which needs a delta, and the budget has"
            " delta 0; use a budget such as epsilon=1,delta=1e-6, or plan Laplace noise only"
        )
    epsilon = plan.epsilon(budget.delta)
    if not epsilon <= budget.epsilon:
        raise InfeasibleError(
            f"the plan {plan.text} has epsilon {epsilon:.6g} at delta {budget.delta:g}, the budget "
            f"is epsilon {budget.epsilon:g}; plan more noise, or fewer releases"
        )


def cost_of(noise: ExactNoise) -> Cost:
    """What a release costs.

    Raises:
        InvalidInputError: its guarantee does not compose.
    """
    if noise.guarantee.pml:
        raise InvalidInputError(
            "a ledger is for differential privacy: pointwise maximal leakage does not add up over "
            "releases; use differential privacy, or remove `ledger`"
        )
    if noise.mechanism.noise is not Noise.GAUSSIAN:
        return Cost(noise.pure_epsilon)
    return Cost(Fraction(0), noise.squared_ratio)


def charge_of(noise: ExactNoise, schema: Schema | None = None) -> Charge:
    """What a release of a table costs.

    Args:
        noise: of the release.
        schema: of the people; None for a histogram.

    Raises:
        InvalidInputError: its guarantee does not compose.
    """
    return Charge(noise.mechanism.workload.name, unit_of(noise, schema), cost_of(noise), noise)


def cost_text(cost: Cost) -> str:
    """A cost in words."""
    parts = [f"epsilon {float(cost.pure):g}"] * bool(cost.pure or not cost.squared_ratio)
    parts += [f"mu {math.sqrt(cost.squared_ratio):g}"] * bool(cost.squared_ratio)
    parts += [f"delta {float(cost.delta):g}"] * bool(cost.delta)
    return " and ".join(parts)


def budget_text(budget: Budget) -> str:
    """A budget in words."""
    return f"epsilon {budget.epsilon:g}, delta {budget.delta:g} (pure {budget.pure:g})"
