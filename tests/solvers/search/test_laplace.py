import math
import tracemalloc

import numpy as np
import pytest
from l1_checks import assert_sound, baselines, exact_error, until
from scipy.optimize import differential_evolution

from pmldesign.privacy import gaussian_moment_root
from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.norm import solve as gamma_solver
from pmldesign_solvers.operators import Deadline, DenseOperator, Work
from pmldesign_solvers.search import (
    AddRemoveL1,
    Leakage,
    ReplaceL1,
    SearchOptions,
    SearchProblem,
    laplace_noise,
    solve,
)


@pytest.mark.parametrize(
    ("name", "bound"),
    # the identity: b sqrt(2 tr(A A^T)), tr = 8 * 9 / 2 and 4: signs help the running sums
    [("prefix:8", 8.38), ("histogram:4", math.sqrt(8))],
)
def test_add_remove(name, bound):
    workload, rule = parse_workload(name), AddRemoveL1(1.0)
    starts = baselines(workload)
    A = workload.to_dense()
    solution = solve(workload, 2, scale=rule, starts=starts, options=SearchOptions(restarts=0))
    assert_sound(solution, A, rule)
    assert solution.error <= bound * (1 + 1e-9)
    for R in starts.values():
        assert solution.error <= exact_error(A, R, rule) * (1 + 1e-9)
    assert solution.status is Status.COMPLETED


def test_prefix_sums_of_eight_cells_without_signs():
    positive = solve(
        parse_workload("prefix:8"),
        2,
        scale=AddRemoveL1(1.0),
        signed=False,
        options=SearchOptions(restarts=2),
    )
    assert positive.strategy.min() >= 0
    assert 8.38 < positive.error <= math.sqrt(72) * (1 + 1e-9)


def test_non_negative_strategies():
    workload, rule = parse_workload("prefix:16"), AddRemoveL1(1.0)
    starts = baselines(workload, signed=False)
    A = workload.to_dense()
    solution = solve(
        workload, 2, scale=rule, signed=False, starts=starts, options=SearchOptions(restarts=2)
    )
    assert_sound(solution, A, rule)
    assert solution.strategy.min() >= 0
    for R in starts.values():
        assert solution.error <= exact_error(A, R, rule) * (1 + 1e-9)
    # one row beside the identity already gains over sqrt(16 * 17)
    assert solution.error < 14.55 < math.sqrt(272)


def test_ramps_come_first_under_pml():
    # and have what a whole search finds
    rule, bound = Leakage(1.0, np.full(8, 1 / 8)), 6.92
    workload = parse_workload("prefix:8")
    starts = baselines(workload)
    A = workload.to_dense()
    numbers = []

    def stop(step):
        numbers.append(step.number)
        until(bound)(step)

    options = SearchOptions(restarts=1, callback=stop)
    solution = solve(workload, 2, scale=rule, starts=starts, options=options)
    assert_sound(solution, A, rule)
    assert solution.error <= bound
    assert len(numbers) <= 2
    assert solution.status is Status.INTERRUPTED
    for R in starts.values():
        assert solution.error <= exact_error(A, R, rule) * (1 + 1e-9)
    np.testing.assert_allclose(solution.strategy.sum(axis=1), 0, atol=1e-10)


def test_rows_that_only_smoothing_kept_are_dropped():
    # on four cells the best strategy has one cell without a row of its own: three rows
    workload, rule = parse_workload("prefix:4"), ReplaceL1(1.0)
    solution = solve(workload, 2, scale=rule, options=SearchOptions(restarts=1))
    assert_sound(solution, workload.to_dense(), rule)
    assert solution.error < 4.164
    assert solution.strategy.shape == (3, 4)


@pytest.mark.parametrize("name", ["haar:4", "all-range:3"])
def test_a_design_for_pml_is_no_worse_than_the_recalibrated_design_for_dp(name):
    workload = parse_workload(name)
    A, n = workload.to_dense(), workload.shape[1]
    rule = Leakage(1.0, np.full(n, 0.8 / n))
    dp = solve(workload, 2, scale=ReplaceL1(1.0), options=SearchOptions(restarts=0))
    pml = solve(
        workload, 2, scale=rule, starts={"dp": dp.strategy}, options=SearchOptions(restarts=0)
    )
    assert pml.error <= exact_error(A, dp.strategy, rule) * (1 + 1e-9)
    assert pml.error < dp.error


