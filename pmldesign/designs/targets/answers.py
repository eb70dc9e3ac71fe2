"""What one strategy needs for some targets: the budget, with every noise that it can have.

Laplace noise on the grid of whole measurements (`mechanisms.discrete`) has the deviations of one
budget at a smaller one. Half-widths there are whole, and no law of them is inverted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pmldesign.designs.targets.budgets import BUDGET_DIGITS, SAFETY, least_for, with_budget
from pmldesign.factorization import Factorization
from pmldesign.mechanisms import calibrated, on_own_grid, own_grid_gain
from pmldesign.privacy.guarantees import ApproxDP, Guarantee, PureDP
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least as rounded_up
from pmldesign.strategies import Strategy


class Answer(NamedTuple):
    """What a strategy needs with one noise, perhaps on the grid of whole measurements."""

    budget: float
    noise: Noise
    strategy: Strategy
    own_grid: bool = False


def needs(
    strategy: Strategy,
    factorization: Factorization,
    guarantee: Guarantee,
    kinds: Iterable[Noise],
    level: float | None,
    own_grid: bool | None,
) -> Iterator[Answer]:
    """What a strategy needs with every noise.

    Args:
        strategy: as it is measured.
        factorization: of it on the queries over their targets.
        guarantee: of which the budget is looked for.
        kinds: of noise.
        level: of intervals; None for standard deviations.
        own_grid: as for `on_own_grid`.
    """
    for kind in kinds:
        enough = least_for(factorization, guarantee, kind, level)
        yield Answer(enough, kind, strategy)
        if kind is Noise.LAPLACE and level is None:
            less = _least_on_grid(factorization, guarantee, enough, own_grid)
            if less is not None:
                yield Answer(less, kind, strategy, own_grid=True)


def _least_on_grid(
    factorization: Factorization, guarantee: Guarantee, budget: float, asked: bool | None
) -> float | None:
    """The epsilon at which Laplace noise on whole measurements has the deviations of a budget.

    Args:
        factorization: of B.
        guarantee: of which the budget is looked for.
        budget: of Laplace noise, at which no standard deviation is above 1.
        asked: as for `on_own_grid`.

    Returns:
        Ten digits, rounded up; None where the grid is not to be, or is none.
    """
    if asked is False or not isinstance(guarantee, PureDP | ApproxDP):
        return None
    noisy = calibrated(factorization, with_budget(guarantee, budget), Noise.LAPLACE)
    gain = own_grid_gain(noisy)
    if gain is None or gain[1] >= budget:
        return None
    less = float(rounded_up(gain[1] * (1 + SAFETY), BUDGET_DIGITS))
    there = calibrated(factorization, with_budget(guarantee, less), Noise.LAPLACE)
    there = on_own_grid(there, math.inf, asked)
    return less if there.own_grid and there.max_std <= 1 else None
