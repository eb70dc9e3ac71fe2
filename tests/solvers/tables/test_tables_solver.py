"""gamma_(p) of tables that cross attributes, against the dense solver and the matrix itself."""

from functools import reduce
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from deadlines import DeadlineWhen
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.norm import SolverOptions, Status, solve_marginals, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator
from pmldesign_solvers.tables import (
    Asked,
    DualPoint,
    Measured,
    Question,
    SectorBound,
    Variances,
    free_vector,
    lower_bound,
    sectors,
    weighted,
)
from pmldesign_solvers.tables import solve as solver


def prefix(n):
    return np.tril(np.ones((n, n)))


def ranges(n):
    return np.array([[a <= j <= b for j in range(n)] for a in range(n) for b in range(a, n)]) * 1.0


def subsets(d, upto, start=1):
    return tuple(s for k in range(start, upto + 1) for s in combinations(range(d), k))


def ask(attributes, tables, scales=None):
    """A number stands for the counts of a plain attribute."""
    return Question(
        tuple(a if isinstance(a, int) else a.shape[1] for a in attributes),
        tuple(range(len(attributes))),
        tuple(None if isinstance(a, int) else DenseOperator(a) for a in attributes),
        tuple(tables),
        np.ones(len(tables)) if scales is None else np.asarray(scales, dtype=float),
    )


def written_out(question):
    """A, from the definition."""
    rows = []
    for table, scale in zip(question.tables, question.scales, strict=True):
        of_attribute = {question.attribute[k]: k for k in table}
        factors = []
        for i, n in enumerate(question.sizes):
            if i not in of_attribute:
                factors.append(np.ones((1, n)))
            else:
                operator = question.factors[of_attribute[i]]
                factors.append(np.eye(n) if operator is None else operator.to_dense())
        rows.append(scale * reduce(np.kron, factors))
    return np.vstack(rows)


FOUR = ask([prefix(100), 2, 5, prefix(20)], subsets(4, 2, start=2))
ADULT = ask(
    [
        prefix(n) if i in {0, 2, 10, 11, 12} else n
        for i, n in enumerate([85, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42])
    ],
    subsets(14, 3),
)


