"""gamma_(p) where neighbours replace a record: closed forms, other programs, invariances."""

import itertools
import math

import numpy as np
import pytest
from certified import EPS, dual_exponent, p_norm
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator
from pmldesign_solvers.oracle import programs

P_VALUES = [2.0, 2.5, 4.0, 20.0, math.inf]
seeds = st.integers(0, 2**32 - 1)
exponents = st.sampled_from([2.0, 2.5, 4.0, math.inf])


def solve(A, p, **options):
    return solve_norm(
        DenseOperator(np.asarray(A, dtype=float)),
        p,
        relation="replace",
        options=SolverOptions(**options),
    )


def prefix(n):
    return np.tril(np.ones((n, n)))


def random_workload(m, n, seed):
    return np.random.default_rng(seed).standard_normal((m, n))


def differences(n):
    """The columns e_i - e_j, i < j."""
    unit = np.eye(n)
    return np.array([unit[i] - unit[j] for i, j in itertools.combinations(range(n), 2)]).T


def assert_certified(result, A, p, *, rel_gap=None):
    """Both bounds from A and the arrays of the solution alone, in plain numpy."""
    A = np.asarray(A, dtype=float)
    m, n = A.shape
    R, B, u, w = result.strategy, result.right_inverse, result.dual_u, result.dual_w
    bounds, V = result.certificate, differences(n)
    size = 100 * (m + n) * EPS

    # feasible: A = L R on vectors that sum to zero, sensitivity 1, weights in their unit balls
    L = A @ B
    np.testing.assert_allclose(R.sum(axis=1), 0, atol=size * max(1, np.abs(R).max()))
    residual = (A - L @ R) @ V
    assert np.abs(residual).max() <= 1e-9 * np.abs(A).max()
    distance = np.linalg.norm(R @ V, axis=0).max()
    assert distance == pytest.approx(1, abs=1e-12)
    assert (u >= 0).all()
    assert p_norm(u, dual_exponent(p)) <= 1 + 1e-11
    assert w.shape == (n, n)
    assert (w >= 0).all()
    np.testing.assert_array_equal(w, w.T)
    assert not w.diagonal().any()
    pairs = w[np.triu_indices(n, 1)]
    assert pairs.sum() <= 1 + 1e-11

    # the bounds are those of these arrays, rounded the safe way
    value = p_norm(np.linalg.norm(L, axis=1), p) * distance
    rest = math.sqrt(2) * p_norm(np.linalg.norm(residual, axis=1), p)
    assert value * (1 - 1e-14) <= bounds.upper <= (value + rest) * (1 + 1e-9)
    weighted = np.sqrt(u)[:, None] * (A @ V) * np.sqrt(pairs)
    nuclear = np.linalg.svd(weighted, compute_uv=False).sum()
    assert nuclear * (1 - 1e-5) <= bounds.lower <= nuclear * (1 + 1e-14)
    assert nuclear <= bounds.upper * (1 + 1e-14)
    assert (result.status is Status.OPTIMAL) >= (rel_gap is not None)
    if rel_gap is not None:
        assert bounds.gap <= rel_gap


def assert_encloses(certificate, value, rel=1e-12):
    assert certificate.lower <= value * (1 + rel)
    assert certificate.upper >= value * (1 - rel)


@pytest.mark.parametrize("p", P_VALUES)
@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_identity(n, p):
    # R = P/sqrt 2, L = P sqrt 2, each row of squared norm 2 (n - 1)/n; uniform weights attain it
    found = solve(np.eye(n), p)
    exact = n ** (1 / p) * math.sqrt(2 * (n - 1) / n)
    assert_encloses(found.certificate, exact)
    assert_certified(found, np.eye(n), p, rel_gap=1e-6)


def test_identity_of_four_as_numbers():
    assert_encloses(solve(np.eye(4), 2).certificate, math.sqrt(6))
    assert_encloses(solve(np.eye(4), math.inf).certificate, math.sqrt(1.5))