def test_a_census_table_on_its_merged_cells():
    workload = parse_workload("census-p12")
    A, n = workload.to_dense(), workload.shape[1]
    starts = baselines(workload)
    dp_rule, rule = ReplaceL1(1.0), Leakage(1.0, np.full(n, 0.5 / n))
    dp = solve(
        workload,
        2,
        scale=dp_rule,
        starts=starts,
        options=SearchOptions(work=Work(2e9)),
    )
    pml = solve(
        workload,
        2,
        scale=rule,
        starts=starts | {"dp": dp.strategy},
        options=SearchOptions(work=Work(2e9)),
    )
    assert_sound(dp, A, dp_rule)
    assert_sound(pml, A, rule)
    assert pml.error <= exact_error(A, dp.strategy, rule) * (1 + 1e-9)
    for R in starts.values():
        assert dp.error <= exact_error(A, R, dp_rule) * (1 + 1e-9)
        assert pml.error <= exact_error(A, R, rule) * (1 + 1e-9)


@pytest.mark.parametrize("p", [2, 3, 4, math.inf])
def test_errors_for_other_p_and_their_lower_bound(p):
    workload = parse_workload("prefix:3")
    A, rule = workload.to_dense(), AddRemoveL1(0.5)
    solution = solve(workload, p, scale=rule, options=SearchOptions(restarts=0))
    exact = exact_error(A, solution.strategy, rule, p)
    # the l1 sensitivity is at least the l2 one; E |sum l z|^p >= c_p^p (2 sum l^2)^(p/2) (Jensen)
    gamma = gamma_solver.solve_norm(workload, p).certificate.lower
    assert exact >= math.sqrt(2) * gaussian_moment_root(p) * gamma / rule.epsilon * (1 - 1e-9)
    if p == 3:  # the standard deviations stand for the moments
        variances = ((A @ np.linalg.pinv(solution.strategy, 1e-11)) ** 2).sum(axis=1)
        exact = solution.scale * math.sqrt(2) * (variances**1.5).sum() ** (1 / 3)
    assert solution.error == pytest.approx(exact, rel=1e-9)
    assert solution.error <= exact_error(A, np.eye(3), rule, p) * (1 + 1e-9)


def test_replace_lower_bound():
    workload = parse_workload("prefix:4")
    A = workload.to_dense()
    i, j = np.triu_indices(4, 1)
    differences = np.eye(4)[:, i] - np.eye(4)[:, j]
    gamma = gamma_solver.solve_norm(DenseOperator(A @ differences), 2).certificate.lower
    solution = solve(workload, 2, scale=ReplaceL1(2.0), options=SearchOptions(restarts=0))
    assert solution.error >= math.sqrt(2) * gamma / 2.0


def test_the_exact_moment_is_polished():
    workload = parse_workload("prefix:8")
    rule = AddRemoveL1(1.0)
    solution = solve(workload, 4, scale=rule, options=SearchOptions(restarts=0))
    polish = solution.starts[-1]
    assert polish.name == "polish"
    assert polish.after < polish.before * (1 - 1e-4)
    assert_sound(solution, workload.to_dense(), rule, 4)


def scales(R, rule):
    """Noise scales of strategies, shape (count, r, n), from the definitions."""
    if isinstance(rule, AddRemoveL1):
        return np.abs(R).sum(axis=1).max(axis=1) / rule.epsilon
    D = np.abs(R[..., :, None] - R[..., None, :]).sum(axis=1)
    farthest = D.max(axis=2)
    if isinstance(rule, ReplaceL1):
        return farthest.max(axis=1) / rule.epsilon
    unit, rest = D / farthest[..., None], 1 - rule.alpha.sum()
    low, high = np.full_like(farthest, rule.epsilon), np.full_like(farthest, 1e9)
    for _ in range(50):  # the root t = 1 / b, in units of the farthest column
        t = np.sqrt(low * high)
        left = np.exp(-unit * t[..., None]) @ rule.alpha + rest * np.exp(-t)
        private = left >= math.exp(-rule.epsilon)
        low, high = np.where(private, t, low), np.where(private, high, t)
    return (farthest / low).max(axis=1)


