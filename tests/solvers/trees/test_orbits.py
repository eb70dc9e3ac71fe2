"""Places that are alike as one: against trees in which every place stands for itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.norm import SolverOptions
from pmldesign_solvers.streams import solve as streams
from pmldesign_solvers.streams import zolotarev
from pmldesign_solvers.trees import NestedCounts, Shares, Tree, orbits_of, spaces_of

STAR = [-1] + [0] * 9
BALANCED = [(i - 1) // 3 for i in range(40)]
SEEDS = st.integers(0, 2**32 - 1)


def regular(rng):
    """Up to four levels, of which all nodes have one of two numbers of children."""
    parents, level = [-1], [0]
    for _ in range(int(rng.integers(1, 5))):
        few, many = rng.integers(0, 4), rng.integers(1, 4)
        below = []
        for node in level:
            children = int(rng.choice([few, many]))
            below += range(len(parents), len(parents) + children)
            parents += [node] * children
        level = below
    return parents


TREES = st.one_of(
    st.sampled_from([STAR, BALANCED, list(range(-1, 6)), [-1]]),
    st.builds(lambda seed: regular(np.random.default_rng(seed)), SEEDS),
)


def alike(parents, labels):
    """Of each node the labels on its path, each with all that is below, by recursion."""
    children = [[] for _ in parents]
    for node, parent in enumerate(parents[1:], 1):
        children[parent].append(node)

    def below(node):
        return (*labels[:, node], tuple(sorted(map(below, children[node]))))

    paths = [(below(0),)]
    for node, parent in enumerate(parents[1:], 1):
        paths.append((*paths[parent], below(node)))
    return paths


def drawn(parents, rng, rows=1):
    """Weights of few values, of which leaves have some; and the orbits."""
    tree = Tree(parents)
    squares = rng.integers(0, 3, (rows, tree.nodes)) * np.array([1.0, 0.25])[:rows, None]
    squares[0, tree.leaves] = rng.integers(1, 3, tree.cells)
    return tree, squares, orbits_of(tree, squares)


@given(TREES, SEEDS)
def test_orbits_are_paths_of_equal_subtrees(parents, seed):
    tree, squares, orbits = drawn(parents, np.random.default_rng(seed), 2)
    paths = alike(parents, squares)
    same = orbits.orbit[:, None] == orbits.orbit
    assert (same == [[path == other for other in paths] for path in paths]).all()
    members = orbits.tree.times[orbits.tree.place_of_node]
    assert (members == np.bincount(orbits.orbit)).all()
    assert (orbits.orbit[orbits.first] == np.arange(orbits.tree.nodes)).all()
    assert (orbits.tree.parents[1:] == orbits.orbit[tree.parents[orbits.first[1:]]]).all()


@pytest.mark.sweep
@pytest.mark.parametrize("sizes", [(), (3, 2)])
@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
@given(parents=TREES, seed=SEEDS, public=st.booleans())
@settings(max_examples=10)
def test_diagonals_are_those_of_all_places(sizes, p, parents, seed, public):
    rng = np.random.default_rng(seed)
    spaces = spaces_of(sizes, [(), (0,)] if sizes else [()], apart=public)
    tree, squares, orbits = drawn(parents, rng, len(spaces.answers))
    known = None
    if public:
        known = np.arange(tree.places) == tree.root
        squares[0, tree.place_of_node == tree.root] = 0.0
        orbits = orbits_of(tree, squares, known)
    if not squares.any():
        return
    whole = NestedCounts(tree, squares, spaces, public=known)
    one = NestedCounts(orbits.tree, orbits.squares(squares, p), spaces, public=orbits.places(known))
    u, w = rng.uniform(0.5, 1.0, one.queries), rng.uniform(0.5, 1.0, one.cells)
    weights = np.zeros((len(squares), orbits.tree.nodes))
    weights.ravel()[one.asked] = u
    every = orbits.queries(weights, p).ravel()[whole.asked], orbits.cells(w)
    q = np.inf if p == 2 else p / (p - 2) if p < np.inf else 1.0
    assert np.linalg.norm(u, q) == pytest.approx(np.linalg.norm(every[0], q))
    assert w.sum() == pytest.approx(every[1].sum())
    nodes = zolotarev(1e-2, 1e3, 7)
    cells = orbits.orbit[tree.leaves]
    of_cells = np.bincount(cells, whole.measured(*every, nodes), orbits.tree.nodes)
    found = one.measured(u, w, nodes)
    np.testing.assert_allclose(found, of_cells[orbits.tree.leaves], rtol=1e-10, atol=1e-12)
    tables, members = np.divmod(whole.asked, tree.nodes)
    keys = tables * orbits.tree.nodes + orbits.orbit[members]
    of_queries = np.bincount(keys, whole.spread(*every, nodes.reciprocal()))[one.asked]
    np.testing.assert_allclose(one.spread(u, w, nodes.reciprocal()), of_queries, rtol=1e-10)
    assert one.trace(u, w, nodes) == pytest.approx(whole.trace(*every, nodes), rel=1e-10)
    np.testing.assert_allclose(one.spectrum(u, w), whole.spectrum(*every), rtol=1e-10)
    if public:
        assert one.pairs(w) == pytest.approx(whole.pairs(every[1]), rel=1e-9)
    assert np.ptp(whole.even(p)[1]) == 0
    np.testing.assert_allclose(orbits.cells(one.even(p)[1]), 1.0)


@pytest.mark.sweep
@pytest.mark.parametrize("sizes", [(), (3, 2)])
@pytest.mark.parametrize("power", [1, 2])
@given(parents=TREES, seed=SEEDS, p=st.sampled_from([2.0, 4.0]))
@settings(max_examples=10)
def test_shares_and_their_gradients_are_those_of_all_places(sizes, power, parents, seed, p):
    rng = np.random.default_rng(seed)
    spaces = spaces_of(sizes, [(), (0,)] if sizes else [()])
    tree, squares, orbits = drawn(parents, rng, len(spaces.answers))
    whole = Shares(tree, squares, p, power, spaces)
    one = Shares(orbits.tree, orbits.squares(squares, p), p, power, spaces)
    for shares in ("equal", "leaves", "queries", "best_of_levels"):
        found, every = getattr(one, shares)(), getattr(whole, shares)()
        if shares != "best_of_levels":
            np.testing.assert_allclose(orbits.shares(found), every, rtol=1e-12)
        assert one.error(found) == pytest.approx(whole.error(every), rel=1e-5)
        assert one.error(found) == pytest.approx(whole.error(orbits.shares(found)), rel=1e-10)
    z, direction = rng.standard_normal((2, one.count))
    ends = [one.value(z + sign * 1e-5 * direction, p)[0] for sign in (1, -1)]
    slope = one.value(z, p)[1] @ direction
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("k", [2, 1000, 10**4])
def test_a_star_has_a_closed_form(k):
    """A^T A = I + 1 1^T: one eigenvalue k + 1, the others 1."""
    tree = Tree(np.append(-1, np.zeros(k, dtype=np.intp)))
    orbits = orbits_of(tree, np.ones((1, tree.nodes)))
    assert orbits.tree.nodes == 2
    problem = NestedCounts(orbits.tree, orbits.squares(np.ones((1, tree.nodes)), 2.0))
    certificate = streams.solve(problem, 2.0, options=SolverOptions(1e-9)).certificate
    exact = (k - 1 + np.sqrt(k + 1)) / np.sqrt(k)
    assert certificate.lower <= exact * (1 + 1e-12)
    assert certificate.upper >= exact * (1 - 1e-12)
    assert certificate.gap <= 1e-8
