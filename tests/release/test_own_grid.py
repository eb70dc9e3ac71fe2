"""Noise on the grid of the measurements themselves: its law, variances, intervals and privacy."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pmldesign.error_bounds import least_deviation
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import (
    discrete_half_widths,
    mechanism,
    own_grid_gain,
    own_lattice,
)
from pmldesign.privacy import ApproxDP, Noise, PureDP
from pmldesign.releases import (
    Plan,
    exact_noise,
    half_widths,
)
from pmldesign.strategies import Strategy


def on_own_grid(strategy, workload, epsilon):
    made = mechanism(strategy, workload, guarantee=PureDP(epsilon), noise="laplace")
    return replace(made, own_grid=True)


def law_of_one(scale, reach):
    k = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(k) / scale)
    return law / law.sum()


def law_of_sum(coefficients, scale, reach):
    """Of sum_j c_j eta_j by convolution, from -reach * sum c to reach * sum c."""
    total = np.ones(1)
    for c in coefficients:
        spread = np.zeros(2 * reach * c + 1)
        spread[::c] = law_of_one(scale, reach)
        total = np.convolve(total, spread)
    return total


def test_eight_counts_attain_the_lower_bound():
    made = on_own_grid("identity", "histogram:8", 3)
    error = np.linalg.norm(exact_noise(made).of_answers.deviations)
    assert error == pytest.approx(0.9393, abs=5e-5)
    assert error == pytest.approx(math.sqrt(8) * least_deviation(3.0), rel=1e-8)
    assert error == pytest.approx(made.error(2), rel=1e-12)
    assert error < 0.71 * replace(made, own_grid=False).error(2)


@pytest.mark.parametrize(("strategy", "epsilon"), [("identity", 1), ("tree", 4), ("haar", 6)])
def test_deviations_are_those_of_the_law(strategy, epsilon):
    made = on_own_grid(strategy, "prefix:4", epsilon)
    noise = exact_noise(made)
    assert noise.on_own_grid
    law = law_of_one(noise.scale, 60)
    variance = law @ np.arange(-60, 61) ** 2.0
    rows = made.reconstruction() * noise.lattice.units
    expected = np.sqrt(variance * (rows**2).sum(axis=1))
    assert noise.of_answers.deviations == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("miss", [0.3, 0.05, 1e-4])
@pytest.mark.parametrize("scale", [0.4, 2.5])
@pytest.mark.parametrize("coefficients", [(1,), (3,), (1, 1), (1, 2, 2), (2, 3), (1,) * 5])
def test_half_widths_are_the_least_that_cover(coefficients, scale, miss):
    law = law_of_sum(coefficients, scale, 50)
    distance = np.abs(np.arange(len(law)) - len(law) // 2)
    unit = 0.7
    row = unit * np.array([*coefficients, 0.0])
    (found,) = discrete_half_widths(row[None, :], scale, miss)
    h = round(found / unit)
    assert found == pytest.approx(h * unit)
    assert law[distance > h].sum() <= miss * (1 + 1e-9)
    assert h == 0 or law[distance > h - 1].sum() > miss * (1 - 1e-9)


def test_rows_of_thirds_and_of_nothing():
    rows = np.array([[1 / 3, 1.0, 0], [0, 0, 0], [0, 1, 2 / 3]])
    found = discrete_half_widths(rows, 2.0, 0.1)
    whole = discrete_half_widths(np.array([[1.0, 3, 0], [0, 0, 0], [0, 3, 2]]), 2.0, 0.1)
    assert found == pytest.approx(whole / 3)
    assert found[1] == 0
    assert discrete_half_widths(np.array([[1.0, math.pi]]), 2.0, 0.1) is None


@pytest.mark.parametrize("simultaneous", [False, True])
def test_intervals_cover_what_is_drawn(simultaneous):
    made = on_own_grid("identity", "prefix:6", 1.5)
    noise = exact_noise(made)
    widths = half_widths(noise.of_answers, 0.9, simultaneous=simultaneous)
    generator, q = np.random.default_rng(1), math.exp(-1 / noise.scale)
    draws = generator.geometric(1 - q, (40000, 6)) - generator.geometric(1 - q, (40000, 6))
    covered = np.abs(np.cumsum(draws, axis=1)) <= widths
    chance = covered.all(axis=1).mean() if simultaneous else covered.mean(axis=0).min()
    assert chance >= 0.9 - 4 * math.sqrt(0.09 / 40000)


@pytest.mark.parametrize(
    "matrix",
    [np.eye(2), np.array([[0.3, 0.3], [0.3, -0.6]]), np.ones((1, 3)), np.ones((3, 1)) * 2.5],
)
def test_every_output_keeps_epsilon_at_fifty_digits(matrix):
    epsilon = 0.7
    made = on_own_grid(Strategy("small", matrix), matrix, epsilon)
    noise = exact_noise(made)
    assert noise.on_own_grid
    images = [noise.lattice.image(cell) for cell in np.eye(matrix.shape[1], dtype=int)]
    outputs = itertools.product(range(-6, 7), repeat=len(matrix))
    with mpmath.workdps(50):
        b, most = mpmath.mpf(noise.scale), mpmath.mpf(0)
        for y, image in itertools.product(outputs, images):
            moved = sum(abs(a - int(c)) for a, c in zip(y, image, strict=True))
            most = max(most, abs(moved - sum(map(abs, y))) / b)
        assert most <= mpmath.mpf(epsilon)
        assert most > epsilon * (1 - 1e-12)
    assert Fraction(noise.sensitivity) / Fraction(noise.scale) <= Fraction(epsilon)


def test_where_there_is_no_grid_of_its_own():
    assert own_lattice(Strategy("real", np.array([[1.0, math.pi], [0, 1.0]]))) is None
    for strategy, noise in (
        (np.array([[1.0, math.pi], [0, 1.0]]), "laplace"),
        (np.eye(2), "gaussian"),
    ):
        made = mechanism(strategy, np.eye(2), guarantee=ApproxDP(1, 1e-6), noise=noise)
        with pytest.raises(InvalidInputError, match="integer-valued Laplace noise is for"):
            exact_noise(replace(made, own_grid=True))
    tenth = own_lattice(Strategy("tenths", np.array([[0.1, 0.3], [0.0, 0.2]])))
    assert np.array_equal(tenth.matrix, [[1, 3], [0, 2]])


def test_currencies_are_those_of_randomized_response():
    """One count of one person: the outputs tell the bit as randomized response does."""
    noisy = on_own_grid("identity", "histogram:1", 1.2)
    outputs = np.arange(-80, 82)
    laws = [np.exp(-1.2 * np.abs(outputs - bit)) for bit in (0, 1)]
    p, q = (law / law.sum() for law in laws)
    for epsilon in (0.0, 0.5, 1.1):
        reached = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert reached <= noisy.privacy.delta(epsilon) * (1 + 1e-12)
        assert reached == pytest.approx(noisy.privacy.delta(epsilon), rel=1e-9)
    assert (p * np.log(p / q)).sum() == pytest.approx(noisy.privacy.rho, rel=1e-9)
    # continuous Laplace noise of this scale would promise less
    fine = replace(noisy, own_grid=False).privacy
    assert noisy.privacy.delta(0.5) > fine.delta(0.5)
    assert noisy.privacy.mu > fine.mu


def test_a_plan_has_no_such_noise():
    noisy = exact_noise(on_own_grid("identity", "histogram:4", 0.5))
    with pytest.raises(InvalidInputError, match="fine grid"):
        Plan.parse("2*laplace:0.5").next_for(noisy, ())


@pytest.mark.parametrize(("strategy", "epsilon"), [("identity", 3), ("tree", 5), ("identity", 0.1)])
def test_gain_is_what_releases_have(strategy, epsilon):
    made = mechanism(strategy, "prefix:4", guarantee=PureDP(epsilon), noise="laplace")
    part, less = own_grid_gain(made)
    released = exact_noise(replace(made, own_grid=True)).of_answers.deviations
    assert part * made.standard_deviations == pytest.approx(released, rel=1e-8)
    again = exact_noise(on_own_grid(strategy, "prefix:4", less)).of_answers.deviations
    assert again == pytest.approx(made.standard_deviations, rel=1e-8)
    assert less < epsilon


@pytest.mark.parametrize(
    "made",
    [
        mechanism("identity", "prefix:4", guarantee=ApproxDP(1, 1e-6), noise="gaussian"),
        mechanism("identity", "prefix:4", guarantee=PureDP(3, "replace")),
        mechanism("identity", "prefix:4", noise="laplace"),
        mechanism([[1.0, 0.3], [0.0, 1.0]], "prefix:2", guarantee=PureDP(3)),
    ],
)
def test_gain_is_of_laplace_noise_on_whole_numbers(made):
    assert own_grid_gain(made) is None


@pytest.mark.parametrize("scale", [1e-320, 1e-3, 1.2e-3, 0.05, 0.7, 1e3, 1e150])
def test_the_variance_is_that_of_the_law_at_every_scale(scale):
    """2 q/(1 - q)^2 at q = e^(-1/b): twice 1/(e^(1/b) - 2 + e^(-1/b))."""
    with mpmath.workdps(400):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        exact = float(2 * q / (1 - q) ** 2)
    assert Noise.LAPLACE.whole_variance(scale, 1) == pytest.approx(exact, rel=1e-12, abs=1e-300)