def global_optimum(A, rule, rows):
    """The least exact error over R with this many rows, without gradients."""
    n = A.shape[1]
    public = not isinstance(rule, AddRemoveL1)
    basis = np.linalg.svd(np.eye(n) - public / n)[0][:, : n - public]

    def log_errors(population):
        reduced = population.T.reshape(-1, rows, basis.shape[1])  # R on what is measured
        _, sizes, turned = np.linalg.svd(reduced, full_matrices=False)
        spread = np.linalg.norm(A @ basis @ turned.swapaxes(1, 2) / sizes[:, None], axis=(1, 2))
        noise = scales(reduced @ basis.T, rule)
        regular = sizes[:, -1] > 1e-7 * sizes[:, 0]
        return np.where(regular, np.log(noise * math.sqrt(2) * spread), 20.0)

    least = differential_evolution(
        log_errors,
        [(-1, 1)] * (rows * basis.shape[1]),
        rng=1,
        maxiter=150,
        popsize=6,
        tol=1e-10,
        polish=False,
        vectorized=True,
        updating="deferred",
    )
    return math.exp(least.fun)


@pytest.mark.parametrize(
    ("A", "rule", "rows"),
    [
        (np.tril(np.ones((2, 2))), AddRemoveL1(1.0), 3),
        (np.array([[1.0, 3.0], [1.0, -1.0]]), AddRemoveL1(1.0), 3),
        (np.tril(np.ones((3, 3))), ReplaceL1(1.0), 3),
        (np.tril(np.ones((3, 3))), Leakage(0.8, np.array([0.1, 0.3, 0.25])), 3),
    ],
)
def test_small_cases_against_a_global_search(A, rule, rows):
    solution = solve(DenseOperator(A), 2, scale=rule, options=SearchOptions(restarts=0))
    assert_sound(solution, A, rule)
    assert solution.error <= global_optimum(A, rule, rows) * (1 + 1e-5)


def test_two_cells_with_a_public_total_in_closed_form():
    # only e_1 - e_2 is measured: err = (b / D) sqrt(2) norm(A (e_1 - e_2)) with D = eps b for DP
    A = np.array([[1.0, 0.0], [2.0, -1.0], [0.0, 4.0]])
    length = math.sqrt(2) * np.linalg.norm(A[:, 0] - A[:, 1])
    dp = solve(DenseOperator(A), 2, scale=ReplaceL1(0.7), options=SearchOptions(restarts=1))
    assert dp.error == pytest.approx(length / 0.7, rel=1e-12)
    # a + (1 - a) e^(-D/b) = e^-eps
    ratio = -math.log((math.exp(-0.7) - 0.2) / 0.8)
    pml = solve(
        DenseOperator(A),
        2,
        scale=Leakage(0.7, np.array([0.2, 0.2])),
        options=SearchOptions(restarts=1),
    )
    assert pml.error == pytest.approx(length / ratio, rel=1e-12)


@pytest.mark.parametrize("p", [2, 3, 4])
def test_starts_are_not_evaluated_after_the_time_limit(monkeypatch, p):
    calls, unit_error = [], SearchProblem.unit_error

    def counted(problem, strategy):
        calls.append(strategy.shape)
        return unit_error(problem, strategy)

    monkeypatch.setattr(SearchProblem, "unit_error", counted)
    n = 150
    starts = {str(k): np.eye(n) + np.eye(n, k=k) / 10 for k in range(1, 30)}
    workload = parse_workload(f"prefix:{n}")
    solution = solve(
        workload,
        p,
        scale=AddRemoveL1(1.0),
        starts=starts,
        options=SearchOptions(work=Work(deadline=Deadline(1e-9))),
    )
    assert solution.status is Status.TIME_LIMIT
    assert len(calls) <= 3
    assert solution.error <= SearchProblem(workload, p, public_total=False).unit_error(np.eye(n))


def test_masses_of_a_sample_take_the_memory_of_one_matrix():
    n = 600
    distances = np.random.default_rng(0).uniform(size=(n, n))
    least, room = np.full(n, 1e-4), np.full(n, 1e-3)
    tracemalloc.start()
    masses = laplace_noise.worst_masses(distances, least, room, 0.0505)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * masses.nbytes
    ranks = distances.argsort(axis=1).argsort(axis=1)
    left = 1e-3 * np.select([ranks < 50, ranks == 50], [0.0, 0.5], 1.0)
    np.testing.assert_allclose(masses, 1e-4 + left, rtol=1e-9)
