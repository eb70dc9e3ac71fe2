"""Running sums and ranges beside regions that nest, against Kronecker products and dense optima."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from region_parts import TREES, region_part, rows_of

from pmldesign import PureDP, factorize, mechanism
from pmldesign.designs import DesignOptions, solve_regions
from pmldesign.privacy import Neighbours, Noise
from pmldesign.releases import lattice_of
from pmldesign.strategies import RegionTablesStrategy, cells_alone, free_vector, measured
from pmldesign.workloads import DenseWorkload, RangeWorkload, RegionTablesWorkload, times_parts
from pmldesign_solvers.tables import Measured
from pmldesign_solvers.trees import Tree

SIZES = (2, 4, 3)
TABLES = [(), (0,), (1,), (0, 1), (0, 1, 2)]
RELATIONS = {
    "running sums": [(0, stop) for stop in range(1, 5)],
    "ranges": [(i, j) for i in range(4) for j in range(i + 1, 5)],
    "windows": [(0, 2), (1, 3), (2, 4), (0, 1)],
}


def ranges_of(pairs, n):
    starts, stops = zip(*pairs, strict=True)
    matrix = np.array([[a <= j < b for j in range(n)] for a, b in pairs], dtype=float)
    return RangeWorkload(starts, stops, n), matrix


def random_case(seed, parents, relation):
    """Tables at nodes of which two attributes are ordered, their matrix, and a strategy."""
    rng, tree = np.random.default_rng(seed), Tree(parents)
    queries, A_i = {}, [np.eye(n) for n in SIZES]
    queries[1], A_i[1] = ranges_of(RELATIONS[relation], 4)
    queries[2], A_i[2] = ranges_of([(0, 1), (0, 2), (0, 3)], 3)
    parts = [region_part((0, 1), tree.leaves, np.ones(tree.cells), "below")]
    for number, table in enumerate(TABLES):
        nodes = np.flatnonzero(rng.integers(0, 2, tree.nodes))
        if nodes.size and table != (0, 1):
            parts.append(region_part(table, nodes, rng.uniform(0.5, 2.0, nodes.size), f"{number}"))
    workload = RegionTablesWorkload("w", tree, SIZES, parts, queries)
    A = np.vstack([rows_of(tree, A_i, p.table, p.nodes, p.scales) for p in parts])
    ordered, factors = {}, [np.eye(2)]
    for i in (1, 2):
        Y = np.eye(SIZES[i])[1:] + rng.uniform(-0.2, 0.2, (SIZES[i] - 1, SIZES[i]))
        Y /= np.linalg.norm(Y, axis=0).max()
        factors.append(Y)
        ordered[i] = Measured(Y, np.linalg.inv(np.vstack([np.ones(SIZES[i]), Y])))
    tables = measured(workload, ordered)
    weights = np.zeros((len(tables), tree.places))
    for row in weights:
        row[tree.place_of_node] = rng.uniform(0.1, 3.0, tree.nodes)
    strategy = RegionTablesStrategy("s", tree, SIZES, tables, weights, ordered)
    R = np.vstack(
        [
            rows_of(tree, factors, table, np.flatnonzero(row), row[row > 0])
            for table, row in zip(tables, strategy.node_weights, strict=True)
        ]
    )
    return rng, workload, A, strategy, R


CASES = st.builds(
    random_case, st.integers(0, 2**32 - 1), st.sampled_from(TREES), st.sampled_from([*RELATIONS])
)


@settings(max_examples=6)
@given(CASES)
def test_workload_is_its_matrix(case):
    rng, workload, A, _, _ = case
    np.testing.assert_allclose(workload.to_dense(), A, atol=1e-12)
    m, n = A.shape
    x, y = rng.standard_normal((n, 2)), rng.standard_normal(m)
    np.testing.assert_allclose(workload.matvec(x), A @ x, atol=1e-10)
    np.testing.assert_allclose(workload.rmatvec(y), A.T @ y, atol=1e-10)
    np.testing.assert_allclose(workload.column_squares(), (A**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(workload.weighted_squares(x[:, 0] ** 2), (A**2) @ x[:, 0] ** 2)
    gram = A.T @ A
    apart = (gram.diagonal()[:, None] + gram.diagonal() - 2 * gram).max()
    assert apart <= workload.longest_difference() * (1 + 1e-12)
    doubled = times_parts(workload, [2.0] * len(workload.parts))
    np.testing.assert_allclose(doubled.to_dense(), 2 * A)


@settings(max_examples=6)
@given(CASES)
def test_strategy_is_its_matrix(case):
    rng, workload, A, strategy, R = case
    np.testing.assert_allclose(strategy.matrix, R, atol=1e-12)
    for norm, order in (("l1", 1), ("l2", 2)):
        longest = np.linalg.norm(R, order, axis=0).max()
        apart = max(np.linalg.norm(R.T - column, order, axis=1).max() for column in R.T)
        for relation, value in (("add-remove", longest), ("replace", apart)):
            claimed = strategy.sensitivity_under(Neighbours(relation), norm)
            assert value * (1 - 1e-14) <= claimed <= 3 * value
    inverse = np.linalg.pinv(R, rcond=1e-11)
    spread = ((A @ inverse) ** 2).sum(axis=1)
    np.testing.assert_allclose(strategy.variances(workload), spread, rtol=1e-7)
    y = rng.standard_normal((len(R), 2))
    np.testing.assert_allclose(A @ strategy.estimate(y), A @ (inverse @ y), atol=1e-7)
    assert strategy.rank == np.linalg.matrix_rank(R)
    if strategy.rank == R.shape[1]:
        free = np.linalg.solve(R.T @ R, np.ones(R.shape[1]))
        np.testing.assert_allclose(free_vector(strategy), free, atol=1e-8)
    values = cells_alone(workload)
    np.testing.assert_allclose(values.variances(workload), (A**2).sum(axis=1), rtol=1e-10)


@settings(max_examples=5)
@given(CASES)
def test_noise_on_whole_numbers_is_of_what_is_measured(case):
    """Distances of whole numbers are not larger than they are said to be."""
    rng, workload, _, strategy, _ = case
    lattice = lattice_of(strategy, workload, 30)
    x = rng.integers(0, 1000, strategy.cells)
    np.testing.assert_allclose(
        lattice.units * lattice.image(x).astype(float), strategy.measure(x), atol=1e-4
    )
    images = [lattice.image(np.eye(strategy.cells, dtype=np.int64)[j]) for j in (0, 1, -1)]
    for noise, power in ((Noise.LAPLACE, 1), (Noise.GAUSSIAN, 2)):
        most, _ = lattice.sensitivity(Neighbours.ADD_REMOVE, noise)
        assert max(sum(abs(int(z)) ** power for z in image) for image in images) <= most
        most, _ = lattice.sensitivity(Neighbours.REPLACE, noise)
        for image in images[1:]:
            assert sum(abs(int(z)) ** power for z in image - images[0]) <= most


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_bounds_hold_the_optimum_of_one_matrix(p, neighbours):
    _, workload, A, _, _ = random_case(3, [-1, 0, 0, 1, 1], "running sums")
    options = DesignOptions(neighbours=Neighbours(neighbours), rel_gap=3e-3)
    design = solve_regions(workload, p, options)
    exact = factorize(DenseWorkload(A), p=p, rel_gap=3e-3, neighbours=neighbours).certificate
    assert design.certificate.lower <= exact.upper
    assert design.certificate.upper >= exact.lower
    if neighbours == "add-remove":
        assert design.certificate.upper <= exact.upper * 1.03
        assert design.certificate.lower >= exact.lower * 0.97
        ((u, w),) = design.dual_factors
        proved = np.linalg.norm(np.sqrt(u)[:, None] * A * np.sqrt(w), "nuc") / math.sqrt(w.sum())
        proved /= math.sqrt(np.linalg.norm(u, {2.0: np.inf, 3.0: 3.0, math.inf: 1.0}[p]))
        assert design.certificate.lower <= proved <= exact.upper
    R = design.strategy.matrix
    if neighbours == "replace":
        A, R = A - A.mean(axis=1, keepdims=True), R - R.mean(axis=1, keepdims=True)
    spread = np.linalg.norm(A @ np.linalg.pinv(R, rcond=1e-11), axis=1)
    value = spread.max() if math.isinf(p) else (spread**p).sum() ** (1 / p)
    length = max(np.linalg.norm(R.T - column, axis=1).max() for column in R.T)
    length = length if neighbours == "replace" else np.linalg.norm(R, axis=0).max()
    assert value * length <= design.certificate.upper * (1 + 1e-9)


def test_one_table_everywhere_is_a_product():
    """Counts of places times running sums: the norm is that of the tree times that of the sums."""
    tree = Tree(TREES[4])
    queries, _ = ranges_of([(0, stop) for stop in range(1, 9)], 8)
    parts = [region_part((0,), np.arange(tree.nodes), np.ones(tree.nodes))]
    workload = RegionTablesWorkload("w", tree, (8,), parts, {0: queries})
    design = solve_regions(workload, 2.0, DesignOptions(rel_gap=1e-4))
    alone = RegionTablesWorkload(
        "w", tree, (1,), [region_part((), np.arange(tree.nodes), np.ones(tree.nodes))]
    )
    places = factorize(alone, rel_gap=1e-7).certificate.upper
    sums = factorize(queries, rel_gap=1e-7).certificate.upper
    assert design.certificate.lower == pytest.approx(places * sums, rel=1e-4)
    assert design.certificate.upper <= places * sums * 1.01


def test_laplace_noise_measures_values():
    _, workload, _, _, _ = random_case(5, TREES[3], "windows")
    noisy = mechanism(factorize(workload), guarantee=PureDP(1.0), noise="laplace")
    assert noisy.error(2) > 0
