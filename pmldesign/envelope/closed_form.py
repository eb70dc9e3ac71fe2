"""k-ary randomized response: its PML envelope in closed form, for every prior. All in nats.

alpha = e^eps_r / (e^eps_r + k - 1) on the diagonal, beta = 1 / (e^eps_r + k - 1) elsewhere,
p_1 <= ... <= p_k, q_j = beta + (alpha - beta) p_j, l(j) = log(alpha / q_j). For a delta in (0, 1)
let N and theta in (0, 1] be such that delta = q_1 + ... + q_{N-1} + theta q_N. Then

    e^eps_c(delta) = max( alpha / q_N, max_{1 <= n < N} min( alpha / q_n, t_n ) ),
    t_n = (n alpha + (N - 1 - n + theta) beta) / delta:

n symbols stand for the n rarest outputs, and the others below delta are spread over them so that
all leak the same. n = 1 is the binary envelope; n = N - 1 is the middle piece of the lower bound h
in Theorem 5. Under the condition of that theorem h is the maximum, as its authors conjectured.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Theorem 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import whole
from pmldesign.envelope.channel import check_delta
from pmldesign.envelope.mechanisms import randomized_response
from pmldesign_solvers.operators.operator import Array


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
