"""A finite channel from a secret to the outputs of a mechanism, and its leakage.

P (k x y) has the rows P(. | x), one for each value x of the secret X; p is the prior of X and
q = p P the distribution of the output Y. All leakages, in nats, are read off the ratios

    r_xy = P(y | x) / q_y = P(x | y) / p_x,      log r_xy = i(x; y), the information density.

With V_y = max_x r_xy, the pointwise maximal leakage is l(y) = log V_y.

    failure probability     P{ l(Y) > eps }                    (probabilistic PML: at most delta)
    left quantile           inf { t : P{l(Y) <= t} >= 1 - delta }
    right quantile          sup { t : P{l(Y) <= t} <= 1 - delta }, the largest t with
                            P{l(Y) >= t} at least delta
    expected excess, psi_1  E max(0, 1 - e^eps / V_Y)
    additive slack, psi_2   max_x sum_y max(0, P(y|x) - e^eps q_y)   (safe under post-processing)
    maximal leakage         log E V_Y = log sum_y max_x P(y | x)

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Sections II-IV, App. C.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, instance, number, real_numbers, shown
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.display import Displayed, Facts
from pmldesign_solvers.operators.operator import Array, Indices

SUM_TOLERANCE = 1e-9
"""Probabilities may miss the sum 1 by this much, the price of writing them as decimals."""

SMALLEST_MASS = 1e-300
"""Outputs that occur, but less often, are refused: products of double precision fail there."""

SMALLEST_DELTA = 1e-290
"""A smaller delta is refused, for the same reason."""

SIMILAR_TOLERANCE = 1e-14
"""Two outputs are similar when their ratios r_xy agree to this relative accuracy."""
TIE = 1e-12
"""Sums of output probabilities this close (relative) to a given delta count as equal to it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Channel(Displayed):
    """A conditional distribution of an output given a secret, and the prior of the secret.

    Rows and prior are scaled to sum to 1 exactly; outputs that never occur are dropped.

    Attributes:
        matrix: shape (k, y), P(y | x) for the outputs that can occur.
        prior: shape (k,), every entry positive.
        outputs: shape (y,), which columns of the given matrix these are.

    Raises:
        InvalidInputError: entries that are not probabilities, rows or prior that do not sum to 1,
            a prior of another length than the matrix has rows, or with a zero, or an output that
            occurs with a positive probability below 1e-300.
    """

    matrix: Array
    prior: Array
    outputs: Indices = field(init=False)

    def _display(self) -> tuple[str, Facts]:
        secrets, outputs = self.matrix.shape
        return f"Channel of {secrets} secrets and {outputs} outputs", []

    def __init__(self, matrix: ArrayLike, prior: ArrayLike) -> None:
        rows = _probabilities("channel", matrix, dimensions=2)
        weights = _probabilities("prior", prior, dimensions=1)
        if len(weights) != len(rows):
            raise InvalidInputError(
                f"prior must have one entry for each of the channel's {len(rows)} rows, "
                f"got {len(weights)}"
            )
        if not (weights > 0).all():
            raise InvalidInputError(
                f"prior must be positive everywhere, got 0 at entry {np.argmin(weights)}; "
                "remove the values of the secret that never occur from the prior and the channel"
            )
        outputs = np.flatnonzero((rows > 0).any(axis=0))
        rare = outputs[(weights @ rows)[outputs] < SMALLEST_MASS]
        if len(rare):
            raise InvalidInputError(
                f"outputs must occur with a probability of at least {SMALLEST_MASS:g} or never, "
                f"got less for output {rare[0]}; merge it with another output or set it to 0"
            )
        object.__setattr__(self, "matrix", np.ascontiguousarray(rows[:, outputs]))
        object.__setattr__(self, "prior", weights)
        object.__setattr__(self, "outputs", outputs)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of values of the secret k, and of outputs y."""
        k, y = self.matrix.shape
        return k, y

    @property
    def output_distribution(self) -> Array:
        """The distribution q = p P of the output, shape (y,)."""
        distribution: Array = self.prior @ self.matrix
        return distribution

    @property
    def ratios(self) -> Array:
        """The ratios r_xy = P(y | x) / q_y, shape (k, y)."""
        return self.matrix / self.output_distribution

    def post_process(self, matrix: ArrayLike) -> Channel:
        """The channel whose output Z is drawn from row y of `matrix` when this one gives y.

        Args:
            matrix: shape (y, z), rows P(z | y) for the outputs of this channel.

        Raises:
            InvalidInputError: rows that are not distributions, or not one for each output.
        """
        rows = _probabilities("post-processing", matrix, dimensions=2)
        if len(rows) != self.shape[1]:
            raise InvalidInputError(
                f"post-processing must have one row for each of the {self.shape[1]} outputs, "
                f"got {len(rows)}"
            )
        return Channel(self.matrix @ rows, self.prior)

    def similar_outputs(self) -> Indices:
        """Shape (y,): equal numbers, from 0, for outputs with equal information on the secret."""
        ratios = self.ratios
        labels = np.full(self.shape[1], -1, dtype=np.intp)
        count = 0
        for y in range(self.shape[1]):
            if labels[y] >= 0:
                continue
            rest = np.flatnonzero(labels < 0)
            scale = np.maximum(ratios[:, [y]], ratios[:, rest])
            far = np.abs(ratios[:, rest] - ratios[:, [y]]) > SIMILAR_TOLERANCE * scale
            labels[rest[~far.any(axis=0)]] = count
            count += 1
        return labels

    def reduced(self) -> Channel:
        """The reduced mechanism: similar outputs merged, which changes no leakage."""
        labels = self.similar_outputs()
        return self.post_process(np.eye(labels.max() + 1)[labels])

    def compose(self, second: ArrayLike) -> Channel:
        """The channel that gives this one's output and then a second one's.

        Args:
            second: shape (k, z), P(z | x); or, when the second mechanism is chosen after the first
                output is seen, shape (y, k, z), P(z | x, y) for every column y that this channel
                was given.

        Returns:
            A channel whose column i * z + j is this one's column i and the second's output j.

        Raises:
            InvalidInputError: a second mechanism of another shape, or rows that do not sum to 1.
        """
        joint = self.matrix[:, :, None] * self.conditional(second)
        return Channel(joint.reshape(self.shape[0], -1), self.prior)

    def conditional(self, second: ArrayLike) -> Array:
        """`second` as P(z | x, y), shape (k, y, z), checked; see `compose`."""
        array = doubles(real_numbers("second mechanism", second))
        k, y = self.shape
        if array.ndim == 2 and len(array) == k:
            rows = _probabilities("second mechanism", array, dimensions=2)
            return np.broadcast_to(rows[:, None, :], (k, y, rows.shape[1]))
        if array.ndim != 3 or array.shape[1] != k or len(array) <= self.outputs.max():
            raise InvalidInputError(
                f"second mechanism must have shape ({k}, z), or (outputs, {k}, z) if it depends on "
                f"the first output, got {array.shape}"
            )
        flat = _probabilities("second mechanism", array.reshape(-1, array.shape[2]), dimensions=2)
        return flat.reshape(array.shape)[self.outputs].transpose(1, 0, 2)


def require_channel(value: Channel) -> None:
    """Refuse a value that is not a channel."""
    instance("channel", value, Channel, "Channel(matrix, prior), parse_channel or read_channel")


def check_delta(delta: float) -> float:
    """`delta` itself, a probability in (0, 1), at least 1e-290.

    Raises:
        InvalidInputError: outside, smaller, or NaN.
    """
    found = number("delta", delta)
    if not SMALLEST_DELTA <= found < 1:
        raise InvalidInputError(
            f"delta must be in (0, 1) and at least {SMALLEST_DELTA:g}, got {delta}"
        )
    return found


def check_epsilon(epsilon: float) -> float:
    """`epsilon` itself, a leakage in nats, at least 0.

    Raises:
        InvalidInputError: negative, infinite or NaN.
    """
    found = number("epsilon", epsilon)
    if not 0 <= found < np.inf:
        raise InvalidInputError(f"epsilon must be at least 0 and finite, in nats, got {epsilon}")
    return found


def _probabilities(name: str, values: ArrayLike, *, dimensions: int) -> Array:
    """A copy of `values` whose last axis sums to 1."""
    array = doubles(real_numbers(name, values))
    if array.ndim != dimensions or array.size == 0:
        raise InvalidInputError(
            f"{name} must be a non-empty array with {dimensions} axes, got shape {array.shape}"
        )
    bad = ~((array >= 0) & (array <= 1 + SUM_TOLERANCE))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"{name} must have entries in [0, 1], got {array[where]} at {where}"
        )
    sums = array.sum(axis=-1, keepdims=True)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums.flat[worst] - 1) > SUM_TOLERANCE:
        place = f"row {worst} of {name}" if dimensions == 2 else name
        raise InvalidInputError(
            f"{place} must sum to 1 within {SUM_TOLERANCE}, got {sums.flat[worst]:.12g}; "
            "give more digits or divide by the sum"
        )
    scaled: Array = array / sums
    return scaled


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
    delta = check_delta(delta)
    if not isinstance(side, str) or side not in ("left", "right"):
        raise InvalidInputError(f"side must be 'left' or 'right', got {shown(side)}")
    leakage = pointwise_leakage(channel)
    order = np.argsort(-leakage, kind="stable")
    reached = np.cumsum(channel.output_distribution[order])  # P of this output or a leakier one
    if side == "right":
        position = np.searchsorted(reached, delta * (1 - TIE), side="left")
    else:
        position = np.searchsorted(reached, delta * (1 + TIE), side="right")
    return float(leakage[order[min(int(position), len(order) - 1)]])


def expected_excess(channel: Channel, epsilon: float) -> float:
    """E max(0, 1 - e^(epsilon - l(Y))); post-processing can increase it ([SPP] Theorem 1).

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
    excess = 1 - np.exp(check_epsilon(epsilon) - pointwise_leakage(channel))
    return float(channel.output_distribution @ np.maximum(excess, 0.0))


def additive_slack(channel: Channel, epsilon: float) -> float:
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