@st.composite
def questions(draw):
    kinds = [lambda n: n, prefix, ranges, lambda n: prefix(n)[n // 2 :]]
    attributes = [
        draw(st.sampled_from(kinds))(draw(st.integers(1, 4)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    every = subsets(len(attributes), len(attributes), start=0)
    tables = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    scales = draw(st.lists(st.floats(0.2, 3), min_size=len(tables), max_size=len(tables)))
    return ask(attributes, tables, scales)


@given(questions(), st.sampled_from([2.0, 3.0, np.inf]))
@settings(max_examples=12)
def test_bounds_enclose_the_norm(question, p):
    found = solver.solve(question, p).certificate
    exact = solve_norm(
        DenseOperator(written_out(question)), p, options=SolverOptions(rel_gap=1e-4)
    ).certificate
    assert found.lower <= exact.upper
    assert found.upper >= exact.lower


@pytest.mark.parametrize("p", [2.0, np.inf])
def test_several_kinds_of_queries_on_an_attribute(p):
    question = Question(
        (4, 3),
        (0, 0, 1),
        (DenseOperator(prefix(4)), DenseOperator(np.eye(4)), DenseOperator(prefix(3))),
        ((0, 2), (1,), (0,)),
        np.ones(3),
    )
    found = solver.solve(question, p).certificate
    exact = solve_norm(DenseOperator(written_out(question)), p).certificate
    assert found.lower <= exact.upper
    assert found.upper >= exact.lower
    assert found.gap < (0.02 if p == 2 else 0.1)


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
def test_plain_attributes_alone_are_marginals(p):
    sizes, tables = (2, 3, 4), ((0, 1), (1, 2), (0,))
    found = solver.solve(
        ask(sizes, tables, [1, 2, 0.5]), p, options=SolverOptions(rel_gap=1e-8)
    ).certificate
    exact = solve_marginals(
        sizes, tables, np.array([1, 2, 0.5]), p, options=SolverOptions(rel_gap=1e-10)
    ).certificate
    assert found.upper == pytest.approx(exact.upper, rel=1e-7 if p < np.inf else 1e-2)
    assert found.lower <= exact.upper
    assert found.lower == pytest.approx(exact.lower, rel=1e-7 if p < np.inf else 1e-2)


@pytest.mark.parametrize("matrix", [prefix(30), ranges(9)])
def test_a_single_ordered_attribute_is_exact(matrix):
    exact = solve_norm(DenseOperator(matrix), 2, options=SolverOptions(rel_gap=1e-9)).certificate
    found = solver.solve(ask([matrix], [(0,)]), 2).certificate
    assert found.upper == pytest.approx(exact.upper, rel=1e-7)
    with_plain = solver.solve(ask([matrix, 4], [(0, 1)]), 2).certificate
    assert with_plain.upper == pytest.approx(2 * exact.upper, rel=1e-7)


def test_a_product_is_exact():
    norms = [
        solve_norm(DenseOperator(a), 2, options=SolverOptions(rel_gap=1e-9)).certificate.upper
        for a in (prefix(12), ranges(6))
    ]
    found = solver.solve(ask([prefix(12), ranges(6), 3], [(0, 1)]), 2).certificate
    assert found.upper == pytest.approx(norms[0] * norms[1], rel=1e-7)


def total_forced_apart(question):
    """The norm where each attribute predicts the total along 1: a closed form, much worse."""
    g, t = [], []
    for i, n in enumerate(question.sizes):
        a = np.eye(n) if question.factors[i] is None else question.factors[i].to_dense()
        centred = a - a.mean(axis=1, keepdims=True)
        w = np.full(n, 1 / n)
        for _ in range(300):
            roots = np.sqrt(w)
            values, vectors = np.linalg.eigh((centred.T @ centred) * np.outer(roots, roots))
            half = np.sqrt(np.maximum(values, 0))
            w = w * ((vectors**2 * half).sum(axis=1) / (w * half.sum())) ** 1.5
            w /= w.sum()
        g.append(half.sum() ** 2)  # a lower bound on that of the best strategy, met in the limit
        t.append((a.sum(axis=1) ** 2).sum() / n**2)
    total = 0.0
    for s in {s for table in question.tables for s in subsets_of(table)}:
        of_set = [
            np.prod([t[i] for i in table if i not in s])
            for table in question.tables
            if set(s) <= set(table)
        ]
        total += np.sqrt(np.prod([g[i] for i in s]) * sum(of_set))
    return total


def subsets_of(table):
    return [s for k in range(len(table) + 1) for s in combinations(table, k)]


@pytest.mark.parametrize(
    "question",
    [
        ask([prefix(5), 3, prefix(4)], subsets(3, 2)),
        ask([prefix(20)] * 2, [(0,), (1,)]),
        ask([ranges(6), prefix(8), 2], subsets(3, 3)),
    ],
)
def test_no_worse_than_the_total_along_one(question):
    problem, _ = weighted(question, 2)
    assert free_vector.best(problem).value.total <= total_forced_apart(question) * (1 + 1e-9)


def test_check_value_of_the_total_forced_apart():
    """5 x 3 x 4 running sums, all tables by one or two, checked against a pseudo-inverse."""
    assert total_forced_apart(ask([prefix(5), 3, prefix(4)], subsets(3, 2))) == pytest.approx(
        16.870821, abs=2e-6
    )


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_with_all_directions_the_lower_bound_is_the_nuclear_norm(seed):
    rng = np.random.default_rng(seed)
    question = ask(
        [prefix(4), 3, ranges(3)], [(0,), (0, 1), (1, 2), (0, 2)], rng.uniform(0.5, 2, 4)
    )
    problem, _ = weighted(question, 2)
    cells = {0: rng.dirichlet(np.ones(4)), 2: rng.dirichlet(np.ones(3))}
    point = DualPoint.of(problem, cells)
    w = reduce(np.kron, [cells[0], np.full(3, 1 / 3), cells[2]])
    exact = np.linalg.svd(written_out(question) * np.sqrt(w), compute_uv=False).sum()
    bounds = [
        SectorBound(problem, {0: min(d, 4), 2: min(d, 3)}).certified(point) for d in (1, 2, 3, 4)
    ]
    assert bounds[-1] == pytest.approx(exact, rel=1e-7)
    assert max(bounds) <= exact
    assert np.diff(bounds).min() >= -1e-8 * exact  # rounded down by more where weights are small


def test_directions_that_vanish_leave_the_lower_bound_one():
    """Both queries on either cell alike: at equal weights N r is a multiple of r."""
    question = ask([2, np.array([[1.0, 0], [1, 1], [0, 1]])], [(), (0,), (0, 1), (1,)])
    problem, _ = weighted(question, 2)
    point = DualPoint.of(problem, {1: np.full(2, 0.5)})
    exact = np.linalg.svd(written_out(question) / 2, compute_uv=False).sum()
    for d in (1, 2):
        assert SectorBound(problem, {1: d}).certified(point) == pytest.approx(exact, rel=1e-8)


def test_order_of_attributes_and_scale_do_not_matter():
    first = solver.solve(ask([prefix(6), 3, ranges(4)], [(0, 1), (1, 2), (0, 2)]), 2).certificate
    other = solver.solve(ask([ranges(4), prefix(6), 3], [(1, 2), (0, 2), (0, 1)], [2.0] * 3), 2)
    assert other.certificate.upper == pytest.approx(2 * first.upper, rel=1e-4)
    assert other.certificate.lower == pytest.approx(2 * first.lower, rel=1e-4)


def test_four_attributes():
    found = solver.solve(FOUR, 2).certificate
    assert found.upper <= 252.4
    assert found.gap <= 2.6e-3


def test_fourteen_attributes_at_census_scale():
    found = solver.solve(ADULT, 2, options=SolverOptions(rel_gap=0.0103))
    assert found.status is Status.OPTIMAL
    assert found.certificate.upper <= 219_400
    assert found.certificate.gap <= 0.0103


def test_limits():
    for limits, status in [
        ({"deadline": Deadline(1e-9)}, Status.TIME_LIMIT),
        ({"max_steps": 1}, Status.ITERATION_LIMIT),
    ]:
        found = solver.solve(FOUR, 2, options=SolverOptions(**limits))
        assert found.status is status
        assert found.steps == 1
        assert 0 < found.certificate.lower <= found.certificate.upper


@pytest.mark.parametrize("limit", [1.0, 12.0, 20.0])
def test_bounds_are_given_up_when_the_time_is_up(monkeypatch, limit):
    """Each matrix takes a second: after the limit none but those of the first strategy."""
    now, usual = [0.0], sectors.Space.assemble

    def assemble(self, *arguments):
        now[0] += 1
        return usual(self, *arguments)

    monkeypatch.setattr(sectors.Space, "assemble", assemble)
    found = solver.solve(FOUR, 2, options=SolverOptions(max_steps=1))
    first, now[0] = now[0], 0.0
    deadline = DeadlineWhen(lambda: now[0] >= limit)
    found = solver.solve(FOUR, 2, options=SolverOptions(rel_gap=1e-14, deadline=deadline))
    assert found.status is Status.TIME_LIMIT
    assert now[0] <= max(first, limit)
    assert 0 < found.certificate.lower <= found.certificate.upper


@pytest.mark.parametrize("last", [2, 14])
def test_interrupted_from_the_callback(last):
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == last:
            raise KeyboardInterrupt

    found = solver.solve(FOUR, 2, options=SolverOptions(callback=interrupt))
    assert found.status is Status.INTERRUPTED
    assert found.certificate.lower <= found.certificate.upper


@pytest.mark.parametrize("p", [2.0, np.inf])
def test_lower_bound_under_replace(p):
    question = ask([prefix(4), 3, prefix(3)], [(0, 1), (1, 2), (0, 2)])
    found = solver.solve(question, p)
    lower = lower_bound(found.problem, found.cell_weights)
    matrix = DenseOperator(written_out(question))
    exact = solve_norm(
        matrix, p, relation="replace", options=SolverOptions(rel_gap=1e-3)
    ).certificate
    assert 0 < lower <= exact.upper


def test_what_is_measured_and_its_inverse():
    """Y^T Y is X0, and [1^T; Y] has the inverse (v, Psi)."""
    root = np.random.default_rng(0).normal(size=(7, 6))
    x = root.T @ root
    x /= np.sqrt(np.outer(x.diagonal(), x.diagonal()))
    found = Measured.of(x)
    inverse = np.linalg.inv(x)
    tau = inverse.sum()
    np.testing.assert_allclose(found.rows.T @ found.rows, (x - 1 / tau) / (1 - 1 / tau), atol=1e-12)
    stacked = np.vstack([np.ones(6), found.rows])
    np.testing.assert_allclose(stacked @ found.inverse, np.eye(6), atol=1e-11)
    np.testing.assert_allclose(found.inverse[:, 0], inverse.sum(axis=0) / tau, rtol=1e-10)


def test_variances_are_those_of_the_tensor():
    """Every answer of a table, term by term and as a contraction."""
    rng = np.random.default_rng(4)
    asked = [Asked(i, rng.random((m, 2))) for i, m in enumerate((3, 4, 2))]
    precisions = {s: rng.random() + 0.1 for s in subsets(3, 3, start=0)}
    for known in (lambda _: False, lambda s: not s):
        spread = Variances((3, 4, 2), precisions, known)
        values = spread.of_queries(asked, [(0, 1, 2)], np.ones(1))
        expected = [
            sum(
                prod(pair[int(i in s)] for i, pair in enumerate(query)) / precision
                for s, precision in precisions.items()
                if not known(s)
            )
            for query in product(*(one.pairs for one in asked))
        ]
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        for power in (1, 2, np.inf):
            norm = np.linalg.norm(expected, power)
            assert spread.norms(asked, [(0, 1, 2)], power) == pytest.approx([norm], rel=1e-12)
    with pytest.raises(KeyError):
        Variances((3, 4, 2), {(): 1.0}).norms(asked, [(0, 1)], 1)


def test_tables_alike_are_taken_together():
    """Some with an attribute of one value, against each table alone."""
    rng = np.random.default_rng(5)
    sizes = (5, 1, 3, 4)
    ordered, one = Asked(0, rng.random((5, 2))), Asked(1, np.array([[1.0, 0.0], [4.0, 0.0]]))
    plain = [Asked(1, np.array([[1.0, 0.0]]))]
    plain += [Asked(i, np.tile([m**-2.0, (1 - 1 / m) ** 2], (m, 1))) for i, m in ((2, 3), (3, 4))]
    precisions = {s: rng.random() + 0.1 for k in range(4) for s in combinations((0, 2, 3), k)}
    asked = [*plain, ordered, one]
    tables = [(3, 0), (3, 1), (3, 2), (0, 1, 2), (3,), (), (3, 1, 2), (3, 4, 2), (4,), (4, 1)]
    spread = Variances(sizes, precisions)
    alone = [spread.of_queries(asked, [table], np.ones(1)) for table in tables]
    for power in (1, 3, np.inf):
        norms = [np.linalg.norm(values, power) for values in alone]
        np.testing.assert_allclose(spread.norms(asked, tables, power), norms, rtol=1e-12)
    squares = rng.random(len(tables))
    expected = [square * values for square, values in zip(squares, alone, strict=True)]
    expected = np.concatenate(expected)
    np.testing.assert_allclose(spread.of_queries(asked, tables, squares), expected, rtol=1e-12)
    by_hand = ordered.pairs @ [1 / precisions[()], 1 / precisions[0,]] / 9
    by_hand += ordered.pairs @ [1 / precisions[2,], 1 / precisions[0, 2]] * 4 / 9
    np.testing.assert_allclose(alone[1], np.repeat(by_hand, 3), rtol=1e-12)
    np.testing.assert_allclose(alone[9][3:], 4 * alone[9][:3], rtol=1e-12)
