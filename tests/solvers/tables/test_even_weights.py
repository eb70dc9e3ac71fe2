"""Weights of sets at p = inf, against linear programs over a grid and the definition."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.tables import Question, even_weights, extreme_queries, variance_rows
from pmldesign_solvers.tables import solve as solver


def test_one_query_has_a_closed_form():
    """The least sum b / s at sum 1 is (sum b^(1/2))^2."""
    b = np.array([[4.0, 1.0, 9.0]])
    s = even_weights.even_weights(sparse.csr_matrix(b))
    np.testing.assert_allclose(s, [2 / 6, 1 / 6, 3 / 6], rtol=1e-4)


def test_two_queries_that_share_nothing_are_alike():
    s = even_weights.even_weights(sparse.csr_matrix([[3.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(s, [0.75, 0.25], rtol=1e-3)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of SLSQP before scipy 1.16
@pytest.mark.parametrize("seed", range(4))
def test_as_good_as_a_constrained_program(seed):
    """Minimise v subject to every variance being at most v."""
    rng = np.random.default_rng(seed)
    b = rng.random((6, 4)) * (rng.random((6, 4)) < 0.7) + 0.01
    s = even_weights.even_weights(sparse.csr_matrix(b))
    assert s.sum() == pytest.approx(1)
    best = minimize(
        lambda x: x[-1],
        np.append(np.full(4, 0.25), (4 * b.sum(axis=1)).max()),
        method="SLSQP",
        bounds=[(1e-6, 1)] * 4 + [(0, None)],
        constraints=[
            {"type": "eq", "fun": lambda x: x[:4].sum() - 1},
            {"type": "ineq", "fun": lambda x: x[-1] - b @ (1 / x[:4])},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert (b / s).sum(axis=1).max() == pytest.approx(best.fun, rel=3e-3)


def test_rows_are_the_variances_of_all_combinations():
    rng = np.random.default_rng(1)
    numbers = [rng.random((k, 2)) for k in (3, 1, 2)]
    attribute, tables, scales = (0, 2, 5), ((0, 1, 2), (1,), (), (0, 2)), np.array([1, 2, 3, 0.5])
    sets = [s for k in range(4) for s in combinations(attribute, k)]
    places = {s: place for place, s in enumerate(sets)}
    rows = variance_rows(numbers, attribute, tables, scales, places).toarray()
    expected = []
    for table, scale in zip(tables, scales, strict=True):
        for query in product(*(numbers[k] for k in table)):
            row = np.zeros(len(sets))
            for on in product((0, 1), repeat=len(table)):
                members = tuple(attribute[k] for k, b in zip(table, on, strict=True) if b)
                row[places[members]] = scale**2 * prod(q[b] for q, b in zip(query, on, strict=True))
            expected.append(row)
    order = np.lexsort(rows.T)
    np.testing.assert_allclose(rows[order], np.array(expected)[np.lexsort(np.transpose(expected))])


def test_extreme_queries_hold_the_largest_of_both_numbers():
    numbers = np.random.default_rng(2).random((200, 2)) * [1e-3, 50]
    kept = extreme_queries(numbers)
    np.testing.assert_array_equal(kept.max(axis=0), numbers.max(axis=0))
    for direction in ([1e3, 0.02], [1, 1], [0, 1]):
        best = (numbers @ direction).max()
        assert best * 0.95 <= (kept @ direction).max() <= best


def test_largest_variances_close_to_the_bound():
    """Running sums of 30 and 12 with two plain attributes, all tables by two."""
    question = Question(
        (30, 2, 3, 12),
        (0, 1, 2, 3),
        (DenseOperator(np.tri(30)), None, None, DenseOperator(np.tri(12))),
        tuple(combinations(range(4), 2)),
        np.ones(6),
    )
    assert solver.solve(question, np.inf).certificate.gap <= 0.01
