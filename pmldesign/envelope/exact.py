"""The PML envelope, exactly: both ends of a search, certified for the channel itself.

The envelope is eps_c(delta) = log t*, t* = max { t : G(t) >= delta }, with G(t) from `programs`
(the mass that can reach leakage log t). G decreases strictly where 0 < G < 1, and jumps down only
at the levels M_x = max_y r_xy, where the symbol x becomes useless. The search starts between two
bounds that need no program:

    below: the best event of mass delta (the binary envelope);
    above: mu_x = 1 / (t - v) for all x, where t is the CVaR bound, the mean of V = max_x r_x over
           its worst delta of mass, and v the least V in it. With the mass w_y <= q_y of y in it,
           B(mu, t) = sum_y q_y max(0, V_y - v) / (t - v) = sum_y w_y (V_y - v) / (t - v) = delta.

They are at most a factor k apart. Then (1) bisect over the levels in between; (2) between two
levels, solve G(t) = delta by Newton, G'(t) = -sum_xy mu_x m_xy. Every program improves both
ends, for any t:

    below: an assignment m of mass delta; its post-processing has the ratios
           min_x sum_y m_xy r_xy / sum_y m_xy, computed from m alone;
    above: mu with B(mu, t) <= delta, computed from mu alone. Then eps_c(delta) <= log t.

Both ends of the bracket are then recomputed from the returned values, on the original channel,
and rounded outwards:

    below: the ratios max_x P(z | x) / P(z) of the symbols of the post-processing, whose mass is at
           least delta;
    above: B(mu, t) <= delta for the multipliers mu.

How little rounding can do: a relative change of q by a and of r by b moves log t* by at most a + b.
For an m of mass delta and ratio t has at least the ratio t / (1 + a) when any mass is added until
delta (1 + a) is reached. So the accuracy of the envelope, in nats, does not depend on delta.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Section IV.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pmldesign.arguments import finite_matrix
from pmldesign.envelope.bounds import log_down, log_up, means, worst_masses
from pmldesign.envelope.channel import Channel, check_delta, check_epsilon, require_channel
from pmldesign.envelope.programs import (
    LOOSE,
    descend,
    dual_bound,
    largest_mass,
    relative_rounding,
    solve_failure_program,
)
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import at_least, at_most
from pmldesign.workloads.display import Displayed, Facts
from pmldesign_solvers.operators.operator import Array

_WHOLE = 1e-15
"""A rest of an output smaller than this is rounding, and is not split off."""
GAP = 1e-12
"""The search ends when upper / lower - 1 of e^epsilon is at most this."""
_PATIENCE = 4
"""Programs in a row that improve neither end before the search rests with the gap it has."""
_SLOW = 4
"""Programs in a row that do not halve the bracket before Newton is thought to face a jump."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EnvelopeValue(Displayed):
    """The PML envelope at one delta, with a proof of both bounds.

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

    def _display(self) -> tuple[str, Facts]:
        ends = f"{at_most(self.lower)} to {at_least(self.upper)}"
        return f"Envelope at delta {self.delta:g}: {ends} nats", [("programs", str(self.programs))]

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
        delta: probability in (0, 1), at least 1e-290, with which larger leakage is tolerated.

    Returns:
        Both bounds, rarely more than 1e-11 nats apart (1e-7 in the worst of 6,700 channels),
        and what proves them. They hold whatever their gap.

    Raises:
        InvalidInputError: delta outside this range.
    """
    require_channel(channel)
    delta = check_delta(delta)
    labels = channel.similar_outputs()
    reduced = channel.reduced()
    search = EnvelopeSearch(reduced.ratios, reduced.output_distribution, delta)
    search.run()
    post_processing = _as_post_processing(search.assignment, search.masses)[labels]
    return EnvelopeValue(
        delta=delta,
        lower=_certified_lower(channel, post_processing, delta),
        upper=_certified_upper(channel, search.multipliers, delta, search.upper),
        post_processing=post_processing,
        dual=search.multipliers,
        programs=search.programs,
    )


