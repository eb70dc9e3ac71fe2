"""The PML envelope, exactly: a search over linear programs, certified from both sides.

With G(t) from `programs` (the mass that can reach leakage log t), the envelope is

    eps_c(delta) = log t*,   t* = max { t : G(t) >= delta }.

G decreases strictly where 0 < G < 1, and jumps down only at the levels M_x = max_y r_xy, where the
symbol x becomes useless. So: (1) bisect over the levels; (2) between two levels, solve G(t) = delta
by Newton, G'(t) = -sum_xy mu_x m_xy. Every program, whatever its t, improves both ends:

    below: an assignment m of mass delta; its post-processing has the ratios
           min_x sum_y m_xy r_xy / sum_y m_xy, computed from m alone;
    above: mu with B(mu, t) <= delta, computed from mu alone. Then eps_c(delta) <= log t.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Section IV.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pmldesign.envelope.channel import Channel, check_delta, check_epsilon
from pmldesign.envelope.programs import dual_bound, solve_failure_program
from pmldesign_solvers.operators import Array

GAP = 1e-12
"""The search ends when upper / lower - 1 of e^epsilon is at most this."""

_ROUNDING = 1e-13
"""Added to the upper end, in nats: more than the rounding of the ratios, of log and of exp."""

_PATIENCE = 4
"""Programs in a row that improve neither end before the search rests with the gap it has."""

_SLOW = 4
"""Programs in a row that do not halve the bracket before Newton is thought to face a jump."""

_NEGLIGIBLE = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class EnvelopeValue:
    """The PML envelope at one delta, with what is needed to check it.

    Attributes:
        delta: the failure probability.
        lower: leakage, in nats, that `post_processing` reaches with probability delta.
        upper: leakage, in nats, that no post-processing exceeds with a larger probability.
        post_processing: shape (y, z), P(z | y) for the outputs of the channel; the last symbol is
            the rest, and may leak less.
        dual: shape (k,), mu >= 0; `closed_failure_bound(channel, dual, upper)` is at most delta.
        programs: how many linear programs were solved.
    """

    delta: float
    lower: float
    upper: float
    post_processing: Array
    dual: Array
    programs: int

    @property
    def value(self) -> float:
        """The certified upper end, in nats: the side that does not understate leakage."""
        return self.upper

    @property
    def gap(self) -> float:
        """How far apart the two ends are, in nats."""
        return self.upper - self.lower


def exact_envelope(channel: Channel, delta: float) -> EnvelopeValue:
    """The smallest leakage that holds with probability 1 - delta after any post-processing.

    Args:
        channel: the mechanism and the prior.
        delta: probability in (0, 1) with which larger leakage is tolerated.

    Returns:
        Both bounds, at most 1e-8 nats apart and rarely more than 1e-11, and what proves them.

    Raises:
        InvalidInputError: delta outside (0, 1).
        NotConvergedError: HiGHS gives up on a linear program.
    """
    check_delta(delta)
    labels = channel.similar_outputs()
    reduced = channel.reduced()
    search = _Search(reduced.ratios, reduced.output_distribution, delta)
    search.run()
    return EnvelopeValue(
        delta=delta,
        lower=float(np.log(search.lower)),
        upper=float(np.log(search.upper)) + _ROUNDING,
        post_processing=_as_post_processing(search.assignment, search.masses)[labels],
        dual=search.multipliers,
        programs=search.programs,
    )


def closed_failure_probability(channel: Channel, epsilon: float) -> float:
    """The largest P{ leakage > epsilon } over all post-processings, delta_c of [SPP] (8).

    An upper bound from the dual, exact up to the accuracy of the linear program.

    Raises:
        InvalidInputError: epsilon negative or NaN.
        NotConvergedError: HiGHS gives up on the linear program.
    """
    threshold = float(np.exp(check_epsilon(epsilon)))
    reduced = channel.reduced()
    ratios, masses = reduced.ratios, reduced.output_distribution
    useful = np.flatnonzero(ratios.max(axis=1) > threshold)
    _, dual = solve_failure_program(ratios, masses, threshold, useful)
    return min(dual_bound(ratios, masses, dual, threshold), 1.0)


def closed_failure_bound(channel: Channel, dual: Array, epsilon: float) -> float:
    """Upper bound on P{ leakage > epsilon } after any post-processing, from any dual mu >= 0.

    sum_y q_y max(0, 1 + max_x mu_x (r_xy - e^epsilon)), over the x with max_y r_xy > e^epsilon.
    A value of at most delta < 1 proves that the envelope at delta is at most epsilon.

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    threshold = float(np.exp(check_epsilon(epsilon)))
    multipliers = np.maximum(dual, 0.0)
    return dual_bound(channel.ratios, channel.output_distribution, multipliers, threshold)


@dataclass(slots=True)
class _Search:
    """The bracket of t* = e^eps_c(delta), and what proves each of its ends."""

    ratios: Array
    masses: Array
    delta: float
    levels: Array = field(init=False)
    lower: float = field(init=False, default=1.0)
    upper: float = field(init=False)
    assignment: Array = field(init=False)
    multipliers: Array = field(init=False)
    programs: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.levels = self.ratios.max(axis=1)
        self.upper = max(float(self.levels.max()), 1.0)
        self.assignment = np.zeros_like(self.ratios)
        self.assignment[0] = self.masses  # one symbol for everything: ratio 1
        self.multipliers = np.zeros(len(self.ratios))

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
            if slow > 1 or not self.lower < threshold < self.upper:
                threshold = float(np.sqrt(self.lower * self.upper))

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
        assignment, dual = solve_failure_program(self.ratios, self.masses, threshold, symbols)
        self.programs += 1
        self._raise_lower(assignment)
        self._reduce_upper(dual)
        slope = float(dual @ assignment.sum(axis=1))
        excess = float(assignment.sum()) - self.delta
        return threshold + excess / slope if slope > 0 else threshold

    def _raise_lower(self, assignment: Array) -> None:
        repaired = _repair(assignment, self.masses, self.delta)
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
        while (middle := 0.5 * (low + high)) not in (low, high):
            if self._bound(dual, middle) <= self.delta:
                high = middle
            else:
                low = middle
        self.upper, self.multipliers = high, dual

    def _bound(self, dual: Array, threshold: float) -> float:
        return dual_bound(self.ratios, self.masses, dual, threshold)


def _repair(assignment: Array, masses: Array, delta: float) -> Array:
    """A solver's m made feasible: nonnegative, within q, of mass at least delta."""
    mass = np.maximum(assignment, 0.0)
    mass[mass.sum(axis=1) < _NEGLIGIBLE * delta] = 0.0
    used = mass.sum(axis=0)
    mass *= np.minimum(1.0, masses / np.where(used > 0, used, 1.0))
    missing = delta - mass.sum()
    if missing > 0:
        left = np.maximum(masses - mass.sum(axis=0), 0.0)
        mass[mass.sum(axis=1).argmax()] += left * min(1.0, missing / left.sum())
    return mass


def _as_post_processing(assignment: Array, masses: Array) -> Array:
    """P(z | y), shape (y, symbols + 1): the symbols in use, and the rest as the last one."""
    used = assignment.sum(axis=1) > 0
    rows = (assignment[used] / masses).T
    rest = np.maximum(1.0 - rows.sum(axis=1, keepdims=True), 0.0)
    matrix = np.hstack([rows, rest])
    normalised: Array = matrix / matrix.sum(axis=1, keepdims=True)
    return normalised
