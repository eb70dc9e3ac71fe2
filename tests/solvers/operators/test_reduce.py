"""Workloads with fewer queries than cells: their row space, and what the solver makes of them."""

import itertools

import numpy as np
import pytest
from certified import assert_certified, dual_value, factorization_value
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from scipy.sparse import csr_array

from pmldesign.workloads import SparseWorkload
from pmldesign_solvers.certificate import upper_bound
from pmldesign_solvers.norm import (
    CRAWL,
    DualFunction,
    InteriorPoint,
    SolverOptions,
    Status,
    solve_norm,
)
from pmldesign_solvers.operators import (
    Cells,
    Columns,
    ColumnSpaceWorkload,
    DenseOperator,
    MergedWorkload,
    Projected,
    RowSpaceWorkload,
    right_inverse_of,
)
from pmldesign_solvers.oracle import programs

EXPONENTS = (2.0, 4.0, np.inf)
seeds = st.integers(0, 2**32 - 1)
exponents = st.sampled_from(EXPONENTS)


def gaussian(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns))


def zeros_and_ones(rows, columns, seed=0):
    """With columns that are repeated or zero, as the columns are many."""
    return np.random.default_rng(seed).integers(0, 2, (rows, columns)).astype(float)


def solve(A, p, **options):
    found = solve_norm(DenseOperator(A), p, options=SolverOptions(**options))
    assert_certified(found, A, p=p, rel_gap=options.get("rel_gap", 1e-6))
    return found


def assert_overlap(first, second):
    assert first.lower <= second.upper * (1 + 1e-12)
    assert second.lower <= first.upper * (1 + 1e-12)


@given(st.integers(1, 4), st.integers(1, 6), seeds)
def test_columns_are_difference_vectors(rank, extra, seed):
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((rank, rank + extra))
    assert_vectors(Projected(Cells(rank + extra), Q), Q, rng)


@given(st.integers(1, 4), st.integers(1, 6), st.booleans(), seeds)
def test_columns_of_a_matrix_in_other_coordinates(m, extra, kept_sparse, seed):
    rng = np.random.default_rng(seed)
    A, T = zeros_and_ones(m, m + extra, seed) + np.eye(m, m + extra), gaussian(m, m, seed + 1)
    turned = SparseWorkload(csr_array(A.T)) if kept_sparse else DenseOperator(A.T)
    assert_vectors(Columns(turned, T), T @ A, rng)


def assert_vectors(columns, Q, rng):
    rank, count = Q.shape
    w = rng.uniform(0.1, 1.0, count)
    assert columns.count == count
    W = Q @ np.diag(w) @ Q.T
    R = rng.standard_normal((2, rank))
    np.testing.assert_allclose(columns.weighted(R, w), R @ W @ R.T, rtol=1e-12, atol=1e-12)
    root = columns.root(w)
    np.testing.assert_allclose(root @ root.T, W, rtol=1e-10, atol=1e-12)
    X = np.cov(rng.standard_normal((2, 9)))
    expected = [q @ R.T @ X @ R @ q for q in Q.T]
    np.testing.assert_allclose(columns.products(R, X @ R), expected, rtol=1e-10, atol=1e-13)
    expected = [q @ R.T @ R @ q for q in Q.T]
    np.testing.assert_allclose(columns.squared_norms(R), expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(columns.vectors(), Q.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e-9])
