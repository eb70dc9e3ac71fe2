"""Running sums in O(n K): recurrences, nodes and both bounds against dense linear algebra."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import DenseOperator, power_mean
from pmldesign_solvers.streams import (
    AllRanges,
    Nodes,
    RunningSums,
    lower_bound,
    upper_bound,
    variances,
    zolotarev,
)
from pmldesign_solvers.streams import chain as chains
from pmldesign_solvers.streams import solve as streams


def running(n, rate=1.0):
    return RunningSums(np.full(n - 1, rate), np.ones(n), np.ones(n))


def random_sums(rng, n, decades):
    draw = [10.0 ** rng.uniform(0, decades, n) for _ in range(2)]
    return RunningSums(rng.uniform(0.3, 1.2, n - 1), *draw)


def matrix(problem):
    """A, entry by entry."""
    n = problem.cells
    queries, steps = np.sqrt(problem.query_squares), np.sqrt(problem.step_squares)
    decay = np.eye(n)
    for t in range(1, n):
        decay[t] += problem.rates[t - 1] * decay[t - 1]
    return queries[:, None] * decay * steps


def dense_x(problem, u, w, nodes):
    """X = sum_k c_k ((A^T U A)^-1 + s_k^2 W)^-1."""
    A = matrix(problem)
    inverse = np.linalg.inv(A)
    inverse_gram = inverse / u @ inverse.T
    terms = [
        c * np.linalg.inv(inverse_gram + s**2 * np.diag(w))
        for s, c in zip(nodes.poles, nodes.weights, strict=True)
    ]
    return A, sum(terms)


@pytest.mark.parametrize("count", [5, 12, 20])
def test_error_of_nodes_is_that_of_their_theory(count):
    nodes = zolotarev(1e-4, 1e9, count)
    x = np.geomspace(1e-4, 1e9, 30_000)
    error = np.abs(nodes(x) * np.sqrt(x) - 1).max()
    assert error == pytest.approx(nodes.excess(), rel=1e-3)
    assert error == pytest.approx(4 * np.exp(-2 * np.pi**2 * count / np.log(16e13)), rel=0.1)
    wide = np.geomspace(1e-12, 1e17, 30_000)
    assert nodes.excess() >= (nodes(wide) * np.sqrt(wide) - 1).max()


def test_excess_is_a_supremum_for_any_nodes():
    nodes = Nodes(np.array([1.0]), np.array([3.0]))  # 3 sqrt(x) / (x + 1) has its maximum at 1
    assert 0.5 < nodes.excess() <= 0.5 * (1 + 1e-8)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9))
@settings(max_examples=5)
def test_reciprocal_of_nodes(seed, count):
    rng = np.random.default_rng(seed)
    poles = np.exp(np.sort(rng.uniform(-8, 8, count)) + np.arange(count))
    nodes = Nodes(poles, 10.0 ** rng.uniform(-3, 3, count))
    reciprocal = nodes.reciprocal()
    assert (reciprocal.weights > 0).all()
    assert len(reciprocal.poles) == count - 1
    x = np.geomspace(1e-20, 1e20, 2001)
    product = x * nodes(x) * reciprocal(x)
    assert product == pytest.approx(1, abs=1e-9)
    assert 1 / product.min() - 1 <= nodes.shortfall(reciprocal) < 1e-6


def test_shortfall_sees_a_wrong_reciprocal():
    nodes = zolotarev(1.0, 1e6, 6)
    right = nodes.reciprocal()
    for wrong in (
        Nodes(right.poles, right.weights * 0.99, right.constant, right.origin),
        Nodes(right.poles, right.weights, right.constant * 0.99, right.origin),
        Nodes(right.poles, right.weights, right.constant, right.origin * 0.99),
    ):
        assert 1e-3 < nodes.shortfall(wrong) < 0.0102


@pytest.mark.parametrize("n", [1, 2, 3, 30, 300])
def test_diagonals_are_those_of_resolvents(n):
    rng = np.random.default_rng(n)
    problem = random_sums(rng, n, 1.0)
    u, w = 10.0 ** rng.uniform(-1, 1, (2, n))
    nodes = Nodes(np.array([0.2, 3.0, 40.0]), np.array([1.0, 2.0, 3.0]))
    A = matrix(problem)
    U, S, Vt = np.linalg.svd(np.sqrt(u)[:, None] * A * np.sqrt(w))
    values = nodes(S**-2.0)
    chain = problem.chain(u, w)
    found = chains.diagonals(chain, nodes)
    assert chain.rows(found) == pytest.approx((Vt**2).T @ values, rel=1e-8)
    assert chain.columns(found) == pytest.approx(U**2 @ values, rel=1e-8)
    assert problem.gram_diagonal(u) == pytest.approx((A * A * u[:, None]).sum(0), rel=1e-12)
    assert problem.row_norms(w) == pytest.approx((A * A * w).sum(1), rel=1e-12)


def test_starts_of_blocks_are_found_for_all_nodes_at_once(monkeypatch):
    """They follow one after the other, a step for each block however many nodes there are."""
    plain, counts = chains._starts, []

    def counted(products, poles):
        counts.append(len(poles))
        return plain(products, poles)

    problem = RunningSums(np.ones(4095), np.ones(4096), np.ones(4096))
    chain = problem.chain(np.ones(4096), np.ones(4096))
    nodes = zolotarev(1e-7, 1.0, 7)
    whole = chains.diagonals(chain, nodes)
    monkeypatch.setattr(chains, "_starts", counted)
    monkeypatch.setattr(chains, "LANES", 2**6)  # two nodes at a time
    assert chains.diagonals(chain, nodes) == pytest.approx(whole, rel=1e-13)
    assert counts == [7]


def test_recurrences_keep_their_digits_where_a_factorisation_has_none():
    rng = np.random.default_rng(5)
    problem = random_sums(rng, 15, 6.0)
    u, w = 10.0 ** rng.uniform(-6, 6, (2, 15))
    chain, pole = problem.chain(u, w), 1e-3
    found = chains.diagonals(chain, Nodes(np.array([pole]), np.array([1.0])))
    with mpmath.workdps(120):
        places = len(chain.edges) + 1
        path = mpmath.zeros(places, places)
        for i, edge in enumerate(chain.edges):
            path[i, i + 1] = path[i + 1, i] = mpmath.sqrt(mpmath.mpf(float(edge)))
        inverse = (path * path + mpmath.mpf(pole) ** 2 * mpmath.eye(places)) ** -1
        exact = np.array([float(inverse[i, i]) for i in range(places)])
    assert found == pytest.approx(exact, rel=1e-13)


@given(st.integers(0, 2**32 - 1), st.sampled_from([2.0, 2.5, 4.0, np.inf]))
@settings(max_examples=6)
def test_bounds_are_those_of_dense_matrices(seed, p):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    problem = random_sums(rng, n, 1.0)
    u = np.ones(n) if p == 2 else 10.0 ** rng.uniform(-1, 1, n)
    w = 10.0 ** rng.uniform(-1, 1, n)
    nodes = zolotarev(1e-6, 1e6, 4)
    A, X = dense_x(problem, u, w, nodes)
    rows = np.einsum("ij,jk,ik->i", A, np.linalg.inv(X), A)
    value = np.sqrt(power_mean(rows, p / 2) * X.diagonal().max())
    assert variances(problem, u, w, nodes) == pytest.approx(rows, rel=1e-7)
    assert value * (1 - 1e-7) <= upper_bound(problem, u, w, p, nodes) <= value * (1 + 1e-7)
    q = 1 / (1 - 2 / p) if p > 2 else np.inf
    scale = np.sqrt(power_mean(u, q) * w.sum())
    dual = np.linalg.svd(np.sqrt(u)[:, None] * A * np.sqrt(w), compute_uv=False).sum() / scale
    fine = zolotarev(1e-8, 1e8, 40)
    assert dual * (1 - 1e-5) <= lower_bound(problem, u, w, p, fine) <= dual
    assert lower_bound(problem, u, w, p, nodes) <= dual


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize("rate", [0.5, 0.99, 0.99999])
def test_agreement_with_the_dense_solver_on_discounted_sums(p, rate):
    problem = running(16, rate)
    ours, dense = streams.solve(problem, p), solve_norm(DenseOperator(matrix(problem)), p)
    # at rate 0.5 and p = inf most weights tend to zero, slowly
    assert ours.certificate.gap <= (1e-6 if rate > 0.5 or p < np.inf else 1e-3)
    assert ours.certificate.lower <= dense.certificate.upper
    assert dense.certificate.lower <= ours.certificate.upper


@pytest.mark.parametrize(("p", "seed"), [(2, 0), (2, 1), (3, 2), (np.inf, 3)])
def test_agreement_with_the_dense_solver_on_random_weights(p, seed):
    problem = random_sums(np.random.default_rng(seed), 25, 6.0)
    ours = streams.solve(problem, p, options=SolverOptions(rel_gap=1e-4, max_steps=60))
    dense = solve_norm(DenseOperator(matrix(problem)), p)
    assert ours.certificate.lower <= dense.certificate.upper
    assert dense.certificate.lower <= ours.certificate.upper
    assert ours.certificate.gap < 1e-2


@pytest.mark.parametrize(
    ("n", "p", "value", "digit"),
    [
        (1024, 2, 94.5744638, 1e-7),
        (1024, np.inf, 2.9614655, 1e-7),
        (10_000, 2, 367.0451041, 1e-7),
    ],
)
def test_values_computed_by_other_programs(n, p, value, digit):
    found = streams.solve(running(n), p).certificate
    assert found.lower <= value + digit / 2
    assert found.upper >= value - digit / 2
    assert found.gap <= 1e-6


def test_two_cells():
    # X = [[1, t], [t, 1]] has tr(X^-1 G) = (3 - 2 t) / (1 - t^2): by symmetry the best one is of
    # this form, and 2 t^2 - 6 t + 2 = 0 at its minimum
    t = (3 - np.sqrt(5)) / 2
    found = streams.solve(running(2), 2, options=SolverOptions(rel_gap=1e-9)).certificate
    assert found.lower <= np.sqrt((3 - 2 * t) / (1 - t**2)) <= found.upper


def test_all_ranges_agree_with_the_dense_solver():
    n = 24
    first, last = np.triu_indices(n)
    cells = np.arange(n)
    A = ((first[:, None] <= cells) & (cells <= last[:, None])).astype(float)
    ours, dense = streams.solve(AllRanges(n), 2), solve_norm(DenseOperator(A), 2)
    assert ours.certificate.gap <= 1e-6
    assert ours.certificate.lower <= dense.certificate.upper
    assert dense.certificate.lower <= ours.certificate.upper


@pytest.mark.parametrize(("buffers", "gap"), [(4, 1.1e-3), (8, 1e-6)])
def test_few_buffers_are_close_to_the_optimum(buffers, gap):
    options = SolverOptions(rel_gap=gap / 10)
    found = streams.solve(running(1024), 2, buffers=buffers, options=options)
    assert len(found.nodes.poles) == buffers
    assert found.certificate.gap <= gap


def test_a_stop_before_the_gap_keeps_true_bounds():
    found = streams.solve(running(300), 4, options=SolverOptions(max_steps=1))
    assert found.status is Status.ITERATION_LIMIT
    exact = streams.solve(running(300), 4).certificate
    assert found.certificate.lower <= exact.upper
    assert found.certificate.upper >= exact.lower
