"""The currencies of pure differential privacy against the definitions, on explicit laws."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pmldesign.privacy import Noise, PrivacyCurve, composed, pure_curve


@pytest.mark.parametrize("t", [1e-4, 0.3, 1.0, 5.0, 40.0])
def test_randomized_response_attains_every_currency(t):
    curve = pure_curve(t)
    with mpmath.workdps(50):
        truth = mpmath.exp(t) / (1 + mpmath.exp(t))
        p, q = (truth, 1 - truth), (1 - truth, truth)
        for order in (1.01, 2, 7.5, 64):
            a = mpmath.mpf(order)
            moment = sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))
            exact = mpmath.log(moment) / (a - 1)
            assert exact <= curve.renyi(order) <= exact * (1 + mpmath.mpf(1e-9)) + 1e-12
            assert exact / a <= curve.rho
        divergence = sum(x * mpmath.log(x / y) for x, y in zip(p, q, strict=True))
        assert divergence <= curve.rho <= divergence * (1 + mpmath.mpf(1e-12))
        for epsilon in (0.0, t / 3, t * 0.999):
            growth = mpmath.exp(mpmath.mpf(epsilon))
            exact = sum(max(x - growth * y, 0) for x, y in zip(p, q, strict=True))
            assert exact <= curve.delta(epsilon) <= exact * (1 + mpmath.mpf(1e-10))
    assert curve.delta(t) == 0


@given(st.floats(1e-3, 20), st.floats(1e-9, 0.4))
def test_epsilon_inverts_delta(t, delta):
    curve = pure_curve(t)
    epsilon = curve.epsilon(delta)
    assert 0 <= epsilon <= t
    assert curve.delta(epsilon) <= delta * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize("t", [0.05, 1.0, 6.0])
def test_mu_is_the_least_whose_trade_off_is_below_randomized_response(t):
    mu = pure_curve(t).mu
    alpha = np.linspace(1e-6, 1 - 1e-6, 4001)
    least = np.maximum(1 - math.exp(t) * alpha, math.exp(-t) * (1 - alpha)).clip(min=0)
    assert (norm.cdf(norm.ppf(1 - alpha) - mu) <= least + 1e-12).all()
    below = norm.cdf(norm.ppf(1 - alpha) - mu * 0.999)
    corner = 1 / (1 + math.exp(t))
    assert np.interp(corner, alpha, below) > corner


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3))
def test_no_private_pair_of_laws_is_above_the_curve(seed, t):
    generator = np.random.default_rng(seed)
    q = generator.dirichlet(np.ones(5))
    p = q * np.exp(t * generator.uniform(0, 1, 5))
    p /= p.sum()
    t = float(np.abs(np.log(p / q)).max())
    curve = pure_curve(t)
    for epsilon in np.linspace(0, t, 5):
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= curve.delta(epsilon) + 1e-12
    assert p @ np.log(p / q) <= curve.rho + 1e-12


def test_composition_with_all_kinds():
    """Sums of losses of randomized response, Gaussian and Laplace noise, by enumeration."""
    laplace, gaussian = PrivacyCurve(Noise.LAPLACE, 0.4), PrivacyCurve(Noise.GAUSSIAN, 0.7)
    both = composed([pure_curve(0.5), laplace])
    assert both.pure == pytest.approx(0.9)
    assert both.delta(0.2) == pytest.approx(pure_curve(0.9).delta(0.2), rel=1e-9)
    mixed = composed([pure_curve(0.5), gaussian])
    grid = np.linspace(-12, 12, 48001)
    width = grid[1] - grid[0]
    p, q = norm.pdf(grid - 0.7) * width, norm.pdf(grid) * width
    truth = math.exp(0.5) / (1 + math.exp(0.5))
    for epsilon in (0.0, 0.6, 1.3):
        growth = math.exp(epsilon)
        exact = np.maximum(truth * p - growth * (1 - truth) * q, 0).sum()
        exact += np.maximum((1 - truth) * p - growth * truth * q, 0).sum()
        assert mixed.delta(epsilon) == pytest.approx(exact, rel=1e-5)
    again = composed([mixed, pure_curve(0.1)])
    assert again.ratios[1] == pytest.approx(0.6)
    assert again.delta(0.5) >= composed([mixed]).delta(0.5)
