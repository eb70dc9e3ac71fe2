"""The search against the best of all strategies, where that can be computed."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from two_cells import least_trace

from pmldesign.workloads import parse_workload
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.search import AddRemoveL1, SearchOptions, solve

GAP = 4e-3
PREFIX, APART, ALONG = [[1, 0], [1, 1]], [[3, 0], [1, 1]], [[1, 0], [5, 5]]
SKEW, HARDLY_ALONE = [[2, -1], [0.3, 0.1], [0, 1]], [[4.14, 2.64], [0.375, 0.07], [0.11, 0.12]]


def searched_error(A):
    return solve(DenseOperator(A), 2.0, scale=AddRemoveL1(1.0), options=SearchOptions(1)).error


@pytest.mark.parametrize("queries", [PREFIX, APART, ALONG, SKEW, HARDLY_ALONE])
def test_no_strategy_on_two_cells_is_better(queries):
    A = np.array(queries, dtype=float)
    least = math.sqrt(2 * least_trace(A.T @ A, GAP))
    error = searched_error(A)
    assert least <= error * (1 + 1e-9)
    assert error <= least * (1 + GAP)


def test_the_bound_is_below_every_strategy():
    rng = np.random.default_rng(2)
    W = np.array([[5.0, 3.0], [3.0, 2.0]])
    least = least_trace(W, 0.02)
    for _ in range(300):
        R = rng.normal(size=(rng.integers(2, 6), 2)) * rng.choice([0.02, 0.3, 1.0], (1, 2))
        R = np.where(rng.random(R.shape) < 0.3, 0.0, R) + 1e-9
        R /= np.abs(R).sum(axis=0)
        gram = R.T @ R
        if np.linalg.cond(gram) < 1e8:
            assert np.trace(np.linalg.solve(gram, W)) >= least


def with_few_entries(R):
    """R moved, at the same column norms, until n (n + 3) / 2 entries are left."""
    n = R.shape[1]
    while np.count_nonzero(R) > n * (n + 3) // 2:
        row, column = np.nonzero(R)
        conditions = np.zeros((n + n * n, len(row)))
        for entry, (k, j) in enumerate(zip(row, column, strict=True)):
            conditions[j, entry] = np.sign(R[k, j])
            change = np.outer(R[k], np.eye(n)[j])
            conditions[n:, entry] = (change + change.T).ravel()
        step = np.zeros_like(R)
        step[row, column] = null_space(conditions)[:, 0]
        ratios = np.divide(-R, step, out=np.full(R.shape, np.inf), where=step != 0)
        first = np.unravel_index(np.where(ratios > 0, ratios, np.inf).argmin(), R.shape)
        R = R + ratios[first] * step
        R[first] = 0.0
    return R


@settings(max_examples=7, suppress_health_check=list(HealthCheck))
@given(n=st.integers(1, 4), rows=st.integers(1, 9), seed=st.integers(0, 999))
def test_few_entries_are_enough(n, rows, seed):
    R = np.random.default_rng(seed).normal(size=(rows, n))
    few = with_few_entries(R)
    np.testing.assert_allclose(np.abs(few).sum(axis=0), np.abs(R).sum(axis=0), rtol=1e-9)
    assert np.linalg.eigvalsh(few.T @ few - R.T @ R).min() >= -1e-9


@pytest.mark.parametrize(
    ("queries", "groups"),
    [("histogram:3", 3), ("total:3", 1), ("haar:2", 2), ("histogram:2*total:2", 2)],
)
def test_orthogonal_groups_of_equal_columns_are_measured_one_by_one(queries, groups):
    """Squared error 2 norm(A)_F^2 over the size of a group: that of the lower bound."""
    A = parse_workload(queries).to_dense()
    columns = np.unique(A, axis=1)
    assert columns.shape[1] == groups
    np.testing.assert_allclose(columns.T @ columns, np.diag(np.diag(columns.T @ columns)))
    error = searched_error(A)
    assert error == pytest.approx(math.sqrt(2) * np.linalg.norm(columns), rel=1e-6)
