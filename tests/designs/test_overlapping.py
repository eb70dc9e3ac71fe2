"""Queries on tables that overlap, designed and attacked by dense computation."""

import itertools
import math

import numpy as np
import pytest

from pmldesign.designs import DesignOptions, factorize, solve_joined
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import TableMatricesStrategy
from pmldesign.workloads import DenseWorkload, TablesWorkload, as_workload, given_invariants
from pmldesign_solvers.norm import SolverOptions, solve_norm
from pmldesign_solvers.operators import DenseOperator

RELATIONS = [Neighbours.ADD_REMOVE, Neighbours.REPLACE]
PAIRS = "marginals:prefix3^3,ways=1+at-most:3^3,ways=2"


def drawn(seed):
    """Queries on random sets of up to four attributes of one to three values."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, rng.integers(2, 5)).tolist()
    tables = []
    for _ in range(rng.integers(2, 6)):
        T = np.flatnonzero(rng.random(len(sizes)) < 0.5).tolist()
        cells = math.prod(sizes[i] for i in T)
        queries = DenseWorkload(rng.normal(size=(rng.integers(1, 4), cells)))
        tables.append({tuple(T): queries} if T else ())
    return TablesWorkload(sizes, tables, rng.uniform(0.5, 2, len(tables)))


def by_definition(workload):
    """A, query by query and cell by cell."""
    rows = []
    cells = [*itertools.product(*map(range, workload.domain))]
    for term in workload.terms:
        T = term.attributes
        inner = [*itertools.product(*(range(workload.domain[i]) for i in T))]
        places = [inner.index(tuple(cell[i] for i in T)) for cell in cells]
        rows.append(term.dense()[:, places])
    return np.vstack(rows)


@pytest.mark.parametrize("seed", range(8))
def test_the_workload_is_what_its_tables_ask(seed):
    workload = drawn(seed)
    A = by_definition(workload)
    rng = np.random.default_rng(seed)
    x, y, u = rng.normal(size=A.shape[1]), rng.normal(size=A.shape[0]), rng.random(A.shape[0])
    np.testing.assert_allclose(workload.to_dense(), A)
    np.testing.assert_allclose(workload.matvec(x), A @ x)
    np.testing.assert_allclose(workload.rmatvec(y), A.T @ y)
    np.testing.assert_allclose(workload.gram(u), A.T @ (u[:, None] * A), atol=1e-12)
    np.testing.assert_allclose(workload.column_squares(), (A**2).sum(axis=0))
    np.testing.assert_allclose(workload.row_sizes(), np.abs(A).max(axis=1))
    assert workload.longest_column() >= (A**2).sum(axis=0).max()
    apart = A[:, :, None] - A[:, None, :]
    assert workload.longest_difference() >= (apart**2).sum(axis=0).max()
    people = np.array([*itertools.product(*map(range, workload.domain))])
    counts = rng.integers(0, 3, len(people))
    answers = np.concatenate([*workload.of_records(np.repeat(people, counts, axis=0))])
    np.testing.assert_allclose(answers, A @ counts)


@pytest.mark.sweep
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
@pytest.mark.parametrize("seed", [0, 2, 4, 5, 7, PAIRS])
def test_bounds_and_lengths_hold(seed, p, neighbours):
    workload = as_workload(seed) if isinstance(seed, str) else drawn(seed)
    A, replaced = by_definition(workload), neighbours is Neighbours.REPLACE
    C = A - A.mean(axis=1, keepdims=True) if replaced else A
    if np.abs(C).max() < 1e-12:
        return
    design = solve_joined(workload, p, DesignOptions(neighbours=neighbours, rel_gap=1e-3))
    relation = "replace" if replaced else "add-remove"
    options = SolverOptions(rel_gap=1e-3)
    exact = solve_norm(DenseOperator(A), p, relation=relation, options=options).certificate
    assert design.certificate.lower <= exact.upper
    assert design.certificate.upper <= exact.upper * (1.35 if replaced else 1.1)
    R = design.strategy.matrix
    apart = [R - R[:, [j]] for j in range(R.shape[1])] if replaced else [R]
    farthest = max(np.linalg.norm(columns, axis=0).max() for columns in apart)
    assert design.strategy.sensitivity_under(neighbours, "l2") >= farthest * (1 - 1e-13)
    L = C @ np.linalg.pinv(R, 1e-11)
    left = L @ R - C
    left -= left.mean(axis=1, keepdims=True) if replaced else 0
    assert np.abs(left).max() <= 1e-6 * np.abs(A).max()
    norm = np.linalg.norm(np.linalg.norm(L, axis=1), p)
    assert norm * farthest <= design.certificate.upper * (1 + 1e-7)
    centred = given_invariants(workload, design.strategy.public)
    variances = design.strategy.variances(centred)
    np.testing.assert_allclose(variances, (L**2).sum(axis=1), rtol=1e-6, atol=1e-9)


def test_without_the_matrix_the_same_is_measured(monkeypatch):
    """Lengths, answers and histograms beyond the cells that are written out."""
    workload = drawn(4)
    rng = np.random.default_rng(0)
    for neighbours in RELATIONS:
        design = solve_joined(workload, 2.0, DesignOptions(neighbours=neighbours))
        written = design.strategy
        R, x = np.array(written.matrix), rng.normal(size=written.cells)
        large = TableMatricesStrategy(
            "large", written.sizes, written.subsets, written.matrices, public=written.public
        )
        monkeypatch.setattr(TableMatricesStrategy, "few", False)
        y = R @ x + rng.normal(size=len(R))
        np.testing.assert_allclose(large.measure(x), R @ x, atol=1e-12)
        np.testing.assert_allclose(large.estimate(y), np.linalg.pinv(R, 1e-9) @ y, atol=1e-5)
        asked = given_invariants(workload, written.public)
        expected = asked.to_dense() @ np.linalg.pinv(R, 1e-9) @ y
        np.testing.assert_allclose(large.answer(asked, y), expected, atol=1e-5)
        apart = R[:, :, None] - R[:, None, :] if written.public else R[:, :, None]
        for norm, order in (("l1", 1), ("l2", 2)):
            exact = np.linalg.norm(apart, order, axis=0).max()
            assert large.sensitivity_under(neighbours, norm) >= exact
            assert (
                large.sensitivity_under(Neighbours.REPLACE, norm)
                >= np.linalg.norm(R[:, :, None] - R[:, None, :], order, axis=0).max()
            )
        monkeypatch.undo()


def test_all_pairs_of_attributes_come_close_to_the_optimum():
    workload = as_workload("marginals:prefix4^5,ways=1+at-most:4^5,ways=2")
    exact = factorize(workload, rel_gap=1e-4).certificate  # 1024 cells as one matrix
    close = solve_joined(workload, 2.0, DesignOptions(rel_gap=1e-4)).certificate
    assert exact.lower <= close.upper <= exact.upper * 1.005
    assert exact.upper >= close.lower >= exact.lower * 0.995


def test_ten_attributes_in_all_pairs():
    workload = as_workload("marginals:prefix10^10,ways=1+at-most:10^10,ways=2")
    assert workload.shape == (955, 10**10)
    options = DesignOptions(rel_gap=1e-3, max_steps=7)
    design = solve_joined(workload, 2.0, options)
    assert isinstance(design.strategy, TableMatricesStrategy)
    assert design.certificate.upper < 249.11  # QuerySmasher's
    assert design.certificate.lower > 223.26  # with uniform weights


def test_a_table_may_come_twice():
    workload = as_workload("marginals:all-range10^10,upto=1+marginals:prefix10^10,upto=2")
    assert workload.shape == (1 + 550 + 1 + 100 + 4500, 10**10)
    assert workload.subsets.count((3,)) == 2


def test_how_joined_queries_are_written():
    three = as_workload("at-most:2,3,4")
    sums = np.add.outer(np.add.outer(np.arange(2), np.arange(3)), np.arange(4)).ravel()
    np.testing.assert_array_equal(three.to_dense(), sums <= np.arange(7)[:, None])
    pairs = as_workload("within:2,3,2,ways=2")
    assert pairs.subsets == ((0, 1), (0, 2), (1, 2))
    assert pairs.row_label(2) == "row 2 (attributes 0, 1: row 2 (at most 2))"
    np.testing.assert_array_equal(pairs.to_dense(), by_definition(pairs))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("at-most:5", "joins two attributes or more"),
        ("at-most:5,5,ways=1", "ways=K of at-most"),
        ("at-most:prefix5,5", "must be a whole number"),
        ("within:5,5,5", "within joins two attributes"),
        ("within:5,5,5,ways=3", "within joins two attributes"),
        ("at-most:300,300", "values of at-most"),
    ],
)
def test_what_is_no_joined_query_is_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        as_workload(text)


def test_tables_that_are_too_large_are_refused():
    with pytest.raises(InvalidInputError, match="they may have 1024 cells each"):
        factorize("at-most:40^4,ways=2")
