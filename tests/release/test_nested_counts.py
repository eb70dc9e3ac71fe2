"""Non-negative and whole counts of places that nest, against programs and all roundings."""

import itertools

import numpy as np
import pytest
from fast_sampler import fast_sampler
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, nnls

from pmldesign import ApproxDP, PureDP, factorize, mechanism
from pmldesign.privacy import Neighbours
from pmldesign.releases import closest_cells, nonnegative_cells, prepare, rounded_cells, whole_cells
from pmldesign.workloads import RegionsWorkload
from pmldesign_solvers.trees import Tree

SHAPES = [[-1], [-1, 0, 1], [-1, 0, 0, 0, 0], [-1, 0, 0, 2, 2, 4, 4], [-1, 0, 0, 1, 2, 2]]


def random_tree(rng, nodes):
    return Tree([-1, *(int(rng.integers(max(0, i - 6), i)) for i in range(1, nodes))])


SEEDS = st.integers(0, 2**32 - 1)


def cases(seed, nodes):
    rng = np.random.default_rng(seed)
    yield rng, random_tree(rng, nodes)
    for shape in SHAPES:
        yield rng, Tree(shape)


@settings(max_examples=10)
@given(SEEDS, st.integers(1, 25))
def test_closest_cells_are_those_of_an_active_set_method(seed, nodes):
    for rng, tree in cases(seed, nodes):
        E = tree.sums(np.eye(tree.cells))
        squares = 10 ** rng.uniform(-2, 2, tree.nodes) * rng.integers(0, 2, tree.nodes)
        squares[tree.leaves] = 10 ** rng.uniform(-2, 2, tree.cells)
        targets = rng.normal(1, 3, tree.nodes)
        roots = np.sqrt(squares)
        exact, _ = nnls(roots[:, None] * E, roots * targets)
        cells = closest_cells(tree, squares, targets)
        np.testing.assert_allclose(cells, exact, atol=1e-8)
        heavy = np.vstack([roots[:, None] * E, np.full((1, tree.cells), 1e5)])
        wanted = np.append(roots * targets, 7e5)
        exact = lsq_linear(heavy, wanted, (0, np.inf), method="bvls", tol=1e-14).x
        cells = closest_cells(tree, squares, targets, sums_known(tree, [0], 7.0))
        assert cells.sum() == pytest.approx(7)
        error = np.linalg.norm(roots * (E @ cells - targets))
        assert error <= np.linalg.norm(roots * (E @ exact - targets)) + 1e-5


def sums_known(tree, nodes, totals):
    known = np.full(tree.nodes, np.nan)
    known[nodes] = totals
    return known


def test_known_sums_of_places_are_those_of_trees_of_their_own():
    """Below every place with a public sum nothing else counts, and all rounding keeps the sum."""
    rng = np.random.default_rng(4)
    below = [[-1, 0, 0, 1, 1, 1], [-1], [-1, 0, 0], [-1, 0, 1, 1, 0]]
    parents, tops = [-1], []
    for shape in below:
        tops.append(len(parents))
        parents += [0 if parent < 0 else parent + tops[-1] for parent in shape]
    tree = Tree(parents)
    squares, targets = rng.uniform(0.1, 2, tree.nodes), rng.normal(1, 3, tree.nodes)
    totals = np.array([5.0, 2.0, 0.0, 9.0])
    cells = closest_cells(tree, squares, targets, sums_known(tree, tops, totals))
    nearest = np.isin(np.arange(tree.nodes), tops)
    whole = rounded_cells(tree, squares, cells, nearest)
    np.testing.assert_allclose(tree.sums(cells)[tops], totals, atol=1e-12)
    assert (tree.sums(whole)[tops] == totals).all()
    for top, shape, total in zip(tops, below, totals, strict=True):
        own, here = Tree(shape), slice(top, top + len(shape))
        alone = closest_cells(own, squares[here], targets[here], sums_known(own, [0], total))
        inside = tree.above(np.isin(np.arange(tree.nodes), [top]).astype(float)) > 0
        order = np.argsort(tree.leaves[inside], kind="stable")
        np.testing.assert_allclose(cells[inside][order], alone, atol=1e-12)


