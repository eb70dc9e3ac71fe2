"""The interior point method by itself: derivatives, the bounds of every iterate, convergence."""

import itertools
import math

import numpy as np
import pytest
from deadlines import DeadlineWhen

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import (
    DualFunction,
    InteriorPoint,
    NewtonSystem,
    SolverOptions,
    Status,
    dual_function,
    solve,
    solve_norm,
)
from pmldesign_solvers.operators import (
    DenseOperator,
    GroundedWorkload,
    MergedWorkload,
    RowSpaceWorkload,
    right_inverse_of,
)

KINDS = ["add-remove", "replace"]
COORDINATES = [*KINDS, "row space"]
P_VALUES = [2.0, 3.0, 10.0, math.inf]


def start(A, p, relation):
    """Dual function, A in its coordinates, difference vectors as columns, copies of rows."""
    merged = MergedWorkload(DenseOperator(np.asarray(A, dtype=float)))
    problem = merged
    if relation == "replace":
        problem = GroundedWorkload.of(merged)
    elif relation == "row space":
        problem = RowSpaceWorkload(merged)
    matrix = problem.operator.to_dense()
    vectors = problem.differences.vectors().T
    return DualFunction(problem, p), matrix, vectors, problem.row_copies


def nuclear(A, V, u, w):
    return np.linalg.svd(np.sqrt(u)[:, None] * (A @ V) * np.sqrt(w), compute_uv=False).sum()


def random_point(relation, p=math.inf, seed=0, shape=(6, 5)):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal(shape)
    function, A, V, _ = start(
        A.T if relation == "row space" and shape[0] > shape[1] else A, p, relation
    )
    return function, A, V, rng.uniform(0.2, 1.0, len(A)), rng.uniform(0.2, 1.0, V.shape[1])


def slopes(function, x, step=1e-5):
    """Central differences, a column for each entry of x."""
    shifts = step * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * step) for s in shifts]).T


@pytest.mark.parametrize("relation", COORDINATES)
@pytest.mark.parametrize("shape", [(6, 5), (3, 5), (40, 4)])
def test_squared_norms_are_the_gradient_of_twice_the_dual(relation, shape):
    function, A, V, u, w = random_point(relation, shape=shape)
    here = function.evaluate(u, w)
    in_w = slopes(lambda x: 2 * nuclear(A, V, u, x), w)
    in_u = slopes(lambda x: 2 * nuclear(A, V, x, w), u)
    np.testing.assert_allclose(here.columns, in_w, rtol=1e-6)
    np.testing.assert_allclose(here.rows, in_u, rtol=1e-6)
    assert here.values.sum() == pytest.approx(nuclear(A, V, u, w), rel=1e-12)


def newton(function, here, added, **options):
    problem = function.operator, function.differences
    return NewtonSystem(*problem, here.strategy, here.right_inverse, here.values, added, **options)


@pytest.mark.sweep
@pytest.mark.parametrize("relation", COORDINATES)
@pytest.mark.parametrize("shape", [(6, 5), (40, 4)])
@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_the_newton_system_is_the_derivative_of_the_gradient(relation, shape, p):
    function, _, _, u, w = random_point(relation, p=p, shape=shape)
    cells, fixed_rows, coupled = len(w), p == 2, math.isinf(p)
    added = np.linspace(0.1, 2.0, cells if fixed_rows else cells + len(u))
    system = newton(function, function.evaluate(u, w), added, coupled_rows=coupled)

    def gradient(x):
        there = function.evaluate(u if fixed_rows else x[cells:], x[:cells])
        d, v = there.columns - x[:cells].sum(), there.rows - (x[cells:].sum() if coupled else 0.0)
        return d if fixed_rows else np.concatenate([d, v])

    expected = np.diag(added) - slopes(gradient, w if fixed_rows else np.concatenate([w, u]))
    found = np.array([system._apply(unit) for unit in np.eye(len(added))]).T
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(found, found.T, atol=1e-12 * np.abs(found).max())
    assert np.linalg.eigvalsh(found)[0] > 0
    right = np.cos(np.arange(len(added)))
    scale = 1 / np.sqrt(found.diagonal())
    exact = np.linalg.solve(found, right)
    for guess in (None, 1.1 * exact):
        rest = found @ system.solve(right, 1e-3, guess) - right
        assert np.linalg.norm(scale * rest) <= 2e-3 * np.linalg.norm(scale * right)


@pytest.mark.parametrize(("ratio", "error"), [(dual_function.RATIO, 0.06), (2.0, 1e-3)])
@pytest.mark.parametrize("smallest", [1e-8, 1e-4, 0.5])
@pytest.mark.parametrize("relation", COORDINATES)
def test_the_sum_over_poles_is_the_diagonal_of_the_system(
    monkeypatch, relation, smallest, ratio, error
):
    monkeypatch.setattr(dual_function, "RATIO", ratio)
    function, _, V, u, w = random_point(relation)
    w = np.geomspace(smallest, 1.0, len(w))
    here = function.evaluate(u, w)
    # minus the Hessian is B B^T, B_k,(a, b) = F_ka F_kb / sqrt(s_a + s_b), F the rows R v_k and L_i
    images = (here.strategy @ V).T, function.operator.matvec(here.right_inverse)
    s = here.values[:, None] + here.values
    exact = np.concatenate([np.einsum("ka,kb,ab->k", F**2, F**2, 1 / s) for F in images])
    added = np.ones(len(w) + len(u))
    whole = newton(function, here, added, coupled_rows=True)._whole_diagonal()
    np.testing.assert_allclose(whole, exact + 2.0, rtol=error)


