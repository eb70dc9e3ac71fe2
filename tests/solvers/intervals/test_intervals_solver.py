"""The solver of running sums beside their total, against the solver for all matrices."""

import math

import numpy as np
import pytest
import scipy

from pmldesign_solvers.intervals import dual, solve, solve_intervals
from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator, power_mean
from pmldesign_solvers.streams import RunningSums, factor, zolotarev


def weighted(q):
    return RunningSums(np.ones(len(q) - 1), np.asarray(q, dtype=float), np.ones(len(q)))


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize(
    "q", [np.ones(20), np.geomspace(1, 9, 20), np.exp(np.random.default_rng(0).normal(size=20))]
)
def test_bounds_hold_and_are_close(p, q):
    """Against the norm that the solver for all matrices finds, to 1e-4; of rough weights too."""
    A = q[:, None] * np.tril(np.ones((20, 20)))
    options = SolverOptions(rel_gap=1e-4)
    exact = solve_norm(DenseOperator(A), p, relation="replace", options=options).certificate
    found = solve_intervals(weighted(q), p)
    assert found.status is Status.STRUCTURED
    assert found.certificate.lower <= exact.upper
    assert found.certificate.upper >= exact.lower
    assert found.certificate.gap < 0.012
    # the strategy itself, as a matrix
    C = factor.factor(*factor.generators(weighted(q), found.u, found.w, found.nodes)).multiply(
        np.eye(20)
    )
    distances = scipy.spatial.distance.pdist(C.T)
    differences = C[:, :-1] - C[:, -1:]  # what the total does not tell
    B = q[:-1, None] * np.cumsum(np.eye(19), axis=0) @ np.linalg.pinv(differences, 1e-11)
    value = math.sqrt(power_mean((B**2).sum(axis=1), p / 2)) * distances.max()
    assert value <= found.certificate.upper * (1 + 1e-12)
    assert value > found.certificate.upper * (1 - 2e-3)


def test_running_sums_of_256_steps():
    """The norm is 49.23894, found by the solver for all matrices."""
    found = solve_intervals(weighted(np.ones(256)), 2.0, buffers=8).certificate
    assert 49.11 <= found.lower <= 49.23895
    assert 49.23893 <= found.upper <= 49.2389 * 1.007


@pytest.mark.parametrize(("n", "p"), [(512, 2), (100, np.inf)])
def test_bounds_stay_close_at_length(n, p):
    assert solve_intervals(weighted(np.ones(n)), p).certificate.gap < 0.009


def test_neighbours_are_no_farther_apart_than_the_bound_says():
    n = 512
    sums, w = weighted(np.ones(n)), np.ones(n)
    v = solve.stretched(solve.shape_of_few(np.ones(15))[0], np.ones(n - 1))
    shares, decays = factor.generators(sums, v, w, zolotarev(*sums.spectrum(v, w), 6))
    X = np.zeros((n, n))
    for i in range(n):  # row by row, by the definition of the generators
        fading = shares[i].copy()
        for j in range(i, -1, -1):
            X[i, j] = X[j, i] = fading.sum()
            fading *= decays[j]
    assert X.min() > 0
    d = np.diag(X)
    assert (d[:, None] + d - 2 * X).max() <= 2 * d.max()


def test_a_limit_of_time_ends_with_true_bounds():
    found = solve_intervals(
        weighted(np.ones(3000)), 2.0, options=SolverOptions(deadline=Deadline(1e-6))
    )
    assert found.status is Status.TIME_LIMIT
    assert 0 < found.certificate.lower <= 229.2  # of a strategy: prefix:3000 takes at most 229.13
    assert found.certificate.upper > 228.28


def test_an_interrupt_keeps_the_best(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(dual.scipy.optimize, "minimize", interrupted)
    monkeypatch.setattr(
        "pmldesign_solvers.intervals.solve.shape_of_few", lambda e: np.ones((2, len(e) + 1))
    )
    found = solve_intervals(weighted(np.ones(300)), 2.0)
    assert found.status is Status.INTERRUPTED
    assert found.certificate.lower <= 56 <= found.certificate.upper
