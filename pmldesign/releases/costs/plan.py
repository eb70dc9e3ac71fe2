r"""Plans: the noise of several releases, fixed before the first, and their joint guarantee.

    plan = term { "+" term },    term = [ count "*" ] noise

    laplace:0.1          Laplace noise of epsilon 0.1
    gaussian:0.5,1e-7    Gaussian noise calibrated to epsilon 0.5 and delta 1e-7
    gaussian:mu=0.2      Gaussian noise of a sensitivity of mu standard deviations

Each release is dominated by a pair of distributions: two Gaussians mu apart, or two Laplace
distributions epsilon scales apart (`privacy.curves`). All together are dominated by the
product of the pairs, whatever they ask: also if queries, or which of the planned releases comes
next, are chosen after earlier answers were seen. Only the noise is fixed [ZDW, Theorem 10]. So

    delta(eps) = E (1 - e^(eps - L))_+,    L the sum of independent privacy losses,

whose distribution the library dp-accounting computes on a grid, rounded towards more loss
("connect the dots" [DGK]). It convolves by Fourier transforms; ALLOWANCE covers their rounding.

Noise of whole numbers: the discrete Gaussian is e^(+-kappa) of the Gaussian, which 2^-40 of mu and
the allowance cover (`release.noise`). The distribution function of the discrete Laplace of scale b
is that of the continuous one at points x_j with x_j - x_(j-k) <= k + 1/(4 b), so that its trade-off
function for a shift of k lies above that of the continuous one for k + 1/(4 b).

References:
    [ZDW] Zhu, Dong and Wang (2022), Optimal accounting of differential privacy via characteristic
          function.
    [DGK] Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), Connect the dots.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from pmldesign.arguments import (
    as_numbers,
    as_whole,
    instance,
    non_negative,
    number,
    positive,
    probability,
)
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.mechanisms.lattice import SENSITIVITY_ROUNDING
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign.releases.noise import ExactNoise
from pmldesign.workloads.display import Displayed, Facts

ALLOWANCE = 1e-13
"""Of delta: transforms of a million numbers are off by 1e-15 in the tests."""
LEAST_DELTA = 1e-10
MOST_RELEASES, MOST_POINTS = 10_000, 2**17
"""Of a plan, and of the grid of losses: a second."""
LEAST_RATIO, MOST_RATIO = 1e-50, 100.0
"""Of epsilon and mu; squares of others leave the range of floating point, or the grid."""
FINE = 1e-3
"""Step of the grid, in standard deviations of the loss; epsilon is too large by 1e-6 of itself."""


@dataclass(frozen=True)
class PlannedNoise:
    """The noise of one release.

    Attributes:
        noise: its kind.
        ratio: epsilon of Laplace noise, mu of Gaussian noise.
    """

    noise: Noise
    ratio: float

    def covers(self, noise: ExactNoise) -> bool:
        """Whether a release has such noise, or more."""
        if noise.mechanism.noise is not self.noise or noise.on_own_grid:
            return False
        if self.noise is Noise.LAPLACE:
            rounding = 1 / (4 * Fraction(noise.scale) ** 2)
            return noise.pure_epsilon <= min(Fraction(self.ratio), Fraction(self._above) - rounding)
        return noise.squared_ratio <= Fraction(self._above) ** 2

    @property
    def _above(self) -> float:
        """The ratio that is accounted for, which covers the rounding of calibrations."""
        return self.ratio * (1 + 8 * SENSITIVITY_ROUNDING)

    def losses(self, step: float) -> Any:
        """The distribution of its privacy loss on a grid, of dp-accounting."""
        require_extra("the cost of a plan", "dp_accounting", "release")
        from dp_accounting.pld import privacy_loss_distribution as distributions

        of_noise = (
            distributions.from_laplace_mechanism
            if self.noise is Noise.LAPLACE
            else distributions.from_gaussian_mechanism
        )
        scale = math.nextafter(1 / (self._above * (1 + 2 * SENSITIVITY_ROUNDING)), 0.0)
        return of_noise(scale, value_discretization_interval=step, use_connect_dots=True)

    def __str__(self) -> str:
        ratio = f"{self.ratio:g}"
        return f"laplace:{ratio}" if self.noise is Noise.LAPLACE else f"gaussian:mu={ratio}"


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """The noise of several releases, fixed beforehand.

    Attributes:
        releases: the noise of each.
    """

    releases: tuple[PlannedNoise, ...]

    def __post_init__(self) -> None:
        instance("releases", self.releases, tuple, "a tuple of planned noise; Plan.parse reads one")
        for planned in self.releases:
            instance("releases", planned, PlannedNoise, "planned noise; Plan.parse reads it")
        if not 1 <= len(self.releases) <= MOST_RELEASES:
            raise InvalidInputError(
                f"a plan has from 1 to {MOST_RELEASES} releases, got {len(self.releases)}"
            )
        for ratio in (*(planned.ratio for planned in self.releases), self.mu):
            if not LEAST_RATIO <= ratio <= MOST_RATIO and ratio != 0:
                raise InvalidInputError(
                    f"noise of a plan has epsilon and mu from {LEAST_RATIO:g} to {MOST_RATIO:g}, "
                    f"all Gaussian noise together too, got {ratio:g}"
                )

    def _display(self) -> tuple[str, Facts]:
        return f"Plan of {len(self.releases)} releases", [("noise", self.text)]

    @classmethod
    def parse(cls, text: str) -> Plan:
        """The plan that "4*laplace:0.1 + 3*gaussian:0.5,1e-7" means.

        Raises:
            InvalidInputError: something else is written, or out of range.
        """
        instance("plan", text, str, "such as '4*laplace:0.1 + 3*gaussian:0.5,1e-7'")
        releases: list[PlannedNoise] = []
        for term in text.split("+"):
            count, star, noise = term.rpartition("*")
            many = as_whole(count) if star else 1
            if many is None or not 1 <= many <= MOST_RELEASES:
                raise _misread(term)
            releases += [_parse_noise(noise)] * many
        return cls(tuple(releases))

    def delta(self, epsilon: float) -> float:
        """A delta at an epsilon of at least 0, at which all releases together are private."""
        epsilon = non_negative("epsilon", epsilon)
        if epsilon >= self.pure:
            return 0.0
        return min(1.0, float(self._losses.get_delta_for_epsilon(epsilon)) + ALLOWANCE)

    def epsilon(self, delta: float) -> float:
        """An epsilon at a delta in [1e-10, 1), or at 0, at which all are private together.

        Raises:
            InvalidInputError: delta out of range, or 0 with Gaussian noise.
        """
        if number("delta", delta) == 0:
            if self.mu:
                raise InvalidInputError(
                    "the plan has Gaussian noise, which has no epsilon at delta 0; use a delta of"
                    f" at least {LEAST_DELTA:g}, or plan Laplace noise only"
                )
            return self.pure
        if probability("delta", delta) < LEAST_DELTA:
            raise InvalidInputError(
                f"delta of a plan must be 0 or at least {LEAST_DELTA:g}, got {delta:g}"
            )
        return min(self.pure, float(self._losses.get_epsilon_for_delta(delta - ALLOWANCE)))

    @property
    def mu(self) -> float:
        """The mu of all Gaussian noise together; 0 without."""
        return math.hypot(*(p.ratio for p in self.releases if p.noise is Noise.GAUSSIAN))

    @property
    def pure(self) -> float:
        """The sum of the epsilons of Laplace noise, to the nearest float; inf with Gaussian."""
        if any(planned.noise is Noise.GAUSSIAN for planned in self.releases):
            return math.inf
        return math.fsum(planned.ratio for planned in self.releases)

    @cached_property
    def _losses(self) -> Any:
        """The distribution of the privacy loss of all releases."""
        pure = [planned for planned in self.releases if planned.noise is Noise.LAPLACE]
        counts = Counter(pure)
        if self.mu:  # together one Gaussian release
            counts[PlannedNoise(Noise.GAUSSIAN, self.mu * (1 + SENSITIVITY_ROUNDING))] = 1
        deviation = math.hypot(*(planned.ratio for planned in self.releases))
        width = 2 * math.fsum(planned.ratio for planned in pure) + 20 * deviation
        step = min([FINE * deviation, *(planned.ratio / 10 for planned in pure)])
        step = max(step, width / MOST_POINTS)
        parts = [planned.losses(step).self_compose(count) for planned, count in counts.items()]
        total = parts[0]
        for part in parts[1:]:
            total = total.compose(part)
        return total

    def next_for(self, noise: ExactNoise, used: Iterable[int]) -> int:
        """The number of an unused planned release: the most noise not above that of `noise`.

        Args:
            noise: of the release that is asked for.
            used: the numbers of those that were made.

        Raises:
            InvalidInputError: no planned release fits.
        """
        taken = set(used)
        left = [number for number in range(len(self.releases)) if number not in taken]
        fitting = [number for number in left if self.releases[number].covers(noise)]
        if fitting:
            return min(fitting, key=lambda number: self.releases[number].ratio)
        if noise.on_own_grid or noise.mechanism.noise is Noise.CUBE:
            raise InvalidInputError(
                "the noise of a plan is Laplace or Gaussian noise on a fine grid; use"
                " `noise='laplace'` or `noise='gaussian'`, or no plan"
            )
        square = noise.squared_ratio if noise.mechanism.noise is Noise.GAUSSIAN else None
        ratio = noise.pure_epsilon if square is None else math.sqrt(square)
        asked = PlannedNoise(noise.mechanism.noise, float(ratio))
        rest = Plan(tuple(self.releases[number] for number in left)).text if left else "nothing"
        raise InvalidInputError(
            f"the plan has no such release: this one has {asked}, left is {rest}; a plan is fixed "
            "beforehand, and noise that is chosen later needs a budget without a plan"
        )

    @property
    def text(self) -> str:
        """The plan in the words of `Plan.parse`, with rounded numbers."""
        return " + ".join(
            str(planned) if count == 1 else f"{count}*{planned}"
            for planned, count in Counter(self.releases).items()
        )

    def to_json(self) -> list[list[Any]]:
        """Kinds of noise and ratios."""
        return [[planned.noise.value, planned.ratio] for planned in self.releases]


def without_plan(plan: Plan, delta: float) -> float:
    """Epsilon of a ledger without a plan for the same releases: mu of one Gaussian, and the sum."""
    pure = math.fsum(p.ratio for p in plan.releases if p.noise is Noise.LAPLACE)
    if plan.mu == 0:
        return pure
    return math.inf if delta == 0 else pure + PrivacyCurve(Noise.GAUSSIAN, plan.mu).epsilon(delta)


def plan_from_json(content: Sequence[Sequence[Any]]) -> Plan:
    """The plan that `Plan.to_json` gave; errors are those of damaged content."""
    pairs = [(Noise(kind), float(ratio)) for kind, ratio in content]
    return Plan(tuple(PlannedNoise(kind, positive("ratio", ratio)) for kind, ratio in pairs))


def _parse_noise(text: str) -> PlannedNoise:
    kind, _, values = (piece.strip() for piece in text.partition(":"))
    key, equals, last = values.rpartition("mu=")
    numbers = as_numbers((last if equals else values).split(","))
    if numbers is None:
        raise _misread(text)
    if kind == "laplace" and not equals and len(numbers) == 1:
        return PlannedNoise(Noise.LAPLACE, positive("epsilon of laplace", numbers[0]))
    if kind == "gaussian" and equals and not key and len(numbers) == 1:
        return PlannedNoise(Noise.GAUSSIAN, positive("mu of gaussian", numbers[0]))
    if kind == "gaussian" and not equals and len(numbers) == 2:
        sigma = analytic_gaussian_scale(1.0, epsilon=numbers[0], delta=numbers[1])
        return PlannedNoise(Noise.GAUSSIAN, 1 / sigma)
    raise _misread(text)


def _misread(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"a plan is written as 4*laplace:0.1 + 3*gaussian:0.5,1e-7 + gaussian:mu=0.2, got "
        f"{text.strip()[:60]!r}"
    )
