"""Lower bounds by weights of patterns: slopes, mixtures, and strategies that they must not pass."""

from itertools import combinations, product

import numpy as np
import pytest

from pmldesign_solvers.participation import patterns
from pmldesign_solvers.streams import RunningSums


def plain(n):
    return RunningSums(np.ones(n - 1), np.ones(n), np.ones(n))


def every_pattern(n, k, b, fixed):
    sets = [steps for size in range(1, k + 1) for steps in combinations(range(n), size)]
    gaps = [np.diff(steps) for steps in sets]
    right = [(gap == b).all() if fixed else (gap >= b).all() for gap in gaps]
    return [steps for steps, good in zip(sets, right, strict=True) if good]


def squared_sensitivity(X, n, k, b, fixed):
    """The largest over signs of contributions, by brute force: at most that over vectors."""
    return max(
        float(np.array(signs) @ X[np.ix_(steps, steps)] @ np.array(signs))
        for steps in every_pattern(n, k, b, fixed)
        for signs in product([1.0], *[[1.0, -1.0]] * (len(steps) - 1))
    )


@pytest.mark.parametrize(
    ("n", "k", "b", "fixed"),
    [(12, 3, 2, False), (12, 3, 2, True), (11, 3, 4, False), (10, 2, 7, True), (8, 3, 1, False)],
)
def test_no_strategy_passes_the_bound(n, k, b, fixed):
    bound = patterns.solve(plain(n), patterns.patterns(n, k, b, fixed=fixed), 200, lambda _: False)
    A, rng = np.tril(np.ones((n, n))), np.random.default_rng(0)
    values = []
    for size in [0.0, 0.0, 0.01, 0.1]:
        moved = np.linalg.cholesky(bound.gram) * np.exp(size * rng.normal(size=(n, n)))
        X = moved @ moved.T
        error = np.trace(A @ np.linalg.solve(X, A.T))
        values.append(np.sqrt(error * squared_sensitivity(X, n, k, b, fixed)))
        assert bound.lower <= values[-1]
    # all patterns of this kind are among those that are weighed: the bounds meet
    assert min(values) <= bound.lower * (1.002 if fixed else 1.25)


def test_weights_are_mixtures_of_contributions_in_patterns():
    n, k, b = 14, 3, 4
    bound = patterns.solve(plain(n), patterns.patterns(n, k, b, fixed=False), 30, lambda _: False)
    assert (np.diff(bound.steps, axis=1) >= b).all()
    W, total = np.zeros((n, n)), 0.0
    for steps, block in zip(bound.steps, bound.blocks, strict=True):
        assert np.linalg.eigvalsh(block).min() >= -1e-15
        assert np.ptp(block.diagonal()) <= 1e-14
        total += block[0, 0]
        inside = steps < n
        W[np.ix_(steps[inside], steps[inside])] += block[np.ix_(inside, inside)]
    assert total == pytest.approx(1, abs=1e-12)
    A, (values, vectors) = np.tril(np.ones((n, n))), np.linalg.eigh(W)
    root = vectors * np.sqrt(np.maximum(values, 0))
    assert bound.lower == pytest.approx(np.linalg.norm(A @ root, "nuc"), rel=1e-9)


def test_slopes_are_those_of_the_loss():
    rng = np.random.default_rng(1)
    sums = RunningSums(rng.uniform(0.6, 1, 8), rng.uniform(0.5, 2, 9), rng.uniform(1, 2, 9))
    dual = patterns._Dual(sums, patterns.patterns(9, 3, 2, fixed=False)[::7])
    x = rng.normal(size=7 * len(dual.steps))
    slopes = dual.loss(x)[1]
    for place in rng.integers(0, x.size, 12):
        step = np.zeros(x.size)
        step[place] = 1e-6
        central = (dual.loss(x + step)[0] - dual.loss(x - step)[0]) / 2e-6
        assert central == pytest.approx(slopes[place], rel=1e-5, abs=1e-9)


def test_bounds_beat_those_of_fixed_epochs():
    # fixed epochs that cover all steps: what they gain comes from patterns that are not equidistant
    lower = patterns.solve(
        plain(64), patterns.patterns(64, 4, 16, fixed=False), 40, lambda _: False
    ).lower
    fixed = patterns.solve(
        plain(64), patterns.patterns(64, 4, 16, fixed=True), 40, lambda _: False
    ).lower
    assert lower > 1.005 * fixed


def test_a_watch_ends_the_descent():
    calls = []
    patterns.solve(
        plain(12),
        patterns.patterns(12, 2, 4, fixed=False),
        40,
        lambda v: calls.append(v) or len(calls) > 2,
    )
    assert len(calls) == 3
