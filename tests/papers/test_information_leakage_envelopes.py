"""Examples and statements of [SPP], Information Leakage Envelopes."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.envelope import (
    Channel,
    additive_slack,
    binary_envelope,
    closed_failure_probability,
    cvar_bound,
    event_leakage,
    exact_envelope,
    expected_excess,
    extremal,
    failure_probability,
    leakage_quantile,
    maximal_leakage,
    maximal_leakage_bound,
    pointwise_leakage,
    randomized_response,
    randomized_response_bounds,
    randomized_response_dp,
)

EXAMPLE_1 = Channel(
    [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0, 0.2, 0.4, 0.4], [0.2, 0, 0.4, 0.4]], [0.25] * 4
)
MERGED = EXAMPLE_1.post_process([[1, 0], [0, 1], [1, 0], [0, 1]])
EXAMPLE_3 = Channel([[0.9, 0, 0.1], [0, 0.9, 0.1]], [0.5, 0.5])


def test_example_1_leakage_of_the_outcomes():
    assert pointwise_leakage(EXAMPLE_1) == pytest.approx([log(4), log(4), log(10 / 9), log(10 / 9)])
    assert EXAMPLE_1.output_distribution == pytest.approx([1 / 20, 1 / 20, 0.45, 0.45])
    assert failure_probability(EXAMPLE_1, log(10 / 9) + 1e-9) == pytest.approx(0.1)


def test_example_1_post_processing_breaks_probabilistic_pml():
    assert pointwise_leakage(MERGED) == pytest.approx([log(6 / 5)] * 2)
    assert failure_probability(MERGED, log(10 / 9) + 1e-9) == pytest.approx(1)


def test_example_2_quantiles_from_both_sides():
    assert leakage_quantile(EXAMPLE_1, 0.1, side="left") == pytest.approx(log(10 / 9))
    assert leakage_quantile(EXAMPLE_1, 0.1, side="right") == pytest.approx(log(4))
    for delta, value in ((0.0999, log(4)), (0.1001, log(10 / 9))):
        for side in ("left", "right"):
            assert leakage_quantile(EXAMPLE_1, delta, side=side) == pytest.approx(value)


@pytest.mark.parametrize("delta", [1e-6, 0.05, 0.1])
def test_example_1_envelope_is_log_4_up_to_one_tenth(delta):
    assert exact_envelope(EXAMPLE_1, delta).value == pytest.approx(log(4), abs=1e-11)


def test_theorem_1_psi_1_grows_under_post_processing():
    epsilon = log(10 / 9)
    assert expected_excess(EXAMPLE_1, epsilon) == pytest.approx(13 / 180)
    assert expected_excess(MERGED, epsilon) == pytest.approx(2 / 27)


def test_psi_2_neither_bounds_nor_is_bounded_by_the_failure_probability():
    assert additive_slack(EXAMPLE_1, log(3)) == pytest.approx(0.05)
    assert additive_slack(EXAMPLE_1, log(10 / 9)) == pytest.approx(13 / 90)
    assert failure_probability(EXAMPLE_1, log(3)) == pytest.approx(0.1)


def test_appendix_c_reduced_mechanism():
    expected = [[0, 0, 1], [0, 0, 1], [0, 0.2, 0.8], [0.2, 0, 0.8]]
    np.testing.assert_allclose(EXAMPLE_1.reduced().matrix, expected, atol=1e-15)


def test_example_3_a_union_can_leak_less_than_both_events():
    assert event_leakage(EXAMPLE_3, [1, 0, 0]) == pytest.approx(log(2))
    assert event_leakage(EXAMPLE_3, [0, 1, 0]) == pytest.approx(log(2))
    assert event_leakage(EXAMPLE_3, [1, 1, 0]) == pytest.approx(0, abs=1e-15)


def test_example_4_event_leakage_is_not_monotone():
    assert event_leakage(EXAMPLE_3, [0, 0, 1]) == pytest.approx(0, abs=1e-15)
    assert event_leakage(EXAMPLE_3, [1, 0, 1]) == pytest.approx(log(1 / 0.55))
    assert event_leakage(EXAMPLE_3, [1, 0, 1]) < event_leakage(EXAMPLE_3, [1, 0, 0])


@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_lemma_3_events(k, y, seed):
    rng = np.random.default_rng(seed)
    channel = Channel(rng.dirichlet(np.ones(y), k), rng.dirichlet(np.full(k, 5.0)))
    event = rng.random(y)
    other = rng.random(y) * (1 - event)  # disjoint in the generalised sense
    leakage = event_leakage(channel, event)
    assert 0 <= leakage <= -log(channel.output_distribution @ event) + 1e-12
    assert event_leakage(channel, np.ones(y)) == pytest.approx(0, abs=1e-14)
    assert event_leakage(channel, event + other) <= (
        max(leakage, event_leakage(channel, other)) + 1e-12
    )


@given(st.integers(2, 6), st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
def test_theorem_2_both_quantiles_of_post_processings_reach_the_envelope(k, y, seed, delta):
    # right quantile: by the returned post-processing; left: its mass exceeds delta a little lower
    rng = np.random.default_rng(seed)
    channel = Channel(rng.dirichlet(np.ones(y), k), rng.dirichlet(np.full(k, 5.0)))
    value = exact_envelope(channel, delta)
    reached = channel.post_process(value.post_processing)
    assert leakage_quantile(reached, delta) == pytest.approx(value.value, abs=1e-8)
    nearby = exact_envelope(channel, min(delta * (1 + 1e-7), 1 - 1e-9))
    more = channel.post_process(nearby.post_processing)
    assert leakage_quantile(more, delta, side="left") >= nearby.lower - 1e-10
    assert nearby.lower >= value.value - 1e-4


@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_theorem_4_extremal_mechanisms_have_a_constant_envelope(k, seed, delta, share):
    prior = np.random.default_rng(seed).dirichlet(np.full(k, 3.0))
    epsilon = -np.log1p(-prior.min()) * share
    channel = extremal(prior, epsilon=epsilon)
    assert pointwise_leakage(channel) == pytest.approx(np.full(k, epsilon), abs=1e-12)
    assert exact_envelope(channel, delta).value == pytest.approx(epsilon, abs=1e-10)


def test_corollary_1_uniform_prior_makes_randomized_response_constant():
    channel = randomized_response(np.full(4, 0.25), epsilon=1.3)
    expected = maximal_leakage(channel)  # log(k alpha)
    assert expected == pytest.approx(log(4 * np.exp(1.3) / (np.exp(1.3) + 3)))
    for delta in (0.01, 0.3, 0.99):
        assert exact_envelope(channel, delta).value == pytest.approx(expected, abs=1e-11)


def test_section_7_any_computation_with_few_outputs():
    # deterministic, so P(y | x) is 0 or 1: maximal leakage is log of the number of outputs
    channel = Channel(np.eye(3)[[0, 0, 1, 2, 2, 2]], np.array([1, 2, 3, 4, 5, 6]) / 21)
    for delta in (0.2, 0.6, 0.95):
        assert maximal_leakage_bound(channel, delta) <= log(3 / delta) + 1e-12
        assert exact_envelope(channel, delta).value <= log(3 / delta) + 1e-12


def test_theorem_3_is_not_the_best_bound_but_never_fails():
    prior = [0.2, 0.3, 0.5]
    channel = randomized_response(prior, epsilon=1)
    for delta, exact, cvar in (
        (0.3, 0.66981, 0.69884),
        (0.5, 0.58426, 0.65457),
        (0.8, 0.45155, 0.58495),
    ):
        assert exact_envelope(channel, delta).value == pytest.approx(exact, abs=5e-6)
        assert cvar_bound(channel, delta) == pytest.approx(cvar, abs=5e-6)
    assert maximal_leakage_bound(channel, 0.8) == pytest.approx(0.70461, abs=5e-6)
    assert randomized_response_bounds(prior, 1, 0.8).upper == pytest.approx(0.70461, abs=5e-6)


def test_algorithm_1_is_the_best_event_of_probability_delta():
    # k-RR, Appendix C-B: log((alpha + (N - 2 + theta) beta) / delta)
    prior, epsilon, delta = np.array([0.1, 0.2, 0.3, 0.4]), 0.8, 0.55
    alpha, beta = np.exp(epsilon) / (np.exp(epsilon) + 3), 1 / (np.exp(epsilon) + 3)
    q = beta + (alpha - beta) * prior
    reached = np.cumsum(q)
    index = int(np.searchsorted(reached, delta))
    theta = (delta - reached[index - 1]) / q[index]
    expected = log((alpha + (index - 1 + theta) * beta) / delta)
    channel = randomized_response(prior, epsilon=epsilon)
    assert binary_envelope(channel, delta) == pytest.approx(expected)


def test_closed_failure_probability_dominates_the_plain_one():
    # at epsilon = log 4 no outcome exceeds it; just below, more mass than 0.1 can be collected
    assert closed_failure_probability(EXAMPLE_1, log(4) + 1e-9) == 0
    assert closed_failure_probability(EXAMPLE_1, log(4) - 1e-9) == pytest.approx(0.1, abs=1e-8)
    # at log(6/5) the two merged symbols of Example 1 together have mass 1
    assert closed_failure_probability(EXAMPLE_1, log(6 / 5) - 1e-9) == pytest.approx(1)


def test_theorem_5_iii_has_an_inequality_where_its_proof_prints_an_equality():
    # k = 3, N = 2: eta_1 = theta is forced, so Z is known
    prior, epsilon = [0.2, 0.3, 0.5], 1.0
    channel = randomized_response(prior, epsilon=epsilon)
    q1, q2, _ = channel.output_distribution
    theta = 0.9
    split = channel.post_process([[1, 0], [theta, 1 - theta], [0, 1]])
    delta = q1 + theta * q2
    alpha, beta = np.exp(epsilon) / (np.exp(epsilon) + 2), 1 / (np.exp(epsilon) + 2)
    of_split = leakage_quantile(split, delta * (1 - 1e-12))
    assert of_split == pytest.approx(log((alpha + theta * beta) / delta))
    # theta_2 = alpha (q2 - q1)/(q2 (alpha - beta)) < theta: Y itself leaks log(alpha/q2) as often
    assert alpha * (q2 - q1) / (q2 * (alpha - beta)) < theta
    assert exact_envelope(channel, delta).lower >= log(alpha / q2) - 1e-11 > of_split + 0.01


def test_the_dp_curve_of_randomized_response_beyond_its_formula():
    # log((alpha - delta)/beta) has no value from delta = alpha on; from alpha - beta on it is 0
    k, epsilon = 5, 1.0
    rows = randomized_response([1 / k] * k, epsilon=epsilon).matrix
    alpha, beta = rows[0, 0], rows[0, 1]
    for delta in (0.01, 0.9 * (alpha - beta), 1.01 * (alpha - beta), alpha, 0.9):
        level = randomized_response_dp(k, epsilon, delta)
        if delta < alpha:
            assert level == pytest.approx(max(log((alpha - delta) / beta), 0), abs=1e-15)
        needed = max(
            np.maximum(rows[i] - np.exp(level) * rows[j], 0).sum()
            for i in range(k)
            for j in range(k)
        )
        assert needed <= delta + 1e-12
        assert (level == 0) == (delta >= alpha - beta)


def test_neither_slack_nor_envelope_implies_the_other():
    # the secret is told with probability c, its rare value x = 0 has probability a
    c, a, epsilon = 0.1, 0.01, log(4)
    told = Channel([[c, 0, 1 - c], [0, c, 1 - c]], [a, 1 - a])
    # slack c (1 - a e^eps); envelope: a c of mass, padded from the silent output until it leaks eps
    assert additive_slack(told, epsilon) == pytest.approx(c * (1 - 4 * a))
    padded = a * c + c * (1 - 4 * a) / 3
    assert closed_failure_probability(told, epsilon) == pytest.approx(padded)
    assert padded < 0.4 * additive_slack(told, epsilon)
    # and the other way: every output leaks a little more than epsilon
    thin = randomized_response([0.5, 0.5], epsilon=0.1)
    below = pointwise_leakage(thin).min() - 1e-3
    assert closed_failure_probability(thin, below) == pytest.approx(1)
    assert additive_slack(thin, below) < 0.01
