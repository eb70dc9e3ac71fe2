"""The queries of unions of products by their structure, against their matrix."""

import itertools
import math

import numpy as np
import pytest
from same_strategy import assert_same_strategy

import pmldesign as pml
from pmldesign.factorization import answer
from pmldesign.privacy import Neighbours, calibrate
from pmldesign.strategies import (
    Strategy,
    UnionQueries,
    structured,
    union_queries,
    workload_strategy,
)
from pmldesign.strategies.baselines import product_queries, queries, written_queries
from pmldesign.workloads import RECORDS, DenseWorkload, as_workload

UNIONS = [
    "prefix:4*total:3*histogram:5+histogram:4*prefix:3*total:5+prefix:4*prefix:3*total:5",
    "total:3*all-range:4+histogram:3*prefix:4",
    "prefix:3*prefix:4+total:3*histogram:4",
    "prefix:6*histogram:3+histogram:6*total:3",
    "window:5,2*total:3+prefix:5*total:3",  # groups of three equal cells
    "total:1*prefix:3+histogram:1*total:3",
    "prefix:4*total:1+total:4*total:1",
    "total:2*total:3+total:2*histogram:3",
    "marginals:prefix4,3,2,upto=1",
    "prefix:3*total:4+prefix:3*total:4",
]


@pytest.fixture(params=UNIONS)
def union(request, monkeypatch):
    """The strategy, as if it had too many cells to be written out, and its matrix."""
    workload = as_workload(request.param)
    found = union_queries(workload)
    assert isinstance(found, UnionQueries)
    monkeypatch.setattr(structured, "WRITTEN_CELLS", 0)
    return found, Strategy("workload", workload.to_dense())


def test_it_is_the_strategy_of_its_matrix(union):
    assert_same_strategy(*union, np.random.default_rng(3))


def test_it_answers_what_its_matrix_answers_with_the_same_variances(union):
    found, dense = union
    rng = np.random.default_rng(4)
    other = DenseWorkload(rng.normal(size=(3, dense.shape[0])) @ dense.matrix)
    for neighbours, workload in itertools.product(Neighbours, (found.workload, other)):
        by_structure = answer(found, workload, neighbours)
        by_matrix = answer(dense, workload, neighbours)
        np.testing.assert_allclose(by_structure.variances, by_matrix.variances, atol=1e-10)
    for relation in ("add-remove", "replace"):
        asked = {"guarantee": pml.PureDP(1.0, relation), "p": 4}
        expected = pml.mechanism(dense, found.workload, **asked)
        assert pml.mechanism(found, found.workload, **asked).error() == pytest.approx(
            expected.error(), rel=1e-9
        )


def test_it_refuses_what_its_matrix_does_not_answer():
    found = union_queries(as_workload("histogram:4*total:3+total:4*prefix:3"))
    with pytest.raises(pml.InvalidInputError, match=r"cannot answer .* lies outside"):
        found.require_answers(as_workload("histogram:4*histogram:3"))
    found.require_answers(as_workload("histogram:4*total:3"))


@pytest.mark.parametrize("most", [10**9, 0])
def test_distances_are_exact_or_bounds(union, most, monkeypatch):
    """By counting queries that differ; beyond the limit the largest of all parts, at most."""
    found, dense = union
    monkeypatch.setattr(product_queries, "PAIRED_CELLS", most)
    largest = max(
        int((dense.matrix[:, i] != dense.matrix[:, j]).sum())
        for i, j in itertools.product(range(dense.cells), repeat=2)
    )
    value = found.sensitivity_under("replace", "l1")
    squared = found.sensitivity_under("replace", "l2") ** 2
    assert squared == pytest.approx(value, rel=1e-15)
    if most:
        assert value == largest
    else:
        assert largest <= value <= dense.matrix.sum(axis=0).max() * 2


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_few_different_cells_have_the_distances_of_all_pairs(union, norm):
    found, dense = union
    assert found.distance_profile(norm) is None
    distances, cell_of, exponent = found.pair_distances(norm)
    every = np.arange(dense.cells) if cell_of is None else cell_of
    counted = (dense.matrix[:, :, None] != dense.matrix[:, None]).sum(axis=0)
    apart = np.ldexp(distances, exponent)[np.ix_(every, every)]
    np.testing.assert_allclose(apart, counted if norm == "l1" else np.sqrt(counted), rtol=1e-15)
    assert (apart ** (1 if norm == "l1" else 2) >= counted).all()
    guarantee = pml.PML(1.0, 1e-4) if norm == "l1" else pml.ApproxPML(1.0, 1e-3, 1e-4)
    kind = "laplace" if norm == "l1" else "gaussian"
    asked = calibrate(found.beside(RECORDS), guarantee, noise=kind, allow_vacuous=True)
    exact = calibrate(dense, guarantee, noise=kind, allow_vacuous=True)
    assert asked.scale == pytest.approx(exact.scale, rel=3e-6)


