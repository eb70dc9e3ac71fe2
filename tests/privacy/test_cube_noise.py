"""Cube noise: sensitivities, exact errors, and what its guarantee admits, against definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import dblquad

import pmldesign as pml
from pmldesign.errors import InfeasibleError, InvalidInputError
from pmldesign.privacy import Noise, cube_error, sensitivity_above


def test_error_by_integration_of_the_density():
    """Two measurements: the density is e^-max(|x|, |y|) / 8."""
    L = np.array([[1.0, 2.0], [0.3, -1.0]])
    for p in (2, 4):
        total = 0.0
        for row in L:

            def moment(y, x, row=row, p=p):
                return abs(row[0] * x + row[1] * y) ** p * math.exp(-max(abs(x), abs(y))) / 8

            # symmetric about 0: x > 0, and split where the maximum changes
            for low, high in ((-60, lambda x: -x), (lambda x: -x, lambda x: x), (lambda x: x, 60)):
                total += 2 * dblquad(moment, 0, 60, low, high, epsabs=1e-6, epsrel=1e-6)[0]
        assert cube_error(L, p=p) == pytest.approx(total ** (1 / p), rel=1e-5)


@pytest.mark.parametrize("p", [2, 4, 6, math.inf])
def test_error_of_draws(p):
    generator = np.random.default_rng(4)
    L = generator.standard_normal((3, 4))
    draws = generator.gamma(5, 1, (400000, 1)) * generator.uniform(-1, 1, (400000, 4)) @ L.T
    if math.isinf(p):
        expected = draws.std(axis=0).max()
    else:
        expected = (np.abs(draws) ** p).mean(axis=0).sum() ** (1 / p)
    assert cube_error(L, p=p) == pytest.approx(expected, rel=0.02)


def test_one_measurement_is_laplace_noise():
    for p in (2, 8, 30):
        assert cube_error([[1.5]], p=p) == pytest.approx(
            1.5 * math.exp(math.lgamma(p + 1) / p), rel=1e-12
        )


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 4, 10]))
def test_invariances(seed, p):
    generator = np.random.default_rng(seed)
    L = generator.standard_normal((3, 4))
    error = cube_error(L, p=p)
    flipped = L * generator.choice([-1, 1], 4)
    assert cube_error(flipped[:, generator.permutation(4)], p=p) == pytest.approx(error, rel=1e-12)
    assert cube_error(3 * L, p=p, scale=2) == pytest.approx(6 * error, rel=1e-12)
    assert cube_error(np.vstack([L, 0 * L]), p=p) == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("matrix", [np.ones((1, 3)), np.ones((3, 1)), np.zeros((2, 2)), np.eye(3)])
def test_sensitivity_of_degenerate_strategies(matrix):
    largest = np.abs(matrix).max()
    assert sensitivity_above(matrix, "add-remove", "linf") == largest
    columns = matrix.T
    apart = max(np.abs(a - b).max() for a, b in itertools.product(columns, repeat=2))
    assert sensitivity_above(matrix, "replace", "linf") == apart


@given(st.integers(0, 2**32 - 1))
def test_sensitivity_is_never_below_the_exact_one(seed):
    from fractions import Fraction

    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((3, 4)) * 10.0 ** generator.integers(-3, 4)
    exact = [[Fraction(v) for v in column] for column in matrix.T.tolist()]
    pairs = itertools.combinations(exact, 2)
    far = max(abs(a - b) for u, v in pairs for a, b in zip(u, v, strict=True))
    found = sensitivity_above(matrix, "replace", "linf")
    assert far <= Fraction(found) <= far * (1 + Fraction(1, 10**14))


def test_which_guarantees_admit_it():
    matrix = np.eye(2)
    for guarantee in (pml.PureDP(1), pml.ApproxDP(1, 1e-6), pml.PureDP(2, "replace")):
        assert guarantee.admits(Noise.CUBE)
        assert pml.mechanism(matrix, matrix, guarantee=guarantee, noise="cube").calibration
    for guarantee in (pml.ZCDP(1), pml.GaussianDP(1), pml.RenyiDP(2, 1), pml.PML(0.5, 0.3)):
        assert not guarantee.admits(Noise.CUBE)
        with pytest.raises(InfeasibleError, match="cube"):
            pml.mechanism(matrix, matrix, guarantee=guarantee, noise="cube")


def test_loss_of_the_continuous_density_is_at_most_epsilon():
    """Log-densities at many points, and at corners of the cube, of a strategy and its steps."""
    generator = np.random.default_rng(8)
    R = generator.standard_normal((3, 5))
    for relation in ("add-remove", "replace"):
        noisy = pml.mechanism(
            R, np.ones((1, 3)) @ R, guarantee=pml.PureDP(0.7, relation), noise="cube"
        )
        R0 = noisy.strategy.matrix
        steps = R0.T
        if relation == "replace":
            steps = np.array([a - b for a, b in itertools.permutations(R0.T, 2)])
        points = generator.standard_normal((4000, 3)) * 10
        points = np.vstack([points, np.array([*itertools.product((-50, 0, 50), repeat=3)])])
        losses = [
            (np.abs(points - step).max(axis=1) - np.abs(points).max(axis=1)) / noisy.scale
            for step in steps
        ]
        assert np.abs(losses).max() <= 0.7 * (1 + 1e-12)
        assert np.abs(losses).max() > 0.69


def test_the_curve_is_above_that_of_two_measurements():
    """Hockey-stick divergences on a fine grid, of a step that changes both or one."""
    noisy = pml.mechanism(np.eye(2), np.eye(2), guarantee=pml.PureDP(1.0), noise="cube")
    grid = (np.arange(-500, 500) + 0.5) / 25
    x, y = np.meshgrid(grid, grid)
    for step in ((1, 1), (1, 0), (1, -1), (0.5, 1)):
        p = np.exp(-np.maximum(np.abs(x), np.abs(y)))
        q = np.exp(-np.maximum(np.abs(x - step[0]), np.abs(y - step[1])))
        p, q = p / p.sum(), q / q.sum()
        for epsilon in (0.0, 0.3, 0.8):
            reached = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert reached <= noisy.privacy.delta(epsilon) + 1e-3
        assert (p * np.log(p / q)).sum() <= noisy.privacy.rho + 1e-3


def test_it_is_only_taken_where_it_is_asked_for():
    guarantee = pml.PureDP(1)
    assert pml.mechanism("workload", "parity:4,1", guarantee=guarantee).noise is Noise.LAPLACE
    asked = pml.mechanism("workload", "parity:4,1", guarantee=guarantee, noise="cube")
    with pytest.raises(InvalidInputError, match="even number"):
        asked.error(3)
