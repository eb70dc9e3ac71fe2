"""Leakage over what a public sample leaves possible, by linear programs and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.ball import ball_radius, least_sum
from pmldesign.privacy.neighbours import pairwise_distances


@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0.0, 2.5))
def test_the_least_sum_is_that_of_a_linear_program(seed, k, radius):
    rng = np.random.default_rng(seed)
    values, estimate = rng.random(k), rng.dirichlet(np.ones(k))
    limits = estimate * rng.random(k)
    # q = estimate + up - down, sum of both at most the radius
    program = linprog(
        np.concatenate([values, -values]),
        A_ub=[np.ones(2 * k)],
        b_ub=[radius],
        A_eq=[np.concatenate([np.ones(k), -np.ones(k)])],
        b_eq=[0.0],
        bounds=[(0, None)] * k + [(0, room) for room in estimate - limits],
    )
    found = least_sum(values, estimate, limits, radius)
    assert found == pytest.approx(estimate @ values + program.fun, abs=1e-12)


def test_a_ball_and_limits_at_their_ends():
    values, estimate = np.array([1.0, 0.5, 0.1]), np.array([0.5, 0.3, 0.2])
    assert least_sum(values, estimate, estimate, 1.0) == pytest.approx(estimate @ values)
    assert least_sum(values, estimate, np.zeros(3), 0.0) == pytest.approx(estimate @ values)
    assert least_sum(values, estimate, np.zeros(3), 2.0) == pytest.approx(0.1)


@pytest.mark.parametrize("p", [(0.5, 0.5), (0.9, 0.05, 0.05), (0.25,) * 4, (0.7, 0.1, 0.1, 0.1)])
def test_the_leakage_of_the_true_distribution_is_below_as_often_as_stated(p):
    rng, p = np.random.default_rng(1), np.array(p)
    R = np.tri(p.size)
    kept = np.exp(-pairwise_distances(R, norm="l1") / 1.5)
    true = max(-math.log(row @ p) for row in kept)
    samples = rng.multinomial(60, p, 400)
    below = [
        true <= pml.sampled_leakage(R, scale=1.5, counts=counts, confidence=0.8)
        for counts in samples
    ]
    assert np.mean(below) >= 0.8
    radius = ball_radius(p.size, 60, 0.1)
    inside = np.abs(rng.multinomial(60, p, 4000) / 60 - p).sum(axis=1) <= radius
    assert inside.mean() >= 0.9


def test_more_records_tell_more_and_dp_is_the_limit():
    R = np.tri(5)
    values = [
        pml.sampled_leakage(R, scale=2.0, counts=np.full(5, count))
        for count in (1, 10, 1000, 10**6)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] <= 4 / 2.0 * (1 + 1e-12)  # the largest l1 distance over b
    exact = max(-math.log(row.mean()) for row in np.exp(-pairwise_distances(R, norm="l1") / 2))
    assert exact < values[-1] < exact * 1.01


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidInputError, match="each of the 3 cells, got 2"):
        pml.sampled_leakage(np.eye(3), scale=1.0, counts=[1, 2])
    with pytest.raises(InvalidInputError, match="scale"):
        pml.sampled_leakage(np.eye(2), scale=0.0, counts=[1, 2])