@pytest.mark.parametrize("rank", [1, 3, 4])
def test_the_coordinates_are_those_of_an_orthonormal_basis(rank, scale):
    # queries in different units, some of them sums of others
    A = gaussian(4, rank, 1) @ gaussian(rank, 9, 2)
    A[0] *= scale
    merged = MergedWorkload(DenseOperator(A))
    problem = RowSpaceWorkload(merged)
    Q = problem.differences.vectors().T
    assert merged.wide
    assert problem.rank == rank
    assert problem.operator.shape == (4, rank)
    np.testing.assert_allclose(Q @ Q.T, np.eye(rank), atol=1e-13)
    rows = np.linalg.norm(A, axis=1, keepdims=True)
    np.testing.assert_allclose(problem.operator.to_dense() @ Q / rows, A / rows, atol=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("rows", ["dependent", "equal", "independent"])
def test_iterates_are_points_of_the_original_workload(p, rows):
    A = zeros_and_ones(5, 40, 3)
    added = {"dependent": A[:1] + A[1:2], "equal": A[:1], "independent": gaussian(1, 40, 1)}
    A = np.vstack([A, added[rows]])
    merged = MergedWorkload(SparseWorkload(csr_array(A)))
    problem = ColumnSpaceWorkload.of(merged)
    assert (problem is None) == (rows == "dependent")
    problem = problem or RowSpaceWorkload(merged)
    best = solve_norm(DenseOperator(A), p).certificate
    function = DualFunction(problem, p)
    for one in itertools.islice(InteriorPoint(function).iterates(), 8):
        u, w = problem.original_weights(one.each, one.w)
        assert dual_value(A, u, w, p) == pytest.approx(one.lower, rel=1e-9)
        R, B = problem.original_factors(one.strategy, right_inverse_of(one.strategy))
        np.testing.assert_allclose(A @ B @ R, A, atol=1e-9)
        assert np.linalg.norm(R, axis=0).max() == pytest.approx(1.0)
        assert factorization_value(R, A @ B, p) == pytest.approx(one.upper, rel=1e-7)
        assert one.lower <= best.upper * (1 + 1e-12)
        assert one.upper >= best.lower * (1 - 1e-12)


@pytest.mark.parametrize(("least", "decomposed"), [(0.5, 0), (1e-5, 1)])
def test_a_large_wide_strategy_is_inverted_through_its_gram_matrix(least, decomposed, monkeypatch):
    """Where that has all its digits; the others are decomposed."""
    rng = np.random.default_rng(3)
    values = np.linspace(least, 1, 200)
    left, right = (np.linalg.qr(rng.standard_normal((n, 200)))[0] for n in (200, 1500))
    exact, calls, pinv = (right / values) @ left.T, [], np.linalg.pinv
    monkeypatch.setattr(np.linalg, "pinv", lambda R: calls.append(1) or pinv(R))
    found = right_inverse_of((left * values) @ right.T)
    assert len(calls) == decomposed
    np.testing.assert_allclose(found, exact, atol=1e-12 / least)


@settings(max_examples=7)
@given(st.integers(1, 4), st.integers(1, 6), exponents, seeds)
def test_the_semidefinite_program_encloses_the_same_number(m, extra, p, seed):
    A = gaussian(m, m + extra, seed)
    oracle = programs.solve(A, p, form="primal", solver="CLARABEL")
    assert_overlap(solve(A, p).certificate, oracle.certificate)


@settings(max_examples=10)
@given(st.integers(1, 5), st.integers(1, 40), exponents, seeds)
def test_copies_zeros_and_the_order_of_cells_do_not_matter(m, n, p, seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (m, n)).astype(float)
    A[:, 0] = 1.0
    wide = np.hstack([A, A[:, rng.integers(0, n, 2 * m)], np.zeros((m, 3))])
    wide = wide[:, rng.permutation(wide.shape[1])]
    assert_overlap(solve(A, p).certificate, solve(wide, p).certificate)


@pytest.mark.parametrize("p", EXPONENTS)
def test_queries_that_follow_from_others(p):
    # each of them twice: sum_i v_i^(p/2) doubles
    A = gaussian(4, 30, 5)
    factor = 1.0 if np.isinf(p) else 2 ** (1 / p)
    one, two = (solve(X, p).certificate for X in (A, np.vstack([A, -A])))
    assert one.lower * factor <= two.upper * (1 + 1e-12)
    assert two.lower <= one.upper * factor * (1 + 1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("m", [3, 20])
def test_parities(m, p):
    # any m parities have the norm m^(1/p + 1/2)
    A = hadamard(512)[7 : 7 + m].astype(float)
    found = solve(A, p).certificate
    expected = m ** (0.5 if np.isinf(p) else 1 / p + 0.5)
    assert found.lower <= expected * (1 + 1e-12)
    assert found.upper >= expected * (1 - 1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
def test_it_needs_the_interior_point_method_and_gets_there(p):
    # beyond 2^16 entries singular values come from the smaller Gram matrix
    A = np.unique(zeros_and_ones(40, 2000, 6), axis=1)
    found = solve(A, p)
    assert found.status is Status.OPTIMAL
    assert found.strategy.shape == (40, A.shape[1])
    assert found.steps > CRAWL


@pytest.mark.parametrize("p", EXPONENTS)
def test_no_matrix_of_all_cells(p):
    # one would take 80 GB
    A = zeros_and_ones(3, 100_000, 7)
    A[2] = np.arange(100_000) % 17
    solve(A, p, rel_gap=1e-4)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(["add-remove", "replace"]),
    exponents,
    seeds,
)
def test_any_factors_are_certified(m, extra, relation, p, seed):
    """What is left of A is measured cell by cell; under replace all but one, as differences."""
    n = m + extra
    A, R, B = gaussian(m, n, seed), gaussian(2, n, seed + 1), gaussian(n, 2, seed + 2)
    sensitivity, spread, moves, measured, kept = np.linalg.norm(R, axis=0).max(), 1.0, A, R, B
    if relation == "replace":
        sensitivity, spread = (
            np.linalg.norm(R[:, :, None] - R[:, None, :], axis=0).max(),
            np.sqrt(2),
        )
        moves, measured, kept = A[:, :-1] - A[:, -1:], R[:, :-1] - R[:, -1:], B[:-1]
    value = factorization_value(np.eye(1), moves @ kept, p) * sensitivity
    value += factorization_value(np.eye(1), moves - moves @ kept @ measured, p) * spread
    found = upper_bound(DenseOperator(A), R, B, p, relation=relation)
    assert value <= found <= value * (1 + 1e-11)
