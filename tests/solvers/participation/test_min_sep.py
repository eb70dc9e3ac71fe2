"""Steps at least b apart: errors and gradients against matrices, patterns against all of them."""

from itertools import combinations

import numpy as np
import pytest

from pmldesign_solvers.participation import (
    patterns,
    poles,
    reciprocal,
    scaled,
    scaled_toeplitz,
    solve_banded,
)
from pmldesign_solvers.streams import RunningSums


def plain(n):
    return RunningSums(np.ones(n - 1), np.ones(n), np.ones(n))


def slopes(function, point, step=1e-6):
    """Central differences."""
    values = []
    for i in range(point.size):
        moved = np.zeros(point.size)
        moved[i] = step
        values.append((function(point + moved) - function(point - moved)) / (2 * step))
    return np.array(values)


@pytest.fixture
def case():
    rng = np.random.default_rng(5)
    n = 11
    rates, queries, steps = rng.uniform(0.6, 1, n - 1), rng.uniform(0.5, 2, n), rng.uniform(1, 2, n)
    sums = RunningSums(rates, queries, steps)
    A = np.array([[np.prod(rates[s:t]) if s <= t else 0.0 for s in range(n)] for t in range(n)])
    A = queries[:, None] * A * steps
    x = np.concatenate([rng.normal(size=2 * n) * 0.3, [1.0], rng.uniform(0, 0.5, n - 1)])
    return sums, A, x


def strategy(sums, x):
    n = sums.cells
    return scaled(sums, np.exp(x[:n]), np.exp(x[n : 2 * n]), x[2 * n :])


def test_error_and_column_norms_are_those_of_the_matrix(case):
    sums, A, x = case
    point = strategy(sums, x)
    C = point.matrix
    assert point.error == pytest.approx(np.linalg.norm(A @ np.linalg.inv(C)) ** 2, rel=1e-12)
    assert np.allclose((C**2).sum(axis=0), np.exp(x[11:22]), rtol=1e-12)
    assert np.triu(C, 1).max() == 0
    assert np.convolve(point.impulse, reciprocal(point.impulse))[:11] == pytest.approx(
        np.eye(11)[0], abs=1e-12
    )


def test_gradients_are_slopes(case):
    sums, _, x = case
    gradient = np.concatenate(strategy(sums, x).gradient)
    assert np.allclose(slopes(lambda z: strategy(sums, z).error, x), gradient, rtol=1e-6, atol=1e-4)
    chosen = np.array([[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]])  # 11 stands for no step
    shown = np.concatenate(poles._largest(strategy(sums, x), chosen, 7.0)[1])
    found = slopes(lambda z: poles._largest(strategy(sums, z), chosen, 7.0)[0], x)
    assert np.allclose(found, shown, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("pairs", [0.0, 1e9])
@pytest.mark.parametrize(
    ("n", "k", "b"), [(9, 3, 2), (12, 4, 2), (12, 5, 2), (12, 4, 4), (7, 7, 1)]
)
def test_patterns_are_bounded_by_all_of_them(n, k, b, pairs, monkeypatch):
    monkeypatch.setattr(patterns, "PAIRS", pairs)
    rng = np.random.default_rng(n + k)
    every = [
        steps
        for size in range(1, k + 1)
        for steps in combinations(range(n), size)
        if (np.diff(steps) >= b).all()
    ]
    for power in (1, 3):
        root = rng.normal(size=(n, n)) ** power
        X = np.abs(root.T @ root)
        exact = max(X[np.ix_(steps, steps)].sum() for steps in every)
        shown = patterns.largest_pattern(X, k, b)
        assert shown >= exact * (1 - 1e-12)
        if k == 3 and pairs:
            assert shown == pytest.approx(exact, rel=1e-12)
    band = np.where(np.abs(np.subtract.outer(range(n), range(n))) < b, X, 0)
    exact = max(band[np.ix_(steps, steps)].sum() for steps in every)
    assert patterns.largest_pattern(band, k, b) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("n", "k", "b"), [(64, 4, 16), (50, 3, 10)])
def test_banded_strategies_have_the_sensitivity_of_their_windows(n, k, b):
    values = []
    point = solve_banded(plain(n), k, b, lambda value: values.append(value) or False)
    C = point.matrix
    norms = (C**2).sum(axis=0)
    square = patterns.largest_pattern(C.T @ C, k, b)
    assert square == pytest.approx(np.sort(norms[::b])[-k:].sum(), rel=1e-9)
    assert np.sqrt(point.error * square) == pytest.approx(min(values), rel=1e-6)


def test_banded_strategies_are_better_than_published_ones():
    # jax-privacy's banded matrices reach 5.4191 for 256 steps, 4 times at least 64 apart
    point = solve_banded(plain(256), 4, 64, lambda _: False)
    square = patterns.largest_pattern(point.matrix.T @ point.matrix, 4, 64)
    assert np.sqrt(point.error * square / 256) <= 5.339


def test_a_watch_ends_the_descent():
    calls = []
    solve_banded(plain(32), 4, 8, lambda value: calls.append(value) or len(calls) == 3)
    assert len(calls) == 3


def test_many_steps_start_from_every_fourth_one(monkeypatch):
    monkeypatch.setattr(scaled_toeplitz, "FINE_CELLS", 128)
    monkeypatch.setattr(scaled_toeplitz, "FINE_WORK", 0.0)  # the fewest steps
    norms = []
    point = solve_banded(plain(256), 4, 64, lambda norm: norms.append(norm) or False)
    d = (point.matrix**2).sum(axis=0)
    square = point.error * patterns.largest_sum(d, 4, 64, fixed=False)
    # 5.3377 after a hundred steps from the square root
    assert np.sqrt(square / 256) == pytest.approx(5.3377, rel=1e-3)
