"""Cube noise that is released: its law, privacy of every output, variances and intervals."""

import itertools
import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, Noise, PureDP
from pmldesign.releases import (
    Plan,
    calibrated_on,
    cost_of,
    cube_half_widths,
    draw_cube,
    exact_noise,
    half_widths,
    lattice_of,
    manifest_of,
    require_agreement,
)
from pmldesign.strategies import Strategy


def seeded(scale, seed):
    """Draws of the cube from seeded numbers, as whole numbers of shape (count, d)."""
    generator, below = np.random.default_rng(seed), random.Random(seed).randrange
    q = math.exp(-1 / scale)

    def laplace(count):
        return generator.geometric(1 - q, count) - generator.geometric(1 - q, count)

    return lambda count, d: np.array([draw_cube(laplace, d, below) for _ in range(count)])


def law(scale, d, reach):
    """Points of {-reach, ..., reach}^d and their exact chances."""
    points = np.array(list(itertools.product(range(-reach, reach + 1), repeat=d)))
    weights = np.exp(-np.abs(points).max(axis=1) / scale)
    r = np.arange(4000)
    counts = (2.0 * r + 1) ** d - np.where(r > 0, (2.0 * r - 1) ** d, 0)
    return points, weights / (counts * np.exp(-r / scale)).sum()


@pytest.mark.parametrize(("d", "scale"), [(1, 1.3), (2, 0.7), (3, 0.9)])
def test_draws_have_their_law(d, scale):
    check_draws(d, scale, 3000, seed=3)


def check_draws(d, scale, count, seed):
    """Pearson's statistic over all points with five or more expected draws, and the rest."""
    drawn = seeded(scale, seed)(count, d).astype(int)
    points, chances = law(scale, d, 4)
    index = {tuple(point): number for number, point in enumerate(points.tolist())}
    found = np.zeros(len(points))
    for point in drawn.tolist():
        if tuple(point) in index:
            found[index[tuple(point)]] += 1
    often = chances * count >= 5
    expected = np.append(chances[often], 1 - chances[often].sum()) * count
    seen = np.append(found[often], count - found[often].sum())
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(1 - 1e-6, len(seen) - 1)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.3, 2.0, 30.0])
def test_variance_is_that_of_the_exact_law(d, scale):
    # by shells: max|z| = k has (2k + 1)^d - (2k - 1)^d points
    with mpmath.workdps(50):
        total = square = mpmath.mpf(0)
        for k in range(int(60 * scale + d * scale * 12) + 40):
            inner = (2 * k - 1) ** d if k else 0
            weight = mpmath.exp(-k / mpmath.mpf(scale))
            total += ((2 * k + 1) ** d - inner) * weight
            cubes = [(n, mpmath.mpf(n * (n + 1)) / 3 * (2 * n + 1) ** d) for n in (k, k - 1)]
            square += (cubes[0][1] - (cubes[1][1] if k else 0)) * weight
        exact = float(square / total)
    assert Noise.CUBE.whole_variance(scale, d) == pytest.approx(exact, rel=1e-10)


def test_fine_lattices_have_the_variance_of_the_continuous_cube():
    for d in (1, 6):
        coarse, fine = (
            Noise.CUBE.whole_variance(scale, d) / scale**2 for scale in (4000.0, 5000.0)
        )
        assert coarse == pytest.approx(fine, rel=1e-6)
        assert fine == (d + 1) * (d + 2) / 3


def small(guarantee, matrix, bits=2):
    """Noise on a lattice of which all likely outputs can be listed."""
    strategy = Strategy("small", np.array(matrix, dtype=float))
    made = mechanism(strategy, np.eye(strategy.cells), guarantee=guarantee, noise="cube")
    return calibrated_on(made, lattice_of(made.strategy, made.workload, bits), bits)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "matrix", [[[1, 0.4], [-0.3, 1]], [[1, 1], [1, -1]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]
)
def test_every_output_keeps_epsilon_at_fifty_digits(neighbours, matrix):
    epsilon = 0.6
    noisy = small(PureDP(epsilon, neighbours), matrix)
    images = [[int(v) for v in noisy.lattice.image(cell)] for cell in np.eye(2, dtype=int)]
    zero = [0] * len(images[0])
    pairs = [(zero, image) for image in images] if neighbours == "add-remove" else [tuple(images)]
    outputs = itertools.product(range(-9, 10), repeat=len(zero))
    with mpmath.workdps(50):
        most = mpmath.mpf(0)
        for y, (a, b) in itertools.product(outputs, pairs):
            sizes = [max(abs(u - v) for u, v in zip(y, c, strict=True)) for c in (a, b)]
            most = max(most, abs(sizes[0] - sizes[1]) / mpmath.mpf(noisy.scale))
        assert most <= mpmath.mpf(epsilon)
        assert most >= mpmath.mpf(epsilon) * (1 - mpmath.mpf(1e-9))


