"""Channels, their measures, the bounds that need no program, and the mechanisms."""

from math import exp, inf, log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from pmldesign.envelope import (
    Channel,
    additive_slack,
    binary_envelope,
    composition_bound,
    conditional_maximal_leakage,
    cvar_bound,
    event_leakage,
    exact_envelope,
    expected_excess,
    extremal,
    failure_probability,
    leakage_quantile,
    maximal_leakage,
    parse_channel,
    pointwise_leakage,
    quantized_gaussian,
    quantized_laplace,
    randomized_response,
)
from pmldesign.errors import InvalidInputError

SEEDS = st.integers(0, 2**32 - 1)


def random_channel(rng, k=4, y=6, spread=1.0):
    return Channel(rng.dirichlet(np.full(y, spread), k), rng.dirichlet(np.full(k, 3.0)))


@pytest.mark.parametrize(
    ("matrix", "prior", "message"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], [0.5, 0.5], "row 0 of channel must sum to 1"),
        ([[0.5, 0.5], [0.5, 0.49]], [0.5, 0.5], "row 1 of channel must sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], [0.5, 0.5], r"got 1.5 at \(0, 0\)"),
        ([[0.5, 0.5], [1.0, -1e-3]], [0.5, 0.5], r"got -0.001 at \(1, 1\)"),
        ([[0.5, nan], [0.5, 0.5]], [0.5, 0.5], r"got nan at \(0, 1\)"),
        ([[0.5, inf], [0.5, 0.5]], [0.5, 0.5], "got inf"),
        ([[0.5, 0.5], [0.5, 0.5]], [1.0], "one entry for each of the channel's 2 rows, got 1"),
        ([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.25, 0.25], "2 rows, got 3"),
        ([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0], "positive everywhere, got 0 at entry 1"),
        ([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.4], "prior must sum to 1"),
        ([[0.5, 0.5], [0.5, 0.5]], [nan, 0.5], "prior must have entries"),
        ([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5]], "1 axes"),
        ([0.5, 0.5], [1.0], "2 axes"),
        ([[]], [1.0], "non-empty"),
        ([[0.5, 0.5], [1.0]], [0.5, 0.5], "rows of one length"),
        ([["a", "b"]], [1.0], "real numbers"),
        ([[1j, 1.0]], [1.0], "real numbers"),
    ],
)
def test_what_is_not_a_channel_is_refused(matrix, prior, message):
    with pytest.raises(InvalidInputError, match=message):
        Channel(matrix, prior)


def test_outputs_that_never_occur_are_dropped():
    channel = Channel([[0.5, 0, 0.5], [0.25, 0, 0.75]], [0.5, 0.5])
    assert channel.shape == (2, 2)
    assert channel.outputs.tolist() == [0, 2]


def test_decimals_are_scaled_to_sum_to_one():
    third = 0.3333333333
    channel = Channel([[third, third, 0.3333333334 + 5e-10]], [1.0])
    assert channel.matrix.sum() == pytest.approx(1, abs=1e-15)


def test_the_given_arrays_are_copied():
    matrix = np.eye(2)
    channel = Channel(matrix, [0.5, 0.5])
    matrix[0] = 7
    assert channel.matrix[0, 0] == 1


@given(SEEDS, st.floats(0.01, 0.99))
def test_merging_similar_outputs_changes_no_leakage(seed, delta):
    rng = np.random.default_rng(seed)
    channel = random_channel(rng)
    shares = rng.dirichlet(np.ones(3), 6)
    split = Channel(np.hstack([channel.matrix * shares[:, j] for j in range(3)]), channel.prior)
    reduced = split.reduced()
    assert reduced.shape == channel.shape
    np.testing.assert_allclose(reduced.matrix, channel.matrix, atol=1e-14)
    for function in (leakage_quantile, binary_envelope, cvar_bound):
        assert function(split, delta) == pytest.approx(function(channel, delta), abs=1e-12)
    assert additive_slack(split, 0.1) == pytest.approx(additive_slack(channel, 0.1), abs=1e-12)


@given(SEEDS, st.floats(0, 2))
def test_what_post_processing_cannot_raise(seed, epsilon):
    rng = np.random.default_rng(seed)
    channel = random_channel(rng)
    processed = channel.post_process(rng.dirichlet(np.full(4, 0.4), channel.shape[1]))
    assert additive_slack(processed, epsilon) <= additive_slack(channel, epsilon) + 1e-14
    assert maximal_leakage(processed) <= maximal_leakage(channel) + 1e-14
    assert pointwise_leakage(processed).max() <= pointwise_leakage(channel).max() + 1e-14


