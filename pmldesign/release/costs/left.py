r"""What is left of a budget: the largest release that still fits, in each currency.

Laplace noise: what is left of "pure". Gaussian noise: the largest mu with

    delta_(mu')(epsilon - pure) <= delta,    mu'^2 = mu^2 + what was spent,

by bisection, rounded down; rho = mu^2 / 2, and the epsilon at a delta that mu has.

Releases without an end, such as one a year, may each take a share q of what is left: of epsilon, or
of the mu^2 that is left, which adds up exactly. After t of them (1 - q)^t is left, whatever was
asked and whoever has seen what: the limits were fixed when the ledger began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pmldesign.arguments import number
from pmldesign.errors import InfeasibleError, InvalidInputError
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.guarantees import GaussianDP, PureDP
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import as_written, at_most
from pmldesign.release.costs.budget import Budget, Cost
from pmldesign.release.costs.ledger import Account, Ledger, existing, required_budget
from pmldesign.release.costs.plan import Plan

DOWN = 1 - 1e-9
"""Of mu, so that a release that is calibrated to it fits."""
STEPS = 200
"""Of bisection, at most; 64 are enough for all numbers of a size."""
NOTHING = 1e-12
"""Of the budget: what rounding leaves of it."""
LARGEST = 100.0
"""Of mu."""


@dataclass(frozen=True)
class Left:
    """The largest release that still fits.

    Attributes:
        epsilon: of Laplace noise.
        mu: of Gaussian noise.
        delta: at which `gaussian_epsilon` is; 0 where no Gaussian noise fits.
        gaussian_epsilon: of Gaussian noise.
        plan: what is left of a plan, in words; None without one.
    """

    epsilon: float
    mu: float
    delta: float
    gaussian_epsilon: float
    plan: str | None = None

    @property
    def rho(self) -> float:
        """The rho of zCDP that Gaussian noise may have."""
        return self.mu**2 / 2


def left_of(account: Account, delta: float | None = None) -> Left:
    """What is left of a ledger.

    Args:
        account: the ledger.
        delta: for Gaussian noise; None for that of the budget.
    """
    if account.plan is not None:
        kept = range(len(account.plan.releases))
        rest = [account.plan.releases[i] for i in kept if i not in account.made]
        return Left(0.0, 0.0, 0.0, 0.0, Plan(tuple(rest)).text if rest else "nothing")
    return _left(account.budget, account.spent, delta)


def _left(budget: Budget, spent: Cost, delta: float | None = None) -> Left:
    unspent = as_written(budget.pure) - spent.pure
    pure = _float_below(unspent) if unspent > NOTHING * budget.epsilon else 0.0
    mu, at = _largest_mu(budget, spent), delta or budget.delta
    epsilon = PrivacyCurve(Noise.GAUSSIAN, mu).epsilon(at) * DOWN if mu > 0 and at > 0 else 0.0
    return Left(pure, mu, at, epsilon)


def share_of(
    ledger: Ledger, share: float, noise: str = "auto", neighbours: str | None = None
) -> PureDP | GaussianDP:
    """The guarantee of a release that takes a share of what a ledger has left.

    Args:
        ledger: which one; of a new one all of the budget is left.
        share: of epsilon for Laplace noise, of mu^2 for Gaussian noise, in (0, 1].
        noise: "laplace", "gaussian", or "auto" for Gaussian noise where the budget has a delta.
        neighbours: None for those of the ledger, or "add-remove".

    Raises:
        FileError: the ledger cannot be read.
        InvalidInputError: a share out of range, or a plan, which says the noise itself.
        InfeasibleError: nothing is left.
    """
    if not 0 < number("share", share) <= 1:
        raise InvalidInputError(f"share must be in (0, 1], got {share:g}; take for example 0.2")
    account = existing(ledger)
    if account is not None and account.plan is not None:
        raise InvalidInputError("a ledger with a plan says the noise itself; leave --share out")
    if account is None:
        budget, spent, unit = required_budget(ledger), Cost(Fraction(0)), ""
    else:
        budget, spent, unit = account.budget, account.spent, str(account.head["unit"])
    replaced = unit.startswith(Neighbours.REPLACE.value)
    relation = Neighbours(neighbours or ("replace" if replaced else "add-remove"))
    left, gaussian = _left(budget, spent), noise == "gaussian" or (noise == "auto" and budget.delta)
    if not (left.mu if gaussian else left.epsilon):
        kind = "Gaussian" if gaussian else "Laplace"
        raise InfeasibleError(f"the ledger {ledger.name!r} has nothing left for {kind} noise")
    if gaussian:
        return GaussianDP(float(at_most(left.mu * math.sqrt(share))), relation)
    return PureDP(float(at_most(left.epsilon * share)), relation)


def _largest_mu(budget: Budget, spent: Cost) -> float:
    """The largest mu of Gaussian noise that still fits, rounded down."""
    low, high = 0.0, LARGEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        if high - low <= 1e-12 * high or high < 1e-12:
            break
        fits = budget.allows(spent + Cost(Fraction(0), Fraction(middle) ** 2))
        low, high = (middle, high) if fits else (low, middle)
    return low * DOWN


def _float_below(value: Fraction) -> float:
    """The largest float that is at most a fraction as it is written."""
    found = float(value)
    return found if as_written(found) <= value else math.nextafter(found, 0.0)


def spent_by(entry: dict[str, Any]) -> tuple[float, float]:
    """Epsilon of Laplace noise and mu of Gaussian noise of a line of a release."""
    return float(Fraction(entry["pure"])), math.sqrt(Fraction(entry["squared_ratio"]))
