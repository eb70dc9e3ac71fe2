"""Random workloads and targets: budgets checked by an independent profile and exact variances.

PYTHONPATH=.:solvers python tests/designs/random_targets.py 1000
"""

import dataclasses
import math
import sys

import mpmath
import numpy as np

import pmldesign as pml


def gaussian_delta(ratio, epsilon):
    """delta of Gaussians `ratio` standard deviations apart, 50 digits."""
    with mpmath.workdps(50):
        t, e = mpmath.mpf(ratio), mpmath.mpf(epsilon)
        x = e / t - t / 2
        return mpmath.ncdf(-x) - mpmath.exp(e) * mpmath.ncdf(-x - t)


def problem(seed):
    """A workload, targets over two orders of magnitude, and a guarantee without its budget."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 9), rng.integers(2, 8)
    kind = rng.integers(3)
    matrix = rng.normal(size=(m, n)) if kind == 0 else rng.integers(0, 2, (m, n)).astype(float)
    if kind == 2:
        matrix = np.tril(np.ones((n, n)))
    if not (matrix.max(axis=1) - matrix.min(axis=1)).any():  # replace protects no total
        matrix[0, 0] += 1
    targets = np.exp(rng.uniform(math.log(0.3), math.log(30), len(matrix)))
    relation = "replace" if rng.random() < 0.3 else "add-remove"
    delta = 10.0 ** rng.uniform(-12, -2)
    guarantee = [
        pml.ApproxDP(1, delta, relation),
        pml.ApproxDP(1, delta, relation),
        pml.ZCDP(1, relation),
        pml.GaussianDP(1, relation),
    ][rng.integers(4)]
    return matrix, targets, guarantee


def distances(strategy, relation):
    """All steps of neighbours, as columns."""
    if relation == "add-remove":
        return strategy
    n = strategy.shape[1]
    return np.stack([strategy[:, i] - strategy[:, j] for i in range(n) for j in range(n)], axis=1)


def check(seed, noise="gaussian"):
    """The relative gap of the bounds; AssertionError where the mechanism is not as printed."""
    matrix, targets, guarantee = problem(seed)
    found = pml.least_budget(matrix, guarantee, targets=targets, noise=noise, effort="quick")
    assert 0 <= found.at_least <= found.enough
    noisy, promise = found.mechanism, found.mechanism.guarantee
    assert getattr(promise, found.name) == found.enough
    strategy, relation = noisy.strategy.matrix, guarantee.neighbours.value
    asked = matrix - matrix.mean(axis=1, keepdims=True) if relation == "replace" else matrix
    reconstruction = asked @ np.linalg.pinv(strategy, 1e-11)
    np.testing.assert_allclose(reconstruction @ strategy, asked, atol=1e-7 * np.abs(matrix).max())
    unit = math.sqrt(2) if noisy.noise.value == "laplace" else 1.0
    if noisy.own_grid:  # the geometric law, in units of the smallest entry
        step = np.abs(strategy)[strategy != 0].min() / noisy.scale
        unit = step / (math.sqrt(2) * math.sinh(step / 2))
    deviations = unit * noisy.scale * np.linalg.norm(reconstruction, axis=1)
    assert (deviations <= targets * (1 + 1e-9)).all(), (deviations / targets).max()
    steps = distances(strategy, relation)
    if noisy.noise.value == "laplace":
        ratio = np.abs(steps).sum(axis=0).max() / noisy.scale
        assert spent_by_laplace(ratio, promise) <= 0
    else:
        ratio = np.linalg.norm(steps, axis=0).max() / noisy.scale
        assert spent_by_gaussian(ratio * (1 - 1e-13), promise) <= 0
    again = pml.mechanism(noisy.strategy, matrix, guarantee=promise, noise=noisy.noise.value)
    again = dataclasses.replace(again, own_grid=noisy.own_grid)
    assert (again.standard_deviations <= targets).all()
    return found.gap


def spent_by_gaussian(ratio, promise):
    """By how much noise exceeds its promise."""
    if isinstance(promise, pml.ZCDP):
        return ratio**2 / 2 - promise.rho
    if isinstance(promise, pml.GaussianDP):
        return ratio - promise.mu
    return gaussian_delta(ratio, promise.epsilon) - promise.delta


def spent_by_laplace(ratio, promise):
    """Likewise; the trade-off of Laplace noise against that of Gaussians on a grid."""
    ratio *= 1 - 1e-12
    if isinstance(promise, pml.ZCDP):
        return ratio + math.expm1(-ratio) - promise.rho
    if isinstance(promise, pml.GaussianDP):
        half = mpmath.exp(-mpmath.mpf(ratio) / 2) / 2
        return mpmath.ncdf(-promise.mu / 2) - half
    return max(0.0, -math.expm1((promise.epsilon - ratio) / 2)) - promise.delta


if __name__ == "__main__":
    gaps = []
    for number in range(int(sys.argv[1])):
        gaps.append(check(number, noise="gaussian" if number % 4 else "auto"))
    print(f"{len(gaps)} problems; largest gap for Gaussian noise", end=" ")
    print(max(gap for number, gap in enumerate(gaps) if number % 4))
