"""Leakage of a finite channel: pointwise maximal leakage and what is made of it. All in nats.

With r_xy = P(y | x) / q_y and V_y = max_x r_xy, the pointwise maximal leakage is l(y) = log V_y.

    failure probability   P{ l(Y) > eps }                      (probabilistic PML: at most delta)
    left quantile         inf { t : P{l(Y) <= t} >= 1 - delta }
    right quantile        sup { t : P{l(Y) <= t} <= 1 - delta }, the largest t with P{l(Y) >= t}
                          at least delta
    psi_1(eps)            E max(0, 1 - e^eps / V_Y)
    psi_2(eps)            max_x sum_y max(0, P(y|x) - e^eps q_y)     (safe under post-processing)
    maximal leakage       log E V_Y = log sum_y max_x P(y | x)

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Sections II-IV, App. C.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, real_numbers
from pmldesign.envelope.channel import Channel, check_delta, check_epsilon, require_channel
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

TIE = 1e-12
"""Sums of output probabilities this close (relative) to a given delta count as equal to it."""


def pointwise_leakage(channel: Channel) -> Array:
    """l(y) for every output, shape (y,), in nats; never below 0."""
    require_channel(channel)
    leakage: Array = np.log(np.maximum(channel.ratios.max(axis=0), 1.0))
    return leakage


def failure_probability(channel: Channel, epsilon: float) -> float:
    """P{ l(Y) > epsilon }; the channel is (epsilon, delta)-probabilistic PML if at most delta.

    Not safe under post-processing: `closed_failure_probability` is.

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
    fails = pointwise_leakage(channel) > check_epsilon(epsilon)
    return float(channel.output_distribution[fails].sum())


def leakage_quantile(
    channel: Channel, delta: float, *, side: Literal["left", "right"] = "right"
) -> float:
    """The PML delta-quantile of the output, in nats.

    Left: the smallest t that l(Y) exceeds with probability at most delta. Right: the largest t
    that l(Y) reaches with probability at least delta, and a lower bound on the envelope.

    Raises:
        InvalidInputError: delta outside (0, 1), or another side.
    """
    require_channel(channel)
    check_delta(delta)
    if side not in ("left", "right"):
        raise InvalidInputError(f"side must be 'left' or 'right', got {side!r}")
    leakage = pointwise_leakage(channel)
    order = np.argsort(-leakage, kind="stable")
    reached = np.cumsum(channel.output_distribution[order])  # P of this output or a leakier one
    if side == "right":
        position = np.searchsorted(reached, delta * (1 - TIE), side="left")
    else:
        position = np.searchsorted(reached, delta * (1 + TIE), side="right")
    return float(leakage[order[min(int(position), len(order) - 1)]])


def psi_1(channel: Channel, epsilon: float) -> float:
    """E max(0, 1 - e^(epsilon - l(Y))); post-processing can increase it ([SPP] Theorem 1).

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
    excess = 1 - np.exp(check_epsilon(epsilon) - pointwise_leakage(channel))
    return float(channel.output_distribution @ np.maximum(excess, 0.0))


def psi_2(channel: Channel, epsilon: float) -> float:
    """The largest P(E | x) - e^epsilon P(E) over x and events E: the slack delta in PML.

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
    excess = channel.matrix - np.exp(check_epsilon(epsilon)) * channel.output_distribution
    return float(np.maximum(excess, 0.0).sum(axis=1).max())


def maximal_leakage(channel: Channel) -> float:
    """The log of sum_y max_x P(y | x), in nats; the same for every prior of full support."""
    require_channel(channel)
    return float(np.log(channel.matrix.max(axis=0).sum()))


def conditional_maximal_leakage(first: Channel, second: ArrayLike) -> float:
    """Maximal leakage of a second output given the first, in nats.

    max over outputs y of the first of log sum_z max over x with P(x | y) > 0 of P(z | x, y).

    Args:
        first: the channel whose output is known.
        second: the second mechanism as in `Channel.compose`.

    Raises:
        InvalidInputError: as `Channel.compose`.
    """
    require_channel(first)
    conditional = first.conditional(second)
    possible = np.where((first.matrix > 0)[:, :, None], conditional, 0.0)
    return float(np.log(possible.max(axis=0).sum(axis=1).max()))


def event_leakage(channel: Channel, event: ArrayLike) -> float:
    """Leakage of learning that the output lies in an event, log max_x P(E | x) / P(E), in nats.

    Args:
        channel: the channel.
        event: shape (y,), the probability in [0, 1] that each output counts as in the event;
            booleans or 0 and 1 for an ordinary event.

    Raises:
        InvalidInputError: another length, entries outside [0, 1], an event of probability zero.
    """
    require_channel(channel)
    weights = doubles(real_numbers("event", event))
    if weights.shape != channel.shape[1:]:
        raise InvalidInputError(
            f"event must have one entry for each of the {channel.shape[1]} outputs, "
            f"got shape {weights.shape}"
        )
    if not ((weights >= 0) & (weights <= 1)).all():
        raise InvalidInputError("event must have entries in [0, 1]")
    probability = channel.output_distribution @ weights
    if not probability > 0:
        raise InvalidInputError("event must have a positive probability, got 0")
    return float(np.log(max((channel.matrix @ weights).max() / probability, 1.0)))