@given(SEEDS, st.floats(0.01, 0.99), st.floats(0, 2))
def test_measures_against_their_definitions(seed, delta, epsilon):
    channel = random_channel(np.random.default_rng(seed))
    P, p = channel.matrix, channel.prior
    q = p @ P
    leakage = [log(max(P[x, y] / q[y] for x in range(4))) for y in range(6)]
    assert pointwise_leakage(channel) == pytest.approx(leakage)
    exceeded = sum(q[y] for y in range(6) if leakage[y] > epsilon)
    assert failure_probability(channel, epsilon) == pytest.approx(exceeded)
    assert expected_excess(channel, epsilon) == pytest.approx(
        sum(q[y] * max(0, 1 - exp(epsilon - leakage[y])) for y in range(6))
    )
    # psi_2 over all events
    events = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1)
    best = ((P - exp(epsilon) * q) @ events).max()
    assert additive_slack(channel, epsilon) == pytest.approx(best, abs=1e-14)
    left, right = (leakage_quantile(channel, delta, side=side) for side in ("left", "right"))
    assert left <= right
    assert failure_probability(channel, left) <= delta
    assert sum(q[y] for y in range(6) if leakage[y] >= left - 1e-15) > delta
    assert sum(q[y] for y in range(6) if leakage[y] >= right - 1e-15) >= delta
    assert failure_probability(channel, right) < delta or right == max(leakage)


@given(SEEDS, st.floats(0.02, 0.98))
def test_binary_envelope_is_the_best_event(seed, delta):
    # by Lemma 3 (iv) at an extreme point of 0 <= w <= 1, q w = delta: all but one entry 0 or 1
    channel = random_channel(np.random.default_rng(seed), k=3, y=5)
    q = channel.output_distribution
    best = 0.0
    for mask in range(2**5):
        chosen = np.array([(mask >> y) & 1 for y in range(5)], dtype=float)
        for y in range(5):
            event = chosen.copy()
            event[y] = 0
            event[y] = (delta - q @ event) / q[y]
            if 0 <= event[y] <= 1:
                best = max(best, event_leakage(channel, event))
    assert binary_envelope(channel, delta) == pytest.approx(best, abs=1e-10)


def test_cvar_bound_by_hand():
    # Example 1: V = 4 on mass 0.1 and 10/9 on 0.9; worst 0.4: (0.1 * 4 + 0.3 * 10/9) / 0.4 = 11/6
    matrix = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0, 0.2, 0.4, 0.4], [0.2, 0, 0.4, 0.4]]
    assert cvar_bound(Channel(matrix, [0.25] * 4), 0.4) == pytest.approx(log(11 / 6))


@given(SEEDS)
def test_composition_chains(seed):
    rng = np.random.default_rng(seed)
    first, second = random_channel(rng, k=3, y=4), rng.dirichlet(np.ones(3), 3)
    adaptive = rng.dirichlet(np.ones(2), (12, 3))
    joint = first.compose(second)
    leakage = conditional_maximal_leakage(first, second)
    assert leakage <= maximal_leakage(Channel(second, first.prior)) + 1e-14
    assert maximal_leakage(joint) <= maximal_leakage(first) + leakage + 1e-14
    all_three = joint.compose(adaptive)
    bound = composition_bound(first, [second, adaptive], 0.2)
    expected = maximal_leakage(first) + leakage + conditional_maximal_leakage(joint, adaptive)
    assert bound == pytest.approx(expected + log(5))
    assert exact_envelope(all_three, 0.2).upper <= bound + 1e-12


def test_composition_by_hand():
    first = Channel([[1, 0, 0], [0, 0.5, 0.5]], [0.5, 0.5])
    copies = first.compose([[1, 0], [0, 1]])
    # given the first output, X is known: nothing more to learn
    assert conditional_maximal_leakage(first, [[1, 0], [0, 1]]) == pytest.approx(0)
    np.testing.assert_allclose(copies.matrix, [[1, 0, 0], [0, 0.5, 0.5]])
    silent = Channel([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5])
    assert conditional_maximal_leakage(silent, np.eye(2)) == pytest.approx(log(2))
    # chosen after the first output: tells all after output 0, nothing after output 1
    adaptive = [[[1, 0], [0, 1]], [[1, 0], [1, 0]]]
    assert conditional_maximal_leakage(silent, adaptive) == pytest.approx(log(2))
    assert silent.compose(adaptive).matrix.tolist() == [[0.5, 0, 0.5], [0, 0.5, 0.5]]


