"""Product strategies for data whose total is public, against the matrix R P."""

import math
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import BesideStrategy, ProductStrategy, Strategy, baseline
from pmldesign.workloads import (
    RECORDS,
    DenseWorkload,
    KroneckerWorkload,
    UnionWorkload,
    given_invariants,
    parse_workload,
)


@st.composite
def problems(draw, weighted=None):
    """A product strategy of full or lower rank, and a workload that it answers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = draw(st.booleans()) if weighted is None else weighted
    factors, asked = [], []
    for i in range(draw(st.integers(2, 3))):
        n = draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["regular", "tall", "no total", "low rank with total"]))
        matrix = rng.standard_normal((n, n)) + 2 * np.eye(n)
        if kind == "tall" and not weights:
            matrix = np.vstack([matrix, rng.standard_normal((2, n))])
        if kind == "no total" and n > 1:
            matrix = matrix[: n - 1]
        if kind == "low rank with total" and n > 1:
            matrix = np.vstack([np.ones(n), matrix[: n - 2]])
        factors.append(Strategy(f"factor {i}", matrix))
        asked.append([rng.standard_normal((2, len(matrix))) @ matrix for _ in range(2)])
    rows = math.prod(one.shape[0] for one in factors)
    strategy = ProductStrategy("s", factors, weights=rng.uniform(0.5, 2, rows) if weights else None)
    parts = [
        KroneckerWorkload([DenseWorkload(pair[k], name="a") for pair in asked]) for k in range(2)
    ]
    return strategy, UnionWorkload(parts) if draw(st.booleans()) else parts[0]


@given(problems())
def test_variances_and_estimates_are_those_of_the_matrix(problem):
    strategy, workload = problem
    n = strategy.cells
    if n == 1:
        return
    own, centred = BesideStrategy(strategy), given_invariants(workload, RECORDS)
    R, A = RECORDS.centre(strategy.matrix), RECORDS.centre(workload.to_dense())
    inverse = np.linalg.pinv(R, rcond=1e-10)
    expected = ((A @ inverse) ** 2).sum(axis=1)
    size = ((workload.to_dense() @ np.linalg.pinv(strategy.matrix, 1e-11)) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(own.variances(centred), expected, rtol=1e-6, atol=1e-9 * size)
    for power in (1, 2, math.inf):
        assert own.variance_norm(centred, power) == pytest.approx(
            np.linalg.norm(expected, power), rel=1e-6, abs=1e-8 * size
        )
    y = np.random.default_rng(1).standard_normal((strategy.shape[0], 2))
    scale = np.abs(inverse).max() + 1
    np.testing.assert_allclose(own.estimate(y), inverse @ y, atol=1e-7 * scale)
    np.testing.assert_allclose(own.estimate(y[:, 0]), inverse @ y[:, 0], atol=1e-7 * scale)
    x = np.random.default_rng(2).poisson(3, n).astype(float)
    np.testing.assert_allclose(own.measure(x), R @ x, atol=1e-9)
    np.testing.assert_allclose(own.matrix, R, atol=1e-12)
    # without noise the answers are exact but for the total
    answers = own.answer(centred, own.measure(x))
    np.testing.assert_allclose(answers, A @ x, atol=1e-6 * np.abs(A).max() * x.sum() * scale)


@given(problems(), st.sampled_from(["l1", "l2"]))
def test_sensitivities_are_never_below_those_of_the_matrix(problem, norm):
    strategy, _ = problem
    if strategy.cells == 1:
        return
    columns = RECORDS.centre(strategy.matrix).T
    exact = pdist(columns, "cityblock" if norm == "l1" else "euclidean").max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("pmldesign.strategies.structured"), "WRITTEN_CELLS", 0)
        own = BesideStrategy(strategy)
        found = own.sensitivity_under(Neighbours.REPLACE, norm)
        profile = own.distance_profile(norm)
    plain = strategy.sensitivity_under(Neighbours.ADD_REMOVE, norm)
    assert exact * (1 - 1e-12) <= found + 1e-12 * plain
    assert found <= 2 * plain * (1 + 1e-9)
    if norm == "l2":
        assert found**2 <= exact**2 + 1e-9 * plain**2
    assert profile.distances.max() == found
    assert profile.counts.sum() == strategy.cells - 1
    largest = np.linalg.norm(columns, ord=1 if norm == "l1" else 2, axis=1).max()
    assert own.sensitivity_under(Neighbours.ADD_REMOVE, norm) == pytest.approx(largest)


def test_a_query_on_the_total_is_answered_exactly():
    workload = KroneckerWorkload([DenseWorkload(np.ones((1, n)), name="total") for n in (3, 4)])
    own = BesideStrategy(
        ProductStrategy("s", [Strategy("f", np.tril(np.ones((n, n)))) for n in (3, 4)])
    )
    assert own.variances(given_invariants(workload, RECORDS)) == [0.0]
    assert own.variance_norm(given_invariants(workload, RECORDS), 1) == 0.0


def test_what_the_product_cannot_answer_is_refused():
    strategy = ProductStrategy("s", [Strategy("f", np.eye(3)[:2]), Strategy("f", np.eye(3))])
    workload = KroneckerWorkload([DenseWorkload(np.eye(3), name="all")] * 2)
    with pytest.raises(InvalidInputError, match="cannot answer"):
        BesideStrategy(strategy).variances(given_invariants(workload, RECORDS))


@given(problems())
def test_a_workload_of_another_form_is_answered_as_a_matrix(problem):
    strategy, workload = problem
    A = workload.to_dense()
    columns = RECORDS.centre(strategy.matrix)
    if strategy.cells == 1 or not np.abs(columns).max() > 1e-9:
        return
    written = given_invariants(DenseWorkload(A, name="matrix"), RECORDS)
    own = BesideStrategy(strategy)
    expected = ((RECORDS.centre(A) @ np.linalg.pinv(columns, rcond=1e-10)) ** 2).sum(axis=1)
    size = ((A @ np.linalg.pinv(strategy.matrix, 1e-11)) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(own.variances(written), expected, rtol=1e-6, atol=1e-9 * size)
    assert own.variance_norm(written, 1) == pytest.approx(expected.sum(), rel=1e-6, abs=1e-8 * size)


@pytest.mark.parametrize("seed", range(30))
def test_products_of_any_rank_have_the_inverse_of_their_matrix(seed):
    rng = np.random.default_rng(seed)

    def factor(n):
        square = rng.standard_normal((n, n))
        centred = square - square.mean(axis=1, keepdims=True)
        rows = [np.ones((1, n)), np.eye(n), square[:-1], centred[:-1], square[[0, *range(n - 1)]]]
        return Strategy("factor", rows[rng.integers(5)])

    product = ProductStrategy("product", [factor(int(n)) for n in rng.integers(2, 5, 2)])
    beside = BesideStrategy(product)
    if np.abs(beside.matrix).max() < 1e-9:  # nothing but the total
        assert beside.rank == 0
        return
    expected = np.linalg.pinv(beside.matrix, rcond=1e-10)
    assert np.abs(beside.pseudo_inverse - expected).max() <= 1e-9 * np.abs(expected).max()
    assert beside.rank == np.linalg.matrix_rank(beside.matrix, tol=1e-9)


def test_variances_beside_the_total_take_no_vector_of_all_cells():
    """Of 2^30 cells, each measured once; a sum of k of them has variance k - k^2 / 2^30."""
    strategy = ProductStrategy("cells", [Strategy("cells", np.eye(64))] * 5)
    totals = [DenseWorkload(np.ones((1, 64)), name="total")] * 4
    asked = KroneckerWorkload([DenseWorkload(np.eye(64), name="cells"), *totals])
    variances = BesideStrategy(strategy).variances(given_invariants(asked, RECORDS))
    np.testing.assert_allclose(variances, 2.0**24 - 2.0**18, rtol=1e-12)


@pytest.mark.parametrize("name", ["prefix:9", "decay:9,0.8"])
@pytest.mark.parametrize("kind", ["identity", "workload", "square-root"])
def test_long_running_sums_beside_the_total_keep_their_structure(name, kind, monkeypatch):
    """They have no inverse of their own: a decomposition of 6,314 steps takes a minute."""
    for module in ("structured", "baselines.registry"):
        monkeypatch.setattr(import_module(f"pmldesign.strategies.{module}"), "WRITTEN_CELLS", 0)
    workload = parse_workload(name)
    strategy = baseline(kind, workload)
    R, A = RECORDS.centre(strategy.matrix), RECORDS.centre(workload.to_dense())
    inverse = np.linalg.pinv(R, rcond=1e-10)
    expected, y = ((A @ inverse) ** 2).sum(axis=1), np.random.default_rng(1).standard_normal(len(R))
    monkeypatch.setattr("pmldesign.strategies.base.inverted", None)
    own = strategy.beside(RECORDS)
    np.testing.assert_allclose(
        own.variances(given_invariants(workload, RECORDS)), expected, atol=1e-9
    )
    np.testing.assert_allclose(own.estimate(y), inverse @ y, atol=1e-9)
    for norm, metric in (("l1", "cityblock"), ("l2", "euclidean")):
        exact = pdist(R.T, metric).max()
        assert own.sensitivity_under(Neighbours.REPLACE, norm) >= exact * (1 - 1e-12)
