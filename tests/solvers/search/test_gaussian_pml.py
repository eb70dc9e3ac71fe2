import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator, Work
from pmldesign_solvers.search import GaussianLeakage, gaussian_pml


def norm_optimal(workload, p):
    """R0 and B of the replace relation."""
    solution = solve_norm(workload, p, relation="replace", options=SolverOptions(rel_gap=1e-8))
    return solution.strategy, solution.right_inverse


def error(A, R, scale, p):
    """The l_p norm of the answers' standard deviations, from the strategy alone."""
    R = R - R.mean(axis=1, keepdims=True)
    deviations = np.linalg.norm(
        (A - A.mean(axis=1, keepdims=True)) @ np.linalg.pinv(R, 1e-11), axis=1
    )
    D = np.linalg.norm(R[:, :, None] - R[:, None, :], axis=0)
    log_scale = scale.tuned(D, 1e-6).smooth_log_scale(D, 1e-6)[0]
    return math.exp(log_scale) * np.linalg.norm(deviations, ord=p)


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, math.inf])
@pytest.mark.parametrize("share", [None, 0.8])
@pytest.mark.parametrize("width", [0.3, 0.02])
def test_the_gradient(p, share, width):
    workload = parse_workload("prefix:5")
    R, B = norm_optimal(workload, 2)
    scale = GaussianLeakage(1.0, 1e-3, np.full(5, 0.15), share)
    objective = gaussian_pml.Objective(workload, p, B, R)
    M = np.eye(4) + 0.1 * np.random.default_rng(0).standard_normal((4, 4))

    def value(x):
        return objective.evaluate(x.reshape(4, 4), scale, width)[0]

    numeric = approx_fprime(M.ravel(), value, 1e-7).reshape(4, 4)
    np.testing.assert_allclose(objective.evaluate(M, scale, width)[1], numeric, atol=3e-6)


def skewed(R, B, seed):
    """Another start in the same row space."""
    T = np.eye(len(R)) + 0.3 * np.random.default_rng(seed).standard_normal((len(R), len(R)))
    return T @ R, B @ np.linalg.inv(T)


@pytest.mark.sweep
@pytest.mark.parametrize("share", [None, 0.5])
@pytest.mark.parametrize("p", [2, 4])
def test_single_cells_are_optimal_for_a_histogram(share, p):
    # the problem is convex and symmetric in the cells, so R^T R = 1 - 1 1^T/n up to a factor
    workload, n = parse_workload("histogram:6"), 6
    scale = GaussianLeakage(1.0, 1e-4, np.full(n, 0.1), share)
    R, B = skewed(*norm_optimal(workload, p), seed=1)
    M, status = gaussian_pml.solve(workload, p, right_inverse=B, columns=R, scale=scale)
    assert status is Status.COMPLETED
    best = error(np.eye(n), np.eye(n), scale, p)
    assert error(np.eye(n), M @ R, scale, p) == pytest.approx(best, rel=1e-4)
    assert error(np.eye(n), R, scale, p) > 1.02 * best


@pytest.mark.parametrize(("name", "share"), [("prefix:4", 0.5), ("all-range:4", None)])
def test_every_start_ends_at_the_same_error(name, share):
    workload = parse_workload(name)
    A = workload.to_dense()
    n = A.shape[1]
    scale = GaussianLeakage(1.0, 1e-6, np.full(n, 1 / n), share)
    given = norm_optimal(workload, 2)
    found = []
    for R, B in (given, skewed(*given, seed=2), skewed(*given, seed=3)):
        M, _ = gaussian_pml.solve(workload, 2, right_inverse=B, columns=R, scale=scale)
        found.append(error(A, M @ R, scale, 2))
    assert max(found) <= min(found) * (1 + 1e-4)
    assert max(found) < 0.999 * error(A, given[0], scale, 2)


def test_a_workload_of_small_rank_with_equal_columns():
    A = np.array([[1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0]])
    R, B = norm_optimal(DenseOperator(A), 2)
    columns, cells = np.unique(R, axis=1, return_inverse=True)
    alpha = np.bincount(cells.ravel(), weights=np.full(5, 0.19))
    scale = GaussianLeakage(0.5, 1e-6, alpha)
    M, _ = gaussian_pml.solve(DenseOperator(A), 2, right_inverse=B, columns=columns, scale=scale)
    np.testing.assert_allclose(
        A @ B @ np.linalg.inv(M) @ M @ R, A - A.mean(axis=1, keepdims=True), atol=1e-9
    )

    def exact(columns):
        R = columns[:, cells.ravel()]
        L = (A - A.mean(axis=1, keepdims=True)) @ np.linalg.pinv(R, 1e-11)
        D = np.linalg.norm(columns[:, :, None] - columns[:, None, :], axis=0)
        return math.exp(scale.smooth_log_scale(D, 1e-6)[0]) * np.linalg.norm(L)

    assert exact(M @ columns) <= exact(columns) * (1 + 1e-12)


@pytest.mark.parametrize("stop", ["time", "interrupt"])
def test_stopping_keeps_the_best(stop):
    workload = parse_workload("prefix:8")
    R, B = norm_optimal(workload, 2)
    scale = GaussianLeakage(1.0, 1e-6, np.full(8, 1 / 8))
    seen = []

    def callback(step):
        seen.append(step.error)
        if stop == "interrupt" and len(seen) == 4:
            raise KeyboardInterrupt

    work = Work(deadline=Deadline(1e-9 if stop == "time" else None))
    M, status = gaussian_pml.solve(
        workload, 2, right_inverse=B, columns=R, scale=scale, work=work, callback=callback
    )
    assert status is (Status.TIME_LIMIT if stop == "time" else Status.INTERRUPTED)
    start, end = (error(workload.to_dense(), one, scale, 2) for one in (R, M @ R))
    if stop == "time":
        np.testing.assert_array_equal(M, np.eye(7))
    else:
        assert end == pytest.approx(min(seen), rel=1e-3)
        assert end < start


def test_the_same_every_time():
    workload = parse_workload("haar:8")
    R, B = norm_optimal(workload, 2)
    scale = GaussianLeakage(1.0, 1e-6, np.full(8, 1 / 8), 0.0)
    first, second = (
        gaussian_pml.solve(workload, 2, right_inverse=B, columns=R, scale=scale)[0]
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