def test_equal_cells_share_their_probability():
    found = union_queries(as_workload("window:5,2*total:3+prefix:5*total:3"))
    assert found.columns == 5
    assert union_queries(as_workload(UNIONS[0])).columns == 60


@pytest.mark.parametrize(
    "text",
    [
        "prefix:4*prefix:3+total:4*total:3",  # do not commute on two attributes
        "prefix:4*total:3",
        "prefix:12+total:12",
        "haar:4*total:3+prefix:4*total:3",
    ],
)
def test_other_queries_have_no_such_form(text):
    assert union_queries(as_workload(text)) is None


def test_attributes_of_badly_conditioned_queries_do_not_count_as_commuting(monkeypatch):
    """Of running sums the least eigenvalue is 1/4 of about (2 n / pi)^2."""
    text = "prefix:9*prefix:4+histogram:9*total:4"
    least = 1 / 4 / np.linalg.eigvalsh(np.tril(np.ones((9, 9))).T @ np.tril(np.ones((9, 9))))[-1]
    monkeypatch.setattr(product_queries, "LEAST_CONDITION", least * 0.9)
    assert union_queries(as_workload(text)) is not None
    monkeypatch.setattr(product_queries, "LEAST_CONDITION", least * 1.2)
    assert union_queries(as_workload(text)) is None


def test_many_cells_are_never_written_out(monkeypatch):
    """The noise for 6,000 cells."""
    for room in (queries, written_queries):
        monkeypatch.setattr(room, "as_matrix", None)
    text = "prefix:60*total:100+histogram:60*prefix:100"
    found = workload_strategy(as_workload(text))
    assert isinstance(found, UnionQueries)
    # cells (0, 0) and (59, 0): 59 of the first sums, and all 100 of either row of the second
    assert found.sensitivity_under("replace", "l1") == 59 + 100 + 100
    noisy = pml.mechanism(found, guarantee=pml.PML(1.0, alpha=1 / 6000), workload=text)
    assert noisy.scale <= 259.0
    assert calibrate(found, pml.PureDP(1.0), noise="laplace").scale == 60 + 100
    assert math.isclose(found.sensitivity, math.sqrt(160))


def test_domains_beyond_any_vector_of_cells_are_refused():
    with pytest.raises(pml.InvalidInputError, match="as a matrix has"):
        workload_strategy(as_workload("marginals:prefix10,10^19,ways=1"))


def test_queries_of_single_attributes_are_not_decomposed(monkeypatch):
    """Their Gram matrices do not commute, and each attribute tells the total."""
    workload = as_workload("marginals:prefix12,prefix40,30,ways=1")
    A = workload.to_dense()
    left, values, _ = np.linalg.svd(A @ A.T)
    projection = left[:, values > 1e-9 * values[0]]
    monkeypatch.setattr(np.linalg, "svd", None)
    measured = workload_strategy(workload)
    assert measured.rank == 12 + 40 + 30 - 2
    np.testing.assert_allclose(measured.variances(workload), (projection**2).sum(axis=1), rtol=1e-9)
