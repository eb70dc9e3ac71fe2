"""The expected largest error of all queries, against closed forms and other laws."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import pmldesign as pml

PURE, APPROXIMATE = pml.PureDP(1), pml.ApproxDP(1, 1e-6)


def of_counts(n, **options):
    return pml.mechanism("identity", f"histogram:{n}", **options)


@pytest.mark.parametrize("n", [1, 2, 8, 500])
def test_of_independent_laplace_noise_it_is_the_harmonic_number(n):
    # |z| is exponential: the largest of n has the sum of 1/i as its mean
    value, error = of_counts(n, guarantee=PURE).expected_max
    assert value == pytest.approx(sum(1 / i for i in range(1, n + 1)), rel=1e-9)
    assert error == 0


@pytest.mark.parametrize("n", [1, 3, 40])
def test_of_independent_gaussian_noise_it_is_the_integral(n):
    noisy = of_counts(n, guarantee=APPROXIMATE, noise="gaussian")
    law = stats.halfnorm()
    expected, _ = integrate.quad(lambda t: t * n * law.pdf(t) * law.cdf(t) ** (n - 1), 0, 12)
    assert noisy.expected_max.value == pytest.approx(noisy.scale * expected, rel=1e-8)


def test_weights_scale_each_answer():
    workload = pml.workload("histogram:2", weights=[1.0, 3.0])
    value = pml.mechanism(np.eye(2), workload, guarantee=PURE).expected_max.value
    # E max(X, 3 Y) = 1 + 3 - E min(X, 3 Y), and the minimum has rate 1 + 1/3
    assert value == pytest.approx(4 - 1 / (1 + 1 / 3), rel=1e-9)


def test_of_the_total_on_a_cube_it_is_the_mean_of_one_coordinate():
    noisy = pml.mechanism("identity", "total:1", guarantee=PURE, noise="cube")
    value, error = noisy.expected_max
    assert abs(value - noisy.scale) <= 5 * error


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "cube"])
def test_it_lies_between_a_deviation_and_all_of_them(noise):
    guarantee = APPROXIMATE if noise == "gaussian" else PURE
    noisy = pml.mechanism("tree", "prefix:8", guarantee=guarantee, noise=noise)
    value, error = noisy.expected_max
    assert 0 < error < 0.02 * value
    # E|e_i| <= E max <= (E sum e_i^2)^(1/2)
    assert 0.6 * noisy.max_std < value < math.sqrt(float((noisy.standard_deviations**2).sum()))


def test_of_one_dimension_repeated_it_is_that_of_one_answer():
    # every answer is the same total: no more than one error
    noisy = pml.mechanism(np.ones((1, 3)), np.ones((4, 3)), guarantee=PURE)
    value, error = noisy.expected_max
    assert abs(value - noisy.scale) <= 5 * error


def test_large_workloads_and_zero_ones():
    assert pml.mechanism("identity", np.zeros((2, 2)), guarantee=PURE).expected_max.value == 0
    with pytest.raises(pml.InvalidInputError, match="at most 1048576 entries"):
        _ = pml.mechanism("identity", "prefix:2000", guarantee=PURE).expected_max


def test_no_inverse_of_a_large_strategy_is_formed(monkeypatch):
    """L of 28 x 2^14 is small, but R^+ has 2^28 entries."""
    made = pml.mechanism("identity", "marginals:2^14,ways=1", guarantee=APPROXIMATE)
    monkeypatch.setattr("pmldesign.strategies.base.Strategy.reconstruction", None)
    with pytest.raises(pml.InvalidInputError, match="cells times squared measurements"):
        _ = made.expected_max