def closed_failure_probability(channel: Channel, epsilon: float) -> float:
    """The largest P{ leakage > epsilon } over all post-processings, delta_c of [SPP] (8).

    An upper bound from the dual, exact up to the accuracy of the linear program.

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
    threshold = float(np.nextafter(np.exp(check_epsilon(epsilon)), 0.0))
    reduced = channel.reduced()
    ratios, masses = reduced.ratios, reduced.output_distribution
    useful = np.flatnonzero(ratios.max(axis=1) > threshold)
    return largest_mass(ratios, masses, threshold, useful)[1]


def closed_failure_bound(channel: Channel, dual: Array, epsilon: float) -> float:
    """Upper bound on P{ leakage > epsilon } after any post-processing, from any dual mu >= 0.

    sum_y q_y max(0, 1 + max_x mu_x (r_xy - e^epsilon)), over the x with max_y r_xy > e^epsilon,
    rounded up. A value of at most delta < 1 proves that the envelope at delta is at most epsilon.

    Raises:
        InvalidInputError: epsilon negative or NaN, or other than one number for each secret.
    """
    require_channel(channel)
    threshold = float(np.nextafter(np.exp(check_epsilon(epsilon)), 0.0))
    multipliers = np.maximum(finite_matrix("dual", dual), 0.0)
    if multipliers.shape != (1, secrets := channel.shape[0]):
        raise InvalidInputError(f"dual must have one number for each of the {secrets} secrets")
    multipliers = multipliers[0]
    return dual_bound(channel.ratios, channel.output_distribution, multipliers, threshold)


def _certified_upper(channel: Channel, dual: Array, delta: float, threshold: float) -> float:
    """The log of a threshold, raised until the dual proves it for the channel as it was given.

    At the largest ratio of all, and a little above, every dual proves 0.
    """
    step = relative_rounding(*channel.shape)
    upper = log_up(threshold)
    while closed_failure_bound(channel, dual, upper) > delta:
        upper, step = upper + step, 2 * step
    return upper


def _certified_lower(channel: Channel, post_processing: Array, delta: float) -> float:
    """What the post-processing leaks with probability delta, rounded down.

    The last symbol does not count, unless the others may miss delta by rounding.
    """
    off = relative_rounding(*channel.shape) + relative_rounding(*post_processing.shape)
    masses = channel.output_distribution @ post_processing
    used = masses > 0
    if masses[:-1].sum() * (1 - off) >= delta:
        used[-1] = False
    leaks = (channel.matrix @ post_processing[:, used]).max(axis=0) / masses[used]
    return log_down(float(leaks.min()) * (1 - off))


def _as_post_processing(assignment: Array, masses: Array) -> Array:
    """P(z | y), shape (y, symbols + 1): the symbols in use, and the rest as the last one."""
    used = assignment.sum(axis=1) > 0
    rows = (assignment[used] / masses).T
    rest = 1.0 - rows.sum(axis=1, keepdims=True)
    matrix = np.hstack([rows, np.where(rest > _WHOLE, rest, 0.0)])
    normalised: Array = matrix / matrix.sum(axis=1, keepdims=True)
    return normalised


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
    """A number between two positive ones: their mean, geometric if they are far apart."""
    return 0.5 * (low + high) if high < 2 * low else float(np.sqrt(low) * np.sqrt(high))


def _repairs(assignment: Array, ratios: Array, masses: Array, target: float) -> Iterator[Array]:
    """A solver's m made feasible: nonnegative, within q, of the target's mass.

    A symbol of little mass can have a poor ratio by rounding only. So the symbols are dropped too,
    one after the other, poorest first; the missing mass then comes from the unused rest.
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
    """`mass`, with the mass missing to the target on its largest symbol, from unused outputs."""
    filled, missing = mass.copy(), target - mass.sum()
    if missing > 0:
        left = np.maximum(masses - mass.sum(axis=0), 0.0)
        share = missing / left.sum() if missing < left.sum() else 1.0
        filled[mass.sum(axis=1).argmax()] += left * share
    return filled
