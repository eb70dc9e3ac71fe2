"""Strategies of blocks, against the dense strategy of the matrix written out by np.kron."""

import re
from functools import reduce

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from same_strategy import assert_answers, assert_same_strategy, well_conditioned

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import BesideStrategy, BlockStrategy, Strategy, streaming_form, structured
from pmldesign.workloads import (
    RECORDS,
    DenseWorkload,
    KroneckerWorkload,
    UnionWorkload,
    given_invariants,
    parse_workload,
)
from pmldesign.workloads import base as workload_base


def written_out(strategy):
    """R by its definition: block by block, combination by combination."""
    rows = []
    for number, block in enumerate(strategy.blocks):
        for b in np.argwhere(strategy.combinations == number):
            vectors = [V[:, k][None, :] for V, k in zip(strategy.bases, b, strict=True)]
            vectors.insert(strategy.index, block.matrix)
            rows.append(reduce(np.kron, vectors))
    return Strategy("dense", np.vstack(rows))


def symmetric_basis(cells):
    """The constant, and any basis of what sums to zero."""
    return np.linalg.qr(np.hstack([np.ones((cells, 1)), np.eye(cells)[:, 1:]]))[0]


@st.composite
def strategies(draw, symmetric=None):
    """Blocks of all shapes, also redundant ones, and combinations that are not measured."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    index, cells = draw(st.integers(0, len(sizes))), draw(st.integers(1, 4))
    if symmetric is None:
        symmetric = draw(st.booleans())
    if symmetric:
        bases = [symmetric_basis(size) for size in sizes]
        pattern = rng.integers(-1, 3, size=[2] * len(sizes))
        combinations = pattern[np.ix_(*[(np.arange(size) > 0).astype(int) for size in sizes])]
    else:
        bases = [np.linalg.qr(rng.normal(size=(size, size)))[0] for size in sizes]
        combinations = rng.integers(-1, 3, size=sizes)
    used = np.unique(combinations[combinations >= 0])
    assume(used.size)
    numbers = np.full(4, -1)
    numbers[used] = np.arange(used.size)
    made = []
    for number in range(used.size):
        matrix = well_conditioned(rng, draw(st.integers(1, cells + 1)), cells)
        if draw(st.booleans()):
            matrix = np.vstack([matrix, matrix[:1]])  # a row measured twice
        made.append(Strategy(f"block {number}", matrix))
    return BlockStrategy("blocks", index, bases, numbers[combinations], made), rng


@given(strategies())
def test_it_is_the_strategy_of_its_matrix(given_strategy):
    strategy, rng = given_strategy
    dense = written_out(strategy)
    assert_same_strategy(strategy, dense, rng)
    scaled = strategy.normalised()
    assert scaled.sensitivity == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(scaled.matrix, dense.matrix / dense.sensitivity, atol=1e-12)


def answered(strategy, rng, count):
    """A product of queries that the strategy answers, None if there is none but zero."""
    kept = strategy.combinations >= 0
    free = np.vstack([block.matrix for block in strategy.blocks])
    if kept.all() and all(block.rank == block.cells for block in strategy.blocks):
        others = [rng.normal(size=(count, len(V))) for V in strategy.bases]
    else:
        # one combination alone, and what its block measures
        b = np.argwhere(kept)[rng.integers(kept.sum())]
        free = strategy.blocks[strategy.combinations[tuple(b)]].matrix
        others = [V[:, [k]].T for V, k in zip(strategy.bases, b, strict=True)]
    factors = [DenseWorkload(other) for other in others]
    factors.insert(strategy.index, DenseWorkload(rng.normal(size=(count, len(free))) @ free))
    return KroneckerWorkload(factors)


@given(strategies())
def test_variances_on_products_and_unions_and_whatever_does_not_factor(given_strategy):
    strategy, rng = given_strategy
    dense = written_out(strategy)
    products = [answered(strategy, rng, 2 + s) for s in range(2)]
    any_rows = DenseWorkload(rng.normal(size=(3, dense.shape[0])) @ dense.matrix)
    for workload in (*products, UnionWorkload(products), any_rows):
        assert_answers(strategy, dense, workload, rng)


@given(strategies())
def test_it_refuses_what_the_dense_strategy_refuses(given_strategy):
    strategy, rng = given_strategy
    dense = written_out(strategy)
    asked = [DenseWorkload(rng.normal(size=(2, size))) for size in strategy.sizes]
    for workload in (KroneckerWorkload(asked), answered(strategy, rng, 1)):
        try:
            dense.require_answers(workload)
        except InvalidInputError as error:
            with pytest.raises(InvalidInputError, match="lies outside what the strategy measures"):
                strategy.require_answers(workload)
            first = str(error).split("cannot answer ")[1].split(":")[0]
            with pytest.raises(InvalidInputError, match=re.escape(first)):
                strategy.variances(workload)
        else:
            strategy.require_answers(workload)


@given(strategies(), st.booleans())
def test_beyond_the_cells_that_are_written_out_distances_are_bounds(given_strategy, profile):
    strategy, _ = given_strategy
    dense = written_out(strategy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structured, "WRITTEN_CELLS", 0)
        for norm in ("l1", "l2"):
            exact = dense.sensitivity_under(Neighbours.REPLACE, norm)
            found = strategy.sensitivity_under(Neighbours.REPLACE, norm)
            assert found >= exact * (1 - 1e-12)
            assert found <= 2 * dense.sensitivity_under(Neighbours.ADD_REMOVE, norm) * (1 + 1e-12)
            if profile:
                own = strategy.distance_profile(norm)
                assert own.distances.tolist() == [found]
                assert own.counts.tolist() == [strategy.cells - 1]
    assert strategy.distance_profile("l2") is None


@given(strategies(symmetric=True))
def test_l2_distances_of_symmetric_attributes_are_exact(given_strategy):
    strategy, _ = given_strategy
    exact = written_out(strategy).sensitivity_under(Neighbours.REPLACE, "l2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structured, "WRITTEN_CELLS", 0)
        found = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
    assert found == pytest.approx(exact, rel=1e-5, abs=1e-5)


@given(strategies())
def test_where_the_total_is_public(given_strategy):
    strategy, rng = given_strategy
    workload = answered(strategy, rng, 2)
    R, A = RECORDS.centre(written_out(strategy).matrix), RECORDS.centre(workload.to_dense())
    assume(np.abs(R).max() > 1e-9)
    own, asked = BesideStrategy(strategy), given_invariants(workload, RECORDS)
    inverse = np.linalg.pinv(R, rcond=1e-9)
    size = strategy.variances(workload).max()
    expected = ((A @ inverse) ** 2).sum(axis=1)
    np.testing.assert_allclose(own.variances(asked), expected, rtol=1e-6, atol=1e-8 * size)
    y = rng.normal(size=(strategy.shape[0], 2))
    scale = 1e-7 * (1 + np.abs(inverse).max())
    np.testing.assert_allclose(own.estimate(y), inverse @ y, atol=scale)
    np.testing.assert_allclose(own.estimate(y[:, 0]), inverse @ y[:, 0], atol=scale)
    np.testing.assert_allclose(own.answer(asked, y[:, 0]), A @ inverse @ y[:, 0], atol=9 * scale)
    x = rng.normal(size=strategy.cells)
    np.testing.assert_allclose(own.measure(x), R @ x, atol=1e-9)


def small():
    """Measures the mean of attribute 1 by one block and its contrasts by another."""
    made = [Strategy("mean", np.tril(np.ones((3, 3)))), Strategy("rest", np.eye(3))]
    return BlockStrategy("s", 0, [symmetric_basis(4)], [0, 1, 1, 1], made)


def test_streaming_is_lower_triangular_with_the_same_gram_matrix():
    strategy = small()
    stream = streaming_form(strategy)
    assert np.array_equal(stream.matrix, np.tril(stream.matrix))
    np.testing.assert_allclose(stream.matrix.T @ stream.matrix, strategy.gram, atol=1e-10)


def test_what_is_not_measured_is_refused_and_named():
    full = small()
    strategy = BlockStrategy("s", 0, full.bases, [0, -1, -1, -1], full.blocks[:1])
    strategy.require_answers(parse_workload("prefix:3*total:4"))
    union = parse_workload("prefix:3*total:4+histogram:3*histogram:4")
    words = "cannot answer row 3 .histogram:3.histogram:4: .*: it lies outside what"
    for ask in (strategy.require_answers, strategy.variances, strategy.reconstruction):
        with pytest.raises(InvalidInputError, match=words):
            ask(union)
        with pytest.raises(InvalidInputError, match="cannot answer"):
            ask(parse_workload("prefix:12"))
    with pytest.raises(InvalidInputError, match="must have the same cells"):
        strategy.require_answers(parse_workload("prefix:3*total:5"))


def test_its_arguments_are_its_own():
    bases, combinations = [symmetric_basis(2)], np.zeros(2, dtype=int)
    strategy = BlockStrategy("s", 1, bases, combinations, [Strategy("a", np.eye(3))])
    bases[0][:] = 7
    combinations[:] = 3
    np.testing.assert_allclose(strategy.gram, np.eye(6), atol=1e-12)


def test_what_is_refused():
    block, basis = Strategy("a", np.eye(3)), symmetric_basis(2)
    other = Strategy("b", np.eye(2))
    for arguments, words in (
        ((0, [np.ones((2, 2))], [0, 0], [block]), "square orthonormal matrix"),
        ((0, [basis[:1]], [0, 0], [block]), "square orthonormal matrix"),
        ((0, [np.full((2, 2), np.nan)], [0, 0], [block]), "must be finite"),
        ((2, [basis], [0, 0], [block]), "an attribute from 0 to 1, got 2"),
        ((-1, [basis], [0, 0], [block]), "an attribute from 0 to 1, got -1"),
        ((0, [basis], [0, 1], [block, other]), "the same number of cells"),
        ((0, [basis], [0, 0], [block, block]), "one of its 2 blocks, all of them used"),
        ((0, [basis], [0, 1], [block]), "one of its 1 blocks"),
        ((0, [basis], [0, -2], [block]), "or -1"),
        ((0, [basis], [0.0, 0.0], [block]), "or -1"),
        ((0, [basis], [0, 0, 0], [block]), "2 of them"),
        ((0, [basis], [-1, -1], []), "one of its 0 blocks"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            BlockStrategy("s", *arguments)


def test_what_is_too_large_to_be_written_out(monkeypatch):
    product, other = parse_workload("prefix:3*histogram:4"), parse_workload("prefix:12")
    expected = written_out(small()).variances(product)
    monkeypatch.setattr(workload_base, "MAX_ENTRIES", 40)
    large = small()
    np.testing.assert_allclose(large.variances(product), expected, rtol=1e-12)
    assert large.sensitivity == pytest.approx(written_out(small()).sensitivity)
    for ask in (lambda: large.matrix, lambda: large.pseudo_inverse, lambda: large.variances(other)):
        with pytest.raises(InvalidInputError, match="ever written out"):
            ask()
