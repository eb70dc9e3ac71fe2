"""Strategies in a product basis, against R and L written out; the descent against differences."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from certified import factorization_value
from hypothesis import given, settings
from hypothesis import strategies as st
from small_unions import EXPONENTS, TEXTS, norm, random_unions, union

from pmldesign_solvers.certificate import cells as certificate
from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator, dual_norm
from pmldesign_solvers.unions import Basis, BasisObjective, BasisProblem, eigenbasis, residual_basis
from pmldesign_solvers.unions import descent as basis_descent

exponents = st.sampled_from(EXPONENTS)


def row_bases(one, rng=None):
    """A basis of what is asked about every attribute; with rng not an orthonormal one."""
    bases = [eigenbasis(attribute.to_dense()) for attribute in one.arguments[2]]
    if rng is None:
        return bases
    turned = []
    for basis in bases:
        turn = np.eye(len(basis.matrix)) + 0.3 * rng.uniform(-1, 1, size=(len(basis.matrix),) * 2)
        turned.append(Basis(turn @ basis.matrix, basis.inverse @ np.linalg.inv(turn)))
    return turned


def factors(problem, weights):
    """R and R^+ by their definition."""
    R = np.sqrt(weights)[:, None] * reduce(np.kron, [basis.matrix for basis in problem.bases])
    B = reduce(np.kron, [basis.inverse for basis in problem.bases]) / np.sqrt(weights)
    return R, B


def assert_upper_bound(problem, one, weights, p):
    R, B = factors(problem, weights)
    A = one.dense
    found = problem.upper_bound(weights)
    assert found == pytest.approx(factorization_value(R, A @ B, p), rel=1e-9)
    assert found == pytest.approx(certificate.upper_bound(DenseOperator(A), R, B, p), rel=1e-9)
    assert found >= factorization_value(R, A @ B, p) * (1 - 1e-13)
    return found


@given(random_unions(), exponents)
def test_the_upper_bound_is_the_value_of_the_strategy_written_out(given_union, p):
    one, rng = given_union
    problem = BasisProblem(one.parts, row_bases(one, rng), p)
    weights = rng.uniform(0.05, 5, size=math.prod(len(b.matrix) for b in problem.bases))
    found = assert_upper_bound(problem, one, weights, p)
    assert problem.upper_bound(problem.design(weights).weights) == pytest.approx(found, rel=1e-9)
    R, _ = factors(problem, problem.design(weights).weights)
    assert np.linalg.norm(R, axis=0).max() == pytest.approx(1.0, rel=1e-12)


IN_TURN = [*zip(TEXTS, itertools.cycle(EXPONENTS), strict=False)]
"""Every union with one p."""


@pytest.mark.sweep
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("text", TEXTS)
def test_no_strategy_is_below_the_norm(text, p):
    one = union(text)
    problem = BasisProblem(one.parts, row_bases(one), p)
    for point in problem.points(1e-3, 5):
        assert problem.upper_bound(point.weights) >= norm(text, p).lower
        assert_upper_bound(problem, one, point.weights, p)
        assert point.upper == pytest.approx(problem.upper_bound(point.weights), rel=1e-9)


@given(random_unions(), exponents)
def test_the_bounds_of_the_weights_enclose_the_best_value(given_union, p):
    one, rng = given_union
    problem = BasisProblem(one.parts, row_bases(one, rng), p)
    m, n = problem.shape
    pair = problem.normalise(rng.uniform(0.1, 1, size=m), rng.uniform(0.1, 1, size=n))
    anywhere = problem.evaluate(*pair)
    points = list(problem.points(1e-5, 200))
    best = min(point.upper for point in points)
    assert max(point.lower for point in [anywhere, *points]) <= best * (1 + 1e-12)
    assert anywhere.upper >= max(point.lower for point in points) * (1 - 1e-12)
    # no other weights are better
    weights = rng.uniform(0.05, 5, size=math.prod(len(b.matrix) for b in problem.bases))
    assert problem.upper_bound(weights) >= max(p.lower for p in points) * (1 - 1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_product_alone_has_the_norm_in_the_basis_of_its_design(p):
    # p = inf and 4 too: weights 1 are best where the bases are the factors' optimal strategies
    one = union("prefix:4*histogram:3+prefix:4*histogram:3")
    found = [solve_norm(attribute, p).strategy for attribute in one.arguments[2]]
    problem = BasisProblem(one.parts, [eigenbasis(R) for R in found], p)
    best = min(point.upper for point in problem.points(1e-6, 500))
    text = "prefix:4*histogram:3+prefix:4*histogram:3"
    assert best == pytest.approx(norm(text, p).upper, rel=1e-5)


@pytest.mark.parametrize(("text", "p"), IN_TURN)
def test_weights_that_go_with_a_strategy_prove_no_more_than_the_norm(text, p):
    one = union(text)
    start = BasisProblem(one.parts, row_bases(one), p)
    *_, point = start.points(1e-4, 100)
    found = next(
        basis_descent.descend(
            one.parts, start.bases, point.weights, p, evaluations=150, proceed=lambda: True
        )
    )
    problem = BasisProblem(one.parts, found.bases, p)
    cells = problem.cell_weights(one.workload, found.u, found.weights)
    for w in (cells, found.w):
        u, w = problem.normalise(found.u, w)
        assert u.shape == one.dense.shape[:1]
        assert w.shape == one.dense.shape[1:]
        assert w.sum() == pytest.approx(1.0)
        assert dual_norm(u, p) == pytest.approx(1.0)
        bound = certificate.lower_bound(one.workload, u, w, p)
        assert 0.9 * norm(text, p).lower <= bound <= norm(text, p).upper


@given(random_unions(), exponents, st.sampled_from([3.0, 20.0]))
@settings(max_examples=15)
def test_the_weights_of_a_descent_are_the_slopes_of_its_norms(given_union, p, beta):
    one, rng = given_union
    objective = BasisObjective(one.parts, row_bases(one), p)
    vector = objective.start(rng.uniform(0.5, 2, math.prod(objective.sizes)))
    found = objective.end(vector, beta)
    R = np.sqrt(found.weights)[:, None] * reduce(np.kron, [b.matrix for b in found.bases])
    L = one.dense @ np.linalg.pinv(R, 1e-11)
    power = min(p / 2, beta)
    for weights, squares, b in (
        (found.u, (L**2).sum(axis=1), power),
        (found.w, (R**2).sum(axis=0), beta),
    ):
        expected = squares ** (b - 1)
        np.testing.assert_allclose(
            weights / weights.max(), expected / expected.max(), rtol=1e-6, atol=1e-12
        )


def test_bases_are_orthonormal_and_span_the_rows():
    strategy = np.array([[1.0, 2, 3, 4], [2, 4, 6, 8], [0, 1, 0, 0]])
    for basis, extra in ((eigenbasis(strategy), 0), (residual_basis(strategy), 1)):
        rows = basis.matrix
        assert len(rows) == 2 + extra
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-14)
        np.testing.assert_allclose(rows @ basis.inverse, np.eye(len(rows)), atol=1e-14)
        np.testing.assert_allclose(strategy @ basis.inverse @ rows, strategy, atol=1e-13)
    assert np.allclose(residual_basis(strategy).matrix[0], 0.5)
    assert residual_basis(np.full((2, 4), 3.0)).matrix.shape == (1, 4)


@given(random_unions(), exponents, st.sampled_from([3.0, 40.0]))
@settings(max_examples=15)
def test_the_gradient_of_the_descent_is_that_of_differences(given_union, p, beta):
    one, rng = given_union
    objective = BasisObjective(one.parts, row_bases(one), p)
    start = objective.start(
        rng.uniform(0.5, 2, size=math.prod(len(b.matrix) for b in row_bases(one)))
    )
    point = start + 0.1 * rng.uniform(-1, 1, size=start.size)
    _, gradient = objective.value(point, beta)
    for _ in range(3):
        step = rng.normal(size=point.size)
        h = 1e-6 / np.linalg.norm(step)
        above, below = (objective.value(point + s * h * step, beta)[0] for s in (1, -1))
        slope = (above - below) / (2 * h)
        assert gradient @ step == pytest.approx(
            slope, rel=1e-4, abs=1e-5 * np.linalg.norm(gradient) + 1e-8
        )


@given(random_unions(), exponents)
@settings(max_examples=15)
def test_the_objective_of_the_descent_is_the_squared_value(given_union, p):
    # smoothed: norm(d)_beta is at most n^(1/beta) times the largest
    one, rng = given_union
    bases = row_bases(one)
    objective = BasisObjective(one.parts, bases, p)
    weights = rng.uniform(0.5, 2, size=math.prod(len(b.matrix) for b in bases))
    point = objective.start(weights)
    point[: sum(s * s for s in objective.sizes)] += 0.1 * rng.uniform(
        -1, 1, size=sum(s * s for s in objective.sizes)
    )
    turned = BasisProblem(one.parts, objective.end(point, 1.0).bases, p)
    exact = 2 * math.log(turned.upper_bound(weights))
    beta = 1e4
    value, _ = objective.value(point, beta)
    m, n = one.dense.shape
    slack = math.log(n) / beta + (math.log(m) / beta if p == np.inf else 0)
    assert exact - 1e-8 <= value <= exact + slack + 1e-8


@pytest.mark.parametrize(("text", "p"), IN_TURN)
def test_what_the_descent_returns_is_a_better_basis_or_the_same(text, p):
    one = union(text)
    first = BasisProblem(one.parts, row_bases(one), p)
    start = min(first.points(1e-4, 100), key=lambda point: point.upper)
    found = list(
        basis_descent.descend(
            one.parts, first.bases, start.weights, p, evaluations=40, proceed=lambda: True
        )
    )
    assert len(found) == len(basis_descent.SHARPNESS)
    for one_end in found:
        for basis in one_end.bases:
            np.testing.assert_allclose(
                basis.matrix @ basis.inverse, np.eye(len(basis.matrix)), atol=1e-8
            )
        problem = BasisProblem(one.parts, one_end.bases, p)
        best = min(problem.points(1e-4, 100), key=lambda point: point.upper)
        assert problem.upper_bound(best.weights) >= norm(text, p).lower
        assert best.upper <= start.upper * (1 + 0.02)


def test_the_descent_stops_when_it_is_told():
    one = union(TEXTS[0])
    asked = iter([True, True, False])
    problem = BasisProblem(one.parts, row_bases(one), 2.0)
    weights = next(problem.points(1e-4, 1)).weights
    found = basis_descent.descend(
        one.parts, problem.bases, weights, 2.0, evaluations=40, proceed=lambda: next(asked)
    )
    assert list(found) == []
    assert next(asked, None) is None