@settings(max_examples=10)
@given(SEEDS, st.integers(1, 14))
def test_no_rounding_up_or_down_is_closer(seed, nodes):
    for rng, tree in cases(seed, nodes):
        squares = rng.uniform(0.1, 2, tree.nodes)
        cells = rng.normal(1, 3, tree.cells) * rng.integers(0, 2, tree.cells)
        sums = tree.sums(cells)
        whole = rounded_cells(tree, squares, cells)
        assert (whole == np.rint(whole)).all()
        assert np.abs(tree.sums(whole) - sums).max() < 1 + 1e-5
        best = np.inf
        for up in itertools.product((0, 1), repeat=tree.cells):
            moved = tree.sums(np.floor(cells) + up) - sums
            if np.abs(moved).max() < 1:
                best = min(best, float(squares @ moved**2))
        assert squares @ (tree.sums(whole) - sums) ** 2 <= best + 1e-5


def test_totals_that_are_public_are_kept_and_large_counts_are_exact():
    tree = Tree([-1, *[0] * 30])
    cells = np.random.default_rng(0).uniform(0, 3e12, 30)
    cells[-1] += 7 - cells.sum() % 1 - cells[-1] % 1
    total = np.arange(31) == 0
    for nearest in (None, total):
        whole = rounded_cells(tree, np.ones(31), cells, nearest)
        assert np.abs(whole - cells).max() < 1 + 1e-3
        assert abs(whole.sum() - cells.sum()) < 1 + 1e-3
    thirds = np.full(30, 2 / 3)
    assert rounded_cells(tree, np.ones(31), thirds, total).sum() == 20


def test_places_that_nobody_asks_about_get_a_part_of_their_whole():
    workload = RegionsWorkload("w", Tree([-1, 0, 0, 1, 1]), np.array([1.0, 1, 0, 0, 0]))
    cells = nonnegative_cells(workload, np.array([-5.0, 4.0, 3.0]))
    # 2 in all and 7 in the first part: min (x - 2)^2 + (y - 7)^2 over x >= y
    np.testing.assert_allclose(workload.matvec(cells), [4.5, 4.5], atol=1e-4)
    assert (cells >= 0).all()
    assert (whole_cells(workload, cells) >= 0).all()


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_releases_of_regions_add_up_to_the_last_digit(neighbours, noise):
    rng = np.random.default_rng(8)
    tree = random_tree(rng, 60)
    workload = RegionsWorkload("w", tree, np.ones(60))
    guarantee = PureDP(0.5, neighbours) if noise == "laplace" else ApproxDP(0.5, 1e-6, neighbours)
    design = factorize(workload, neighbours=neighbours, rel_gap=1e-2)
    noisy = mechanism(design, guarantee=guarantee, noise=noise)
    x = rng.poisson(2, tree.cells)
    for steps in ({}, {"nonnegative": True}, {"nonnegative": True, "integers": True}):
        table = prepare(noisy, **steps).publish(x, fast_sampler(5)).table
        units = np.rint(table.estimate * 10.0**table.decimals)
        for node in np.unique(tree.parents[1:]):
            assert units[tree.parents == node].sum() == units[node]
        if steps:
            assert (units >= 0).all()
        if neighbours is Neighbours.REPLACE:
            assert table.estimate[0] == x.sum()
        assert (table.lower <= table.estimate).all()
        assert (table.estimate <= table.upper).all()


def test_large_releases_add_up_without_a_matrix():
    """More cells times queries than are written out, of which no digit may differ."""
    rng = np.random.default_rng(2)
    tree = Tree(np.concatenate([[-1], np.zeros(40, int), 1 + rng.integers(0, 40, 2500)]))
    workload = RegionsWorkload("w", tree, np.ones(tree.nodes))
    noisy = mechanism("equal-shares", workload, guarantee=ApproxDP(1.0, 1e-6), noise="gaussian")
    x = rng.poisson(5, tree.cells)
    table = prepare(noisy, nonnegative=True).publish(x, fast_sampler(1)).table
    units = np.rint(table.estimate * 10.0**table.decimals)
    assert units[1:41].sum() == units[0]
    assert (units >= 0).all()
    truth = workload.matvec(x.astype(float))
    inside = (table.lower <= truth) & (truth <= table.upper)
    assert inside.mean() > 0.93
