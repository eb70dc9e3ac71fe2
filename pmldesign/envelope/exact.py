"""The PML envelope, exactly: both ends of a search, certified for the channel itself.

The envelope is eps_c(delta) = log t*, t* = max { t : G(t) >= delta }, with G(t) from `programs`
(the mass that can reach leakage log t). `search` brackets t*; here both ends are recomputed from
what is returned, on the channel as it was given, and rounded outwards:

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

from dataclasses import dataclass

import numpy as np

from pmldesign.arguments import real_numbers
from pmldesign.envelope.bounds import log_down, log_up
from pmldesign.envelope.channel import Channel, check_delta, check_epsilon, require_channel
from pmldesign.envelope.programs import dual_bound, largest_mass, relative_rounding
from pmldesign.envelope.search import EnvelopeSearch
from pmldesign_solvers.operators.operator import Array

_WHOLE = 1e-15
"""A rest of an output smaller than this is rounding, and is not split off."""


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
        delta: probability in (0, 1), at least 1e-290, with which larger leakage is tolerated.

    Returns:
        Both bounds, rarely more than 1e-11 nats apart (1e-7 in the worst of 6,700 channels),
        and what proves them. They hold whatever their gap.

    Raises:
        InvalidInputError: delta outside this range.
    """
    require_channel(channel)
    check_delta(delta)
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
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
    threshold = float(np.nextafter(np.exp(check_epsilon(epsilon)), 0.0))
    multipliers = np.maximum(real_numbers("dual", dual), 0.0)
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
