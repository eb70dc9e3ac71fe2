"""Marginals beside a public table: the same as with all cells written out, and at any size."""

import math
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, solve
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.strategies import TablesStrategy
from pmldesign.workloads import Public, TablesWorkload, as_public, given_invariants

CASES = [  # sizes, subsets, counted attributes
    ((3, 2), [(0, 1), (0,), (1,)], {0}),
    ((2, 3, 2), [(0, 1), (1, 2), (2,), ()], {0, 2}),
    ((2, 2, 2), [(0, 1), (0, 2), (1, 2)], {1}),
    ((3, 1, 3), [(0, 2), (1, 2), (0,)], {0, 1}),
    ((2, 3, 3), [(1, 2), (0,), (2,)], {1}),
]
LARGE = "marginals:85,9,2,10,ways=2"
TABLE = "total:85*total:9*histogram:2*total:10"


def both(sizes, subsets, counted, seed=0):
    """A P by its tables, and written out; and the public table."""
    weights = 10 ** np.random.default_rng(seed).uniform(-1, 1, len(subsets))
    asked = TablesWorkload(sizes, subsets, weights)
    table = TablesWorkload(sizes, [sorted(counted)]).to_dense()
    written = given_invariants(pml.workload(asked.to_dense()), as_public(table, asked.shape[1]))
    public = Public("tables", "table", sizes=sizes, tables=(frozenset(counted),))
    return given_invariants(asked, public), written, table


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("p", [2, 3, math.inf])
def test_the_norm_is_that_of_the_written_matrix(case, p):
    queries, written, table = both(*case)
    matrix = written.to_dense()
    np.testing.assert_allclose(queries.to_dense(), matrix, atol=1e-12)
    steps = [
        np.sum((matrix[:, i] - matrix[:, j]) ** 2)
        for i, j in combinations(range(matrix.shape[1]), 2)
        if (table[:, i] == table[:, j]).all()
    ]
    for known in (queries, written):
        assert known.longest_difference() == pytest.approx(max(steps), rel=1e-9)
        assert known.longest_difference() >= max(steps) * (1 - 1e-14)
    options = DesignOptions(neighbours="replace")
    first, second = (solve(A, p, options).certificate for A in (queries, written))
    assert first.gap <= 1e-6
    assert first.lower <= second.upper * (1 + 1e-12)
    assert second.lower <= first.upper * (1 + 1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_loss_on_all_small_databases_is_what_the_guarantee_says(case, noise):
    queries, _, table = both(*case, seed=1)
    sizes, n = case[0], queries.shape[1]
    wide = [i for i, size in enumerate(sizes) if size > 1]
    residuals = [T for k in range(len(wide) + 1) for T in combinations(wide, k)]
    precisions = np.random.default_rng(2).uniform(0.1, 2, len(residuals))
    design = solve(queries, 2, DesignOptions(neighbours="replace")).strategy
    promise, order = (
        pml.ApproxDP(1, 1e-6).beside(Public("tables", "table")),
        2 if noise == "gaussian" else 1,
    )
    for strategy in (design, TablesStrategy("all", sizes, residuals, precisions)):
        noisy = mechanism(strategy, queries, guarantee=promise, noise=noise)
        measured = noisy.strategy.matrix
        databases = [
            np.bincount(records, minlength=n)
            for records in combinations_with_replacement(range(n), 2)
        ]
        losses = [
            np.linalg.norm(measured @ (x - y), order)
            for x, y in combinations(databases, 2)
            if np.abs(x - y).sum() == 2 and (table @ x == table @ y).all()
        ]
        assert noisy.sensitivity >= max(losses) * (1 - 1e-15)
        if noise == "gaussian":
            assert noisy.sensitivity == pytest.approx(max(losses), rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_errors_and_answers_are_those_of_the_matrices(case):
    queries, written, table = both(*case, seed=3)
    design = solve(queries, 2, DesignOptions(neighbours="replace"))
    measured, matrix = design.strategy.matrix, written.to_dense()
    reconstruction = matrix @ np.linalg.pinv(measured, 1e-11)
    np.testing.assert_allclose(reconstruction @ measured, matrix, atol=1e-10)
    np.testing.assert_allclose(
        design.strategy.variances(queries), (reconstruction**2).sum(axis=1), atol=1e-10
    )
    x = np.random.default_rng(4).integers(0, 9, queries.shape[1]).astype(float)
    answers = design.strategy.answer(queries, measured @ x)
    np.testing.assert_allclose(answers, matrix @ x, atol=1e-9)
    # what is not measured is a function of the table
    rest = queries.whole.to_dense() - matrix
    assert np.linalg.matrix_rank(np.vstack([table, rest])) == np.linalg.matrix_rank(table)


def test_beyond_written_cells_from_the_design_to_the_file(tmp_path):
    guarantee = pml.ApproxDP(1, 1e-6)
    noisy = pml.optimize(LARGE, guarantee=guarantee, noise="gaussian", known=TABLE).best
    assert "not protected" in noisy.guarantee.describe(15300)
    replaced = pml.optimize(
        LARGE, guarantee=pml.ApproxDP(1, 1e-6, "replace"), noise="gaussian"
    ).best
    assert noisy.rmse < replaced.rmse
    path = tmp_path / "table.npz"
    write_strategy(path, noisy)
    again = pml.mechanism(
        read_strategy(path), LARGE, guarantee=guarantee, noise="gaussian", known=TABLE
    )
    assert again.scale == pytest.approx(noisy.scale, rel=1e-12)
    assert again.rmse == pytest.approx(noisy.rmse, rel=1e-12)
    budget = pml.least_budget(LARGE, pml.ZCDP(1), targets=5, known=TABLE, noise="gaussian")
    assert budget.mechanism.max_std <= 5
    assert budget.at_least <= budget.enough <= budget.at_least * (1 + 1e-5)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **(arrays | {"counted": np.array([1, 1, 1, 1])}))
    with pytest.raises(pml.PmldesignError, match="damaged"):
        read_strategy(path)


def test_tables_that_follow_from_the_known_one_change_nothing():
    text = "histogram:60*total:50*total:3+total:60*histogram:50*histogram:3"
    table = "histogram:60*total:50*histogram:3"
    guarantee = pml.ZCDP(0.1)
    errors = [
        pml.optimize(text, guarantee=guarantee, known=known).best.rmse
        for known in (table, f"{table}+histogram:60*total:50*total:3")
    ]
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("text", "known", "message"),
    [
        (LARGE, "prefix:85*total:9*total:2*total:10", "the total, counts of places"),
        (LARGE, "histogram:85*histogram:9*histogram:2*histogram:10", "nothing would be protected"),
        ("marginals:60,50,ways=1", "histogram:60*histogram:50+total:60*total:50", "nothing would"),
        ("histogram:60*total:50+histogram:60*total:50", "histogram:60*total:50", "same attributes"),
        ("marginals:60,50,ways=1", "total:30*histogram:100", "same attributes"),
        (f"{LARGE}+prefix:15300", TABLE, "same attributes"),
    ],
)
def test_what_is_refused(text, known, message):
    with pytest.raises(InvalidInputError, match=message):
        pml.optimize(text, guarantee=pml.ApproxDP(1, 1e-6), known=known)
