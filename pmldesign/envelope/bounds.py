"""Bounds on the PML envelope that need no linear program. All in nats.

    binary envelope (Algorithm 1)  <=  envelope  <=  CVaR bound  <=  Theorem 3 bound

Binary: the largest leakage of an event of probability delta, log max_x (1/delta) max sum_y w_y
P(y | x) over 0 <= w <= 1 with sum_y w_y q_y = delta: outputs in the order of r_xy.

CVaR: with V = e^l(Y), any post-processing has V_Z <= E[V_Y | Z]; so if an event B of probability
delta has V_Z >= t on it, then delta t <= E[V_Z; B] <= E[V_Y; B] <= delta CVaR_delta(V_Y), the mean
of V over the worst delta of its mass. It is at most E V / delta and at most max V, which are the
two terms of Theorem 3.

The upper bounds are rounded up and the lower one down, by what rounding can change in q and r; so
they hold in exact arithmetic.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Theorem 3, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import instance
from pmldesign.envelope.channel import Channel, check_delta, require_channel
from pmldesign.envelope.measures import conditional_maximal_leakage, maximal_leakage
from pmldesign.envelope.programs import relative_rounding
from pmldesign_solvers.operators.operator import Array


def binary_envelope(channel: Channel, delta: float) -> float:
    """The largest delta-quantile after any post-processing to two symbols; a lower bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    require_channel(channel)
    taken = worst_masses(channel.ratios, channel.output_distribution, delta)
    mean = means(channel.ratios, taken)
    return log_down(float(mean.max()) * (1 - relative_rounding(*channel.shape)))


def cvar_bound(channel: Channel, delta: float) -> float:
    """The log of the mean of V = e^l(Y) over its worst delta of mass; an upper bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    require_channel(channel)
    leakiest = channel.ratios.max(axis=0, keepdims=True)
    mean = means(leakiest, worst_masses(leakiest, channel.output_distribution, delta))
    return log_up(float(mean[0]) * (1 + relative_rounding(*channel.shape)))


def theorem3_bound(channel: Channel, delta: float) -> float:
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
    instance("later", later, Sequence, "a list of mechanisms")
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
    check_delta(delta)
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
