"""Bounds on the PML envelope that need no linear program, and closed forms. All in nats.

    binary envelope (Algorithm 1)  <=  envelope  <=  CVaR bound  <=  Theorem 3 bound

Binary: the largest leakage of an event of probability delta, log max_x (1/delta) max sum_y w_y
P(y | x) over 0 <= w <= 1 with sum_y w_y q_y = delta: outputs in the order of r_xy.

CVaR: with V = e^l(Y), any post-processing has V_Z <= E[V_Y | Z]; so if an event B of probability
delta has V_Z >= t on it, then delta t <= E[V_Z; B] <= E[V_Y; B] <= delta CVaR_delta(V_Y), the mean
of V over the worst delta of its mass. It is at most E V / delta and at most max V, which are the
two terms of Theorem 3.

The upper bounds are rounded up and the lower one down, by what rounding can change in q and r; so
they hold in exact arithmetic.

k-ary randomized response has its envelope in closed form, for every prior. alpha = e^eps_r /
(e^eps_r + k - 1) is on the diagonal, beta = 1 / (e^eps_r + k - 1) elsewhere, p_1 <= ... <= p_k, q_j
= beta + (alpha - beta) p_j, l(j) = log(alpha / q_j). For a delta in (0, 1) let N and theta in
(0, 1] be such that delta = q_1 + ... + q_{N-1} + theta q_N. Then

    e^eps_c(delta) = max( alpha / q_N, max_{1 <= n < N} min( alpha / q_n, t_n ) ),
    t_n = (n alpha + (N - 1 - n + theta) beta) / delta:

n symbols stand for the n rarest outputs, and the others below delta are spread over them so that
all leak the same. n = 1 is the binary envelope; n = N - 1 is the middle piece of the lower bound h
in Theorem 5. Under the condition of that theorem h is the maximum, as its authors conjectured.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Theorems 3 and 5,
        Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import listed, whole
from pmldesign.envelope.channel import (
    Channel,
    check_delta,
    conditional_maximal_leakage,
    maximal_leakage,
    require_channel,
)
from pmldesign.envelope.mechanisms import randomized_response
from pmldesign.envelope.programs import relative_rounding
from pmldesign_solvers.operators.operator import Array


def binary_envelope(channel: Channel, delta: float) -> float:
    """The largest delta-quantile after any post-processing to two symbols; a lower bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    require_channel(channel)
    taken = worst_masses(channel.ratios, channel.output_distribution, check_delta(delta))
    mean = means(channel.ratios, taken)
    return log_down(float(mean.max()) * (1 - relative_rounding(*channel.shape)))


def cvar_bound(channel: Channel, delta: float) -> float:
    """The log of the mean of V = e^l(Y) over its worst delta of mass; an upper bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    require_channel(channel)
    leakiest = channel.ratios.max(axis=0, keepdims=True)
    taken = worst_masses(leakiest, channel.output_distribution, check_delta(delta))
    mean = means(leakiest, taken)
    return log_up(float(mean[0]) * (1 + relative_rounding(*channel.shape)))


def maximal_leakage_bound(channel: Channel, delta: float) -> float:
    """min(maximal leakage + log(1/delta), largest pointwise leakage); an upper bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    require_channel(channel)
    check_delta(delta)
    off = 1 + relative_rounding(*channel.shape)
    whole = channel.matrix.max(axis=0).sum() / delta
    return log_up(float(min(whole, channel.ratios.max())) * off)


def composition_bound(first: Channel, later: Sequence[ArrayLike], delta: float) -> float:
    """Upper bound on the envelope of several outputs about one secret.

    The sum over the mechanisms of the maximal leakage of each output given those before it, plus
    log(1/delta).

    Args:
        first: the first channel.
        later: the mechanisms after it, each as in `Channel.compose` with respect to all outputs
            before it: (k, z), or (outputs so far, k, z) if it is chosen after they are seen.
        delta: probability in (0, 1).

    Raises:
        InvalidInputError: delta outside (0, 1), or as `Channel.compose`.
    """
    require_channel(first)
    later = listed("later", later)
    total = maximal_leakage(first) - float(np.log(check_delta(delta)))
    so_far = first
    for number, mechanism in enumerate(later, start=1):
        total += conditional_maximal_leakage(so_far, mechanism)
        if number < len(later):
            so_far = so_far.compose(mechanism)
    steps = len(later) + 1
    return (total + steps * relative_rounding(*so_far.shape)) * (1 + 4 * steps * 2.0**-52)


def worst_masses(values: Array, masses: Array, delta: float) -> Array:
    """For every row of `values`, the delta of mass where the row is largest, shape of `values`."""
    order = np.argsort(-values, axis=1, kind="stable")
    ordered = masses[order]
    before = np.zeros_like(ordered)  # a difference of sums would have no digits for small masses
    np.cumsum(ordered[:, :-1], axis=1, out=before[:, 1:])
    taken = np.empty_like(ordered)
    np.put_along_axis(taken, order, np.clip(delta - before, 0.0, ordered), axis=1)
    return taken


