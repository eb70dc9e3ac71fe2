"""Lower bounds from one free attribute, against the dual of the matrix written out."""

import math

import numpy as np
import pytest
from certified import dual_value, p_norm
from hypothesis import given, settings
from hypothesis import strategies as st
from small_unions import EXPONENTS, TEXTS, norm, random_unions, union

from pmldesign_solvers.certificate import cells as certificate
from pmldesign_solvers.norm import fixed_point
from pmldesign_solvers.operators import DenseOperator, dual_norm
from pmldesign_solvers.unions import bounds as product_bounds
from pmldesign_solvers.unions import free_attribute


def problems(one, p, order=None):
    """One problem for every attribute."""
    order = range(len(one.parts)) if order is None else order
    found = [free_attribute(one.parts, order, i, p) for i in range(len(one.parts[0]))]
    assert None not in found
    return found


def best(problem, steps=200, gap=1e-6):
    upper, lower, point = math.inf, 0.0, None
    for number, one in enumerate(fixed_point.points(problem)):
        upper = min(upper, one.upper)
        if one.lower > lower:
            lower, point = one.lower, one
        if upper <= lower * (1 + gap) or number == steps:
            return point, upper
    raise AssertionError


def assert_bound_of_the_matrix(problem, one, u, w, p, *, exact):
    """Where no part is left out the block bound is that of the expanded weights."""
    A = one.dense
    own = problem.lower_bound(u, w)
    U, W = problem.expand(u, w)
    assert U.shape == A.shape[:1]
    assert W.shape == A.shape[1:]
    assert W.sum() == pytest.approx(1.0)
    assert dual_norm(U, p) == pytest.approx(1.0)
    whole = certificate.lower_bound(DenseOperator(A), U, W, p)
    # square roots: what rounding does to an eigenvalue 0 of the Gram matrix is far larger here
    assert own <= dual_value(A, U, W, p) * (1 + 1e-12)
    if exact:
        assert own == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("text", TEXTS)
def test_the_bound_of_blocks_is_that_of_the_matrix(text, p):
    one = union(text)
    rng = np.random.default_rng(0)
    for problem in problems(one, p):
        m, n = problem.shape
        pair = problem.normalise(rng.uniform(0.1, 1, size=m), rng.uniform(0.1, 1, size=n))
        assert_bound_of_the_matrix(problem, one, *pair, p, exact=True)
        assert problem.lower_bound(*pair) <= norm(text, p).upper
        assert problem.evaluate(*pair).lower == pytest.approx(problem.lower_bound(*pair), rel=1e-5)


@given(random_unions(), st.sampled_from(EXPONENTS), st.randoms())
def test_parts_that_do_not_commute_are_left_out(given_union, p, random):
    one, rng = given_union
    order = list(range(len(one.parts)))
    random.shuffle(order)
    for index, problem in enumerate(problems(one, p, order)):
        m, n = problem.shape
        pair = problem.normalise(rng.uniform(0.1, 1, size=m), rng.uniform(0.1, 1, size=n))
        assert_bound_of_the_matrix(problem, one, *pair, p, exact=False)
        U, _ = problem.expand(*pair)
        queries = [math.prod(f.shape[0] for f in part) for part in one.parts]
        used = [bool(own.any()) for own in np.split(U, np.cumsum(queries)[:-1])]
        assert used[order[0]]
        for s, is_used in enumerate(used):
            others = [j for j in range(len(one.parts[s])) if j != index]
            grams = [
                [one.parts[k][j].to_dense().T @ one.parts[k][j].to_dense() for j in others]
                for k in (order[0], s)
            ]
            commute = all(np.allclose(a @ b, b @ a, atol=1e-9) for a, b in zip(*grams, strict=True))
            assert is_used <= commute


@given(random_unions(), st.sampled_from(EXPONENTS))
@settings(max_examples=12)
def test_the_best_block_bound_is_enclosed(given_union, p):
    one, rng = given_union
    for problem in problems(one, p):
        m, n = problem.shape
        pair = problem.normalise(rng.uniform(0.01, 1, size=m), rng.uniform(0.01, 1, size=n))
        point, upper = best(problem, steps=60)
        # the values are the roots of eigenvalues with a rounding error of 1e-16
        assert problem.lower_bound(*pair) <= upper * (1 + 1e-7)
        assert problem.evaluate(*pair).upper >= point.lower * (1 - 1e-7)
        assert 0 < problem.lower_bound(point.u, point.w) <= upper * (1 + 1e-7)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize(
    "text",
    [
        "prefix:12*total:3+total:12*histogram:3",
        "prefix:6*histogram:3+histogram:6*total:3",
        "histogram:3*prefix:5*total:2+total:3*histogram:5*histogram:2+total:3*prefix:5*total:2",
        "random-range:5,6,seed=2*total:3+prefix:6*histogram:3",
    ],
)
def test_one_ordered_attribute_among_symmetric_ones_is_exact(text, p):
    # permuting the values of the others changes nothing, so constant weights are best there
    one = union(text)
    index = 1 if text.startswith("histogram:3*") else 0
    problem = free_attribute(one.parts, range(len(one.parts)), index, p)
    point, _ = best(problem, steps=2000, gap=1e-4)
    found = problem.lower_bound(point.u, point.w)
    assert found == pytest.approx(norm(text, p).upper, rel=1e-3)
    assert found <= norm(text, p).upper


@pytest.mark.sweep
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("text", TEXTS)
def test_norms_of_the_parts_are_a_lower_bound(text, p):
    norms = [norm(part, p).lower for part in text.split("+")]
    assert p_norm(np.array(norms), p) <= norm(text, p).upper


def test_too_many_blocks_are_refused(monkeypatch):
    one = union("prefix:4*histogram:3+histogram:4*prefix:3")  # a block for each value
    monkeypatch.setattr(product_bounds, "BLOCK_COST", 3 * 4**3)
    assert free_attribute(one.parts, [0, 1], 0, 2.0) is not None
    monkeypatch.setattr(product_bounds, "BLOCK_COST", 3 * 4**3 - 1)
    assert free_attribute(one.parts, [0, 1], 0, 2.0) is None


def test_equal_blocks_are_taken_once():
    # J of total:3 and 1 of histogram:3 have the common eigenvectors 1 (3, 1) and its complement
    one = union("prefix:12*total:3+total:12*histogram:3")
    problem = free_attribute(one.parts, [0, 1], 0, 2.0)
    assert sorted(problem.counts) == [1.0, 2.0]
    np.testing.assert_allclose(
        problem._coefficients[:, np.argsort(problem.counts)], [[3, 0], [1, 1]], atol=1e-11
    )
