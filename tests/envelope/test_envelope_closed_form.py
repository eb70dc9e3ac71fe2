"""Randomized response: the closed form, Theorem 5 in all its regimes, the conjecture."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pmldesign.envelope import (
    binary_envelope,
    exact_envelope,
    randomized_response,
    randomized_response_bounds,
    randomized_response_dp,
    randomized_response_envelope,
)
from pmldesign.errors import InvalidInputError

DELTAS = st.floats(0.001, 0.999)
EPSILONS = st.floats(0.01, 8)


@st.composite
def priors(draw):
    k = draw(st.integers(2, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    prior = rng.dirichlet(np.full(k, 10.0 ** draw(st.integers(-1, 2)))) + 1e-4
    return prior / prior.sum()


@given(priors(), EPSILONS, DELTAS)
def test_closed_form_is_the_linear_program(prior, epsilon, delta):
    closed = randomized_response_envelope(prior, epsilon, delta)
    value = exact_envelope(randomized_response(prior, epsilon=epsilon), delta)
    assert value.lower - 1e-8 <= closed <= value.upper + 1e-8
    bounds = randomized_response_bounds(prior, epsilon, delta)
    assert bounds.lower <= closed + 1e-12
    assert closed <= bounds.upper + 1e-12


@given(priors(), EPSILONS, DELTAS)
def test_lower_bound_of_theorem_5_is_exact_under_its_condition(prior, epsilon, delta):
    bounds = randomized_response_bounds(prior, epsilon, delta)
    assume(bounds.condition)
    closed = randomized_response_envelope(prior, epsilon, delta)
    assert bounds.lower == pytest.approx(closed, abs=1e-11)


def test_lower_bound_is_not_exact_when_the_condition_fails():
    # alpha ~ 1, beta ~ 0, q ~ p, N = 4: Theorem 5 is in its first regime, l(3) ~ log(1 / 0.48);
    # two symbols alone, over which output 3 is spread, leak about 2 / 0.75 each
    prior, epsilon, delta = [0.01, 0.01, 0.48, 0.5], 6.0, 0.75
    bounds = randomized_response_bounds(prior, epsilon, delta)
    assert not bounds.condition
    value = exact_envelope(randomized_response(prior, epsilon=epsilon), delta)
    assert value.lower > bounds.lower + 0.1
    assert value.value == pytest.approx(log(2 / 0.75), abs=0.05)
    closed = randomized_response_envelope(prior, epsilon, delta)
    assert closed == pytest.approx(value.value, abs=1e-11)


def q_of(prior, epsilon):
    k = len(prior)
    beta = 1 / (exp(epsilon) + k - 1)
    return beta + (exp(epsilon) - 1) * beta * np.array(prior), exp(epsilon) * beta, beta


def test_part_i_small_delta():
    prior = [0.2, 0.3, 0.5]
    q, alpha, _ = q_of(prior, 1.0)
    for delta in (1e-9, q[0] / 2, q[0]):
        assert randomized_response_envelope(prior, 1.0, delta) == pytest.approx(log(alpha / q[0]))
        bounds = randomized_response_bounds(prior, 1.0, delta)
        assert bounds.lower == pytest.approx(log(alpha / q[0]))
        assert bounds.upper == pytest.approx(log(alpha / q[0]))
        assert bounds.condition


def test_the_three_regimes_for_three_values():
    # N = 3: theta_1 = alpha (q2 - q1) / (alpha q3 - beta q2),
    # theta_2 = alpha (2 q3 - q1 - q2) / (q3 (alpha - beta))
    prior = [0.2, 0.3, 0.5]
    q, alpha, beta = q_of(prior, 1.0)
    theta_1 = alpha * (q[1] - q[0]) / (alpha * q[2] - beta * q[1])
    theta_2 = alpha * (2 * q[2] - q[0] - q[1]) / (q[2] * (alpha - beta))
    assert 0 < theta_1 < theta_2 < 1
    for theta, expected in (
        (theta_1 / 2, lambda _: alpha / q[1]),
        (theta_1 * (1 - 1e-9), lambda _: alpha / q[1]),
        ((theta_1 + theta_2) / 2, lambda d: (2 * alpha + (theta_1 + theta_2) / 2 * beta) / d),
        (theta_2 * (1 + 1e-9), lambda _: alpha / q[2]),
        ((theta_2 + 1) / 2, lambda _: alpha / q[2]),
    ):
        delta = q[0] + q[1] + theta * q[2]
        value = log(expected(delta))
        assert randomized_response_bounds(prior, 1.0, delta).lower == pytest.approx(value, abs=1e-8)
        channel = randomized_response(prior, epsilon=1.0)
        assert exact_envelope(channel, delta).value == pytest.approx(value, abs=1e-8)


def test_two_values_have_no_first_regime_and_equal_the_binary_envelope():
    # N = 2, so theta_1 = 0; up to theta_2 the binary envelope is the envelope
    prior, epsilon = [0.3, 0.7], 1.5
    q, alpha, beta = q_of(prior, epsilon)
    theta_2 = alpha * (q[1] - q[0]) / (q[1] * (alpha - beta))
    channel = randomized_response(prior, epsilon=epsilon)
    for theta in (1e-6, theta_2 / 2, theta_2):
        delta = q[0] + theta * q[1]
        expected = log((alpha + theta * beta) / delta)
        assert randomized_response_bounds(prior, epsilon, delta).lower == pytest.approx(expected)
        assert binary_envelope(channel, delta) == pytest.approx(expected)
        assert exact_envelope(channel, delta).value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("prior", [[0.1, 0.2, 0.2, 0.2, 0.3], [0.1, 0.1, 0.4, 0.4], [0.25] * 4])
def test_degenerate_cases_with_equal_probabilities(prior):
    # q_{N-1} = q_N: the bound is l(N-1) = l(N) for every theta
    q, alpha, _ = q_of(prior, 1.0)
    channel = randomized_response(prior, epsilon=1.0)
    reached = np.cumsum(q)
    for n in range(1, len(q)):
        for theta in (0.1, 0.5, 0.9):
            delta = reached[n - 1] + theta * q[n]
            bounds = randomized_response_bounds(prior, 1.0, delta)
            value = exact_envelope(channel, delta).value
            assert bounds.condition
            assert bounds.lower == pytest.approx(value, abs=1e-8)
            if q[n] == q[n - 1]:
                assert value == pytest.approx(log(alpha / q[n]), abs=1e-8)


def test_the_order_of_the_prior_does_not_matter():
    for delta in (0.2, 0.5, 0.9):
        a = randomized_response_envelope([0.5, 0.2, 0.3], 1.0, delta)
        assert a == pytest.approx(randomized_response_envelope([0.2, 0.3, 0.5], 1.0, delta))


@pytest.mark.parametrize("k", [2, 5, 20])
def test_approximate_dp_curve(k):
    # brute force over single outputs and their complements: P_i(E) - e^eps P_j(E) <= delta
    _, alpha, beta = q_of([1 / k] * k, 1.0)
    for delta in (0.001, 0.05, 0.3, 0.9):
        epsilon = randomized_response_dp(k, 1.0, delta)
        worst = max(alpha - exp(epsilon) * beta, (1 - beta) - exp(epsilon) * (1 - alpha))
        assert worst <= delta + 1e-12
        if epsilon > 0:
            assert alpha - exp(epsilon - 1e-6) * beta > delta


@pytest.mark.parametrize(
    ("prior", "epsilon", "delta", "message"),
    [
        ([0.5, 0.4], 1, 0.1, "prior must sum to 1"),
        ([1.0, 0.0], 1, 0.1, "prior must be positive"),
        ([0.5, 0.5], -1, 0.1, "epsilon must be positive"),
        ([0.5, 0.5], float("nan"), 0.1, "epsilon must be positive"),
        ([0.5, 0.5], 1, 1.0, "delta must be in"),
        ([1.0], 1, 0.1, "at least 2"),
    ],
)
def test_bad_arguments_are_refused(prior, epsilon, delta, message):
    for function in (randomized_response_envelope, randomized_response_bounds):
        with pytest.raises(InvalidInputError, match=message):
            function(prior, epsilon, delta)


def test_bad_arguments_of_the_dp_curve_are_refused():
    with pytest.raises(InvalidInputError, match="k must be a whole number of at least 2"):
        randomized_response_dp(1, 1.0, 0.1)
    with pytest.raises(InvalidInputError, match="delta must be in"):
        randomized_response_dp(3, 1.0, 0.0)
