"""Bounds on the PML envelope that need no linear program. All in nats.

    binary envelope (Algorithm 1)  <=  envelope  <=  CVaR bound  <=  Theorem 3 bound

Binary: the largest leakage of an event of probability delta, log max_x (1/delta) max sum_y w_y
P(y | x) over 0 <= w <= 1 with sum_y w_y q_y = delta: outputs in the order of r_xy.

CVaR: with V = e^l(Y), any post-processing has V_Z <= E[V_Y | Z]; so if an event B of probability
delta has V_Z >= t on it, then delta t <= E[V_Z; B] <= E[V_Y; B] <= delta CVaR_delta(V_Y), the mean
of V over the worst delta of its mass. It is at most E V / delta and at most max V, which are the
two terms of Theorem 3.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Theorem 3, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.envelope.channel import Channel, check_delta
from pmldesign.envelope.measures import (
    conditional_maximal_leakage,
    maximal_leakage,
    pointwise_leakage,
)
from pmldesign_solvers.operators import Array


def binary_envelope(channel: Channel, delta: float) -> float:
    """The largest delta-quantile after any post-processing to two symbols; a lower bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    return float(np.log(_worst_mean(channel.ratios, channel.output_distribution, delta).max()))


def cvar_bound(channel: Channel, delta: float) -> float:
    """The log of the mean of V = e^l(Y) over its worst delta of mass; an upper bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    leakiest = channel.ratios.max(axis=0, keepdims=True)
    return float(np.log(_worst_mean(leakiest, channel.output_distribution, delta)[0]))


def theorem3_bound(channel: Channel, delta: float) -> float:
    """min(maximal leakage + log(1/delta), largest pointwise leakage); an upper bound.

    Raises:
        InvalidInputError: delta outside (0, 1).
    """
    check_delta(delta)
    return min(
        maximal_leakage(channel) - float(np.log(delta)), float(pointwise_leakage(channel).max())
    )


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
    total = maximal_leakage(first) - float(np.log(check_delta(delta)))
    so_far = first
    for number, mechanism in enumerate(later, start=1):
        total += conditional_maximal_leakage(so_far, mechanism)
        if number < len(later):
            so_far = so_far.compose(mechanism)
    return total


def _worst_mean(values: Array, masses: Array, delta: float) -> Array:
    """For every row of `values`, its mean over the delta of mass where it is largest."""
    check_delta(delta)
    order = np.argsort(-values, axis=1, kind="stable")
    ordered = masses[order]
    before = np.cumsum(ordered, axis=1) - ordered
    taken = np.clip(delta - before, 0.0, ordered)
    sums = (taken * np.take_along_axis(values, order, axis=1)).sum(axis=1)
    worst: Array = np.maximum(sums / taken.sum(axis=1), 1.0)
    return worst
