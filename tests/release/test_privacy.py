"""Privacy from its definitions: all outputs of small lattices, sums at 50 digits, and an audit."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from fast_sampler import fast_sampler
from scipy.stats import beta

from pmldesign.errors import PmldesignError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, Neighbours, Noise, PureDP
from pmldesign.releases import (
    calibrated_on,
    draw,
    exact_noise,
    gaussian_parameter,
    lattice_of,
    privacy_map,
    require_agreement,
)
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import parse_workload


def log_law(scale, centre, outputs):
    """Logarithm of the discrete Laplace law around a point, for each output."""
    q = math.exp(-1 / scale)
    constant = len(centre) * math.log((1 - q) / (1 + q))
    return constant - np.abs(outputs - centre).sum(axis=1) / scale


def coarse(guarantee, matrix, bits=2):
    """Noise on a lattice of which all likely outputs can be listed."""
    strategy = Strategy("small", np.array(matrix, dtype=float))
    queries = parse_workload(f"histogram:{strategy.cells}")
    made = mechanism(strategy, queries, guarantee=guarantee, noise="laplace")
    lattice = lattice_of(made.strategy, made.workload, bits)
    return calibrated_on(made, lattice, bits)


def all_outputs(reach, dimensions):
    return np.array(list(itertools.product(range(-reach, reach + 1), repeat=dimensions)))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_every_output_of_a_small_lattice_keeps_epsilon(neighbours, epsilon):
    noisy = coarse(PureDP(epsilon, neighbours), [[1, 0.4], [-0.3, 1]])
    outputs = all_outputs(25, 2)
    zero = np.zeros(2, dtype=int)
    one, two = noisy.lattice.image(np.array([1, 0])), noisy.lattice.image(np.array([0, 1]))
    data = [(zero, one), (zero, two)] if neighbours == "add-remove" else [(one, two)]
    loss = max(
        np.abs(log_law(noisy.scale, a, outputs) - log_law(noisy.scale, b, outputs)).max()
        for a, b in data
    )
    assert epsilon * (1 - 1e-9) < loss <= epsilon * (1 + 1e-12)  # attained, and never above


def test_every_output_of_a_small_lattice_keeps_pml():
    noisy = coarse(PML(0.4, 0.3), [[1, 0.4], [-0.3, 1]])
    outputs = all_outputs(25, 2)
    cells = np.eye(2, dtype=int)
    laws = np.exp([log_law(noisy.scale, noisy.lattice.image(c), outputs) for c in cells])
    losses = [
        np.log(laws / (p * laws[0] + (1 - p) * laws[1])).max() for p in np.linspace(0.3, 0.7, 41)
    ]
    assert 0.4 * (1 - 1e-5) < max(losses) <= 0.4 * (1 + 1e-12)


def discrete_delta(scale_squared, shift, epsilon):
    """Exact delta of discrete Gaussian noise of parameter s for a shift by whole numbers."""
    reach = int(12 * math.sqrt(scale_squared)) + 2 * max(map(abs, shift)) + 10
    s2, e = mpmath.mpf(scale_squared), mpmath.e ** mpmath.mpf(epsilon)
    weights = {k: mpmath.e ** (-mpmath.mpf(k * k) / (2 * s2)) for k in range(-2 * reach, 2 * reach)}
    total = mpmath.fsum(weights.values()) ** len(shift)
    return (
        mpmath.fsum(
            max(
                mpmath.fprod(weights[k] for k in y)
                - e * mpmath.fprod(weights[k - d] for k, d in zip(y, shift, strict=True)),
                mpmath.mpf(0),
            )
            for y in itertools.product(range(-reach, reach + 1), repeat=len(shift))
        )
        / total
    )


def continuous_delta(sigma, distance, epsilon):
    t, e = mpmath.mpf(distance) / mpmath.mpf(sigma), mpmath.mpf(epsilon)
    x = e / t - t / 2
    return mpmath.ncdf(-x) - mpmath.e**e * mpmath.ncdf(-x - t)


@pytest.mark.parametrize("sigma", [0.8, 1.3, 2.7, 4.1])
@pytest.mark.parametrize("shift", [(1,), (3,), (1, 1)])
def test_delta_of_the_discrete_gaussian_is_below_that_of_the_continuous(sigma, shift):
    if len(shift) == 2 and sigma > 2:
        sigma /= 2  # fewer outputs
    with mpmath.workdps(50):
        for epsilon in (0.5, 2.0):
            distance = mpmath.sqrt(sum(d * d for d in shift))
            promised = continuous_delta(sigma, distance, epsilon)
            squared = mpmath.mpf(gaussian_parameter(sigma)) ** 2
            assert discrete_delta(squared, shift, epsilon) <= promised


def test_without_the_four_the_promise_would_be_broken():
    with mpmath.workdps(50):
        assert discrete_delta(mpmath.mpf(1), (1,), 1.0) > continuous_delta(1.0, 1, 1.0)


def least_epsilon(first, second, threshold):
    """What the counts of an event prove about epsilon, but for a chance of 1e-6."""
    n = len(first)
    often, seldom = (first >= threshold).sum(), (second >= threshold).sum()
    lower = beta.ppf(5e-7, often, n - often + 1)
    upper = beta.ppf(1 - 5e-7, seldom + 1, n - seldom)
    return math.log(lower / upper)


def test_an_audit_finds_a_sensitivity_that_is_too_small():
    queries = parse_workload("total:1")
    noisy = exact_noise(mechanism(baseline("identity", queries), queries, guarantee=PureDP(1.0)))
    sample, n = fast_sampler(5), 200_000
    step = int(noisy.lattice.image(np.array([1]))[0])
    for factor, caught in ((1.0, False), (1 / 1.2, True)):
        scale = noisy.scale * factor
        with_person = step + sample(Noise.LAPLACE, scale, n)
        without = sample(Noise.LAPLACE, scale, n)
        assert (least_epsilon(with_person, without, step) > 1.0) is caught


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.LAPLACE])
def test_the_library_agrees_about_the_scale(noise):
    for sensitivity in (7, 2**31, 2**40 + 1):
        scale = 10.0 * sensitivity
        if noise is Noise.LAPLACE:
            assert math.isclose(privacy_map(noise, scale, sensitivity), 0.1, rel_tol=1e-9)
        else:
            rho = sensitivity / (2 * scale**2)
            assert math.isclose(privacy_map(noise, scale, sensitivity), rho, rel_tol=1e-9)


@pytest.mark.parametrize("guarantee", [PureDP(0.7), ApproxDP(1.0, 1e-6)])
def test_a_release_is_refused_if_the_library_disagrees(guarantee, monkeypatch):
    queries = parse_workload("prefix:6")
    kind = "laplace" if isinstance(guarantee, PureDP) else "gaussian"
    for rows in ("1,any", "3,any"):
        made = mechanism(
            baseline("tree", queries), queries, guarantee=guarantee, noise=kind, participation=rows
        )
        noisy = exact_noise(made)
        require_agreement(noisy)
        monkeypatch.setattr(
            "pmldesign.releases.noise.privacy_map",
            lambda kind, scale, distance: privacy_map(kind, scale / 1.01, distance),
        )
        with pytest.raises(PmldesignError, match="nothing is released"):
            require_agreement(noisy)
        monkeypatch.undo()


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.LAPLACE])
def test_the_sampler_has_the_moments_of_its_law_at_every_scale(noise):
    for scale in (2.0, 1e6, 2.0**50):
        numbers = draw(noise, scale, 4000).astype(float)
        if noise is Noise.GAUSSIAN:
            variance = scale**2
        else:
            q = math.exp(-1 / scale)
            variance = 2 * q / (-math.expm1(-1 / scale)) ** 2
        # kurtosis 3 or 6: six standard deviations of the mean square
        spread = 6 * variance * math.sqrt(5 / 4000)
        assert abs((numbers**2).mean() - variance) < spread
        assert abs(numbers.mean()) < 6 * math.sqrt(variance / 4000)


def test_the_sampler_refuses_what_would_saturate():
    with pytest.raises(ValueError, match="2\\^55"):
        draw(Noise.GAUSSIAN, 2.0**56, 1)
    with pytest.raises(ValueError, match="must be in"):
        draw(Noise.LAPLACE, 0.0, 1)
