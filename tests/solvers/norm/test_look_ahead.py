import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import ScalingProblem, SolverOptions, lower_ahead, row_size, solve_norm
from pmldesign_solvers.operators import DenseOperator, MergedWorkload


def decomposition(A, w):
    """The diagonal of S, the ratios d / s, and the squares of T, from the formulas."""
    _, S, Qt = np.linalg.svd(A * np.sqrt(w), full_matrices=False)
    ratios = np.einsum("aj,a,aj->j", Qt, S, Qt) / w / S.sum()
    return S, ratios, (Qt * np.sqrt(ratios) @ Qt.T) ** 2


def nuclear_norm(A, w):
    return np.linalg.svd(A * np.sqrt(w / w.sum()), compute_uv=False).sum()


def instance(seed, cells):
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.5, 2.0, cells)
    return rng.standard_normal((cells + 3, cells)), w / w.sum()


@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_the_size_of_rows_is_that_of_the_levelled_factors(seed, cells):
    A, w = instance(seed, cells)
    S, _, squares = decomposition(A, w)
    Qt = np.linalg.svd(A * np.sqrt(w), full_matrices=False)[2]
    R = np.sqrt(S)[:, None] * Qt / np.sqrt(w)
    levelled = R / np.linalg.norm(R, axis=0)
    value = np.linalg.norm(A @ np.linalg.inv(levelled)) ** 2
    assert row_size(squares, S) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("name", ["prefix:24", "all-range:24", "census-p12"])
def test_the_expectation_is_off_by_the_third_power_of_the_distance(name):
    merged = MergedWorkload(parse_workload(name)).operator.to_dense()
    best = solve_norm(DenseOperator(merged), 2, options=SolverOptions(rel_gap=1e-10)).dual_w
    direction = np.random.default_rng(0).standard_normal(best.size)
    # beside the optimum d / s - 1 is proportional to the distance from it
    errors = []
    for distance in (0.2, 0.1, 0.05):
        w = best * np.exp(distance * direction)
        w /= w.sum()
        S, ratios, squares = decomposition(merged, w)
        expected = lower_ahead(squares, S, w, ratios)
        then = nuclear_norm(merged, w * ratios**2)
        assert then > S.sum()
        errors.append(abs(expected + (then / S.sum() - 1) ** 2 / 4 * S.sum() - then) / then)
        assert errors[-1] <= 0.01 * distance**3 + 1e-9
    assert errors[2] <= errors[0] / 30 + 1e-9


def test_a_step_is_saved_where_the_next_weights_would_do():
    workload = parse_workload("all-range:256")
    problem = ScalingProblem(MergedWorkload(workload), 2)
    m, n = problem.shape
    point = problem.evaluate(*problem.normalise(np.ones(m), np.ones(n)))
    assert point.upper > 1.005 * point.lower
    assert point.looking_ahead(1e-4).lower == point.expected
    assert point.looking_ahead(1e-5) is point
    solution = solve_norm(workload, 2, options=SolverOptions(rel_gap=1e-4))
    assert solution.steps == 1
    assert solution.certificate.gap <= 1e-4


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0))
def test_wrong_expectations_cost_no_correctness(seed, spread):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((9, 6)) * np.exp(spread * rng.standard_normal(6))
    for gap in (1e-2, 1e-5):
        solution = solve_norm(DenseOperator(A), 2, options=SolverOptions(rel_gap=gap))
        assert solution.certificate.gap <= gap
        R, L = solution.strategy, A @ solution.right_inverse
        np.testing.assert_allclose(L @ R, A, atol=1e-9 * np.abs(A).max())
        value = np.linalg.norm(L) * np.linalg.norm(R, axis=0).max()
        assert value <= solution.certificate.upper * (1 + 1e-12)
        assert nuclear_norm(A, solution.dual_w) >= solution.certificate.lower * (1 - 1e-12)
