"""What is left of the time limit of a question about targets, and what takes it.

Beside the design these are half-widths under Laplace noise, and the noise itself: the distances of
all pairs of cells under replace, and under PML the losses of a search for the budget. Where there
is no time for all distances the largest one counts for all (`Strategy.coarse`), which is private
and asks for more budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pmldesign.designs.estimates import late, limit_of, require
from pmldesign.designs.options import LEAST_TIME, DesignOptions
from pmldesign.designs.results import as_invalid_input
from pmldesign.designs.rivals import (
    best_of,
    error_seconds,
    mechanism_seconds,
    with_time_for_noise,
)
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import public_for
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import Workload

AROUND = 1.5
"""Seconds that Python takes to start, and what was found to be said."""
SOON = 0.5
"""Seconds for which there always is time."""


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """When a question began, and what it is about.

    Attributes:
        begin: of `time.perf_counter`.
        options: of the design, with the limit.
        normalised: B.
        guarantee: of which the budget is looked for.
        level: of intervals; None for standard deviations.
    """

    begin: float
    options: DesignOptions
    normalised: Workload
    guarantee: Guarantee
    level: float | None

    @property
    def spent(self) -> float:
        """Seconds until now."""
        return time.perf_counter() - self.begin

    def left(self, most: float | None, after: float = 0.0) -> float | None:
        """At most so many seconds, where others come after."""
        limit = limit_of(self.options)
        if limit is None:
            return most
        rest = max(limit - after - self.spent, LEAST_TIME)
        return rest if most is None else min(most, rest)

    def after_design(self, kinds: Sequence[Noise]) -> float:
        """Seconds of the limit that noise and half-widths take after the design.

        Noise that takes most of the limit beside a quicker one is left out.

        Raises:
            InvalidInputError: under PML, noise takes more time than there is.
        """
        limit, after = limit_of(self.options), 0.0
        if limit is None:
            return after
        for some in (kinds, [best_of(kinds)]):
            timed = with_time_for_noise(self.options, self.normalised, self.guarantee, some)[0]
            after = limit - (limit_of(timed) or 0.0)
            if after <= limit / 2:
                break
        with suppress(InvalidInputError):  # the cells of some large queries are no strategy
            identity = baseline("identity", self.normalised)
            after += max(self.half_widths(identity, kind) for kind in kinds)
        return after

    def half_widths(self, strategy: Strategy, kind: Noise) -> float:
        """About how many seconds those of a strategy take, measured beside what is public."""
        if self.level is None or kind is Noise.GAUSSIAN:  # they follow from variances
            return 0.0
        measured = self._measured(strategy)
        return error_seconds(measured, self.normalised, kind, math.inf, self.level)

    def require_half_widths(self, seconds: float, kind: Noise) -> None:
        """Refuse half-widths that end far too late."""
        what = f"half-widths under {kind.value.capitalize()} noise take"
        with as_invalid_input(self.normalised):
            require(self.options, self.spent + seconds, what, "ask for standard deviations")

    def in_time(self, strategy: Strategy, kind: Noise, *, needed: bool = False) -> Strategy | None:
        """The strategy where there is time for its budget with this noise, or its coarse form.

        If there is time for neither, None; where one is needed the quicker one.
        """
        if self.options.time_limit is None:
            return strategy
        measured = self._measured(strategy)
        every = self._seconds(measured, kind)
        if self._allows(every):
            return strategy
        if self.guarantee.neighbours is Neighbours.REPLACE:
            farthest = self._seconds(measured.coarse(), kind)
            if self._allows(farthest) or (needed and farthest < every):
                return strategy.coarse()
        return strategy if needed else None

    def _allows(self, seconds: float) -> bool:
        return seconds <= SOON or not late(self.options, self.spent + seconds + AROUND)

    def _seconds(self, measured: Strategy, kind: Noise) -> float:
        """About how long its noise and its largest half-width take."""
        asked = measured, self.normalised, self.guarantee
        return mechanism_seconds(*asked, kind, math.inf, self.level)

    def _measured(self, strategy: Strategy) -> Strategy:
        return strategy.beside(public_for(self.normalised, self.options.neighbours))
