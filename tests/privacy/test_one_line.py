"""Gaussian slack of columns on a line: against integration, with several records, and in files."""

import math

import numpy as np
import pytest
from leakages import gaussian_envelope_delta, gaussian_slack_delta

import pmldesign as pml

STEP = 1e-3


def integral(places, epsilon, least):
    """The slack of one record, on a grid, over all vertices of the priors."""
    s = np.arange(places.min() - 10, places.max() + 10, STEP)
    laws = np.exp(-((s[:, None] - places) ** 2) / 2) / math.sqrt(2 * math.pi)
    worst = 0.0
    for vertex in least + (1 - least.sum()) * np.eye(len(places)):
        gains = laws - math.exp(epsilon) * (laws @ vertex)[:, None]
        worst = max(worst, float(np.maximum(gains, 0).sum(axis=0).max()) * STEP)
    return worst


@pytest.mark.parametrize("count", [3, 4, 5, 9])
@pytest.mark.parametrize(("sigma", "epsilon"), [(1.0, 0.5), (0.3, 0.2), (4.0, 0.1)])
def test_the_slack_is_the_integral(count, sigma, epsilon):
    rng = np.random.default_rng(count)
    R, least = rng.permutation(rng.random(count) * 3), rng.random(count) / count
    exact = integral(R / sigma, epsilon, least)
    value = gaussian_slack_delta(R[None], scale=sigma, epsilon=epsilon, alpha=least)
    assert exact * (1 - 1e-5) - 1e-10 <= value <= exact * (1 + 1e-5) + 1e-10
    turned = np.outer([0.6, -0.8], R)  # the same line in a plane
    again = gaussian_slack_delta(turned, scale=sigma, epsilon=epsilon, alpha=least)
    assert again == pytest.approx(value, rel=1e-9, abs=1e-11)


def test_it_grows_as_noise_and_alpha_fall():
    R = np.array([[0.0, 1.0, 2.0, 5.0]])
    by_scale = [
        gaussian_slack_delta(R, scale=s, epsilon=0.4, alpha=0.1) for s in (0.01, 0.5, 1, 3, 9, 90)
    ]
    assert by_scale == sorted(by_scale, reverse=True)
    by_alpha = [
        gaussian_slack_delta(R, scale=3, epsilon=0.4, alpha=a) for a in (1e-9, 0.01, 0.1, 0.25)
    ]
    assert by_alpha == sorted(by_alpha, reverse=True)
    assert gaussian_slack_delta(R, scale=3, epsilon=700.0, alpha=0.1) == 0


def test_two_records_lose_no_more():
    means, sigma, epsilon, least = np.array([0.0, 1.0, 2.0, 3.0]), 1.5, 0.4, np.full(4, 0.15)
    bound = gaussian_slack_delta([means], scale=sigma, epsilon=epsilon, alpha=0.15)
    s = np.arange(-12, 20, 0.004)
    laws = np.exp(-(((s[:, None] - np.arange(7)) / sigma) ** 2) / 2) / (
        sigma * math.sqrt(2 * math.pi)
    )
    worst = 0.0
    for prior in least + 0.4 * np.eye(4):
        mixed = np.array([laws[:, m : m + 4] @ prior for m in range(4)])
        gains = mixed - math.exp(epsilon) * (prior @ mixed)
        worst = max(worst, float(np.maximum(gains, 0).sum(axis=1).max()) * 0.004)
    assert 0 < worst <= bound


PROMISES = [pml.ApproxPML(0.5, 1e-4, 0.2), pml.EnvelopePML(0.5, 1e-2, 0.2)]


@pytest.mark.parametrize("guarantee", PROMISES, ids=lambda promise: type(promise).__name__)
def test_a_single_query_takes_less_noise_and_its_file_holds(tmp_path, guarantee):
    query = np.array([[0.0, 1.0, 3.0]])
    noisy = pml.mechanism("workload", query, guarantee=guarantee, noise="gaussian")
    pml.write(tmp_path / "s.npz", noisy)
    result = pml.verify(tmp_path / "s.npz", workload=query)
    assert result.holds, result.failures
    if isinstance(guarantee, pml.ApproxPML):
        exact = integral(query[0] / noisy.scale, 0.5, np.full(3, 0.2))
        assert exact == pytest.approx(1e-4, rel=1e-4)
    else:
        slack = gaussian_envelope_delta(query, scale=noisy.scale, epsilon=0.5, alpha=0.2)
        assert slack == pytest.approx(1e-2, rel=1e-4)
