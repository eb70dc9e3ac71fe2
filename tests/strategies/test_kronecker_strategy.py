"""Products of strategies, against the dense strategy of the matrix written out by np.kron."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from same_strategy import assert_answers, assert_same_strategy, well_conditioned

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import (
    ProductStrategy,
    Strategy,
    TablesStrategy,
    product_strategy,
    streaming_form,
)
from pmldesign.workloads import (
    DenseWorkload,
    KroneckerWorkload,
    TablesWorkload,
    UnionWorkload,
    parse_workload,
)
from pmldesign.workloads import base as workload_base


def written_out(strategy):
    """R by its definition."""
    whole = reduce(np.kron, [factor.matrix for factor in strategy.factors])
    return Strategy(
        "dense", whole if strategy.weights is None else np.sqrt(strategy.weights)[:, None] * whole
    )


def queries(rng, factor, count):
    """Queries that the factor answers: combinations of its rows."""
    return DenseWorkload(rng.normal(size=(count, factor.shape[0])) @ factor.matrix)


@st.composite
def strategies(draw):
    """Wide, square, tall and rank-deficient factors; with weights only those of full row rank."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weighted = draw(st.booleans())
    factors = []
    for number in range(draw(st.integers(1, 3))):
        cells = draw(st.integers(1, 4))
        rows = draw(st.integers(1, cells if weighted else cells + 2))
        matrix = well_conditioned(rng, rows, cells)
        if not weighted and draw(st.booleans()):
            matrix = np.vstack([matrix, matrix[:1]])  # a row measured twice
        factors.append(Strategy(f"factor {number}", matrix))
    count = int(np.prod([factor.shape[0] for factor in factors]))
    weights = rng.uniform(0.1, 10, size=count) if weighted else None
    return ProductStrategy("product", factors, weights=weights), rng


@given(strategies())
def test_it_is_the_strategy_of_its_matrix(given_strategy):
    strategy, rng = given_strategy
    dense = written_out(strategy)
    assert_same_strategy(strategy, dense, rng)


@given(strategies())
def test_variances_on_products_and_unions_and_whatever_does_not_factor(given_strategy):
    strategy, rng = given_strategy
    dense = written_out(strategy)
    parts = [[queries(rng, one, 2 + s) for one in strategy.factors] for s in range(2)]
    products = [part[0] if len(part) == 1 else KroneckerWorkload(part) for part in parts]
    for workload in (*products, UnionWorkload(products), queries(rng, dense, 3)):
        assert_answers(strategy, dense, workload, rng)


@given(strategies())
def test_normalised_has_sensitivity_one_and_is_a_multiple(given_strategy):
    strategy, _ = given_strategy
    scaled = strategy.normalised()
    assert scaled.sensitivity == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(
        scaled.matrix * strategy.sensitivity, strategy.matrix, atol=1e-12 * strategy.sensitivity
    )


@given(st.booleans(), st.integers(0, 2**32 - 1))
def test_streaming_is_lower_triangular_with_the_same_gram_matrix(weighted, seed):
    rng = np.random.default_rng(seed)
    sizes = [(3, 3), (2, 2)] if weighted else [(4, 3), (2, 2)]
    factors = [Strategy("f", well_conditioned(rng, *size)) for size in sizes]
    weights = rng.uniform(0.5, 2, size=6) if weighted else None
    strategy = ProductStrategy("product", factors, weights=weights)
    stream = streaming_form(strategy)
    assert stream.shape == (6, 6)
    assert np.array_equal(stream.matrix, np.tril(stream.matrix))
    assert (np.diag(stream.matrix) > 0).all()
    np.testing.assert_allclose(stream.matrix.T @ stream.matrix, strategy.gram, atol=1e-10)


def test_streaming_needs_full_rank():
    strategy = product_strategy([Strategy("a", np.eye(2)), Strategy("b", np.ones((1, 3)))])
    with pytest.raises(InvalidInputError, match="streaming form needs rank"):
        streaming_form(strategy)


def test_a_weighted_product_and_marginals_may_be_factors():
    # neither is written out as a matrix: they measure along their own axes, column by column
    rng = np.random.default_rng(0)
    inner = ProductStrategy(
        "inner",
        [Strategy("a", well_conditioned(rng, 2, 3)), Strategy("b", well_conditioned(rng, 2, 2))],
        weights=np.array([1.0, 2.0, 0.5, 3.0]),
    )
    tables = TablesStrategy("tables", [2, 3], [(), (0,), (1,), (0, 1)], [1.0, 2.0, 0.5, 3.0])
    strategy = product_strategy([inner, tables, Strategy("c", well_conditioned(rng, 3, 2))])
    assert strategy.sizes == (6, 6, 2)
    dense = written_out(strategy)
    x, y = rng.normal(size=dense.cells), rng.normal(size=dense.shape[0])
    np.testing.assert_allclose(strategy.measure(x), dense.matrix @ x, atol=1e-10)
    np.testing.assert_allclose(strategy.estimate(y), dense.pseudo_inverse @ y, atol=1e-9)
    workload = KroneckerWorkload(
        [
            queries(rng, inner, 2),
            TablesWorkload([2, 3], [(0,), (0, 1)]),
            DenseWorkload(np.eye(2)),
        ]
    )
    np.testing.assert_allclose(strategy.variances(workload), dense.variances(workload), rtol=1e-8)
    assert strategy.normalised().sensitivity == pytest.approx(1.0, rel=1e-12)