@pytest.mark.parametrize("p", P_VALUES)
@pytest.mark.parametrize("query", [[1, 0], [3, 1, 1], [0, 2, -5, 1]])
def test_one_query(query, p):
    # noise on the answer itself, whose sensitivity is the range of the coefficients
    found = solve([query], p)
    assert_encloses(found.certificate, max(query) - min(query))
    assert_certified(found, [query], p, rel_gap=1e-6)


@pytest.mark.parametrize("p", P_VALUES)
def test_two_cells(p):
    # one difference: L = A (e_1 - e_2) as it is
    A = random_workload(5, 2, 3)
    assert_encloses(solve(A, p).certificate, p_norm(np.abs(A[:, 0] - A[:, 1]), p), 1e-9)


@pytest.mark.parametrize("p", P_VALUES)
def test_parities(p):
    # H without its row of ones: H^T H = n P, pairs 2n apart in squares; L = s I, R = H/s
    n = 8
    H = np.array([[(-1) ** (i & j).bit_count() for j in range(n)] for i in range(1, n)])
    # uniform weights of pairs W = 2/(n - 1) P: nuclear norm m^(1/p - 1/2) m sqrt(2 n/(n - 1))
    exact = (n - 1) ** (1 / p) * math.sqrt(2 * n)
    assert_encloses(solve(H, p).certificate, exact)


@pytest.mark.parametrize(
    ("n", "p", "value", "digits"),
    [(2, 2, 1.0, 1e-12), (4, 2, 2.2247449, 5e-8), (16, 2, 7.2659, 5e-5)],
)
def test_prefix_sums(n, p, value, digits):
    found = solve(prefix(n), p)
    assert found.certificate.lower <= value + digits
    assert found.certificate.upper >= value - digits
    assert_certified(found, prefix(n), p, rel_gap=1e-6)


