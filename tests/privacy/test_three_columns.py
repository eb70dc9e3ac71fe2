"""Gaussian slack of three columns: against integration over the plane, and two records."""

import itertools
import math

import numpy as np
import pytest
from leakages import gaussian_envelope_delta, gaussian_slack_delta

import pmldesign as pml

PLANES = {
    "histogram": np.eye(3),
    "prefix": np.tril(np.ones((3, 3))),
    "line": np.array([[0.0, 1.0, 2.0]]),
    "narrow": np.array([[0.0, 1.0, 1.1], [0.0, 0.0, 0.3]]),
    "obtuse": np.array([[0.0, 1.0, -0.9], [0.0, 0.3, 0.2]]),
}


def in_a_plane(R):
    """The same distances in two dimensions."""
    centred = R - R[:, :1]
    _, values, right = np.linalg.svd(centred, full_matrices=False)
    places = values[:2, None] * right[:2]
    return np.vstack([places, np.zeros((2 - len(places), 3))]).T


def integral(R, sigma, epsilon, least):
    """The slack of one record, on a grid, over all vertices of the priors."""
    places = in_a_plane(R) / sigma
    ends = np.arange(-8, 8 + np.abs(places).max(), 0.02)
    x, y = np.meshgrid(ends, ends)
    laws = [np.exp(-((x - a) ** 2 + (y - b) ** 2) / 2) / (2 * math.pi) for a, b in places]
    worst = 0.0
    for vertex in np.asarray(least) + (1 - np.sum(least)) * np.eye(3):
        mixed = sum(p * law for p, law in zip(vertex, laws, strict=True))
        for law in laws:
            worst = max(worst, np.maximum(law - math.exp(epsilon) * mixed, 0).sum() * 0.02**2)
    return worst


@pytest.mark.parametrize("name", PLANES)
@pytest.mark.parametrize(("sigma", "epsilon"), [(1.0, 0.5), (2.5, 0.3)])
def test_the_slack_is_the_integral_but_for_a_percent(name, sigma, epsilon):
    least = (0.1, 0.25, 0.2)
    exact = integral(PLANES[name], sigma, epsilon, least)
    value = gaussian_slack_delta(PLANES[name], scale=sigma, epsilon=epsilon, alpha=least)
    assert exact * (1 - 1e-4) - 1e-12 <= value <= exact * 1.02 + 1e-9


def test_two_records_lose_no_more():
    """P(E | first record = r) with an independent second one, on a line, by summing on a grid."""
    sigma, epsilon, least = 1.5, 0.4, np.full(3, 0.2)
    y = np.arange(-14, 20, 0.002)
    means = np.array([0.0, 1.0, 2.0])
    worst = 0.0
    for prior in least + 0.4 * np.eye(3):
        mixed = [
            sum(
                p * np.exp(-(((y - m - other) / sigma) ** 2) / 2)
                for p, other in zip(prior, means, strict=True)
            )
            / (sigma * math.sqrt(2 * math.pi))
            for m in means
        ]
        whole = sum(p * law for p, law in zip(prior, mixed, strict=True))
        for law in mixed:
            worst = max(worst, np.maximum(law - math.exp(epsilon) * whole, 0).sum() * 0.002)
    bound = gaussian_slack_delta([means], scale=sigma, epsilon=epsilon, alpha=0.2)
    assert 0 < worst < bound


def test_the_envelope_is_above_the_best_pairing_of_outputs():
    """No event of the outputs leaks more with a larger probability than the bound."""
    sigma, epsilon, alpha = 2.0, 0.3, 0.2
    bound = gaussian_envelope_delta([[0.0, 1.0, 2.0]], scale=sigma, epsilon=epsilon, alpha=alpha)
    y = np.arange(-12, 14, 0.01)
    laws = [np.exp(-(((y - m) / sigma) ** 2) / 2) * 0.01 / (sigma * 2.5066282746) for m in range(3)]
    for prior in np.full(3, alpha) + 0.4 * np.eye(3):
        whole = sum(p * law for p, law in zip(prior, laws, strict=True))
        for law, side in itertools.product(laws, (slice(None), slice(None, None, -1))):
            mass, reached = np.cumsum(whole[side]), np.cumsum(law[side])
            leaking = mass[reached > math.exp(epsilon) * mass]
            assert leaking.size == 0 or leaking.max() <= bound + 1e-3


def test_noise_falls_and_files_hold(tmp_path):
    guarantee = pml.ApproxPML(0.5, 1e-4, 0.25)
    noisy = pml.mechanism("identity", "histogram:3", guarantee=guarantee, noise="gaussian")
    assert integral(np.eye(3), noisy.scale, 0.5, (0.25,) * 3) == pytest.approx(1e-4, rel=0.02)
    for failure in (guarantee, pml.EnvelopePML(0.5, 1e-2, 0.25)):
        noisy = pml.mechanism("identity", "histogram:3", guarantee=failure, noise="gaussian")
        pml.write(tmp_path / "s.npz", noisy)
        result = pml.verify(tmp_path / "s.npz")
        assert result.holds, result.failures


def test_epsilon_beyond_the_range_of_exponentials():
    triangle = np.array([[0.0, 1.0, 0.3], [0.0, 0.0, 0.8]])
    for epsilon in (700.0, 1e3, 1e16, 1e308):
        assert gaussian_slack_delta(triangle, scale=0.5, epsilon=epsilon, alpha=0.05) == 0.0
