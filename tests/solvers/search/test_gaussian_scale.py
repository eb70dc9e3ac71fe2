import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist

from pmldesign.privacy import ApproxPML, EnvelopePML, calibrate
from pmldesign_solvers.search import GaussianLeakage, hockey_stick


@pytest.mark.parametrize("t", [0.05, 0.4, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_hockey_stick_against_60_digits(t, epsilon):
    with mpmath.workdps(60):

        def divergence(t):
            x = epsilon / t - t / 2
            return mpmath.ncdf(-x) - mpmath.exp(epsilon) * mpmath.ncdf(-x - t)

        value, slope = divergence(mpmath.mpf(t)), mpmath.diff(divergence, t)
    found = hockey_stick(np.array([t]), np.array([epsilon]))
    assert found[0][0] == pytest.approx(float(value), rel=1e-10)
    assert found[1][0] == pytest.approx(float(slope), rel=1e-10)


def test_hockey_stick_at_its_ends():
    value, slope = hockey_stick(np.array([0.0, 1e-9, 1e9]), np.array([0.5]))
    np.testing.assert_array_equal(value, [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(slope, [0.0, 0.0, 0.0])


@given(
    seed=st.integers(0, 2**32 - 1),
    envelope=st.booleans(),
    cells=st.integers(2, 6),
    epsilon=st.floats(0.05, 1.5),
    log_delta=st.floats(-12, -1.5),
    rest=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_the_scale_is_that_of_the_exact_calibrator(seed, envelope, cells, epsilon, log_delta, rest):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((4, cells)) * 10.0 ** rng.integers(-3, 4)
    alpha = (1 - rest) * rng.dirichlet(np.full(cells, 5.0))
    epsilon, delta = min(epsilon, -0.7 * math.log(alpha.min())), 10.0**log_delta
    kind = EnvelopePML if envelope else ApproxPML
    exact = calibrate(R, kind(epsilon, delta, tuple(alpha)), noise="gaussian").scale
    D = cdist(R.T, R.T)
    scale = GaussianLeakage(epsilon, delta, alpha, share=0.5 if envelope else None)
    found = math.exp(scale.tuned(D, 1e-9).smooth_log_scale(D, 1e-9)[0])
    if cells == 3:  # computed more closely than in the search
        assert exact <= found * (1 + 3e-6)
    else:
        assert found == pytest.approx(exact, rel=3e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("rest", [0.0, 0.4])
@pytest.mark.parametrize("share", [None, 0.0, 0.9])
@pytest.mark.parametrize("temperature", [0.3, 0.02])
def test_the_gradient_of_the_smooth_scale(share, temperature, rest):
    rng = np.random.default_rng(5)
    n = 5
    alpha = (1 - rest) * rng.dirichlet(np.ones(n))
    scale = GaussianLeakage(0.8, 1e-3, alpha, share)
    upper = np.triu_indices(n, 1)

    def value(x):
        D = np.zeros((n, n))
        D[upper] = x
        return scale.smooth_log_scale(D + D.T, temperature)

    x = rng.uniform(1, 3, upper[0].size)
    log_scale, gradient = value(x)
    numeric = approx_fprime(x, lambda x: value(x)[0], 1e-6)
    np.testing.assert_allclose(gradient[upper], numeric, atol=1e-6)
    np.testing.assert_array_equal(gradient, gradient.T)
    # twice the distances need twice the noise
    assert value(2 * x)[0] == pytest.approx(log_scale + math.log(2), abs=1e-12)


def test_a_cell_that_no_noise_could_expose_and_a_tiny_delta():
    # e^eps alpha_1 > 1; far tails do not underflow into an error
    D = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.5], [2.0, 1.5, 0.0]])
    alpha = np.array([0.7, 0.1, 0.1])
    for share in (None, 0.3):
        log_scale, gradient = GaussianLeakage(0.5, 1e-280, alpha, share).smooth_log_scale(D, 1e-3)
        assert math.isfinite(log_scale)
        assert np.isfinite(gradient).all()
