"""Weights of queries: diag(c) A in every form equals the matrix with scaled rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmldesign as pml
from pmldesign.designs import dispatch
from pmldesign.strategies import StreamStrategy
from pmldesign.workloads import WeightedWorkload

GAP = 1e-6

TEXTS = [
    "prefix:9",
    "all-range:5",
    "decay:6,0.8",
    "haar:8",
    "parity:4,2",
    "census-p12",
    "prefix:4*histogram:3",
    "marginals:2,3,upto=2",
    "marginals:2,prefix4,ways=1",
    "prefix:6+total:6",
    "prefix:3*total:4+total:3*histogram:4",
]


def weights_of(queries, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 9.0, queries)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("form", ["one", "each", "product"])
def test_operators_are_those_of_the_scaled_matrix(text, form):
    plain = pml.workload(text)
    m, n = plain.shape
    weights = weights_of(m)
    if form == "one":
        weights = np.full(m, 2.5)
    if form == "product" and len(plain.factors) > 1:
        weights = np.kron(*(weights_of(factor.shape[0]) for factor in plain.factors))
    queries = pml.workload(text, weights=2.5 if form == "one" else weights)
    matrix = weights[:, None] * plain.to_dense()
    rng = np.random.default_rng(1)
    u, x, y, half = rng.random(m), rng.normal(size=n), rng.normal(size=m), rng.normal(size=(n, 3))
    np.testing.assert_allclose(queries.to_dense(), matrix, rtol=1e-14)
    np.testing.assert_allclose(queries.gram(u), matrix.T @ (u[:, None] * matrix), rtol=1e-12)
    np.testing.assert_allclose(queries.matvec(x), matrix @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(queries.rmatvec(y), matrix.T @ y, rtol=1e-12, atol=1e-11)
    norms = np.sum((matrix @ half) ** 2, axis=1)
    np.testing.assert_allclose(queries.row_norms(half), norms, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(queries.row_quadratic(half @ half.T), norms, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(queries.column_squares(), (matrix**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(queries.row_sizes(), np.abs(matrix).max(axis=1), rtol=1e-14)
    merged = queries.merge()
    placed = merged.operator.to_dense()[merged.row_of][:, merged.column_of]
    np.testing.assert_allclose(placed, matrix, rtol=1e-14)


def test_structure_is_kept():
    assert len(pml.workload("2*prefix:4*total:3").factors) == 2
    product = np.kron([1, 2, 3, 4], [1, 5, 9])
    assert len(pml.workload("prefix:4*histogram:3", weights=product).factors) == 2
    assert len(pml.workload("prefix:4*histogram:3", weights=weights_of(12)).factors) == 1
    tables = pml.workload("2*histogram:6*total:5+3*total:6*histogram:5")
    assert tables.counts
    assert tables.weights.tolist() == [2, 3]
    large = pml.workload("2*prefix:60000*total:60000+total:60000*prefix:60000")
    assert (large.crossed, large.weights.tolist()) == (True, [2, 1])
    assert pml.workload("2*prefix:6+histogram:6").weights.tolist() == [2, 1]
    assert pml.workload("1*prefix:4").unweighted is None


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 3.5, math.inf])
@pytest.mark.parametrize("weight", [1e-3, 1e-1, 30, 1e3])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_weighted_union_equals_the_matrix_with_scaled_rows(p, weight, neighbours):
    queries = pml.workload(f"prefix:12+{weight:g}*histogram:12")
    matrix = np.vstack([np.tril(np.ones((12, 12))), weight * np.eye(12)])
    structured = pml.factorize(queries, p=p, neighbours=neighbours, rel_gap=GAP)
    dense = pml.factorize(matrix, p=p, neighbours=neighbours, rel_gap=GAP)
    assert structured.certificate.gap <= GAP
    assert structured.certificate.upper == pytest.approx(dense.certificate.upper, rel=2 * GAP)


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, math.inf])
@pytest.mark.parametrize("weight", [1e-3, 1, 1e3])
def test_blocks_of_a_large_union_equal_the_matrix(p, weight, monkeypatch):
    text = f"prefix:8*total:4+{weight:g}*total:8*histogram:4"
    queries = pml.workload(text)
    dense = pml.factorize(queries.to_dense(), p=p, rel_gap=GAP)
    monkeypatch.setattr(dispatch, "DENSE_CELLS", 4)
    blocks = pml.factorize(queries, p=p, rel_gap=GAP)
    assert type(blocks.strategy).__name__ == "BlockStrategy"
    assert blocks.certificate.gap <= 2 * GAP
    assert blocks.certificate.upper == pytest.approx(dense.certificate.upper, rel=3 * GAP)
    deviations = np.sqrt(blocks.strategy.variances(queries))
    rows = np.linalg.norm(
        queries.to_dense() @ np.linalg.pinv(blocks.strategy.matrix, 1e-11), axis=1
    )
    np.testing.assert_allclose(deviations, rows, rtol=1e-8)


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, math.inf])
@pytest.mark.parametrize("weight", [1e-3, 1e3])
def test_tables_with_weights_have_bounds_around_those_of_the_matrix(p, weight, monkeypatch):
    text = f"prefix:5*total:6+{weight:g}*total:5*prefix:6+prefix:5*prefix:6"
    queries = pml.workload(text)
    dense = pml.factorize(queries.to_dense(), p=p, rel_gap=GAP)
    monkeypatch.setattr(dispatch, "DENSE_CELLS", 4)
    tables = pml.factorize(queries, p=p)
    assert type(tables.strategy).__name__ == "TablesStrategy"
    assert tables.certificate.lower <= dense.certificate.upper
    assert tables.certificate.upper >= dense.certificate.lower
    rows = np.linalg.norm(
        queries.to_dense() @ np.linalg.pinv(tables.strategy.matrix, 1e-11), axis=1
    )
    np.testing.assert_allclose(np.sqrt(tables.strategy.variances(queries)), rows, rtol=1e-7)


@pytest.mark.parametrize("p", [2, math.inf])
def test_weighted_running_sums_are_solved_as_a_stream(p, monkeypatch):
    weights = np.exp(0.04 * np.abs(np.arange(20) - 10))
    queries = pml.workload("prefix:20", weights=weights)
    dense = pml.factorize(queries.to_dense(), p=p, rel_gap=GAP)
    monkeypatch.setattr(dispatch, "STREAM_CELLS", 8)
    monkeypatch.setattr(dispatch, "PUBLIC_CELLS", 8)
    stream = pml.factorize(queries, p=p, rel_gap=GAP)
    assert isinstance(stream.strategy, StreamStrategy)
    assert stream.certificate.upper == pytest.approx(dense.certificate.upper, rel=3 * GAP)
    plain = stream.strategy.variances(pml.workload("prefix:20"))
    np.testing.assert_allclose(plain * weights**2, stream.strategy.variances(queries), rtol=1e-9)
    rough = pml.workload("prefix:20", weights=np.exp(np.random.default_rng(3).uniform(-2, 2, 20)))
    assert not isinstance(pml.factorize(rough, p=p).strategy, StreamStrategy)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([2.0, 3.0, math.inf]))
def test_random_weights_give_the_norm_of_the_scaled_matrix(seed, p):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (rng.integers(2, 7), rng.integers(2, 6))).astype(float)
    matrix[0, 0] = 1
    weights = np.exp(rng.uniform(-4, 4, len(matrix)))
    weighted = pml.factorize(pml.workload(matrix, weights=weights), p=p, rel_gap=1e-5)
    scaled = pml.factorize(weights[:, None] * matrix, p=p, rel_gap=1e-5)
    assert weighted.certificate.lower <= scaled.certificate.upper * (1 + 1e-12)
    assert scaled.certificate.lower <= weighted.certificate.upper * (1 + 1e-12)


def test_errors_with_and_without_weights():
    weights = weights_of(6)
    noisy = pml.mechanism(
        "tree", pml.workload("prefix:6", weights=weights), guarantee=pml.PureDP(1)
    )
    plain = pml.mechanism("tree", "prefix:6", guarantee=pml.PureDP(1))
    np.testing.assert_allclose(noisy.standard_deviations, weights * plain.standard_deviations)
    assert noisy.unweighted is not None
    np.testing.assert_allclose(noisy.unweighted.standard_deviations, plain.standard_deviations)
    assert plain.unweighted is None
    row = pml.compare(
        pml.workload("prefix:6", weights=weights), strategies=["tree"], neighbours="replace"
    ).rows[0]
    same = pml.compare("prefix:6", strategies=["tree"], neighbours="replace").rows[0]
    assert row.unweighted_max_std == pytest.approx(same.max_std)
    assert row.unweighted_rmse == pytest.approx(same.rmse)
    assert row.max_std != pytest.approx(same.max_std)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (np.ones(7), "one number for each of the 6 queries"),
        ([1, 1, 0, 1, 1, 1], "must be positive"),
        ([1, 1, math.nan, 1, 1, 1], "query 2"),
        ([1, 1, math.inf, 1, 1, 1], "query 2"),
        ("many", "must hold real numbers"),
    ],
)
def test_bad_weights_are_refused(weights, problem):
    with pytest.raises(pml.InvalidInputError, match=problem):
        pml.workload("prefix:6", weights=weights)


@pytest.mark.parametrize("text", ["2..5*prefix:6", "1e*prefix:6", "2x*prefix:6", "1e99*prefix:6"])
def test_bad_weights_in_the_text_are_refused(text):
    with pytest.raises(pml.InvalidInputError, match="weight"):
        pml.workload(text)


@pytest.mark.parametrize(
    "text", ["2*prefix:6", " 2 * prefix:6", "2.0*prefix:6", "0.2e1*prefix:6", "20e-1 *prefix:6"]
)
def test_a_weight_may_be_written_in_several_ways(text):
    queries = pml.workload(text)
    assert isinstance(queries, WeightedWorkload)
    np.testing.assert_array_equal(queries.to_dense(), 2 * np.tril(np.ones((6, 6))))
