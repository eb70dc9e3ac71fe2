"""Counts that nest: workload, strategies, files, releases and claims against indicators."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from same_strategy import assert_exact_lattice

from pmldesign import (
    ZCDP,
    PureDP,
    factorize,
    least_budget,
    mechanism,
    optimize,
)
from pmldesign.designs import named_targets
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import read_strategy, verify_file, write_strategy
from pmldesign.privacy import Neighbours
from pmldesign.strategies import (
    RegionsStrategy,
    Strategy,
    baseline,
    free_vector,
    queries_alone,
    renamed,
)
from pmldesign.workloads import (
    RECORDS,
    DenseWorkload,
    RegionsWorkload,
    given_invariants,
    parse_workload,
    weighted,
)
from pmldesign_solvers.trees import Tree

PLACES = """state,county,tract
AL,Autauga,1
AL,Autauga,2
AL,Baldwin,3
DC,,4
DC,,5
VA,Fairfax,
"""
NAMES = [
    "total 'total'",
    "state 'AL'",
    "state 'DC'",
    "state 'VA'",
    "county 'Autauga'",
    "county 'Baldwin'",
    "county 'Fairfax'",
    *(f"tract '{number}'" for number in range(1, 6)),
]


def random_tree(rng, nodes):
    return Tree([-1, *(int(rng.integers(max(0, i - 9), i)) for i in range(1, nodes))])


def random_case(seed, nodes):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, nodes)
    scales = rng.uniform(0.5, 2.0, nodes) * rng.integers(0, 2, nodes)
    scales[-1] = 1.0
    weights = np.zeros(tree.places)
    weights[tree.place_of_node] = rng.uniform(0.1, 3.0, nodes) * rng.integers(0, 2, nodes)
    weights[tree.place_of_cell] = rng.uniform(0.1, 3.0, tree.cells)
    return rng, RegionsWorkload("w", tree, scales), RegionsStrategy("s", tree, weights)


CASES = st.builds(random_case, st.integers(0, 2**32 - 1), st.integers(1, 35))


def path(folder, text=PLACES):
    (folder / "places.csv").write_text(text)
    return f"regions:{folder / 'places.csv'}"


def test_places_are_named_and_summed(tmp_path):
    workload = parse_workload(path(tmp_path) + ",county=2")
    labels = [workload.row_label(index) for index in range(12)]
    assert labels == [f"row {index} ({name})" for index, name in enumerate(NAMES)]
    # the leaves in the order of nodes: Fairfax has no tract
    below = {"AL": [1, 2, 3], "DC": [4, 5], "VA": [0], "Autauga": [1, 2]}
    matrix = workload.to_dense()
    for row, key in ((1, "AL"), (2, "DC"), (3, "VA")):
        assert np.flatnonzero(matrix[row]).tolist() == below[key]
    assert (matrix[4, below["Autauga"]] == 2).all()
    assert (matrix[0] == 1).all()


def test_parents_tell_the_same_as_levels(tmp_path):
    text = "place,parent\nUS,\nAL,US\nVA,US\nA1,AL\nA2,AL\n"
    workload = parse_workload(path(tmp_path, text))
    assert workload.to_dense().tolist() == [[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no places"),
        ("state,county\n", "no places"),
        ("state,county\nAL\n", "line 2 has 1 fields"),
        ("state,state\nAL,A\n", "different"),
        ("state,county\nAL,A\nAL,A\n", "second time"),
        ("state,county\nAL,\nAL,A\n", "has places below"),
        ("place,parent\nA,B\nB,A\n", "within itself"),
        ("place,parent\nA,B\n", "no line of its own"),
        ("place,parent\nA,\nA,\n", "one line"),
        ("AL,01,Autauga\nAL,03,Baldwin\n", "the first line of .* holds a place; put the names"),
        ("AL,Autauga\nAL,Baldwin\n", "the first line of .* holds a place"),
        ("STATE|COUNTY\nAL|Autauga\n", r"are separated by \|; write the file with commas"),
        ("state\tcounty\nAL\tAutauga\n", "are separated by tabs"),
        ("state;county\nAL;Autauga\n", "are separated by ;"),
    ],
)
def test_bad_places_are_refused(tmp_path, text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_workload(path(tmp_path, text))


@pytest.mark.parametrize("tail", [",town=2", ",county=x", ",county=-1", ",county", ",county=nan"])
def test_bad_weights_of_levels_are_refused(tmp_path, tail):
    with pytest.raises(InvalidInputError, match=r"level|weight"):
        parse_workload(path(tmp_path) + tail)


CODED = """state,code,county,name,class
Alabama,01,001,Autauga,H1
Alabama,01,003,Baldwin,H1
Delaware,10,001,Kent,H1
Guam,66,,,H4
"""


def test_a_column_that_renames_the_level_before_is_no_level(tmp_path):
    """Counts of 5 columns would ask three times about every county, and twice about every state."""
    workload = parse_workload(path(tmp_path, CODED))
    assert workload.levels == ("total", "state", "county")
    counties = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    states = [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert workload.to_dense().tolist() == [[1, 1, 1, 1], *states, *counties]


@pytest.mark.parametrize(
    ("tail", "levels"),
    [
        (",levels=state/name", ("total", "state", "name")),
        (",name=2, levels = name", ("total", "name")),
        (",levels=state/code/county", ("total", "state", "code", "county")),
    ],
)
def test_levels_can_be_chosen(tmp_path, tail, levels):
    text = CODED.replace("66,,,H4", "66,001,Agana,H4")
    workload = parse_workload(path(tmp_path, text) + tail)
    assert workload.levels == levels
    assert parse_workload(workload.name).to_dense().tolist() == workload.to_dense().tolist()


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (",levels=state/town", "has no column 'town'; it has state, code, county, name, class"),
        (",levels=", "has no column ''"),
        (",levels=state/state", "must differ"),
        (",levels=state", "has 'Alabama' for the second time"),
        (",name=2", "has no level 'name'; its levels are total, state, county"),
    ],
)
def test_levels_that_cannot_be_are_refused(tmp_path, tail, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_workload(path(tmp_path, CODED) + tail)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"nowhere\.csv"):
        parse_workload(f"regions:{tmp_path / 'nowhere.csv'}")
    with pytest.raises(InvalidInputError, match="places"):
        parse_workload("regions:")


@given(CASES)
def test_workload_is_its_matrix(case):
    rng, workload, _ = case
    A = workload.to_dense()
    dense = DenseWorkload(A)
    m, n = A.shape
    x, y, half = rng.standard_normal((n, 2)), rng.standard_normal(m), rng.standard_normal((n, 3))
    np.testing.assert_allclose(workload.matvec(x), A @ x, atol=1e-12)
    np.testing.assert_allclose(workload.rmatvec(y), A.T @ y, atol=1e-12)
    np.testing.assert_allclose(workload.row_norms(half), dense.row_norms(half), atol=1e-10)
    np.testing.assert_allclose(workload.column_squares(), (A**2).sum(axis=0), rtol=1e-12)
    apart = ((A[:, :, None] - A[:, None]) ** 2).sum(axis=0).max()
    assert apart <= workload.longest_difference() <= apart * (1 + 1e-9)
    scaled = weighted(workload, np.arange(1.0, m + 1))
    np.testing.assert_allclose(scaled.to_dense(), np.arange(1.0, m + 1)[:, None] * A)


@given(CASES)
def test_strategy_is_its_matrix(case):
    rng, workload, strategy = case
    dense = Strategy("dense", strategy.matrix)
    for norm, order in (("l1", 1), ("l2", 2)):
        columns = strategy.matrix.T
        longest = np.linalg.norm(columns, order, axis=1).max()
        apart = np.linalg.norm(columns[:, None] - columns, order, axis=2).max()
        for relation, value in (("add-remove", longest), ("replace", apart)):
            claimed = strategy.sensitivity_under(Neighbours(relation), norm)
            assert value * (1 - 1e-15) <= claimed <= value * (1 + 1e-12)
    y = rng.standard_normal((strategy.shape[0], 2))
    np.testing.assert_allclose(strategy.estimate(y), dense.estimate(y), atol=1e-9)
    np.testing.assert_allclose(strategy.variances(workload), dense.variances(workload), rtol=1e-8)
    ones = np.ones(strategy.cells)
    np.testing.assert_allclose(strategy.gram @ free_vector(strategy), ones, atol=1e-8)


@given(CASES)
def test_lattice_counts_are_whole_and_their_sensitivities_exact(case):
    rng, workload, strategy = case
    assert_exact_lattice(strategy, workload, rng)


def levels(*counts):
    """A tree of so many nodes at each level, children as even as they can be."""
    parents, first = [-1], 0
    for above, count in pairwise(counts):
        parents += [first + i * above // count for i in range(count)]
        first += above
    tree = Tree(parents)
    return RegionsWorkload("w", tree, np.ones(tree.nodes))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_design_is_close_to_its_bound_and_better_than_equal_shares(neighbours):
    workload = levels(1, 13, 600)
    design = factorize(workload, neighbours=neighbours, rel_gap=1e-3)
    assert isinstance(renamed(design.strategy, ""), RegionsStrategy)
    assert design.certificate.gap < 0.01
    relation = Neighbours(neighbours)
    asked = given_invariants(workload, RECORDS) if neighbours == "replace" else workload
    for name in ("equal-shares", "identity"):
        other = baseline(name, workload)
        measured = other.beside(RECORDS) if neighbours == "replace" else other
        spread = np.sqrt(measured.variance_norm(asked, 1))
        assert spread * measured.sensitivity_under(relation, "l2") >= design.certificate.lower


def test_public_totals_are_neither_measured_nor_bounded():
    """At p = inf the total would take all weights of queries, and has no error under replace."""
    workload = levels(1, 13, 600)
    design = factorize(workload, p=np.inf, neighbours="replace", rel_gap=1e-3)
    assert design.certificate.gap < 0.1
    assert design.strategy.node_weights[0] == 0
    alone = levels(1, 600).reweighted(np.arange(601) == 0)
    with pytest.raises(InvalidInputError, match="answer all"):
        factorize(alone, neighbours="replace")


@pytest.mark.parametrize(
    ("weights", "variance"),
    [("", 9.0), (",state=0", 6.0), (",total=0", 6.0), (",county=1e-9", 4.0)],
)
def test_laplace_noise_may_leave_all_but_the_lowest_places_out(tmp_path, weights, variance):
    """Of three counties in two states the identity has 9: 3 of all, 2 and 1, and three ones."""
    (tmp_path / "places.csv").write_text("state,county\nAL,1\nAL,2\nGA,3\n")
    workload = parse_workload(f"regions:{tmp_path / 'places.csv'}{weights}")
    noisy = optimize(workload, guarantee=PureDP(1.0), noise="laplace", effort="thorough").best
    assert noisy.error(2) <= np.sqrt(2 * variance) * (1 + 1e-6)


def test_laplace_noise_has_weights_of_its_own():
    workload = levels(1, 13, 600)
    design = factorize(workload, rel_gap=1e-2)
    gaussian = mechanism(design, guarantee=PureDP(1.0), noise="laplace").error(2)
    laplace = optimize(workload, guarantee=PureDP(1.0), noise="laplace", effort="quick").best
    assert laplace.error(2) < gaussian


@pytest.mark.parametrize("p", [2, 3])
def test_files_come_back_and_are_verified(tmp_path, p):
    """By sweeps, and for Laplace noise at p = 3 from the matrix."""
    rng = np.random.default_rng(3)
    workload = parse_workload(path(tmp_path))
    tree = workload.tree
    weights = np.zeros(tree.places)
    weights[tree.place_of_node] = rng.uniform(0.5, 1.0, tree.nodes)
    noisy = mechanism(RegionsStrategy("s", tree, weights), workload, guarantee=PureDP(1.0), p=p)
    write_strategy(tmp_path / "s.npz", noisy)
    assert verify_file(tmp_path / "s.npz").holds
    np.testing.assert_allclose(read_strategy(tmp_path / "s.npz").matrix, noisy.strategy.matrix)


def test_a_large_file_keeps_its_tree(tmp_path):
    workload = levels(1, 40, 2500)
    noisy = mechanism(baseline("equal-shares", workload), workload, guarantee=PureDP(1.0))
    write_strategy(tmp_path / "s.npz", noisy)
    again = read_strategy(tmp_path / "s.npz")
    assert isinstance(again, RegionsStrategy)
    assert (again.node_weights == noisy.strategy.node_weights).all()
    with np.load(tmp_path / "s.npz") as file:
        assert json.loads(str(file["header"]))["cells"] == 2500


def test_weights_of_places_that_differ_call_for_a_matrix():
    """Where own counts are far from the bound and one matrix is affordable."""
    even = levels(1, 9, 250)
    scales = 10 ** np.random.default_rng(1).uniform(-1.5, 1.5, even.tree.nodes)
    workload = RegionsWorkload("w", even.tree, scales)
    design = factorize(workload, rel_gap=1e-3)
    assert design.certificate.gap < 1e-3
    assert not isinstance(design.strategy, RegionsStrategy)
    assert factorize(workload, rel_gap=0.5).certificate.gap > 0.01


def test_the_optimum_beyond_counts_is_that_of_a_matrix():
    """Where own counts are above it; for other neighbours nothing is said."""
    even = levels(1, 13, 600)
    scales = np.random.default_rng(1).uniform(0.5, 2.0, even.tree.nodes)
    workload = RegionsWorkload("w", even.tree, scales)
    design = factorize(workload, rel_gap=1e-5)
    exact = factorize(DenseWorkload(workload.to_dense()), rel_gap=1e-6).certificate
    assert exact.lower <= design.optimum <= exact.upper * (1 + 1e-5)
    assert design.optimum < design.certificate.upper
    assert factorize(workload, neighbours="replace", rel_gap=0.1).optimum is None
    rows = [factorize(workload, participation=text) for text in ("3,any", "3,one-per=cell")]
    assert rows[0].optimum == pytest.approx(3 * design.optimum, rel=1e-5)
    assert rows[1].optimum is None


def test_targets_of_levels(tmp_path):
    """Every level meets its own, one of them exactly, and a single place may have another."""
    workload = parse_workload(path(tmp_path) + ",county=0")
    named = {"total": 9.0, "state": 3.0, "tract": 4.0}
    targets = named_targets(workload, named, None)
    design = least_budget(workload, ZCDP(1.0), targets=targets, noise="gaussian")
    assert [name for name, _ in workload.part_rows] == ["total", "state", "tract"]
    assert [count for _, count in workload.part_rows] == [1, 3, 5]
    ratios = design.mechanism.standard_deviations / np.repeat(
        [9.0, 3.0, 4.0], [count for _, count in workload.part_rows]
    )
    assert ratios.max() == pytest.approx(1, rel=1e-6)
    assert design.at_least <= design.enough <= design.at_least * (1 + 1e-4)
    single = named_targets(workload, {"state": 3.0, "row 2 (state 'DC')": 1.0}, 5.0)
    assert single.values.tolist() == [5, 3, 1, 3, 5, 5, 5, 5, 5]


def test_levels_out_of_order_are_one_part():
    tree = Tree([-1, 0, 0, 1, 1])
    mixed = RegionsWorkload("w", tree, np.ones(5), ["a", "b", "c"], np.array([0, 2, 1, 2, 2]))
    assert [name for name, _ in mixed.part_rows] == ["w"]
    with pytest.raises(InvalidInputError, match="'w'"):
        named_targets(mixed, {"b": 1.0}, None)


def test_the_queries_themselves_are_a_strategy_at_any_size():
    workload = levels(1, 40, 2500)
    strategy = baseline("workload", workload)
    x = np.random.default_rng(0).poisson(3, 2500).astype(float)
    np.testing.assert_array_equal(strategy.measure(x), workload.matvec(x))
    twice = RegionsWorkload("w", Tree([-1, 0, 1, *[2] * 2500]), np.ones(2503))
    assert queries_alone(twice) is None
