import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.designs.laplace import measured
from pmldesign.designs.laplace.search import laplace_design
from pmldesign.designs.laplace.tables import weighted_tables
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy.guarantees import PML, PureDP
from pmldesign.strategies import WeightedTablesStrategy, baseline
from pmldesign.workloads import parse_workload
from pmldesign_solvers.search import table_weights
from pmldesign_solvers.search.table_weights import TableWeights
from pmldesign_solvers.structure.subsets import residual_spaces

REGION = "histogram:2*histogram:{0}*total:{1}+total:2*total:{0}*histogram:{1}"


def error(strategy, workload, guarantee, p=2.0):
    return mechanism(strategy, workload, guarantee=guarantee, noise="laplace", p=p).error(p)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        (REGION.format(100, 5), 29.1836),
        (REGION.format(20, 5), 16.1485),
        (REGION.format(5, 3), 9.1931),
        ("marginals:4,5,6,ways=2", math.sqrt(2 * 3 * 120)),  # the identity
        ("marginals:4^6,ways=2", 263.249),  # the queries themselves
        # 6 of the tables by 6 of 12 attributes contain all 66 by two, each answer of 16 cells
        ("marginals:2^12,ways=2", math.sqrt(2 * 66 * 4 * 6**2 * 16)),
    ],
)
def test_known_errors(name, most):
    workload = parse_workload(name)
    assert error(weighted_tables(workload, PureDP(1.0), 2), workload, PureDP(1.0)) <= most


@pytest.mark.parametrize("p", [2.0, math.inf])  # at p = 4 weights are for standard deviations
@pytest.mark.parametrize("guarantee", [PureDP(1.0), PureDP(0.5, "replace"), PML(0.7, 0.02)])
@pytest.mark.parametrize("name", ["marginals:2,3,4,ways=2", REGION.format(3, 4)])
def test_never_worse_than_queries_and_identity(name, guarantee, p):
    workload = parse_workload(name)
    found = error(weighted_tables(workload, guarantee, p), workload, guarantee, p)
    for other in ("workload", "identity"):
        assert found <= error(baseline(other, workload), workload, guarantee, p) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("guarantee", "p"), [(PureDP(1.0), 2.0), (PureDP(1.0, "replace"), math.inf)]
)
def test_domains_of_any_size(guarantee, p):
    workload = parse_workload("marginals:10^12,ways=2")
    own = weighted_tables(workload, guarantee, p)
    queries = error(baseline("workload", workload), workload, guarantee, p)
    assert error(own, workload, guarantee, p) <= queries * (1 + 1e-9)


@pytest.mark.parametrize(
    ("sizes", "ways"), [((2,) * 9, 2), ((3, 2, 5, 2, 4, 2), 3), ((7,) * 12, 1)]
)
def test_covers_contain_what_is_asked(monkeypatch, sizes, ways):
    monkeypatch.setattr(measured, "ALL_SUBSETS", 5)
    asked = list(itertools.combinations(range(len(sizes)), ways))
    tables = measured.measured_tables(sizes, asked, public=False)
    assert tables.covers
    for cover in tables.covers:
        blocks = [set(tables.tables[k]) for k in cover]
        assert all(any(block.issuperset(subset) for block in blocks) for subset in asked)
    spaces = residual_spaces(sizes, [*tables.within, *asked])
    expected = [[set(T) <= set(S) for S in tables.tables] for T in spaces.residuals]
    np.testing.assert_array_equal(tables.contains(spaces).toarray(), expected)


def test_covers_are_nearly_as_good_as_all_subsets(monkeypatch):
    workload, guarantee = parse_workload("marginals:3^5,ways=2"), PureDP(1.0)
    all_subsets = error(weighted_tables(workload, guarantee, 2), workload, guarantee)
    monkeypatch.setattr(measured, "ALL_SUBSETS", 3)
    from_covers = error(weighted_tables(workload, guarantee, 2), workload, guarantee)
    assert from_covers <= all_subsets * 1.02


def test_queries_that_count_twice():
    once = parse_workload("histogram:9*total:8+total:9*histogram:8")
    twice = parse_workload("histogram:9*total:8+total:9*histogram:8+total:9*histogram:8")
    own = weighted_tables(twice, PureDP(1.0), 2)
    other = weighted_tables(once, PureDP(1.0), 2)
    assert error(own, twice, PureDP(1.0)) < error(other, twice, PureDP(1.0)) * (1 - 1e-3)