@pytest.mark.sweep
@pytest.mark.parametrize("relation", KINDS)
@pytest.mark.parametrize("p", P_VALUES)
def test_bounds_of_every_iterate_are_valid(relation, p):
    # the last two rows are copies: u counts them together
    base = np.random.default_rng(5).standard_normal((6, 5))
    A_full = np.vstack([base, base[:2], base[:1]])
    function, A, V, copies = start(A_full, p, relation)
    best = solve_norm(DenseOperator(A_full), p, relation=relation).certificate
    q = np.inf if p == 2 else 1.0 if np.isinf(p) else p / (p - 2)
    iterates = list(itertools.islice(InteriorPoint(function).iterates(), 12))
    for one in iterates:
        np.testing.assert_allclose(one.each, one.u / copies)
        each_copy = np.repeat(one.each, copies.astype(int))
        dual = np.linalg.norm(each_copy, ord=q) * one.w.sum()
        assert one.lower == pytest.approx(nuclear(A, V, one.u, one.w) / math.sqrt(dual), rel=1e-9)
        L = A @ right_inverse_of(one.strategy)
        np.testing.assert_allclose(L @ one.strategy, A, atol=1e-8)
        norms = np.repeat(np.linalg.norm(L, axis=1), copies.astype(int))
        value = np.linalg.norm(norms, ord=p) * np.linalg.norm(one.strategy @ V, axis=0).max()
        assert one.upper == pytest.approx(value, rel=1e-6)
        assert one.lower <= best.upper * (1 + 1e-12)
        assert one.upper >= best.lower * (1 - 1e-12)
    gaps = [one.upper / one.lower - 1 for one in iterates]
    assert gaps[-1] < 1e-2 * gaps[0]


def tall():
    return np.random.default_rng(7).integers(0, 2, (300, 10)).astype(float)


@pytest.mark.parametrize(
    ("A", "p", "relation"),
    [
        (parse_workload("all-range:16").to_dense(), math.inf, "replace"),
        (parse_workload("all-range:32").to_dense(), math.inf, "add-remove"),
        *[(tall(), p, relation) for p in (2.0, 4.0, math.inf) for relation in KINDS],
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else str(value),
)
def test_vanishing_duals_are_reached_within_sixty_steps(A, p, relation):
    function, *_ = start(A, p, relation)
    lower, upper = 0.0, math.inf
    for one in itertools.islice(InteriorPoint(function).iterates(), 60):
        lower, upper = max(lower, one.lower), min(upper, one.upper)
        if upper / lower - 1 <= 1e-6:
            break
    assert lower <= upper * (1 + 1e-12)
    assert upper / lower - 1 <= 1e-6
    best = solve_norm(DenseOperator(A), p, relation=relation).certificate
    assert best.gap <= 1e-6
    assert max(best.lower, lower) <= min(best.upper, upper) * (1 + 1e-9)


@pytest.mark.parametrize(("m", "n", "seed"), [(6, 7, 4), (4, 5, 1), (5, 4, 251), (6, 7, 5)])
def test_an_optimum_of_smaller_rank_than_the_workload(m, n, seed):
    # at p = inf weights of queries and pairs vanish together, and singular values with them
    A = np.random.default_rng(seed).standard_normal((m, n))
    function, *_ = start(A, math.inf, "replace")
    last = None
    for one in itertools.islice(InteriorPoint(function).iterates(), 60):
        last = one
        if one.upper / one.lower - 1 <= 1e-8:
            break
    assert last.upper / last.lower - 1 <= 1e-8
    found = solve_norm(DenseOperator(A), math.inf, relation="replace").certificate
    assert found.gap <= 1e-6


@pytest.mark.parametrize("p", P_VALUES)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_given_weights_near_the_optimum_shorten_the_way(p, scale):
    # two rows are copies, which the weights of the merged workload count together
    A = np.vstack([tall()[:30], tall()[:2]])
    merged = MergedWorkload(DenseOperator(A))

    def steps(given):
        function = DualFunction(merged, p)
        lower, upper = 0.0, math.inf
        for number, one in enumerate(
            itertools.islice(InteriorPoint(function, given).iterates(), 60)
        ):
            lower, upper = max(lower, one.lower), min(upper, one.upper)
            if number == 0:
                first = upper / lower - 1
            if upper / lower - 1 <= 1e-8:
                return first, number, one, (lower, upper)
        raise AssertionError(f"gap {upper / lower - 1}")

    cold_gap, cold_steps, best, cold = steps(None)
    warm_gap, warm_steps, _, warm = steps((scale * best.u, best.w / scale))
    assert warm_gap < 0.2 * cold_gap
    assert warm_steps <= cold_steps
    assert max(cold[0], warm[0]) <= min(cold[1], warm[1]) * (1 + 1e-12)


@pytest.mark.parametrize("relation", KINDS)
def test_time_that_is_up_ends_conjugate_gradients_between_two_products(monkeypatch, relation):
    """After three products, too few for the first direction."""
    monkeypatch.setattr(dual_function, "FACTORED", 0)
    products, apply = [], NewtonSystem._apply

    def counted(self, x):
        products.append(x)
        return apply(self, x)

    monkeypatch.setattr(NewtonSystem, "_apply", counted)
    monkeypatch.setattr(solve, "FIXED_POINT_STEPS", 1)
    monkeypatch.setattr(solve, "CRAWL", 1)
    A = np.random.default_rng(2).standard_normal((30, 20))
    options = SolverOptions(rel_gap=1e-12, deadline=DeadlineWhen(lambda: len(products) >= 3))
    ended = solve_norm(DenseOperator(A), math.inf, relation=relation, options=options)
    assert ended.status is Status.TIME_LIMIT
    assert len(products) == 3
    assert ended.certificate.lower <= ended.certificate.upper < math.inf
