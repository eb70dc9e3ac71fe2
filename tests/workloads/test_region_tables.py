"""Tables at regions that nest: workload, strategy and design against Kronecker products."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from region_parts import TREES, region_part, rows_of
from same_strategy import assert_exact_lattice

from pmldesign import PureDP, factorize, mechanism, optimize
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours, Noise
from pmldesign.strategies import (
    RegionTablesStrategy,
    Strategy,
    baseline,
    free_vector,
    renamed,
    tells_total,
)
from pmldesign.workloads import (
    RECORDS,
    DenseWorkload,
    RegionTablesWorkload,
    given_invariants,
    weighted,
    weighted_parts,
)
from pmldesign_solvers.trees import Tree

SIZES = (2, 3)
TABLES = [(), (0,), (1,), (0, 1)]
CELLS = [np.eye(size) for size in SIZES]


def random_case(seed, parents, sizes=SIZES):
    """Some tables at some nodes, and a strategy that answers them: other weights, and more."""
    rng, tree = np.random.default_rng(seed), Tree(parents)
    parts, weights = [], np.zeros((len(TABLES), tree.places))
    for number, table in enumerate(TABLES):
        nodes = np.flatnonzero(rng.integers(0, 2, tree.nodes))
        if number == 1:
            nodes = tree.leaves
        if nodes.size:
            parts.append(region_part(table, nodes, rng.uniform(0.5, 2.0, len(nodes)), f"p{number}"))
        more = rng.integers(0, 2, tree.nodes) if rng.integers(0, 2) else np.zeros(tree.nodes)
        more[nodes] = 1.0
        places = tree.place_of_node[np.flatnonzero(more)]
        weights[number, places] = rng.uniform(0.1, 3.0, len(places))
    workload = RegionTablesWorkload("w", tree, sizes, parts)
    return rng, workload, RegionTablesStrategy("s", tree, sizes, TABLES, weights)


CASES = st.builds(random_case, st.integers(0, 2**32 - 1), st.sampled_from(TREES))


@given(CASES)
def test_workload_is_its_matrix(case):
    rng, workload, _ = case
    A = np.vstack(
        [rows_of(workload.tree, CELLS, p.table, p.nodes, p.scales) for p in workload.parts]
    )
    m, n = workload.shape
    assert A.shape == (m, n)
    np.testing.assert_allclose(workload.to_dense(), A)
    dense = DenseWorkload(A)
    x, y, half = rng.standard_normal((n, 2)), rng.standard_normal(m), rng.standard_normal((n, 3))
    np.testing.assert_allclose(workload.matvec(x[:, 0]), A @ x[:, 0], atol=1e-12)
    np.testing.assert_allclose(workload.rmatvec(y), A.T @ y, atol=1e-12)
    np.testing.assert_allclose(workload.row_norms(half), dense.row_norms(half), atol=1e-10)
    np.testing.assert_allclose(workload.column_squares(), (A**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(workload.weighted_squares(x[:, 0] ** 2), (A**2) @ x[:, 0] ** 2)
    np.testing.assert_allclose(workload.row_sizes(), np.abs(A).max(axis=1))
    apart = ((A[:, :, None] - A[:, None]) ** 2).sum(axis=0).max()
    assert apart <= workload.longest_difference() * (1 + 1e-12) <= apart * (1 + 1e-9)


@given(CASES)
def test_weights_keep_the_structure_where_they_can(case):
    _, workload, _ = case
    A, parts = workload.to_dense(), np.arange(2.0, len(workload.parts) + 2)
    of_queries = np.repeat(parts, [count for _, count in workload.part_rows])
    for scaled in (weighted(workload, of_queries), weighted_parts(workload, parts.tolist())):
        assert isinstance(scaled, RegionTablesWorkload)
        np.testing.assert_allclose(scaled.to_dense(), of_queries[:, None] * A)
        assert scaled.unweighted is workload
    uneven = np.arange(1.0, len(A) + 1)
    np.testing.assert_allclose(weighted(workload, uneven).to_dense(), uneven[:, None] * A)
    assert [name for name, _ in workload.part_rows] == [part.name for part in workload.parts]


@given(CASES)
def test_strategy_is_its_matrix(case):
    rng, workload, strategy = case
    nodes = [np.flatnonzero(row) for row in strategy.node_weights]
    R = np.vstack(
        [
            rows_of(workload.tree, CELLS, table, kept, row[kept])
            for table, kept, row in zip(TABLES, nodes, strategy.node_weights, strict=True)
        ]
    )
    np.testing.assert_allclose(strategy.matrix, R)
    dense = Strategy("dense", R)
    for norm, order in (("l1", 1), ("l2", 2)):
        longest = np.linalg.norm(R, order, axis=0).max()
        apart = np.linalg.norm(R.T[:, None] - R.T, order, axis=2).max()
        for relation, value in (("add-remove", longest), ("replace", apart)):
            claimed = strategy.sensitivity_under(Neighbours(relation), norm)
            assert value * (1 - 1e-15) <= claimed <= value * (1 + 1e-12)
    y = rng.standard_normal((strategy.shape[0], 2))
    np.testing.assert_allclose(strategy.estimate(y), np.linalg.pinv(R, 1e-10) @ y, atol=1e-9)
    np.testing.assert_allclose(strategy.variances(workload), dense.variances(workload), rtol=1e-8)
    assert strategy.rank == np.linalg.matrix_rank(R)
    free = np.linalg.pinv(R.T @ R, 1e-12) @ np.ones(strategy.cells)
    if tells_total(dense):
        np.testing.assert_allclose(free_vector(strategy), free, atol=1e-8)
    assert tells_total(strategy) == tells_total(dense)


@given(CASES)
def test_public_totals_are_those_of_projections(case):
    """Beside the number of records, with structure and as a matrix."""
    from pmldesign.strategies import BesideStrategy

    _, workload, strategy = case
    known = BesideStrategy(strategy)
    asked = given_invariants(workload, RECORDS)
    dense = Strategy("dense", strategy.matrix).beside(RECORDS)
    np.testing.assert_allclose(known.variances(asked), dense.variances(asked), rtol=1e-7, atol=1e-9)


@given(CASES)
def test_lattice_tables_are_whole_and_their_sensitivities_exact(case):
    rng, workload, strategy = case
    assert_exact_lattice(strategy, workload, rng)


def test_what_is_not_measured_is_named():
    tree = Tree([-1, 0, 0])
    weights = np.zeros((2, tree.places))
    weights[0, tree.place_of_node] = 1.0
    weights[1, tree.root] = 1.0
    strategy = RegionTablesStrategy("s", tree, (2,), [(), (0,)], weights)
    strategy.require_answers(RegionTablesWorkload("w", tree, (2,), [region_part((0,), [0], [1])]))
    below = RegionTablesWorkload("w", tree, (2,), [region_part((0,), [1], [1], "state*sex")])
    with pytest.raises(InvalidInputError, match=r"'state\*sex'.*not measured"):
        strategy.require_answers(below)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "nothing"),
        ([region_part((), [], [])], "nowhere"),
        ([region_part((0,), [1], [1]), region_part((0,), [0, 1], [1, 1])], "twice"),
    ],
)
def test_bad_parts_are_refused(parts, message):
    with pytest.raises(InvalidInputError, match=message):
        RegionTablesWorkload("w", Tree([-1, 0]), (2,), parts)


def test_bad_weights_are_refused():
    tree = Tree([-1, 0, 0, 0])
    inner = np.ones((1, tree.places))
    for weights in (np.zeros((1, tree.places)), inner, inner[:, :-1], -inner):
        with pytest.raises(InvalidInputError, match="weight"):
            RegionTablesStrategy("s", tree, (2,), [()], weights)


def nation(counts, sizes, *, parts):
    """States and counties, as even as they can be; parts by level."""
    parents, first = [-1], 0
    for above, count in pairwise(counts):
        parents += [first + i * above // count for i in range(count)]
        first += above
    tree = Tree(parents)
    asked = []
    for level, table in parts:
        nodes = np.flatnonzero(tree.depths == level)
        asked.append(region_part(table, nodes, np.ones(len(nodes)), f"{level}{table}"))
    return RegionTablesWorkload("w", tree, sizes, asked)


PARTS = [(0, ()), (1, (0, 1)), (2, (0, 1)), (2, (0,))]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_design_is_close_to_its_bound_and_better_than_equal_shares(neighbours):
    workload = nation((1, 7, 90), (2, 4), parts=PARTS)
    design = factorize(workload, neighbours=neighbours, rel_gap=1e-3)
    assert isinstance(renamed(design.strategy, ""), RegionTablesStrategy)
    assert design.certificate.gap < 0.03
    relation = Neighbours(neighbours)
    asked = given_invariants(workload, RECORDS) if neighbours == "replace" else workload
    for name in ("equal-shares", "identity"):
        other = baseline(name, workload)
        measured = other.beside(RECORDS) if neighbours == "replace" else other
        spread = np.sqrt(measured.variance_norm(asked, 1))
        assert spread * measured.sensitivity_under(relation, "l2") >= design.certificate.lower


@settings(max_examples=3)
@given(CASES, st.sampled_from([2.0, 4.0, np.inf]))
def test_small_ones_are_solved_as_one_matrix_and_large_ones_agree(case, p):
    from pmldesign.designs import DesignOptions, solve_regions

    _, workload, _ = case
    exact = factorize(workload, p=p, rel_gap=1e-4).certificate
    options = DesignOptions(neighbours=Neighbours.ADD_REMOVE, rel_gap=1e-4)
    design = solve_regions(workload, p, options)
    assert design.certificate.lower <= exact.upper
    assert design.certificate.upper >= exact.lower
    assert design.certificate.lower >= exact.lower * (1 - 4e-3)
    replaced = factorize(workload, p=p, rel_gap=1e-3, neighbours="replace").certificate
    options = DesignOptions(neighbours=Neighbours.REPLACE, rel_gap=1e-4)
    design = solve_regions(workload, p, options)
    assert design.certificate.lower <= replaced.upper
    assert design.certificate.upper >= replaced.lower


def test_laplace_noise_has_weights_of_its_own():
    workload = nation((1, 7, 90), (2, 4), parts=PARTS)
    design = factorize(workload, rel_gap=1e-2)
    gaussian = mechanism(design, guarantee=PureDP(1.0), noise=Noise.LAPLACE).error(2)
    laplace = optimize(workload, guarantee=PureDP(1.0), noise="laplace", effort="quick").best
    assert laplace.error(2) < gaussian


@pytest.mark.parametrize("p", [2.0, np.inf])
def test_designs_are_never_worse_than_usual_shares_or_the_queries(p):
    """Also where a histogram has few cells beside many tables, by one or two of three."""
    from pmldesign.designs import DesignOptions, solve_regions

    two = [(2, (0, 1)), (2, (0, 2)), (2, (1, 2)), (2, (0,)), (2, (1,)), (1, (2,))]
    workload = nation((1, 2, 260), (2, 2, 2), parts=two)
    design = solve_regions(workload, p, DesignOptions(neighbours=Neighbours.ADD_REMOVE))
    found = np.sqrt(design.strategy.variance_norm(workload, p / 2))
    errors = {}
    for name in ("identity", "workload", "equal-shares", "level-shares"):
        other = baseline(name, workload)
        assert isinstance(other, RegionTablesStrategy)
        errors[name] = np.sqrt(other.normalised().variance_norm(workload, p / 2))
    assert found <= min(errors.values()) * (1 + 2e-6)
    rows = baseline("workload", workload).matrix
    np.testing.assert_allclose(np.sort(rows.sum(axis=1)), np.sort(workload.to_dense().sum(axis=1)))