def test_products_of_equal_weight_flatten_and_weighted_ones_do_not():
    a, b = Strategy("a", np.eye(2)), Strategy("b", np.eye(3))
    flat = ProductStrategy("outer", [a, ProductStrategy("inner", [b, a])])
    assert flat.factors == (a, b, a)
    weighted = ProductStrategy("inner", [b, a], weights=np.arange(1.0, 7.0))
    assert ProductStrategy("outer", [a, weighted]).factors == (a, weighted)


def test_the_weights_are_its_own():
    weights = np.arange(1.0, 5.0)
    strategy = ProductStrategy("s", [Strategy("a", np.eye(4))], weights=weights)
    weights[0] = 100.0
    assert strategy.sensitivity == pytest.approx(2.0, rel=1e-14)
    assert not strategy.weights.flags.writeable


def test_what_is_refused():
    full, dependent = Strategy("a", np.eye(2)), Strategy("b", np.ones((2, 2)))
    with pytest.raises(InvalidInputError, match="at least one strategy, got none"):
        ProductStrategy("s", [])
    for weights, words in (
        (np.ones(3), r"each of the 4 measurements, got shape \(3,\)"),
        (np.ones((4, 1)), r"got shape \(4, 1\)"),
        ([1, 1, 0.0, 1], "weight of measurement 2 must be positive and finite, got 0"),
        ([1, -1.0, 1, 1], "weight of measurement 1 must be positive"),
        ([1, 1, 1, np.inf], "weight of measurement 3 must be positive and finite"),
        ([1, 1, 1, 1j], "must be real numbers"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            ProductStrategy("s", [full, full], weights=weights)
    with pytest.raises(InvalidInputError, match="depend on each other cannot be weighted"):
        ProductStrategy("s", [full, dependent], weights=np.ones(4))


def test_weighted_products_that_are_too_large_are_flattened(monkeypatch):
    """Against R written out by np.kron, and a union that is the first factor of a product."""
    monkeypatch.setattr("pmldesign.strategies.kronecker.MAX_ENTRIES", 35)
    rng = np.random.default_rng(5)
    first, second, third = (Strategy("s", rng.normal(size=(n, n))) for n in (2, 3, 2))
    weights, outer = rng.uniform(0.5, 2, 6), rng.uniform(0.5, 2, 12)
    inner = ProductStrategy("inner", [first, second], weights=weights)
    whole = np.kron(np.sqrt(weights)[:, None] * np.kron(first.matrix, second.matrix), third.matrix)
    strategy = product_strategy([inner, third])
    assert strategy.sizes == (2, 3, 2)
    np.testing.assert_allclose(strategy.matrix, whole)
    again = ProductStrategy("again", [inner, third], weights=outer)
    np.testing.assert_allclose(again.matrix, np.sqrt(outer)[:, None] * whole)
    union = parse_workload("prefix:2*total:3+histogram:2*histogram:3")
    for last in ("prefix:2", "total:2"):
        workload = KroneckerWorkload([union, parse_workload(last)])
        assert len(strategy.products(workload)) == 2
        L = workload.to_dense() @ np.linalg.inv(whole)
        np.testing.assert_allclose(strategy.variances(workload), (L**2).sum(axis=1))
    assert strategy.sensitivity == pytest.approx(np.linalg.norm(whole, axis=0).max(), rel=1e-12)


def test_what_a_factor_does_not_measure_is_refused():
    strategy = product_strategy([Strategy("sum", np.ones((1, 2))), Strategy("all", np.eye(3))])
    strategy.require_answers(parse_workload("total:2*prefix:3"))
    union = parse_workload("total:2*prefix:3+histogram:2*total:3")
    for ask in (strategy.require_answers, strategy.variances, strategy.reconstruction):
        for workload in (parse_workload("histogram:2*total:3"), union, parse_workload("prefix:6")):
            with pytest.raises(InvalidInputError, match="cannot answer"):
                ask(workload)
    with pytest.raises(InvalidInputError, match="must have the same cells"):
        strategy.require_answers(parse_workload("total:2*prefix:4"))


def test_what_is_too_large_to_be_written_out(monkeypatch):
    factors = [Strategy("a", np.tril(np.ones((4, 4)))), Strategy("b", np.eye(3))]
    strategy = product_strategy(factors)
    product, other = parse_workload("prefix:4*histogram:3"), parse_workload("prefix:12")
    expected = Strategy("dense", strategy.matrix).variances(product)
    monkeypatch.setattr(workload_base, "MAX_ENTRIES", 40)
    large = product_strategy(factors)
    np.testing.assert_allclose(large.variances(product), expected, rtol=1e-12)
    assert large.sensitivity == pytest.approx(2.0)
    refused = (
        lambda: large.matrix,
        lambda: large.pseudo_inverse,
        lambda: large.variances(other),
        lambda: large.sensitivity_under(Neighbours.REPLACE, "l2"),
    )
    for ask in refused:
        with pytest.raises(InvalidInputError, match="ever written out"):
            ask()
