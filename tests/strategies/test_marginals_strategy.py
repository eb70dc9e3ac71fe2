"""Residual measurements: against the dense strategy, by simulation, and without a domain."""

import math
from functools import partial
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import helmert

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import Strategy, TablesStrategy
from pmldesign.strategies import residuals as residual_tables
from pmldesign.workloads import TablesWorkload, parse_workload
from pmldesign_solvers.norm import solve_marginals


def below(subset):
    return chain.from_iterable(combinations(subset, k) for k in range(len(subset) + 1))


@st.composite
def problems(draw):
    """Marginals of a small domain, and a strategy that measures what they need, or more."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    members = st.sets(st.integers(0, len(sizes) - 1)).map(lambda chosen: tuple(sorted(chosen)))
    subsets = draw(st.lists(members, min_size=1, max_size=5, unique=True))
    weight = st.sampled_from([1.0, 2.0, 0.3])
    weights = draw(st.lists(weight, min_size=len(subsets), max_size=len(subsets)))
    wide = [tuple(i for i in S if sizes[i] > 1) for S in (*subsets, *draw(st.lists(members)))]
    residuals = draw(st.permutations(sorted({T for S in wide for T in below(S)})))
    precision = st.floats(0.01, 100)
    precisions = draw(st.lists(precision, min_size=len(residuals), max_size=len(residuals)))
    workload = TablesWorkload(sizes, subsets, weights)
    return workload, TablesStrategy("residuals", sizes, residuals, precisions)


def dense_strategy(strategy):
    """R by its definition."""
    blocks = []
    for residual, precision in zip(strategy.residuals, strategy.precisions, strict=True):
        block = np.full((1, 1), np.sqrt(precision))
        for i, n in enumerate(strategy.sizes):
            length = np.sqrt(n / max(n - 1, 1))
            basis = length * helmert(n) if i in residual else np.ones((1, n))
            block = np.kron(block, basis)
        blocks.append(block)
    return Strategy("dense", np.vstack(blocks))


@given(problems(), st.integers(0, 2**32 - 1))
def test_it_is_the_strategy_of_its_matrix(problem, seed):
    workload, strategy = problem
    dense = dense_strategy(strategy)
    rng = np.random.default_rng(seed)
    assert strategy.shape == dense.shape
    np.testing.assert_allclose(strategy.matrix, dense.matrix, atol=1e-12)
    np.testing.assert_allclose(strategy.pseudo_inverse, dense.pseudo_inverse, atol=1e-9)
    assert strategy.rank == dense.rank == dense.shape[0]
    x, y = rng.normal(size=dense.cells), rng.normal(size=dense.shape[0])
    np.testing.assert_allclose(strategy.measure(x), dense.matrix @ x, atol=1e-10)
    np.testing.assert_allclose(strategy.estimate(y), dense.pseudo_inverse @ y, atol=1e-9)
    np.testing.assert_allclose(
        strategy.answer(workload, y), workload.to_dense() @ dense.pseudo_inverse @ y, atol=1e-9
    )


@given(problems())
def test_sensitivities_and_variances_are_those_of_the_matrix(problem):
    workload, strategy = problem
    dense = dense_strategy(strategy)
    columns = np.linalg.norm(dense.matrix, axis=0)
    assert np.allclose(columns, strategy.sensitivity, rtol=1e-10)
    largest = np.abs(dense.matrix).sum(axis=0).max()
    l1 = strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l1")
    assert l1 == pytest.approx(largest, rel=1e-10)
    for norm in ("l1", "l2"):
        replace = strategy.sensitivity_under(Neighbours.REPLACE, norm)
        expected = dense.sensitivity_under(Neighbours.REPLACE, norm)
        assert replace == pytest.approx(expected, rel=1e-10, abs=1e-12)
    L = workload.to_dense() @ np.linalg.pinv(dense.matrix, rcond=1e-12)
    np.testing.assert_allclose(strategy.variances(workload), (L**2).sum(axis=1), rtol=1e-8)
    for power in (1.0, 2.5, np.inf):
        norm = np.linalg.norm(strategy.variances(workload), ord=power)
        assert strategy.variance_norm(workload, power) == pytest.approx(norm, rel=1e-12)
    assert strategy.normalised().sensitivity == pytest.approx(1.0)


@given(problems(), st.integers(0, 2**32 - 1))
def test_answers_of_exact_measurements_are_exact(problem, seed):
    workload, strategy = problem
    rng = np.random.default_rng(seed)
    records = np.stack([rng.integers(0, size, 30) for size in strategy.sizes], axis=1)
    histogram = np.zeros(strategy.sizes)
    np.add.at(histogram, tuple(records.T), 1)
    measured = strategy.measure_records(records)
    np.testing.assert_allclose(measured, strategy.measure(histogram.ravel()), atol=1e-9)
    answers = strategy.answer(workload, measured)
    np.testing.assert_allclose(answers, workload.matvec(histogram.ravel()), atol=1e-9)


def test_answers_to_noise_have_the_stated_variance():
    # 2000 releases: the sample variance is within 5 standard errors, sqrt(2/2000) each
    strategy = TablesStrategy("s", [2, 3, 4], list(below((0, 1, 2))), np.linspace(0.5, 3, 8))
    workload = TablesWorkload([2, 3, 4], [(), (0, 2), (1,), (0, 1, 2)], [1, 2, 3, 0.5])
    noise = np.random.default_rng(3).standard_normal((2000, strategy.shape[0]))
    answers = strategy.answer(workload, noise.T).T
    ratio = (answers**2).mean(axis=0) / strategy.variances(workload)
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / 2000)


def test_noisy_tables_agree_with_each_other():
    workload = parse_workload("marginals:2,3,4,upto=3")
    strategy = TablesStrategy("s", [2, 3, 4], list(below((0, 1, 2))), np.ones(8))
    noise = np.random.default_rng(0).normal(size=strategy.shape[0])
    tables = workload.split(strategy.answer(workload, noise))
    full = tables[-1].reshape(2, 3, 4)
    for subset, table in zip(workload.subsets, tables, strict=True):
        sums = full.sum(axis=tuple({0, 1, 2} - set(subset)))
        np.testing.assert_allclose(table, sums.ravel(), atol=1e-12)


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
def test_the_solver_s_strategy_attains_the_norm(p):
    workload = parse_workload("marginals:2,3,4,5,upto=2")
    found = solve_marginals(workload.domain, workload.subsets, workload.weights, p)
    strategy = TablesStrategy("optimal", workload.domain, found.residuals, found.precisions)
    variances = strategy.variances(workload)
    spread = variances.max() if p == np.inf else (variances ** (p / 2)).sum() ** (2 / p)
    assert strategy.sensitivity == pytest.approx(1.0, rel=1e-12)
    assert math.sqrt(spread) == pytest.approx(found.certificate.upper, rel=1e-9)


def test_a_domain_of_ten_to_the_hundred_cells():
    # ten of 100 attributes are correlated: records are all v, v, ..., v
    workload = parse_workload("marginals:10^100,ways=2")
    found = solve_marginals(workload.domain, workload.subsets, workload.weights, 2.0)
    strategy = TablesStrategy("optimal", workload.domain, found.residuals, found.precisions)
    assert strategy.shape == (1 + 900 + 81 * 4950, 10**100)
    values = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    records = np.repeat(values[:, None], 100, axis=1)
    answers = strategy.answer(workload, strategy.measure_records(records))
    expected = np.diag(np.arange(1.0, 11.0)).ravel()
    np.testing.assert_allclose(answers.reshape(-1, 100), np.tile(expected, (4950, 1)), atol=1e-8)
    total = math.sqrt(strategy.variance_norm(workload, 1)) * strategy.sensitivity
    assert total == pytest.approx(found.certificate.upper, rel=1e-9)
    assert strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l1") > strategy.sensitivity
    for refused in (lambda: strategy.matrix, lambda: strategy.estimate(np.zeros(5))):
        with pytest.raises(InvalidInputError, match="ever written out"):
            refused()


def test_tables_are_handled_in_blocks(monkeypatch):
    workload = parse_workload("marginals:3^6,2,upto=2")
    found = solve_marginals(workload.domain, workload.subsets, workload.weights, np.inf)
    strategy = TablesStrategy("optimal", workload.domain, found.residuals, found.precisions)
    x = np.random.default_rng(0).normal(size=workload.shape[1])
    whole = strategy.measure(x)
    monkeypatch.setattr(residual_tables, "BLOCK_BYTES", 8 * 9 * 4)  # four tables of 3 x 3 cells
    assert np.allclose(strategy.measure(x), whole, rtol=1e-12)
    assert np.allclose(strategy.answer(workload, whole), workload.matvec(x), atol=1e-10)


def test_workloads_that_are_no_marginals_are_answered_too():
    strategy = TablesStrategy("all", [2, 3], list(below((0, 1))), np.arange(1.0, 5.0))
    prefix = parse_workload("prefix:6")
    np.testing.assert_allclose(
        strategy.variances(prefix), dense_strategy(strategy).variances(prefix), rtol=1e-9
    )
    x = np.arange(6.0)
    np.testing.assert_allclose(strategy.answer(prefix, strategy.measure(x)), np.cumsum(x))


def test_what_it_does_not_measure_is_named():
    strategy = TablesStrategy("s", [2, 3, 4], [(), (0,), (1,), (0, 1)], np.ones(4))
    strategy.require_answers(TablesWorkload([2, 3, 4], [(0, 1), ()]))
    norm = partial(strategy.variance_norm, power=1)
    for ask in (strategy.require_answers, strategy.variances, norm):
        with pytest.raises(
            InvalidInputError,
            match=r"the residual \(2,\); design one for queries of a table with these attributes",
        ):
            ask(TablesWorkload([2, 3, 4], [(0, 2)]))
    with pytest.raises(InvalidInputError, match="cannot answer row 0"):  # other attributes
        norm(TablesWorkload([2, 2, 6], [(0, 2)]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([2, 1], [(1,)], [1.0]), r"residual \(1,\) of strategy 's' has an attribute with one"),
        (([2, 2], [(0,), (0,)], [1.0, 1.0]), "residuals 0 and 1 are the same"),
        (([2, 2], [(2,)], [1.0]), "residual 0 has the attributes"),
        (([2, 2], [(0,)], [0.0]), "weight of residual 0 must be positive"),
        (([2, 2], [(0,)], [1.0, 2.0]), "one weight for each of the 1 residuals"),
        (([2, 2], [], []), "from 1 to 1048576 residuals, got 0"),
        (([], [()], [1.0]), "at least one attribute"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        TablesStrategy("s", *arguments)


def test_the_number_of_measurements_must_fit():
    strategy = TablesStrategy("s", [2, 3], [(), (1,)], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match=r"takes 3 measurements, got shape \(4,\)"):
        strategy.estimate(np.zeros(4))
