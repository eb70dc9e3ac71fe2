"""Tables at the nodes of a tree: bounds, shares and variances against dense linear algebra."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.norm import SolverOptions, solve_norm
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.streams import lower_bound, upper_bound, zolotarev
from pmldesign_solvers.streams import solve as streams
from pmldesign_solvers.trees import NestedCounts, Shares, Tree, spaces_of

STAR = [-1] + [0] * 6
CHAIN = list(range(-1, 5))
COMB = [-1] + [i for tooth in range(0, 10, 2) for i in (tooth, tooth)]
LEVELS = [-1, 0, 0, 0, 1, 1, 2, 3, 3, 3]
LONELY = [-1]
SIZES = (3, 2, 1)
TABLES = ((), (0,), (1,), (0, 1), (1, 2))


def indicators(tree):
    rows = np.zeros((tree.nodes, tree.cells))
    for cell, node in enumerate(tree.leaves):
        while node >= 0:
            rows[node, cell] = 1.0
            node = tree.parents[node]
    return rows


def table_rows(tree, sizes, table):
    """For each node one row for each cell of the table, by Kronecker products."""
    rows = indicators(tree)
    for number, size in enumerate(sizes):
        rows = np.kron(rows, np.eye(size) if number in table else np.ones((1, size)))
    return rows


def dense(tree, sizes, tables, scales):
    """All queries with a scale from (K, N), the nodes of a table one after the other."""
    rows = []
    for table, scale in zip(tables, scales, strict=True):
        every = table_rows(tree, sizes, table)
        rows.append(every * np.repeat(scale, len(every) // tree.nodes)[:, None])
    matrix = np.vstack(rows)
    return matrix[matrix.any(axis=1)]


def random_case(parents, seed, spread):
    rng = np.random.default_rng(seed)
    tree = Tree(parents)
    scales = 10.0 ** rng.uniform(-spread, spread, (len(TABLES), tree.nodes))
    scales *= rng.integers(0, 2, scales.shape)
    scales[rng.integers(0, len(TABLES)), tree.leaves] = 1.0
    return rng, tree, scales


CASES = st.tuples(st.sampled_from([STAR, CHAIN, COMB, LEVELS, LONELY]), st.integers(0, 2**32 - 1))


def test_a_tree_of_twelve_leaves_by_three_by_two():
    """Six parts on three levels: the nuclear norm at uneven weights, both ways."""
    tree = Tree([-1, 0, 0, 0, *[1] * 3, *[2] * 6, *[3] * 3])
    w = [0.149103, 0.044313, 0.101123, 0.108555, 0.045642, 0.000232]
    w = np.array([*w, 0.151784, 0.046527, 0.048957, 0.139037, 0.09124, 0.073487])
    parts = {(0, ()): 1.0, (0, (0,)): 2.0, (1, (0, 1)): 1.5, (1, ()): 0.7}
    parts |= {(2, (0,)): 1.0, (2, (1,)): 0.5}
    tables = ((), (0,), (1,), (0, 1))
    scales = np.zeros((4, tree.nodes))
    for (level, table), weight in parts.items():
        scales[tables.index(table), tree.depths == level] = weight
    spaces = spaces_of((3, 2), tables)
    problem = NestedCounts(tree, spaces.as_one(scales, 2.0), spaces)
    matrix = dense(tree, (3, 2), tables, scales) * np.sqrt(np.repeat(w, 6) / 6)
    exact = float(np.linalg.svd(matrix, compute_uv=False).sum())
    assert exact == pytest.approx(15.0646348, rel=2e-6)
    ones, nodes = np.ones(problem.queries), zolotarev(1e-2, 1e4, 24)
    assert problem.measured(ones, w, nodes).sum() == pytest.approx(exact, rel=1e-7)


@given(CASES)
def test_diagonals_are_those_of_matrices(case):
    rng, tree, scales = random_case(*case, 1)
    spaces = spaces_of(SIZES, TABLES)
    p = 3.0
    problem = NestedCounts(tree, spaces.as_one(scales, p), spaces)
    one = np.zeros(scales.size)
    one[problem.asked] = rng.uniform(0.5, 1.0, problem.queries)
    w = rng.uniform(0.5, 1.0, tree.cells)
    plain = math.prod(SIZES)
    of_answers = spaces.dual_of_answers(one.reshape(scales.shape), p)
    counts = [round(count) for count in spaces.answers]
    u = np.concatenate(
        [
            np.repeat(a, m)[np.repeat(s, m) > 0]
            for a, s, m in zip(of_answers, scales, counts, strict=True)
        ]
    )
    assert np.linalg.norm(u, 3) == pytest.approx(np.linalg.norm(one, 3))
    A = dense(tree, SIZES, TABLES, scales)
    cells = np.repeat(w, plain) / plain
    M = np.sqrt(u)[:, None] * A * np.sqrt(cells)
    _, s, vectors = np.linalg.svd(M, full_matrices=False)
    seen = s > 1e-9 * s[0]
    values, vectors = 1 / s[seen] ** 2, vectors[seen].T
    smallest, largest = problem.spectrum(one[problem.asked], w)
    assert smallest <= values.min() * (1 + 1e-9)
    nodes = zolotarev(smallest, largest, 9)
    measured = problem.measured(one[problem.asked], w, nodes)
    np.testing.assert_allclose(
        measured, (vectors**2 @ nodes(values)).reshape(-1, plain).sum(axis=1), rtol=1e-9
    )
    variances = ((M @ vectors) ** 2) @ (1 / nodes(values))
    spread = np.zeros(scales.size)
    spread[problem.asked] = problem.spread(one[problem.asked], w, nodes.reciprocal())
    per_answer = [
        np.repeat(v / m, m)[np.repeat(s, m) > 0]
        for v, s, m in zip(spread.reshape(scales.shape), scales, counts, strict=True)
    ]
    np.testing.assert_allclose(
        np.concatenate(per_answer), variances, rtol=1e-8, atol=1e-12 * variances.max()
    )


@settings(max_examples=2)
@given(CASES, st.sampled_from([2.0, 3.0, 4.0, np.inf]))
def test_norm_is_that_of_the_matrix(case, p):
    _, tree, scales = random_case(*case, 3)
    spaces = spaces_of(SIZES, TABLES)
    problem = NestedCounts(tree, spaces.as_one(scales, p), spaces)
    found = streams.solve(problem, p, options=SolverOptions(1e-5, max_steps=200)).certificate
    operator = DenseOperator(dense(tree, SIZES, TABLES, scales))
    exact = solve_norm(operator, p, options=SolverOptions(1e-6)).certificate
    assert found.lower <= exact.upper
    assert found.upper >= exact.lower
    assert found.gap <= (2e-5 if p < np.inf else 3e-3)


@settings(max_examples=4)
@given(CASES, st.sampled_from([2.0, 4.0, np.inf]))
def test_bounds_of_any_weights_hold(case, p):
    rng, tree, scales = random_case(*case, 3)
    spaces = spaces_of(SIZES, TABLES)
    problem = NestedCounts(tree, spaces.as_one(scales, p), spaces)
    u = np.ones(problem.queries) if p == 2 else rng.uniform(0.1, 1.0, problem.queries)
    w = rng.uniform(0.1, 1.0, tree.cells)
    nodes = zolotarev(1e-4, 10.0 ** rng.uniform(-2, 6), int(rng.integers(2, 9)))
    exact = solve_norm(DenseOperator(dense(tree, SIZES, TABLES, scales)), p).certificate
    assert lower_bound(problem, u, w, p, nodes) <= exact.upper
    assert upper_bound(problem, u, w, p, nodes) >= exact.lower


@settings(max_examples=6)
@given(CASES, st.sampled_from([1, 2]), st.sampled_from([2.0, 4.0]))
def test_errors_and_gradients_are_those_of_least_squares(case, power, p):
    rng, tree, scales = random_case(*case, 1)
    spaces = spaces_of(SIZES, TABLES)
    shares = Shares(tree, spaces.as_one(scales, p), p, power, spaces)
    z = rng.standard_normal(shares.count)
    logarithm, slope = shares.value(z, p)
    direction = rng.standard_normal(shares.count)
    ends = [shares.value(z + sign * 1e-5 * direction, p)[0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope @ direction, rel=1e-4, abs=1e-7)
    values = shares.best(steps=0)
    _, first = np.unique(tree.place_of_node, return_index=True)
    of_nodes = np.zeros(scales.shape)
    of_nodes[:, first] = values[:, tree.place_of_node[first]]
    R = dense(tree, SIZES, TABLES, of_nodes ** (power / 2))
    assert np.abs(R ** (2 / power)).sum(axis=0).max() == pytest.approx(1.0)
    A = dense(tree, SIZES, TABLES, scales)
    L = A @ np.linalg.pinv(R, 1e-11)
    np.testing.assert_allclose(L @ R, A, atol=1e-6 * np.abs(A).max())
    exact = np.linalg.norm(np.linalg.norm(L, axis=1), p)
    assert shares.error(values) == pytest.approx(exact, rel=1e-6)
    assert logarithm >= math.log(shares.error(shares.best(steps=20))) - 1e-9


@pytest.mark.parametrize("p", [2.0, 4.0])
def test_shares_come_close_to_the_norm(p):
    """Sex by age at states and counties, totals of the nation: the best is nearly optimal."""
    counts, parents, first = [1, 5, 40], [-1], 0
    for above, count in pairwise(counts):
        parents += [first + i % above for i in range(count)]
        first += above
    tree = Tree(parents)
    spaces = spaces_of((2, 9), ((), (0, 1)))
    scales = np.zeros((2, tree.nodes))
    scales[0, 0], scales[1, 1:] = 1.0, 1.0
    squares = spaces.as_one(scales, p)
    lower = streams.solve(NestedCounts(tree, squares, spaces), p).certificate.lower
    shares = Shares(tree, squares, p, spaces=spaces)
    assert lower <= shares.error(shares.best()) <= 1.007 * lower
    assert shares.error(shares.equal()) > shares.error(shares.best())


def random_tree(rng, kind):
    """A chain, a star, a comb or a random tree, one after the other."""
    nodes = int(rng.integers(2, 24))
    recent = [-1, *(int(rng.integers(max(0, i - 6), i)) for i in range(1, nodes))]
    return Tree([CHAIN, STAR, COMB, recent][kind])


@pytest.mark.sweep
@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("p", [2.0, 3.0, 4.0, math.inf])
def test_random_trees_by_random_attributes(kind, p):
    """Scales over six orders of magnitude: both bounds, and shares against simpler strategies.

    What is left out of the shares costs a millionth.
    """
    rng = np.random.default_rng([kind, int(min(p, 9))])
    for sizes in ((3,), (2, 2)):
        tree, every = random_tree(rng, kind), range(len(sizes))
        sets = [tuple(i for i in every if number >> i & 1) for number in range(2 ** len(sizes))]
        tables = [table for table in sets if rng.random() < 0.6] or sets[-1:]
        scales = 10 ** rng.uniform(-3, 3, (len(tables), tree.nodes))
        spaces = spaces_of(sizes, tables)
        squares = spaces.as_one(scales, p)
        certificate = streams.solve(
            NestedCounts(tree, squares, spaces), p, options=SolverOptions(1e-2, max_steps=10)
        ).certificate
        A = dense(tree, sizes, tables, scales)
        rough = SolverOptions(1e-2, max_steps=40)
        exact = solve_norm(DenseOperator(A), p, options=rough).certificate
        assert certificate.lower <= exact.upper
        assert certificate.upper >= exact.lower
        shares = Shares(tree, squares, p, spaces=spaces)
        error = shares.error(shares.best(steps=4))
        assert error >= certificate.lower
        for simpler in (shares.equal(), shares.leaves(), shares.queries(), shares.best_of_levels()):
            assert error <= shares.error(simpler) * (1 + 2e-6)
        cells = [np.eye(A.shape[1])] if sets[-1] in tables else []
        for measured in (A, *cells):
            spread = np.linalg.norm(A @ np.linalg.pinv(measured, 1e-11), axis=1)
            value = np.linalg.norm(spread, p) * np.linalg.norm(measured, axis=0).max()
            assert error <= value * (1 + 2e-6)
