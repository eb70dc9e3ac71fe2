"""Strategies for tables that cross attributes, against the matrix that they stand for."""

from functools import cache

import numpy as np
import pytest

from pmldesign.designs import DesignOptions, factorize, question, solve_tables
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.factorization import answer
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, ApproxPML, Neighbours
from pmldesign.strategies import (
    BlockStrategy,
    Columns,
    ProductStrategy,
    Strategy,
    TableDistances,
    TablesStrategy,
)
from pmldesign.workloads import RECORDS, TablesWorkload, as_workload, given_invariants
from pmldesign_solvers.structure import cell_pairs

TEXT = "marginals:prefix5,3,all-range4,upto=2"


@cache
def made(text, kind="cells", p=2.0):
    workload = as_workload(text)
    options = DesignOptions(neighbours="add-remove" if kind == "cells" else "replace")
    return workload, solve_tables(workload, question(workload), p, options)


@pytest.fixture(scope="module", params=[("cells", 2.0), ("pairs", 2.0), ("cells", np.inf)])
def solved(request):
    return made(TEXT, *request.param)


def plain_matrix(strategy):
    return Strategy("matrix", strategy.matrix)


def test_variances_answers_and_lengths_are_those_of_the_matrix(solved):
    workload, found = solved
    strategy, x = found.strategy, np.random.default_rng(0).normal(size=60)
    matrix = strategy.matrix
    asked = given_invariants(workload, RECORDS) if strategy.public else workload
    inverse = np.linalg.pinv(matrix, rcond=1e-10)
    expected = ((asked.to_dense() @ inverse) ** 2).sum(axis=1)
    np.testing.assert_allclose(strategy.variances(asked), expected, atol=1e-9 * expected.max())
    for power in (1, 2, np.inf):
        assert strategy.norm_by_structure(asked, power) == pytest.approx(
            np.linalg.norm(expected, power), rel=1e-9
        )
    np.testing.assert_allclose(matrix @ x, strategy.measure(x), atol=1e-12)
    np.testing.assert_allclose(strategy.answer(asked, matrix @ x), asked.matvec(x), atol=1e-10)
    if strategy.public:
        np.testing.assert_allclose(matrix.sum(axis=1), 0, atol=1e-12)
    else:
        assert strategy.sensitivity == pytest.approx(np.linalg.norm(matrix, axis=0).max())
        assert strategy.sensitivity == pytest.approx(1)


def test_value_is_that_of_the_certificate():
    workload, found = made(TEXT, "cells", 2.0)
    value = np.sqrt(found.strategy.norm_by_structure(workload, 1)) * found.strategy.sensitivity
    assert value == pytest.approx(found.certificate.upper, rel=1e-8)
    exact = factorize(workload).certificate
    assert exact.lower <= found.certificate.upper <= exact.upper * 1.002
    assert found.certificate.lower <= exact.upper


@pytest.mark.parametrize("p", [2.0, np.inf])
def test_replace_bounds_enclose_the_norm(p):
    workload, found = made(TEXT, "pairs", p)
    exact = factorize(workload, p=p, neighbours="replace", rel_gap=1e-3).certificate
    assert found.certificate.lower <= exact.upper
    assert found.certificate.upper >= exact.lower
    assert answer(found.strategy, workload, Neighbours.REPLACE).norm(p) == pytest.approx(
        found.certificate.upper, rel=1e-6
    )


def test_records_are_measured_without_a_histogram(solved):
    _, found = solved
    records = np.random.default_rng(1).integers(0, [5, 3, 4], size=(40, 3))
    x = np.bincount(np.ravel_multi_index(records.T, (5, 3, 4)), minlength=60).astype(float)
    np.testing.assert_allclose(
        found.strategy.measure_records(records), found.strategy.measure(x), atol=1e-12
    )


def test_tables_agree_and_errors_are_as_predicted():
    """Sums over an attribute are the same in all tables; simulated variances are the exact ones."""
    workload = as_workload("marginals:prefix60,4,prefix50,3,ways=2")
    release = mechanism(
        factorize(workload, rel_gap=0.05).strategy, workload, guarantee=ApproxDP(1, 1e-6)
    )
    rng = np.random.default_rng(2)
    records = rng.integers(0, workload.domain, size=(500, 4))
    measured = release.strategy.measure_records(records)
    exact = np.concatenate(list(workload.of_records(records)))
    np.testing.assert_allclose(release.strategy.answer(workload, measured), exact, atol=1e-9)
    ratios = []
    for _ in range(30):
        noisy = measured + rng.normal(0, release.scale, measured.shape)
        answers = release.strategy.answer(workload, noisy)
        ratios.append((answers - exact) ** 2 / release.standard_deviations**2)
        by_age = workload.split(answers)[0].reshape(60, 4).sum(axis=1)
        by_age_too = workload.split(answers)[1].reshape(60, 50)[:, -1]
        np.testing.assert_allclose(by_age, by_age_too, atol=1e-8)
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", ["cells", "pairs"])
def test_distances_are_exact_or_above(kind, monkeypatch):
    _, found = made("marginals:prefix4,3,all-range3,2,upto=3", kind)
    one = found.strategy
    columns = {i: Columns.contrasts(n) for i, n in enumerate(one.sizes)}
    columns |= {i: Columns.of(part.rows) for i, part in one.ordered.items()}
    parts = one.sizes, columns, one.residuals, np.sqrt(one.precisions)
    gram = one.gram
    squares = gram.diagonal()
    exact = np.sqrt((squares[:, None] + squares - 2 * gram).max())
    assert TableDistances(*parts).farthest("l2") == pytest.approx(exact, rel=1e-9)
    rows = one.matrix.T
    apart = np.abs(rows[:, None] - rows).sum(axis=2).max()
    assert TableDistances(*parts).farthest("l1") >= apart
    if kind == "cells":
        assert TableDistances(*parts).longest("l1") >= np.abs(rows).sum(axis=1).max()
        assert TableDistances(*parts).longest("l2") == pytest.approx(1, rel=1e-12)
    monkeypatch.setattr(cell_pairs, "MAX_TYPES", 2)
    assert TableDistances(*parts).farthest("l2") >= exact