def log_down(value: float) -> float:
    """The logarithm, never above the true one, at least 0."""
    return max(float(np.nextafter(np.log(value), -np.inf)), 0.0)


def log_up(value: float) -> float:
    """The logarithm, never below the true one, at least 0."""
    return max(float(np.nextafter(np.log(value), np.inf)), 0.0)


def means(values: Array, taken: Array) -> Array:
    """For every row the mean of the values over the mass that is taken."""
    mean: Array = (taken * values).sum(axis=1) / taken.sum(axis=1)
    return mean


@dataclass(frozen=True, slots=True)
class RandomizedResponseBounds:
    """Theorem 5 of [SPP] at one delta, in nats.

    Attributes:
        lower: h_delta(theta); the exact envelope where `condition` holds.
        upper: min(log(k alpha / delta), log(alpha / q_1)).
        condition: whether the prior satisfies the condition of part (iii), or part (i) applies.
    """

    lower: float
    upper: float
    condition: bool


def randomized_response_envelope(prior: ArrayLike, epsilon: float, delta: float) -> float:
    """The PML envelope of k-ary randomized response, in closed form, for every prior.

    Args:
        prior: shape (k,), positive, sums to 1.
        epsilon: the local DP parameter of randomized response, in nats.
        delta: probability in (0, 1).

    Raises:
        InvalidInputError: a bad prior, epsilon not positive, delta outside (0, 1).
    """
    alpha, beta, masses = _sorted_outputs(prior, epsilon)
    index, theta = _position(masses, delta)
    n = np.arange(1, index + 1)
    spread = (n * alpha + (index - n + theta) * beta) / delta
    candidates = np.minimum(alpha / masses[:index], spread)
    return float(np.log(max(alpha / masses[index], candidates.max(initial=1.0))))


def randomized_response_bounds(
    prior: ArrayLike, epsilon: float, delta: float
) -> RandomizedResponseBounds:
    """The bounds of Theorem 5, with its three regimes and their degenerate cases.

    Where the condition on the prior fails, `lower` is still a lower bound (the larger of l(N) and
    the leakage that the theorem's construction reaches), and can be below the envelope.

    Args:
        prior: shape (k,), positive, sums to 1.
        epsilon: the local DP parameter, in nats.
        delta: probability in (0, 1).

    Raises:
        InvalidInputError: a bad prior, epsilon not positive, delta outside (0, 1).
    """
    alpha, beta, masses = _sorted_outputs(prior, epsilon)
    k = len(masses)
    index, theta = _position(masses, delta)  # index = N - 1
    upper = float(np.log(min(k * alpha / delta, alpha / masses[0])))
    if index == 0:
        return RandomizedResponseBounds(float(np.log(alpha / masses[0])), upper, condition=True)
    rarer, last, previous = masses[:index], masses[index], masses[index - 1]
    theta_1 = alpha * ((index - 1) * previous - rarer[:-1].sum()) / (alpha * last - beta * previous)
    theta_2 = alpha * (index * last - rarer.sum()) / (last * (alpha - beta))
    if theta <= theta_1:
        reached = alpha / previous
    elif theta <= theta_2:
        reached = (index * alpha + theta * beta) / delta
    else:
        reached = alpha / last
    p = np.sort(randomized_response(prior, epsilon=epsilon).prior)
    allowed = (alpha * p[:index].sum() + beta) / ((index - 1) * alpha + beta)
    return RandomizedResponseBounds(float(np.log(reached)), upper, bool(p[index] <= allowed))


def randomized_response_dp(k: int, epsilon: float, delta: float) -> float:
    """The smallest epsilon' for which randomized response is (epsilon', delta)-DP, in nats.

    Raises:
        InvalidInputError: k below 2, epsilon not positive, delta outside (0, 1).
    """
    k = whole("k", k, 2)
    alpha, beta, _ = _sorted_outputs(np.full(k, 1 / k), epsilon)
    return float(np.log(max((alpha - check_delta(delta)) / beta, 1.0)))


def _sorted_outputs(prior: ArrayLike, epsilon: float) -> tuple[float, float, Array]:
    """alpha, beta and q in increasing order."""
    channel = randomized_response(prior, epsilon=epsilon)
    masses = np.sort(channel.output_distribution)
    return float(channel.matrix[0, 0]), float(channel.matrix[0, 1]), masses


def _position(masses: Array, delta: float) -> tuple[int, float]:
    """N - 1 and theta in (0, 1] with delta = q_1 + ... + q_{N-1} + theta q_N."""
    reached = np.cumsum(masses)
    index = min(int(np.searchsorted(reached, check_delta(delta))), len(masses) - 1)
    before = reached[index - 1] if index else 0.0
    return index, float(min((delta - before) / masses[index], 1.0))
