"""Unions of products under Laplace noise: the attributes' designs with weights."""

import math

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import laplace_design, weighted_products, weighted_tables
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, PureDP
from pmldesign.strategies import baseline, product_strategy
from pmldesign.workloads import TablesWorkload, as_workload, parse_workload
from pmldesign_solvers.operators import Effort


def identity(queries):
    return np.eye(queries.shape[1])


def haar(queries):
    matrix = baseline("haar", queries).matrix
    return matrix / np.abs(matrix).sum(axis=0).max()


def error(strategy, workload, guarantee, p=2.0):
    return mechanism(strategy, workload, guarantee=guarantee, noise="laplace", p=p).error(p)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_error_is_that_of_the_matrix(relation):
    workload, guarantee = parse_workload("marginals:prefix8,3,haar4,ways=2"), PureDP(0.7, relation)
    strategy = weighted_products(workload, 2, haar, public_total=relation == "replace")
    found = error(strategy, workload, guarantee)
    A, R = workload.to_dense(), strategy.matrix
    longest = np.abs(R).sum(axis=0).max()
    if relation == "replace":
        centre = np.eye(96) - 1 / 96
        A, R = A @ centre, R @ centre
        longest = max(np.abs(R - column[:, None]).sum(axis=0).max() for column in R.T)
    squared = 2 * (longest / 0.7) ** 2 * np.sum((A @ np.linalg.pinv(R, rcond=1e-10)) ** 2)
    assert found == pytest.approx(math.sqrt(squared), rel=1e-8)


def test_plain_attributes_make_weighted_tables():
    """A histogram with weights is not plain, and has the same weights and error."""
    plain = parse_workload("marginals:8,6,4,ways=2")
    crossed = parse_workload("marginals:haar8,6,4,ways=2")  # haar:8 is orthogonal: G is diagonal
    tables = weighted_tables(plain, PureDP(1.0), 2)
    products = weighted_products(crossed, 2, identity, public_total=False)
    # rows of the Haar transform of 8 cells have squared norms 8, 8, 4, 4, 2, 2, 2, 2
    assert error(products, crossed, PureDP(1.0)) >= error(tables, plain, PureDP(1.0))


def test_one_way_sums_are_better_together(little_work):
    """Two margins alone have twice the noise each; what they share gains on that."""
    workload = parse_workload("prefix:24*total:24+total:24*prefix:24")
    single = laplace_design("prefix:24", PureDP(1.0)).mechanism
    D = single.strategy.matrix
    D = D / np.abs(D).sum(axis=0).max()
    strategy = weighted_products(workload, 2, lambda _: D, public_total=False)
    apart = math.sqrt(2) * 2 * error(single.strategy, single.workload, PureDP(1.0))
    assert error(strategy, workload, PureDP(1.0)) < apart


def test_never_worse_than_the_product():
    workload = parse_workload("prefix:6*all-range:5")
    strategy = weighted_products(workload, 2, haar, public_total=False)
    product = product_strategy([baseline("haar", factor) for factor in workload.factors])
    least = error(product, workload, PureDP(1.0))
    assert error(strategy, workload, PureDP(1.0)) <= least * (1 + 1e-9)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), PureDP(1.0, "replace"), PML(1.0, 1e-5)])
def test_a_search_over_many_cells_takes_them(guarantee, little_work):
    workload = parse_workload("prefix:30*histogram:80+histogram:30*total:80")
    design = laplace_design(workload, guarantee)
    for name in ("identity", "tree", "haar"):
        assert design.mechanism.error(2) <= error(baseline(name, workload), workload, guarantee)
    assert "weighted-products" in {start.name for start in design.starts}


@pytest.mark.parametrize("guarantee", [PureDP(1.0), PureDP(1.0, "replace"), PML(1.0, 1e-5)])
def test_a_search_without_work_leaves_the_best_plain_strategy(guarantee, monkeypatch):
    monkeypatch.setattr(Effort, "work", 0.0)
    workload = parse_workload("prefix:8*histogram:40+histogram:8*total:40")
    found = pml.optimize(workload, guarantee, noise="laplace")
    search = found.searches["laplace"]
    assert [start.name for start in search.starts] == ["weighted-products"]
    baselines = [baseline(name, workload) for name in ("identity", "tree", "haar")]
    plain = [error(strategy, workload, guarantee) for strategy in baselines]
    assert found.best.error(2) <= min(plain) * (1 + 1e-9) < search.mechanism.error(2)


def test_values_that_no_query_tells_apart_cost_next_to_nothing():
    """Six values, the last two always together: as five values, but for what tells them apart."""
    errors, alike = [], np.array([0, 1, 2, 3, 4, 4])
    for values in (np.arange(5), alike):
        attributes = [as_workload(np.tri(5)[:, values]), as_workload("prefix:4")]
        workload = TablesWorkload(attributes, [(0,), (1,), (0, 1)])
        strategy = weighted_products(
            workload,
            2,
            lambda asked, values=values: (
                haar(asked) if asked.shape[1] == 4 else unit_columns(np.tri(5))[:, values]
            ),
            public_total=False,
        )
        assert np.abs(strategy.matrix).sum(axis=0).max() <= strategy.weights.sum() * (1 + 1e-12)
        errors.append(error(strategy, workload, PureDP(1.0)))
        variances = np.sum(
            (workload.to_dense() @ np.linalg.pinv(strategy.matrix, 1e-11)) ** 2, axis=1
        )
        np.testing.assert_allclose(strategy.variances(workload), variances, rtol=1e-6)
    assert errors[0] <= errors[1] <= 1.01 * errors[0]


def unit_columns(queries):
    small = queries / (2 * len(queries))
    return np.vstack([small, np.diag(1 - small.sum(axis=0))])
