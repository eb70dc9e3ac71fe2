"""The bracket of the PML envelope: a search over linear programs.

With G(t) from `programs` (the mass that can reach leakage log t), t* = max { t : G(t) >= delta }. G
decreases strictly where 0 < G < 1, and jumps down only at the levels M_x = max_y r_xy, where the
symbol x becomes useless. The search starts between two bounds that need no program:

    below: the best event of mass delta (the binary envelope);
    above: mu_x = 1 / (t - v) for all x, where t is the CVaR bound, the mean of V = max_x r_x over
           its worst delta of mass, and v the least V in it. With the mass w_y <= q_y of y in it,
           B(mu, t) = sum_y q_y max(0, V_y - v) / (t - v) = sum_y w_y (V_y - v) / (t - v) = delta.

They are at most a factor k apart. Then (1) bisect over the levels in between; (2) between two
levels, solve G(t) = delta by Newton, G'(t) = -sum_xy mu_x m_xy. Every program, whatever its t,
improves both ends:

    below: an assignment m of mass delta; its post-processing has the ratios
           min_x sum_y m_xy r_xy / sum_y m_xy, computed from m alone;
    above: mu with B(mu, t) <= delta, computed from mu alone. Then eps_c(delta) <= log t.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Section IV.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pmldesign.envelope.bounds import means, worst_masses
from pmldesign.envelope.programs import (
    LOOSE,
    descend,
    dual_bound,
    relative_rounding,
    solve_failure_program,
)
from pmldesign_solvers.operators.operator import Array

GAP = 1e-12
"""The search ends when upper / lower - 1 of e^epsilon is at most this."""

_PATIENCE = 4
"""Programs in a row that improve neither end before the search rests with the gap it has."""

_SLOW = 4
"""Programs in a row that do not halve the bracket before Newton is thought to face a jump."""


@dataclass(slots=True)
class EnvelopeSearch:
    """The bracket of t* = e^eps_c(delta), and what proves each of its ends."""

    ratios: Array
    masses: Array
    delta: float
    levels: Array = field(init=False)
    target: float = field(init=False)
    lower: float = field(init=False, default=1.0)
    upper: float = field(init=False)
    assignment: Array = field(init=False)
    multipliers: Array = field(init=False)
    programs: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        off = relative_rounding(*self.ratios.shape)
        self.levels = self.ratios.max(axis=1)
        self.upper = max(float(self.levels.max()), 1.0) * (1 + 4 * off)  # proved by every dual
        self.target = min(self.delta * (1 + 4 * off), 1.0)
        self.assignment = np.zeros_like(self.ratios)
        self.assignment[0] = self.masses  # one symbol for everything: ratio 1
        self.multipliers = np.zeros(len(self.ratios))
        self._start()

    def _start(self) -> None:
        """The best event from below, the mean of the worst delta from above."""
        events = worst_masses(self.ratios, self.masses, self.target)
        best = int(means(self.ratios, events).argmax())
        event = np.zeros_like(self.ratios)
        event[best] = events[best]
        self._raise_lower(event)
        leakiest = self.ratios.max(axis=0)
        worst = worst_masses(leakiest[None, :], self.masses, self.delta)[0]
        mean, least = worst @ leakiest / worst.sum(), leakiest[worst > 0].min()
        if mean > least * (1 + GAP):
            self._reduce_upper(np.full(len(self.ratios), 1 / (mean - least)))

    def run(self) -> None:
        """Close the bracket: the levels first, then Newton, with bisection as its guard."""
        self._bisect(self.levels)
        threshold, width, slow, idle = self.upper, np.inf, 0, 0
        while not self._closed() and idle < _PATIENCE:
            before = self.lower, self.upper
            threshold = self._solve(threshold)
            idle = idle + 1 if (self.lower, self.upper) == before else 0
            slow = slow + 1 if self.upper - self.lower > width / 2 else 0
            width = min(width, self.upper - self.lower)
            if slow == _SLOW:  # as steep as a jump, at a ratio that is not quite a level
                self._bisect(self.ratios.ravel())
            if threshold <= self.lower and slow == 0:  # the lower end may be the value itself
                threshold = self.lower * (1 + GAP / 2)
            elif slow > 1 or not self.lower < threshold < self.upper:
                threshold = _between(self.lower, self.upper)

    def _closed(self) -> bool:
        return self.upper <= self.lower * (1 + GAP)

    def _bisect(self, candidates: Array) -> None:
        """Bring the bracket between two neighbouring candidates, or close it on one."""
        left = np.unique(candidates)
        while not self._closed():
            left = left[(left > self.lower * (1 + GAP)) & (left < self.upper)]
            if len(left) == 0:
                return
            middle = float(left[len(left) // 2])
            left = left[left != middle]
            self._solve(middle)
            if self.lower >= middle * (1 - GAP):
                self._solve(middle * (1 + GAP), above=True)

    def _solve(self, threshold: float, *, above: bool = False) -> float:
        """Solve the program at a threshold (or just above it) and use both of its sides.

        Returns:
            The next threshold by Newton, from G'(t) = -sum_xy mu_x m_xy.
        """
        useful = self.levels > threshold if above else self.levels >= threshold
        symbols = np.flatnonzero(useful)
        assignment, dual = solve_failure_program(
            self.ratios, self.masses, threshold, symbols, delta=self.delta
        )
        self.programs += 1
        self._raise_lower(assignment)
        if self._bound(dual, threshold) > assignment.sum() * (1 + LOOSE):
            dual = descend(self.ratios, self.masses, dual, threshold)
        self._reduce_upper(dual)
        slope = float(dual @ assignment.sum(axis=1))
        excess = float(assignment.sum()) - self.delta
        return threshold + excess / slope if slope > 0 else threshold

    def _raise_lower(self, assignment: Array) -> None:
        for repaired in _repairs(assignment, self.ratios, self.masses, self.target):
            used = repaired.sum(axis=1)
            symbols = used > 0
            reached = (repaired * self.ratios).sum(axis=1)[symbols] / used[symbols]
            if reached.min() > self.lower:
                self.lower, self.assignment = float(reached.min()), repaired

    def _reduce_upper(self, dual: Array) -> None:
        """The smallest t with B(dual, t) <= delta, if it lies below `upper`."""
        low, high = self.lower, self.upper
        if self._bound(dual, high) > self.delta:
            return
        if self._bound(dual, low) <= self.delta:
            high = low
        while low < (middle := _between(low, high)) < high:
            if self._bound(dual, middle) <= self.delta:
                high = middle
            else:
                low = middle
        self.upper, self.multipliers = high, dual

    def _bound(self, dual: Array, threshold: float) -> float:
        return dual_bound(self.ratios, self.masses, dual, threshold)


def _between(low: float, high: float) -> float:
    """A number between two positive ones: their mean, geometric where they are far apart."""
    return 0.5 * (low + high) if high < 2 * low else float(np.sqrt(low) * np.sqrt(high))


def _repairs(assignment: Array, ratios: Array, masses: Array, target: float) -> Iterator[Array]:
    """A solver's m made feasible: nonnegative, within q, of the target's mass.

    A symbol of little mass may have a poor ratio by rounding alone. So the symbols are dropped too,
    one after the other, poorest first; what is missing then comes from what is left.
    """
    mass = np.maximum(assignment, 0.0)
    used = mass.sum(axis=0)
    mass *= np.minimum(1.0, masses / np.where(used > 0, used, 1.0))
    totals = mass.sum(axis=1)
    symbols = np.flatnonzero(totals > 0)
    reached = (mass * ratios).sum(axis=1)[symbols] / totals[symbols]
    for poorest in symbols[np.argsort(reached)]:
        yield _filled(mass, masses, target)
        mass[poorest] = 0.0


def _filled(mass: Array, masses: Array, target: float) -> Array:
    """`mass`, and on its largest symbol what the target still lacks, from every output's rest."""
    filled, missing = mass.copy(), target - mass.sum()
    if missing > 0:
        left = np.maximum(masses - mass.sum(axis=0), 0.0)
        share = missing / left.sum() if missing < left.sum() else 1.0
        filled[mass.sum(axis=1).argmax()] += left * share
    return filled