def test_adaptive_mechanisms_are_indexed_by_the_given_columns():
    first = Channel([[0.5, 0, 0.5], [0.5, 0, 0.5]], [0.5, 0.5])  # column 1 never occurs
    tells, silent = np.eye(2), [[1, 0], [1, 0]]
    assert conditional_maximal_leakage(first, [silent, tells, silent]) == pytest.approx(0)
    assert conditional_maximal_leakage(first, [silent, silent, tells]) == pytest.approx(log(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.post_process([[1.0]]), "one row for each of the 2 outputs, got 1"),
        (lambda c: c.post_process([[0.5, 0.4], [1, 0]]), "row 0 of post-processing"),
        (lambda c: c.compose([[1.0]]), r"shape \(3, z\)"),
        (lambda c: c.compose(np.ones((1, 3, 1))), r"got \(1, 3, 1\)"),
        (lambda c: event_leakage(c, [1]), "one entry for each of the 2 outputs"),
        (lambda c: event_leakage(c, [0, 2]), "entries in"),
        (lambda c: event_leakage(c, [0, nan]), "entries in"),
        (lambda c: event_leakage(c, [0, 0]), "positive probability"),
        (lambda c: expected_excess(c, nan), "epsilon must be at least 0"),
        (lambda c: additive_slack(c, -1), "epsilon must be at least 0"),
        (lambda c: failure_probability(c, inf), "epsilon must be at least 0"),
        (lambda c: leakage_quantile(c, 0.5, side="both"), "'left' or 'right'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call, message):
    channel = Channel([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], [0.2, 0.3, 0.5])
    with pytest.raises(InvalidInputError, match=message):
        call(channel)


def test_quantised_noise_against_integration():
    prior = [0.3, 0.3, 0.4]
    densities = {
        quantized_laplace: lambda z: 0.5 * exp(-abs(z)),
        quantized_gaussian: lambda z: exp(-z * z / 2) / np.sqrt(2 * np.pi),
    }
    for build, density in densities.items():
        channel = build(prior, scale=0.7, cells=4)  # cuts at 0.5, 1, 1.5
        for x in range(3):
            for y, (low, high) in enumerate([(-30, 0.5), (0.5, 1), (1, 1.5), (1.5, 30)]):
                z = (low - x) / 0.7, (high - x) / 0.7
                expected, _ = integrate.quad(density, *z, points=[0] if z[0] < 0 < z[1] else None)
                assert channel.matrix[x, y] == pytest.approx(expected, abs=1e-12)


def test_quantised_noise_keeps_the_digits_of_unlikely_cells():
    # mirror image x -> k-1-x, cell -> cells-1-cell, down to the tails
    channel = quantized_laplace(np.full(40, 1 / 40), scale=1, cells=20)
    np.testing.assert_allclose(channel.matrix, channel.matrix[::-1, ::-1], rtol=1e-12)
    assert channel.matrix[0, -1] == pytest.approx(0.5 * exp(-39 * 19 / 20), rel=1e-12)


def test_names():
    prior = np.array([0.2, 0.3, 0.5])
    for name, channel in {
        "rr:3,eps=1": randomized_response(prior, epsilon=1),
        "extremal:3,eps=0.1": extremal(prior, epsilon=0.1),
        "laplace:3,scale=0.5,cells=4": quantized_laplace(prior, scale=0.5, cells=4),
        "gaussian:3,cells=4,scale=0.5": quantized_gaussian(prior, scale=0.5, cells=4),
    }.items():
        np.testing.assert_array_equal(parse_channel(name, prior).matrix, channel.matrix)
    assert parse_channel("rr:4,eps=1").prior.tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rr", "channel must be a file or one of rr:K,eps=..., extremal"),
        ("tree:3,eps=1", "channel must be a file or one of"),
        ("rr:3", "must have the form rr:K,eps=..., got 'rr:3'"),
        ("rr:3,eps=1,eps=1", "must have the form"),
        ("rr:3,scale=1", "must have the form"),
        ("rr:3,eps=one", "eps must be a number, got 'one'"),
        ("rr:3.5,eps=1", "number of values must be a whole number"),
        ("rr:4,eps=1", "prior must have 4 entries"),
        ("rr:3,eps=0", "epsilon must be positive"),
        ("rr:3,eps=nan", "epsilon must be positive"),
        ("extremal:3,eps=0.3", r"epsilon must be in \(0, -log\(1 - min p\)\) = \(0, 0.223144\)"),
        ("extremal:3,eps=0", "epsilon must be in"),
        ("laplace:3,scale=-1,cells=4", "scale must be positive"),
        ("gaussian:3,scale=1,cells=1", "cells must be a whole number of at least 2"),
    ],
)
def test_names_that_mean_nothing_are_refused(name, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_channel(name, [0.2, 0.3, 0.5])


def test_a_prior_of_one_value_is_refused_by_the_mechanisms():
    with pytest.raises(InvalidInputError, match="at least 2 probabilities"):
        parse_channel("rr:1,eps=1")


@pytest.mark.parametrize(
    "name",
    [
        "rr:99999999999999999999,eps=1",
        "extremal:100000,eps=0.1",
        "laplace:100,scale=1,cells=10000000",
    ],
)
def test_channels_that_are_too_large_for_a_matrix(name):
    with pytest.raises(InvalidInputError, match="take fewer values or cells"):
        parse_channel(name)
