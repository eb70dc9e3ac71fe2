"""The interior point method by itself: derivatives, the bounds of every iterate, convergence."""

import itertools
import math

import numpy as np
import pytest

from pmldesign.workloads import parse_workload
from pmldesign_solvers import gamma
from pmldesign_solvers.differences import Cells
from pmldesign_solvers.grounded import GroundedWorkload
from pmldesign_solvers.interior_point import InteriorPoint
from pmldesign_solvers.merged import MergedWorkload
from pmldesign_solvers.operators import DenseOperator

KINDS = ["cells", "pairs"]
P_VALUES = [2.0, 3.0, 10.0, math.inf]


def start(A, p, kind):
    """The method, A in its coordinates, the difference vectors as columns, copies of rows."""
    merged = MergedWorkload(DenseOperator(np.asarray(A, dtype=float)))
    problem = merged if kind == "cells" else GroundedWorkload(merged)
    differences = Cells(merged.shape[1]) if kind == "cells" else problem.pairs
    matrix = problem.operator.to_dense()
    vectors = differences.images(np.eye(matrix.shape[1])).T
    return InteriorPoint(problem, differences, p), matrix, vectors, problem.row_copies


def nuclear(A, V, u, w):
    return np.linalg.svd(np.sqrt(u)[:, None] * (A @ V) * np.sqrt(w), compute_uv=False).sum()


def random_point(kind, p=math.inf, seed=0, shape=(6, 5)):
    rng = np.random.default_rng(seed)
    method, A, V, _ = start(rng.standard_normal(shape), p, kind)
    return method, A, V, rng.uniform(0.2, 1.0, len(A)), rng.uniform(0.2, 1.0, V.shape[1])


def slopes(function, x, step=1e-5):
    """Central differences, a column for each entry of x."""
    shifts = step * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * step) for s in shifts]).T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6, 5), (3, 5), (40, 4)])
def test_squared_norms_are_the_gradient_of_twice_the_dual(kind, shape):
    method, A, V, u, w = random_point(kind, shape=shape)
    here = method.evaluate(u, w)
    in_w = slopes(lambda x: 2 * nuclear(A, V, u, x), w)
    in_u = slopes(lambda x: 2 * nuclear(A, V, x, w), u)
    np.testing.assert_allclose(here.columns, in_w, rtol=1e-6)
    np.testing.assert_allclose(here.rows, in_u, rtol=1e-6)
    assert here.values.sum() == pytest.approx(nuclear(A, V, u, w), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6, 5), (40, 4)])
@pytest.mark.parametrize("fixed_rows", [True, False])
def test_the_quadrature_is_the_hessian(kind, shape, fixed_rows):
    method, _, _, u, w = random_point(kind, p=2.0 if fixed_rows else math.inf, shape=shape)
    found = method._hessian(method.evaluate(u, w))

    def gradient(x):
        there = method.evaluate(u if fixed_rows else x[len(w) :], x[: len(w)])
        return there.columns if fixed_rows else np.concatenate([there.columns, there.rows])

    expected = -slopes(gradient, w if fixed_rows else np.concatenate([w, u]))
    # the trapezoidal rule is good to 4e-4 of every term; terms do not cancel within a block
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found)[0] > -1e-12 * np.linalg.norm(found)


def test_weights_over_many_orders_of_magnitude_do_not_hurt_the_quadrature():
    method, *_, u, w = random_point("cells", p=2.0)
    w = np.geomspace(1e-8, 1.0, len(w))
    here = method.evaluate(u, w)
    # B itself: (R e_j)_a (R e_j)_b / sqrt(s_a + s_b), all pairs (a, b)
    R, s = here.column_images, here.values
    B = (R[:, :, None] * R[:, None, :] / np.sqrt(s[:, None] + s)).reshape(len(R), -1)
    np.testing.assert_allclose(method._hessian(here), B @ B.T, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", P_VALUES)
def test_bounds_of_every_iterate_are_valid(kind, p):
    # the last two rows are copies: u counts them together
    base = np.random.default_rng(5).standard_normal((6, 5))
    A_full = np.vstack([base, base[:2], base[:1]])
    method, A, V, copies = start(A_full, p, kind)
    best = gamma.solve(DenseOperator(A_full), p, kind=kind).certificate
    q = np.inf if p == 2 else 1.0 if np.isinf(p) else p / (p - 2)
    iterates = list(itertools.islice(method.iterates(), 12))
    for one in iterates:
        np.testing.assert_allclose(one.each, one.u / copies)
        each_copy = np.repeat(one.each, copies.astype(int))
        dual = np.linalg.norm(each_copy, ord=q) * one.w.sum()
        assert one.lower == pytest.approx(nuclear(A, V, one.u, one.w) / math.sqrt(dual), rel=1e-9)
        L = A @ one.right_inverse()
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
    ("A", "p", "kind"),
    [
        (parse_workload("all-range:16").to_dense(), math.inf, "pairs"),
        (parse_workload("all-range:32").to_dense(), math.inf, "cells"),
        *[(tall(), p, kind) for p in (2.0, 4.0, math.inf) for kind in KINDS],
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else str(value),
)
def test_vanishing_duals_are_reached_within_sixty_steps(A, p, kind):
    method, *_ = start(A, p, kind)
    lower, upper = 0.0, math.inf
    for one in itertools.islice(method.iterates(), 60):
        lower, upper = max(lower, one.lower), min(upper, one.upper)
    assert lower <= upper * (1 + 1e-12)
    assert upper / lower - 1 <= 1e-6
    best = gamma.solve(DenseOperator(A), p, kind=kind).certificate
    assert best.gap <= 1e-6
    assert max(best.lower, lower) <= min(best.upper, upper) * (1 + 1e-9)


@pytest.mark.parametrize(("m", "n", "seed"), [(6, 7, 4), (4, 5, 1), (5, 4, 251), (6, 7, 5)])
def test_an_optimum_of_smaller_rank_than_the_workload(m, n, seed):
    # at p = inf weights of queries and pairs vanish together, and singular values with them
    A = np.random.default_rng(seed).standard_normal((m, n))
    method, *_ = start(A, math.inf, "pairs")
    last = None
    for one in itertools.islice(method.iterates(), 60):
        last = one
        if one.upper / one.lower - 1 <= 1e-8:
            break
    assert last.upper / last.lower - 1 <= 1e-8
    found = gamma.solve(DenseOperator(A), math.inf, kind="pairs").certificate
    assert found.gap <= 1e-6
