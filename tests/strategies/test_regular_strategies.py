"""Strategies with an inverse Gram matrix of their own, against the matrices that they stand for."""

import numpy as np
import pytest
from same_strategy import assert_same_strategy

from pmldesign.factorization import answer
from pmldesign.privacy import Neighbours
from pmldesign.strategies import (
    QueriesStrategy,
    RegularStrategy,
    Strategy,
    haar_wavelet,
    identity,
    tree,
    workload_strategy,
)
from pmldesign.workloads import RECORDS, DenseWorkload, as_workload

SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 16, 21]
BUILD = {
    "tree": tree,
    "tree:3": lambda cells: tree(cells, branching=3),
    "tree of one level": lambda cells: tree(cells, branching=10**20),
    "haar": haar_wavelet,
    "identity": identity,
    "prefix": lambda cells: workload_strategy(as_workload(f"prefix:{cells}")),
    "all-range": lambda cells: workload_strategy(as_workload(f"all-range:{cells}")),
}


def both(kind, cells):
    strategy = BUILD[kind](cells)
    assert isinstance(strategy, RegularStrategy)
    return strategy, Strategy(strategy.name, np.array(strategy.matrix))


@pytest.mark.parametrize("cells", SIZES)
@pytest.mark.parametrize("kind", BUILD)
def test_the_inverse_gram_matrix_is_one(kind, cells):
    strategy, _ = both(kind, cells)
    R = strategy.matrix
    np.testing.assert_allclose(strategy.inverse_gram @ (R.T @ R), np.eye(cells), atol=1e-10)
    np.testing.assert_allclose(strategy.inverse_gram, strategy.inverse_gram.T, atol=1e-12)


@pytest.mark.parametrize("cells", SIZES)
@pytest.mark.parametrize("kind", BUILD)
def test_it_is_the_strategy_of_its_matrix(kind, cells):
    strategy, dense = both(kind, cells)
    assert_same_strategy(strategy, dense, np.random.default_rng(cells))


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("queries", ["prefix:{}", "all-range:{}", "random-range:9,{},seed=1"])
@pytest.mark.parametrize("cells", [2, 3, 8, 11])
@pytest.mark.parametrize("kind", BUILD)
def test_variances_are_those_of_the_matrix(kind, cells, queries, relation):
    strategy, dense = both(kind, cells)
    workload = as_workload(queries.format(cells))
    variances = answer(strategy, workload, relation).variances
    expected = answer(dense, workload, relation).variances
    np.testing.assert_allclose(variances, expected, atol=1e-10)


@pytest.mark.parametrize("kind", BUILD)
def test_without_the_total_it_is_the_centred_matrix(kind):
    strategy, dense = both(kind, 6)
    centred, expected = strategy.beside(RECORDS), dense.beside(RECORDS)
    np.testing.assert_allclose(centred.matrix, expected.matrix, atol=1e-12)
    for one in (centred, expected):
        projection = one.pseudo_inverse @ one.matrix
        np.testing.assert_allclose(projection, np.eye(6) - 1 / 6, atol=1e-10)
    assert centred.beside(RECORDS) is centred
    assert centred.rank == expected.rank == 5
    for norm in ("l1", "l2"):
        assert centred.sensitivity_under("replace", norm) == pytest.approx(
            expected.sensitivity_under("replace", norm), rel=1e-12
        )
    with pytest.raises(ValueError, match="cannot answer row 1"):
        centred.require_answers(DenseWorkload([[1, -1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]))


def test_queries_of_lower_rank_or_badly_conditioned_keep_their_pseudo_inverse():
    for text in ("total:5", "parity:3,1"):
        assert type(workload_strategy(as_workload(text))) is Strategy
    # the Gram matrix has condition number 1e12: half of the digits would be lost
    assert type(workload_strategy(DenseWorkload(np.diag([1e-6, 1.0])))) is Strategy
    strategy = workload_strategy(as_workload("prefix:9"))
    assert isinstance(strategy, QueriesStrategy)
    assert strategy.variances(as_workload("prefix:9")) == pytest.approx(np.ones(9), rel=1e-12)


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_queries_with_other_entries_than_0_and_1(norm, relation):
    A = np.random.default_rng(3).normal(size=(7, 4))
    strategy = workload_strategy(DenseWorkload(A))
    assert isinstance(strategy, QueriesStrategy)
    assert strategy.sensitivity_under(relation, norm) == pytest.approx(
        Strategy("A", A).sensitivity_under(relation, norm), rel=1e-13
    )


def test_the_queries_are_written_out_only_when_asked_for():
    strategy = workload_strategy(as_workload("all-range:900"))
    assert strategy.shape == (405450, 900)
    # the middle cell is in 450 * 451 ranges
    assert strategy.sensitivity_under("add-remove", "l1") == 450 * 451
    distances, cell_of, exponent = strategy.pair_distances("l1")
    i, j = np.triu_indices(900, 1)  # (i + 1)(900 - j) ranges hold both cells
    apart = (i + 1) * (900 - i) + (j + 1) * (900 - j) - 2 * (i + 1) * (900 - j)
    np.testing.assert_array_equal(np.ldexp(distances, exponent)[i, j], apart)
    assert cell_of is None
    assert "matrix" not in vars(strategy)
