import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from pmldesign.privacy import laplace_error
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.search import (
    LARGEST_EXACT,
    ColumnObjective,
    Leakage,
    PairObjective,
    ReplaceL1,
    SearchProblem,
    Smoothing,
    Stacked,
    is_exact,
    log_moment,
)

RNG = np.random.default_rng(11)
A = RNG.integers(-1, 2, (7, 5)).astype(float)
N = A.shape[1]


def objectives(p):
    alone, public = (
        SearchProblem(DenseOperator(A), p, public_total=total) for total in (False, True)
    )
    yield "identity, non-negative", ColumnObjective(alone, np.ones(N), False)
    yield "identity, signed", ColumnObjective(alone, np.ones(N), True)
    yield "free", ColumnObjective(alone, np.zeros(N), True)
    yield "replace", PairObjective(public, ReplaceL1(0.7))
    yield "leakage", PairObjective(public, Leakage(0.7, np.full(N, 0.1)))


def point(objective, rows):
    start = Stacked(RNG.uniform(0.5, 1, N), RNG.uniform(0.1, 1, (rows, N)))
    if getattr(objective, "signed", True):
        start = Stacked(start.diagonal, start.rows * RNG.choice([-1, 1], start.rows.shape))
    return objective.variables(start)


def value_of(objective, smoothing, x):
    return objective.evaluate(x, smoothing)[0]


@pytest.mark.parametrize(
    ("p", "smoothing"),
    [
        (2, Smoothing(0.1)),
        (3.5, Smoothing(0.01)),
        (math.inf, Smoothing(0.2)),
        (4, Smoothing(0.05, exact_moment=True)),
        (8, Smoothing(0.05, exact_moment=True)),
    ],
)
def test_gradients_against_finite_differences(p, smoothing):
    for name, objective in objectives(p):
        for rows in (2, 7):  # fewer and more than half of the cells
            if rows == 2 and name == "free":
                continue
            x = point(objective, rows)
            _, gradient = objective.evaluate(x, smoothing)
            value = partial(value_of, objective, smoothing)
            forward, backward = (approx_fprime(x, value, step) for step in (1e-7, -1e-7))
            numerical = (forward + backward) / 2
            np.testing.assert_allclose(gradient, numerical, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("p", [2, 3.5, 6, math.inf])
def test_without_smoothing_the_objective_is_the_logarithm_of_the_error(p):
    for name, objective in objectives(p):
        x = point(objective, 7)
        R = objective.strategy(x)
        b = objective.rule.scale(R) if isinstance(objective, PairObjective) else 1.0
        value, _ = objective.evaluate(x, Smoothing(1e-9, exact_moment=is_exact(p) and p > 2))
        mean = x @ x / x.size
        free = isinstance(objective, PairObjective) or not objective.diagonal.any()
        value -= 0.5 * math.log(mean) ** 2 * free
        exact = b * objective.problem.unit_error(R)
        assert value == pytest.approx(math.log(exact), abs=1e-7), name


def test_columns_are_normalised():
    for name, objective in objectives(2):
        if isinstance(objective, ColumnObjective):
            R = objective.strategy(point(objective, 7))
            np.testing.assert_allclose(np.abs(R).sum(axis=0), 1, err_msg=name)


@pytest.mark.parametrize("p", [2, 4, 6, 16, LARGEST_EXACT])
def test_moments_against_the_exact_error(p):
    L = RNG.standard_normal((4, 6))
    L[2] = 0
    counts = np.array([1.0, 3.0, 2.0, 1.0])
    value, gradient = log_moment(L, p, counts)
    exact = laplace_error(np.repeat(L, counts.astype(int), axis=0), p=p)
    assert value == pytest.approx(math.log(exact), abs=1e-12)
    # homogeneous of degree one: d log err / d log L = 1
    assert (gradient * L).sum() == pytest.approx(1, rel=1e-12)
    direction = RNG.standard_normal(L.shape) * (L != 0)
    step = 1e-6
    ends = [log_moment(L + sign * step * direction, p, counts)[0] for sign in (1, -1)]
    assert (gradient * direction).sum() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_unmeasured_queries_have_infinite_error():
    problem = SearchProblem(DenseOperator(np.eye(3)), 2, public_total=False)
    assert problem.unit_error(np.eye(3)[:2]) == math.inf
    public = SearchProblem(DenseOperator(np.eye(3)), 2, public_total=True)
    assert math.isfinite(public.unit_error(np.eye(3)[:2]))  # the total gives the third count
    assert public.unit_error(np.eye(3)[:1]) == math.inf


def test_the_order_of_ranges_is_recovered_from_permuted_cells():
    n = 12
    prefix = np.tril(np.ones((n, n)))
    for public in (False, True):
        permutation = RNG.permutation(n)
        problem = SearchProblem(DenseOperator(prefix[:, permutation]), 2, public_total=public)
        place = problem.cell_of[np.argsort(permutation)]
        assert place.tolist() in (list(range(n)), list(range(n))[::-1])


def test_cells_that_nothing_counts():
    A = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert SearchProblem(DenseOperator(A), 2, public_total=False).cells == 2
    public = SearchProblem(DenseOperator(A), 2, public_total=True)
    assert public.cells == 3
    assert public.cell_of[1] == public.cell_of[3] >= 0