@pytest.mark.parametrize("matrix", [np.ones((1, 3)), np.ones((3, 1)), np.eye(2), np.eye(1)])
def test_degenerate_strategies(matrix):
    made = mechanism(Strategy("small", matrix), matrix, guarantee=PureDP(1), noise="cube")
    noise = exact_noise(made)
    assert noise.pure_epsilon <= 1
    assert Fraction(noise.sensitivity) * Fraction(float(noise.lattice.units[0])) == 1
    r = len(matrix)
    # L of equal rows is their mean: entries of the cube are uncorrelated
    rows = made.reconstruction()
    expected = np.sqrt((r + 1) * (r + 2) / 3 * (rows**2).sum(axis=1))
    assert noise.of_answers.deviations == pytest.approx(expected, rel=1e-6)


def exact_miss(row, scale, h):
    """P(|V| > h): over the corners s of the cube, sign(s) (s l)^r e^(-h/(b s l)) / (2^r r! prod l).

    Twice the sum over corners with s l > 0.
    """
    r, total = len(row), mpmath.mpf(0)
    with mpmath.workdps(60):
        values = [mpmath.mpf(float(v)) for v in row]
        for signs in itertools.product((1, -1), repeat=r):
            along = sum(s * v for s, v in zip(signs, values, strict=True))
            if along > 0:
                total += math.prod(signs) * along**r * mpmath.exp(-h / (scale * along))
        return float(2 * total / (2**r * mpmath.factorial(r) * mpmath.fprod(values)))


@pytest.mark.parametrize("miss", [0.2, 0.05, 1e-3])
@pytest.mark.parametrize("row", [[2.0], [1.0, 1.0], [1.0, 0.31, 0.05], [0.3, 0.8, 1.1, 0.6, 0.9]])
def test_half_widths_are_the_quantiles_of_the_exact_law(row, miss):
    scale = 1e7
    (width,) = cube_half_widths(np.array([row]), scale, miss)
    assert exact_miss(row, scale, width) <= miss
    assert exact_miss(row, scale, 0.998 * width) > miss


def test_entries_that_are_zero_count_in_the_radius():
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    widths = cube_half_widths(rows, 1e6, 0.05)
    assert widths[1] == 0
    assert widths[0] == widths[2]
    draws = np.random.default_rng(0).gamma(4, 1e6, 200000)
    draws = draws * np.random.default_rng(1).uniform(-1, 1, 200000)
    assert np.quantile(np.abs(draws), 0.95) == pytest.approx(widths[0], rel=0.02)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_intervals_cover_what_is_drawn(simultaneous):
    made = mechanism("workload", "parity:4,1", guarantee=PureDP(1), noise="cube")
    noise = exact_noise(made)
    widths = half_widths(noise.of_answers, 0.9, simultaneous=simultaneous)
    generator, count, b = np.random.default_rng(2), 100000, noise.noise_scale
    draws = generator.gamma(5, b, (count, 1)) * generator.uniform(-1, 1, (count, 4))
    errors = draws @ made.reconstruction().T
    covered = np.abs(errors) <= widths
    chance = covered.all(axis=1).mean() if simultaneous else covered.mean(axis=0).min()
    assert chance >= 0.9 - 4 * math.sqrt(0.09 / count)
    assert noise.of_answers.deviations == pytest.approx(errors.std(axis=0), rel=0.02)
    assert noise.of_answers.deviations == pytest.approx(made.standard_deviations, rel=1e-6)


def test_budgets_plans_and_manifests():
    made = mechanism("workload", "parity:4,1", guarantee=ApproxDP(0.5, 1e-6), noise="cube")
    noise = exact_noise(made)
    require_agreement(noise)
    assert float(cost_of(noise).pure) == pytest.approx(0.5, rel=1e-9)
    with pytest.raises(InvalidInputError, match="fine grid"):
        Plan.parse("2*laplace:0.5").next_for(noise, ())
    told = manifest_of(noise, schema=None, level=0.95, simultaneous=False, post_processing=[])
    assert told["noise"]["law"] == "discrete cube"
    assert told["lattice"]["of"] == "the l_inf norm, in units"
