import cvxpy as cp
import numpy as np
import pytest
from array_workload import ArrayWorkload, all_ranges, prefix, random_workload

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import eigen_design
from pmldesign.workloads import parse_workload


def squared_error(strategy, workload):
    return strategy.sensitivity**2 * strategy.variances(workload).sum()


@pytest.mark.parametrize(
    "workload", [prefix(9), all_ranges(6), random_workload(12, 7), random_workload(3, 8)]
)
def test_weights_are_those_of_the_convex_program(workload):
    values, vectors = np.linalg.eigh(workload.gram(np.ones(workload.shape[0])))
    kept = values > 1e-9 * values[-1]
    x = cp.Variable(int(kept.sum()))
    objective = cp.sum(cp.multiply(values[kept], cp.inv_pos(x)))
    problem = cp.Problem(cp.Minimize(objective), [vectors[:, kept] ** 2 @ x <= 1])
    problem.solve(solver="CLARABEL")
    # the error squared is within the stated 1e-5 of the best
    assert squared_error(eigen_design(workload), workload) == pytest.approx(problem.value, rel=1e-5)


@pytest.mark.parametrize("name", ["prefix:64", "all-range:40", "window:64,7", "random-range:90,50"])
def test_the_gap_holds_by_the_dual_alone(name):
    # cell weights w of sum 1: error^2 >= (sum_i sqrt(s_i b_i))^2 with b_i = sum_j w_j V_ji^2
    workload = parse_workload(name)
    strategy = eigen_design(workload)
    values, vectors = np.linalg.eigh(workload.gram(np.ones(workload.shape[0])))
    squares = vectors**2
    w = cp.Variable(len(values), nonneg=True)
    bound = cp.sum(cp.multiply(np.sqrt(values.clip(0)), cp.sqrt(squares.T @ w)))
    problem = cp.Problem(cp.Maximize(bound), [cp.sum(w) == 1])
    problem.solve(solver="CLARABEL")
    assert squared_error(strategy, workload) == pytest.approx(problem.value**2, rel=2e-5)


def test_orthogonal_queries_are_measured_themselves():
    # A = D Q with orthogonal Q of entries +-1/2: every cell sees all rows alike, so x_i ~ sqrt(s_i)
    # and error^2 = (sum_i sqrt(s_i))^2 / n
    Q = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    workload = ArrayWorkload(np.diag([1.0, 2.0, 3.0, 4.0]) @ Q)
    strategy = eigen_design(workload)
    assert squared_error(strategy, workload) == pytest.approx(100 / 4, rel=1e-12)
    assert np.allclose((strategy.matrix @ strategy.matrix.T), np.diag(np.arange(1, 5) / 2.5))


def test_rows_are_only_the_eigenvectors_that_count():
    workload = random_workload(3, 8)
    strategy = eigen_design(workload)
    assert strategy.shape == (3, 8)
    assert strategy.sensitivity == pytest.approx(1, rel=1e-12)


def test_zero_workload_is_refused():
    with pytest.raises(InvalidInputError, match="'nothing' is zero"):
        eigen_design(ArrayWorkload(np.zeros((2, 4)), name="nothing"))
