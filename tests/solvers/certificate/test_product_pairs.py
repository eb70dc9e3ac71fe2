"""The lower bound for pairs in a product, against the matrix of all cells."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.certificate import cells, pairs
from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator

exponents = st.sampled_from([2.0, 3.0, math.inf])


@st.composite
def products(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    duals = []
    for _ in range(draw(st.integers(1, 3))):
        m, n = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        A = rng.standard_normal((m, n))
        if draw(st.booleans()):
            A = np.tril(np.ones((m, n)))
        duals.append((A, rng.random(m) + 1e-3, rng.random(n) ** draw(st.sampled_from([0, 1, 6]))))
    return duals


def written_out(duals):
    A = functools.reduce(np.kron, [A for A, _, _ in duals])
    u = functools.reduce(np.kron, [u for _, u, _ in duals])
    w = functools.reduce(np.kron, [w for _, _, w in duals])
    return A, u, w


def bound(duals, p):
    return pairs.lower_bound_of_product([(DenseOperator(A), u, w) for A, u, w in duals], p)


@given(products(), exponents, st.booleans())
def test_it_is_the_bound_of_the_matrix(duals, p, cut):
    A, u, w = written_out(duals)
    with pytest.MonkeyPatch.context() as patch:
        if cut:
            patch.setattr(pairs, "MOST_VALUES", 4)
        found = bound(duals, p)
    if len(w) == 1:
        assert found == 0
        return
    q = math.inf if p == 2 else 1 if p == math.inf else p / (p - 2)
    weights = np.outer(w, w) - np.diag(w**2)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    values, vectors = np.linalg.eigh(laplacian / (weights.sum() / 2))
    root = vectors * np.sqrt(np.maximum(values, 0))
    weighted = np.sqrt(u / np.linalg.norm(u, q))[:, None] * A @ root
    exact = np.linalg.svd(weighted, compute_uv=False).sum()
    assert found <= exact * (1 + 1e-9)
    assert found >= exact * (1 - (1e-3 if cut else 1e-5)) - 1e-6 * np.abs(A).max()
    # and that of the certificate that checks dense solutions
    assert found <= cells.lower_bound(DenseOperator(A), u, weights, p) * (1 + 1e-4) + 1e-9


@given(st.floats(-40, 0), st.integers(1, 3), exponents)
def test_nearly_all_weight_on_one_cell(power, k, p):
    # two cells make one pair: the norm is the distance of the columns, whatever their weights
    rng = np.random.default_rng(k)
    for A in (rng.standard_normal((1, 2)), np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])):
        single = (np.ones((1, 1)), np.ones(1), np.ones(1))
        duals = [(A, np.ones(1), np.array([1.0, 10**power])), *[single] * k]
        assert bound(duals, p) <= abs(A[0, 0] - A[0, 1]) * (1 + 1e-15)


@pytest.mark.parametrize("scale", [1e-150, 1e-13, 1e-8, 1e150])
def test_the_scale_of_a_factor_is_that_of_the_bound(scale):
    sums = np.tril(np.ones((6, 6)))
    duals = [(sums, np.ones(6), np.ones(6))] * 2
    scaled = [(scale * sums, np.ones(6), np.ones(6)), duals[1]]
    assert bound(scaled, 2.0) == pytest.approx(scale * bound(duals, 2.0), rel=1e-12)


@settings(max_examples=12)
@given(products().filter(lambda duals: math.prod(A.shape[1] for A, _, _ in duals) > 1), exponents)
def test_it_is_below_the_norm(duals, p):
    A, _, _ = written_out(duals)
    centred = A - A.mean(axis=1, keepdims=True)
    if np.abs(centred).max() < 1e-9:
        assert bound(duals, p) <= 1e-6 * np.abs(A).max()
        return
    exact = solve_norm(DenseOperator(A), p, relation="replace").certificate
    best, own = pairs.best_duals([(DenseOperator(B), u, w) for B, u, w in duals], p)
    assert bound(duals, p) <= best <= exact.upper
    assert pairs.lower_bound_of_product(own, p) == pytest.approx(best, rel=1e-12)


def test_a_histogram_in_several_factors_is_exact():
    # uniform pairs are optimal: n^(1/p) (2 (n - 1)/n)^(1/2), n = 24
    duals = [(np.eye(n), np.ones(n), np.ones(n)) for n in (2, 3, 4)]
    for p in (2.0, 4.0, math.inf):
        exact = 24 ** (1 / p) * math.sqrt(2 * 23 / 24)
        assert exact * (1 - 1e-7) <= bound(duals, p) <= exact


def test_the_total_alone_gives_next_to_nothing():
    duals = [(np.ones((1, n)), np.ones(1), np.ones(n)) for n in (2, 3)]
    assert bound(duals, 2.0) <= 1e-8