def test_no_tables():
    assert weighted_tables(parse_workload("prefix:4"), PureDP(1.0), 2) is None
    assert weighted_tables(parse_workload("total:4"), PureDP(1.0, "replace"), 2) is None


def test_gradient_of_the_spread():
    sets = [s for k in range(4) for s in itertools.combinations(range(3), k)]
    spaces = residual_spaces((2, 3, 4), sets)
    asked = [4, 5]
    used = np.asarray(spaces.incidence[:, asked].sum(axis=1)).ravel() > 0
    tables = TableWeights(
        spaces.incidence[used],
        spaces.incidence[used][:, asked],
        spaces.dimensions[used],
        spaces.cells,
        spaces.cells[asked],
        np.array([1.0, 4.0]),
        np.array([1.0, 2.0]),
        np.array(asked),
    )
    rng = np.random.default_rng(0)
    theta, direction = rng.uniform(0.1, 1, 8), rng.normal(size=8)
    for power in (1.0, 1.5, 20.0):
        ends = [tables.log_spread(theta + t * direction, power)[0] for t in (-1e-6, 1e-6)]
        slope = tables.log_spread(theta, power)[1] @ direction
        assert slope == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-5)
    assert table_weights.total_scale(theta)[0] == pytest.approx(math.log(theta.sum()))


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_files_keep_tables(tmp_path, relation):
    workload, guarantee = parse_workload("marginals:7,6,5,ways=2"), PureDP(1.0, relation)
    found = laplace_design(workload, guarantee, time_limit=0.2)
    write_strategy(tmp_path / "tables.npz", found.mechanism)
    again = read_strategy(tmp_path / "tables.npz")
    assert isinstance(again, WeightedTablesStrategy)
    assert error(again, workload, guarantee) == pytest.approx(found.mechanism.error(2), rel=1e-12)


def shares_of_orders(values, attributes, ways):
    """Terms of the bound of docs/pml-design.md on weighted tables for all tables of one order."""
    return [
        math.comb(attributes, j) * (values - 1) ** j / math.comb(attributes - j, ways - j)
        for j in range(ways + 1)
    ]


@pytest.mark.parametrize(("values", "attributes", "ways"), [(9, 3, 1), (10, 3, 2)])
def test_all_tables_of_one_order(values, attributes, ways):
    workload = parse_workload(f"marginals:{values}^{attributes},ways={ways}")
    reached = error(weighted_tables(workload, PureDP(1.0), 2), workload, PureDP(1.0))
    number = math.comb(attributes, ways)
    least = math.sqrt(2 * sum(shares_of_orders(values, attributes, ways))) * number
    orders = sum(math.comb(attributes, j) * (values - 1) ** j for j in range(ways + 1))
    assert least <= reached <= math.sqrt(2 * orders) * number * (1 + 1e-9)


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_no_order_gains_beside_the_one_that_is_asked(ways):
    """The slopes of the bound: weight on tables by s attributes instead, for each s."""
    for attributes in range(ways, 9):
        for values in ((ways + 1) ** 2, 2 * (ways + 1) ** 2, 100):
            shares = shares_of_orders(values, attributes, ways)
            for s in range(attributes + 1):
                ratios = [math.comb(s, j) / math.comb(ways, j) for j in range(ways + 1)]
                moved = np.dot(shares, ratios) * values ** ((ways - s) / 2)
                assert moved <= sum(shares) * (1 + 1e-12)


@given(
    ways=st.integers(1, 3), more=st.integers(0, 2), extra=st.integers(0, 9), seed=st.integers(0, 99)
)
def test_equal_weights_are_best_for_the_highest_order(ways, more, extra, seed):
    """The theorem behind it, at random weights of all subsets."""
    k, n, rng = ways + more, (ways + 1) ** 2 + extra, np.random.default_rng(seed)
    subsets = [set(S) for s in range(k + 1) for S in itertools.combinations(range(k), s)]
    theta = rng.exponential(size=len(subsets)) ** rng.integers(1, 6)
    theta /= theta.sum()
    levels = [
        sum(t**2 * n ** (k - len(S)) for t, S in zip(theta, subsets, strict=True) if S >= T)
        for T in subsets
        if len(T) == ways
    ]
    least = math.comb(k, ways) ** 3 / n ** (k - ways)
    assert (1 / np.array(levels)).sum() >= least * (1 - 1e-12)