def test_guarantees_that_need_distances():
    workload = as_workload("marginals:prefix30,3,prefix40,7,upto=2")
    strategy = factorize(workload, neighbours="replace", rel_gap=1).strategy
    assert strategy.public
    assert strategy.distance_profile("l2").distances[0] == pytest.approx(1)
    noisy = mechanism(strategy, workload, guarantee=ApproxPML(1, 1e-6, 1e-5), noise="gaussian")
    assert 0 < noisy.scale < np.inf
    noisy = mechanism(strategy, workload, guarantee=PML(1, 1e-5))
    assert 0 < noisy.rmse < np.inf


@cache
def large_tables(neighbours):
    """A design over more cells than one matrix has."""
    return factorize("marginals:prefix40,4,prefix30,ways=2", neighbours=neighbours, rel_gap=0.3)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_strategy_files(tmp_path, neighbours):
    best = large_tables(neighbours)
    workload = best.workload
    assert isinstance(best.strategy, TablesStrategy)
    path = tmp_path / "tables.npz"
    write_strategy(path, best)
    again = read_strategy(path)
    x = np.random.default_rng(0).normal(size=workload.shape[1])
    np.testing.assert_allclose(again.measure(x), best.strategy.measure(x), atol=1e-12)
    asked = given_invariants(workload, RECORDS) if again.public else workload
    np.testing.assert_allclose(again.variances(asked), best.strategy.variances(asked), rtol=1e-9)


def test_damaged_files_are_refused(tmp_path):
    best = large_tables("add-remove")
    path = tmp_path / "tables.npz"
    write_strategy(path, best)
    with np.load(path) as file:
        arrays = dict(file)
    for name, value, words in [
        ("precisions", -arrays["precisions"], "must be positive"),
        ("coordinates_0", arrays["coordinates_0"][1:], "do not fit"),
        ("precisions", arrays["precisions"][:-1], "one weight for each"),
    ]:
        np.savez(path, **{**arrays, name: value})
        with pytest.raises((FileError, InvalidInputError), match=words):
            read_strategy(path)


def test_what_is_not_measured_is_refused():
    _, found = made("marginals:prefix5,3,all-range4,ways=1")
    with pytest.raises(InvalidInputError, match=r"does not measure the residual"):
        found.strategy.require_answers(as_workload("marginals:prefix5,3,all-range4,ways=2"))
    public = found.strategy.beside(RECORDS)
    with pytest.raises(InvalidInputError, match="replace"):
        public.variances(as_workload("marginals:prefix5,3,all-range4,ways=1"))
    with pytest.raises(InvalidInputError, match="measurements, got shape"):
        found.strategy.answer(as_workload("marginals:prefix5,3,all-range4,ways=1"), np.ones(3))


def test_which_solver_takes_which_tables():
    plain = factorize(TablesWorkload([30, 40, 50], [(0, 1), (2,)]))
    marginals = factorize(
        as_workload("histogram:30*histogram:40*total:50+total:30*total:40*histogram:50")
    )
    assert isinstance(plain.strategy, TablesStrategy)
    assert plain.certificate == marginals.certificate
    single = factorize(
        TablesWorkload([as_workload("prefix:50"), as_workload("prefix:60"), 9], [(0, 1)])
    )
    product = factorize("prefix:50*prefix:60*total:9")
    assert isinstance(single.strategy, ProductStrategy)
    assert single.certificate.upper == pytest.approx(product.certificate.upper, rel=1e-6)
    assert single.strategy.variances(single.workload).size == 3000
    blocks = factorize(TablesWorkload([as_workload("prefix:40"), 9, 9], [(0, 1, 2), (1, 2)]))
    assert isinstance(blocks.strategy, BlockStrategy)
    assert blocks.certificate.gap <= 1e-6
    dense = factorize(as_workload("marginals:prefix5,3,prefix4,upto=2"), rel_gap=1e-4)
    assert dense.certificate.gap <= 1e-4


def test_an_explicit_union_is_designed_alike():
    text = (
        "prefix:60*prefix:50*total:3+prefix:60*total:50*histogram:3+total:60*prefix:50*histogram:3"
    )
    union = factorize(text, rel_gap=0.01)
    named = factorize("marginals:prefix60,prefix50,3,ways=2", rel_gap=0.01)
    assert isinstance(union.strategy, TablesStrategy)
    assert union.certificate.upper == pytest.approx(named.certificate.upper, rel=1e-9)
    assert union.certificate.gap <= 0.01
