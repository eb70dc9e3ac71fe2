"""Running sums beside their total: both bounds against dense linear algebra."""

import math

import numpy as np
import pytest

from pmldesign_solvers.intervals import beside, dual, solve
from pmldesign_solvers.operators import power_mean
from pmldesign_solvers.streams import RunningSums, factor, zolotarev


def weighted(q):
    return RunningSums(np.ones(len(q) - 1), np.asarray(q, dtype=float), np.ones(len(q)))


def interval_weights(rng, m):
    a, b, v = 10 ** rng.uniform(-1, 1, (3, m))
    return dual.IntervalWeights(a, b, v).rounded()


def matrix_of_intervals(weights):
    """Omega, interval by interval."""
    m = len(weights.starts)
    omega, total = np.zeros((m, m)), 0.0
    for i in range(m):
        for j in range(i + 1, m + 1):  # from query i to query j - 1
            weight = weights.starts[i] * weights.ends[j - 1]
            omega[i:j, i:j] += weight
            total += weight
    return omega, total


@pytest.mark.parametrize("p", [2, 3, np.inf])
@pytest.mark.parametrize("m", [1, 2, 11])
def test_bound_is_that_of_all_intervals(m, p):
    rng = np.random.default_rng(m)
    q = 10 ** rng.uniform(-1, 1, m)
    weights = interval_weights(rng, m)
    omega, total = matrix_of_intervals(weights)
    u = q**2 * weights.queries
    value = np.sqrt(np.linalg.eigvalsh(np.sqrt(np.outer(u, u)) * omega)).sum()
    value /= math.sqrt(total * power_mean(weights.queries, {2: np.inf, 3: 3, np.inf: 1}[p]))
    sums = weighted(q)
    low, high = sums.spectrum(*weights.for_streams())
    bound = dual.lower_bound(sums, weights, p, zolotarev(low, max(high, 2 * low), 30))
    assert bound <= value * (1 + 1e-12)
    assert bound == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("p", [2, 4, np.inf])
def test_gradient_of_the_bound(p):
    rng = np.random.default_rng(7)
    m, h = 9, 1e-5
    sums = weighted(10 ** rng.uniform(-1, 1, m))
    z = rng.standard_normal((2 if p == 2 else 3, m))
    z = (z - z.max(axis=1, keepdims=True)).ravel()
    way = rng.standard_normal(z.size)
    way[z == 0.0] = 0.0  # largest weights are 1

    def value(z):
        return dual._log_bound(sums, dual._from_logs(z, m), p, 30)

    slope = (value(z + h * way)[0] - value(z - h * way)[0]) / (2 * h)
    assert value(z)[1][: z.size] @ way == pytest.approx(slope, rel=1e-6)


def test_gradient_of_the_shape():
    rng = np.random.default_rng(8)
    z, way = rng.standard_normal((2, 20))
    h, asked = 1e-5, 10 ** rng.uniform(-1, 1, 9)

    def value(z):
        return solve._value(z, asked, 16.0)

    slope = (value(z + h * way)[0] - value(z - h * way)[0]) / (2 * h)
    assert value(z)[1] @ way == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 40, 600])
def test_variances_beside_the_total(n):
    """Those of noise on C x, given that the noise moves the last sum by nothing."""
    rng = np.random.default_rng(n)
    q, v, w = 10 ** rng.uniform(-1, 1, (3, n))
    sums = weighted(q)
    nodes = zolotarev(*sums.spectrum(v, w), 7)
    C = factor.factor(*factor.generators(sums, v, w, nodes)).multiply(np.eye(n))
    errors = q[:, None] * np.cumsum(np.linalg.inv(C), axis=0)
    S = errors @ errors.T
    np.testing.assert_allclose(
        beside.covariances(sums, v, w, nodes.reciprocal()), S[:, -1], rtol=1e-7
    )
    last = errors[-1] / np.linalg.norm(errors[-1])
    left = errors[:-1] - np.outer(errors[:-1] @ last, last)
    expected = (left**2).sum(axis=1)
    variances, explained = beside.variances_beside(sums, v, w, nodes.reciprocal())
    np.testing.assert_allclose(variances - explained, expected, rtol=1e-6, atol=1e-9 * S.max())
    asked = q[:-1] ** 2
    problem = beside.BesideTotal(q, v * q**2 / np.append(asked / np.sqrt(asked).mean() ** 2, 1))
    np.testing.assert_allclose(problem.all_weights(np.ones(n - 1)), v)
    rounded = problem.spread(np.ones(n - 1), w, nodes.reciprocal())
    assert (rounded >= expected - 1e-13 * np.diag(S)[:-1]).all()
