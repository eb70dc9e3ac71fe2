"""Tables over single attributes under replace, against the dense solver and the written matrix."""

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, is_separate, question, separate_strategy, solve_tables
from pmldesign.strategies import Columns, TableDistances, TablesStrategy
from pmldesign.workloads import TablesWorkload, as_workload
from pmldesign_solvers.tables import Measured

REPLACE = DesignOptions(neighbours="replace", rel_gap=1e-6)
MIXED = TablesWorkload(
    [as_workload("prefix:5"), as_workload("all-range:3"), 4, as_workload("prefix:2")],
    [(0,), (1,), (2,), ()],
    [1.0, 2.5, 0.7, 1.0],
)


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
def test_both_bounds_are_those_of_one_matrix(p):
    certificate = solve_tables(MIXED, question(MIXED), p, REPLACE).certificate
    exact = pml.factorize(MIXED, p=p, neighbours="replace", rel_gap=1e-6).certificate
    assert certificate.lower <= exact.upper
    assert certificate.upper >= exact.lower
    assert certificate.gap < 2e-6


@pytest.mark.parametrize("p", [2.0, np.inf])
@pytest.mark.parametrize(
    "text",
    [
        "prefix:4*total:3+prefix:4*total:3+total:4*prefix:3",
        "histogram:4*total:3+histogram:4*total:3",
    ],
)
def test_a_table_that_is_asked_twice_counts_twice(text, p):
    union = as_workload(text)
    asked = question(union)
    assert not is_separate(asked)
    certificate = solve_tables(union, asked, p, REPLACE).certificate
    exact = pml.factorize(union.to_dense(), p=p, neighbours="replace", rel_gap=1e-6).certificate
    assert certificate.lower <= exact.upper
    assert certificate.upper >= exact.lower
    assert certificate.gap < 0.7


def distances_of(strategy):
    columns = {i: Columns.contrasts(n) for i, n in enumerate(strategy.sizes)}
    columns |= {i: Columns.of(part.rows) for i, part in strategy.ordered.items()}
    roots = np.sqrt(strategy.precisions)
    return TableDistances(strategy.sizes, columns, strategy.residuals, roots)


@pytest.mark.parametrize("p", [2.0, np.inf])
def test_the_strategy_attains_the_norm_as_a_matrix(p):
    strategy, outcome = separate_strategy(question(MIXED), p, REPLACE)
    matrix = strategy.matrix
    gram = matrix.T @ matrix
    squares = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
    distance = np.sqrt(squares.max())
    bound = distances_of(strategy).farthest("l2")
    assert distance <= bound <= distance * (1 + 1e-9)
    queries = MIXED.to_dense()
    queries -= queries.mean(axis=1, keepdims=True)
    answers = queries @ np.linalg.pinv(matrix, 1e-11)
    np.testing.assert_allclose(answers @ matrix, queries, atol=1e-9)
    error = np.linalg.norm(np.linalg.norm(answers, axis=1), p)
    assert error * distance == pytest.approx(outcome.certificate.upper, rel=1e-6)


def test_an_attribute_in_other_tables_counts_as_before():
    """Where {0, 1} is measured too, the farthest columns of each are not the farthest of both."""
    rng = np.random.default_rng(14686)  # 5 % further apart than each attribute tells
    ordered = {}
    for i, n in enumerate((3, 2)):
        rows = rng.normal(size=(n - 1, n)) * rng.choice([0.1, 0.3, 1], n)
        rows /= np.sqrt((rows**2).sum(axis=0).max())
        ordered[i] = Measured(rows, np.linalg.inv(np.vstack([np.ones(n), rows])))
    precisions = rng.choice([0.05, 1], 3)
    strategy = TablesStrategy("random", (3, 2), [(0,), (1,), (0, 1)], precisions, ordered)
    gram = strategy.matrix.T @ strategy.matrix
    squares = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
    assert distances_of(strategy).farthest("l2") >= np.sqrt(squares.max())


def test_large_tables_take_this_way():
    design = pml.factorize("prefix:46*total:46+total:46*prefix:46", neighbours="replace")
    alone = pml.factorize("prefix:46", neighbours="replace").certificate
    assert design.certificate.upper == pytest.approx(2 * alone.upper, rel=1e-6)
    design.require_optimal()


def test_files_are_verified(tmp_path):
    design = solve_tables(MIXED, question(MIXED), 2.0, REPLACE)
    pml.write(tmp_path / "design.npz", design)
    report = pml.verify(tmp_path / "design.npz", workload=MIXED)
    assert report.holds, report
    (lower,) = [check for check in report.checks if check.name.startswith("lower")]
    assert lower.verdict == "holds", report


def test_others_are_not_separate():
    assert is_separate(question(MIXED))
    assert not is_separate(question(as_workload("marginals:prefix4,3,ways=2")))
    twice = as_workload("prefix:4*total:3+all-range:4*total:3")
    assert not is_separate(question(twice))
    two_of_three = as_workload(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    flat = question(TablesWorkload([two_of_three, 3], [(0,), (1,)]))
    assert separate_strategy(flat, 2.0, REPLACE) is None


def test_a_large_union_with_one_ordered_attribute_under_replace():
    found = pml.factorize("marginals:prefix100,2,5,7,ways=2", neighbours="replace", rel_gap=0.02)
    assert isinstance(found.strategy, TablesStrategy)
    assert found.certificate.gap < 0.02