@settings(max_examples=7)
@given(st.integers(2, 8), st.integers(1, 8), st.sampled_from(P_VALUES), seeds)
def test_random_workloads_are_certified(n, m, p, seed):
    A = random_workload(m, n, seed)
    assert_certified(solve(A, p), A, p, rel_gap=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("form", ["primal", "dual"])
@pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
@settings(max_examples=2)
@given(st.integers(3, 8), st.integers(2, 6), exponents, seeds)
def test_both_programs_enclose_the_same_number(form, solver, n, m, p, seed):
    A = random_workload(m, n, seed)
    # weights of the solvers are good to 1e-7, and vanishing ones cost digits
    own, oracle = solve(A, p), programs.solve(A, p, relation="replace", form=form, solver=solver)
    assert_certified(own, A, p, rel_gap=1e-6)
    assert_certified(oracle, A, p)
    assert oracle.certificate.gap < 0.05
    assert own.certificate.lower <= oracle.certificate.upper
    assert oracle.certificate.lower <= own.certificate.upper


@settings(max_examples=7)
@given(st.integers(3, 7), st.integers(1, 6), st.sampled_from(P_VALUES), seeds)
def test_it_is_the_norm_of_the_workload_on_all_differences(n, m, p, seed):
    A = random_workload(m, n, seed)
    own = solve(A, p).certificate
    explicit = solve_norm(DenseOperator(A @ differences(n)), p).certificate
    assert max(own.lower, explicit.lower) <= min(own.upper, explicit.upper) * (1 + 1e-12)
    assert explicit.gap < 1e-3


@settings(max_examples=6)
@given(st.integers(3, 7), st.integers(1, 6), st.sampled_from(P_VALUES), seeds)
def test_what_changes_nothing(n, m, p, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    one = solve(A, p).certificate
    order = rng.permutation(n)
    variants = {
        "order of cells": A[:, order],
        "order of queries": A[rng.permutation(m)],
        "signs of queries": rng.choice([-1.0, 1.0], m)[:, None] * A,
        "multiples of the total": A + rng.standard_normal((m, 1)),
        "cells twice": np.column_stack([A, A[:, 0], A[:, 0], A[:, -1]]),
        "the total itself": np.vstack([A, 3 * np.ones(n)]),
    }
    for name, B in variants.items():
        found = solve(B, p)
        assert_certified(found, B, p, rel_gap=1e-6)
        other = found.certificate
        assert max(one.lower, other.lower) <= min(one.upper, other.upper) * (1 + 1e-9), name


@settings(max_examples=6)
@given(st.integers(2, 6), st.sampled_from(P_VALUES), seeds)
def test_scaling_zero_columns_and_copies_of_queries(n, p, seed):
    A = random_workload(4, n, seed)
    one = solve(A, p).certificate
    scaled = solve(-1e6 * A, p).certificate
    assert max(one.lower, scaled.lower / 1e6) <= min(one.upper, scaled.upper / 1e6) * (1 + 1e-9)
    # norm over rows of (1, 2, 2) copies
    stacked, factor = (
        solve(np.vstack([A, -2 * A, 2 * A]), p).certificate,
        p_norm(np.array([1, 2, 2]), p),
    )
    assert stacked.lower <= factor * one.upper * (1 + 1e-9)
    assert stacked.upper >= factor * one.lower * (1 - 1e-9)
    # cells that no query asks about are one cell, as good a reference as any
    zeros = np.column_stack([np.zeros(4), A, np.zeros(4), np.zeros(4)])
    several, single = solve(zeros, p), solve(zeros[:, :-2], p)
    assert_certified(several, zeros, p, rel_gap=1e-6)
    lower = max(several.certificate.lower, single.certificate.lower)
    assert lower <= min(several.certificate.upper, single.certificate.upper) * (1 + 1e-9)
    # every answer of a smaller set of neighbours is an answer
    assert one.lower <= several.certificate.upper * (1 + 1e-12)


@pytest.mark.parametrize("p", P_VALUES)
def test_it_lies_between_the_norms_of_cells(p):
    # replacing is removing and adding: at most twice as sensitive; A P is what is answered
    A = prefix(9)
    pairs = solve(A, p).certificate
    centred = A - A.mean(axis=1, keepdims=True)
    cells = solve_norm(DenseOperator(centred), p).certificate
    assert cells.lower <= pairs.upper  # |R P e_j| <= largest |R(e_j - e_i)|
    assert pairs.lower <= 2 * cells.upper


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"max_steps": 2}, Status.ITERATION_LIMIT),
        ({"deadline": Deadline(1e-9)}, Status.TIME_LIMIT),
        ({"rel_gap": 1e-17}, Status.STALLED),
    ],
)
def test_early_stops_are_certified(limit, status):
    found = solve(prefix(8), 3, **limit)
    assert found.status is status
    assert_certified(found, prefix(8), 3)
    exact = solve(prefix(8), 3).certificate
    assert found.certificate.lower <= exact.upper
    assert found.certificate.upper >= exact.lower


@pytest.mark.parametrize("A", [np.ones((1, 4)), np.outer([1.0, -2, 0.3], np.ones(5)), [[2.0]]])
def test_a_workload_that_asks_for_the_total_alone_is_refused(A):
    with pytest.raises(ValueError, match="nothing but the total"):
        solve(A, 2)


def test_a_zero_workload_and_wrong_exponents_are_refused():
    with pytest.raises(ValueError, match="zero"):
        solve(np.zeros((2, 3)), 2)
    for p in (1.9, math.nan):
        with pytest.raises(ValueError, match="p must be in"):
            solve(np.eye(3), p)


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr("pmldesign_solvers.norm.solve.MAX_PAIRS", 6)
    assert solve(prefix(4), 2).status is Status.OPTIMAL
    # equal cells count once
    assert solve(prefix(4)[:, [0, 0, 1, 2, 3, 3]], 2).status is Status.OPTIMAL
    with pytest.raises(ValueError, match="10 pairs of distinct cells"):
        solve(prefix(5), 2)
