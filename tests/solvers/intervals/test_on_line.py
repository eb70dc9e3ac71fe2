"""The factor of a stream beside its total, against the matrices that it stands for."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from pmldesign_solvers.intervals import beside, solve_intervals
from pmldesign_solvers.streams import RunningSums, factor


def random_factor(n, count):
    rng = np.random.default_rng(n)
    decays = rng.uniform(0.3, 1.0, (n, count))
    decays[0] = 0.0
    return factor.Factor(rng.uniform(0.1, 2.0, n), rng.uniform(0.0, 1.0, (n, count)), decays)


@pytest.mark.parametrize(("n", "count"), [(2, 1), (3, 2), (17, 1), (40, 5)])
def test_it_is_the_triangle_of_differences_from_the_last_column(n, count):
    given = random_factor(n, count)
    found, _ = beside.open_factor(given)
    C = given.multiply(np.eye(n))
    differences = C[:, :-1] - C[:, -1:]
    made = found.multiply(np.eye(n - 1))
    assert np.triu(made, 1).max(initial=0.0) == 0.0
    assert (found.diagonal > 0).all()
    assert made.T @ made == pytest.approx(differences.T @ differences, rel=1e-12, abs=1e-12)


def test_rounding_moves_columns_by_less_than_it_says():
    """In rational arithmetic, from the numbers as they are stored."""

    def column(parts, j):
        n, count = parts.gains.shape
        decays = [[Fraction(value) for value in row] for row in parts.decays.tolist()]
        rows = [Fraction(0)] * n
        rows[j] = Fraction(float(parts.diagonal[j]))
        for i in range(j + 1, n):
            rows[i] = sum(
                Fraction(float(parts.gains[i, k])) * prod(decays[m][k] for m in range(j + 1, i + 1))
                for k in range(count)
            )
        return rows

    given = random_factor(9, 3)
    found, moved = beside.open_factor(given)
    last = column(given, 8)
    for j in range(8):
        meant = sum((a - b) ** 2 for a, b in zip(column(given, j), last, strict=True))
        square = sum(a**2 for a in column(found, j))
        assert abs(float(square - meant)) <= moved * 2.1 * float(meant) ** 0.5
    assert moved < 1e-12


def test_states_of_designed_streams_hold_it():
    """Nothing is below 0 and nothing grows, whatever the weights of queries."""
    rng = np.random.default_rng(5)
    for n in (8, 60):
        sums = RunningSums(np.ones(n - 1), np.exp(rng.normal(0, 1, n)), np.ones(n))
        best = solve_intervals(sums, 2.0, buffers=5)
        found, _ = beside.open_factor(
            factor.factor(*factor.generators(sums, best.u, best.w, best.nodes))
        )
        assert found.gains.min() >= 0.0
        assert 0.0 <= found.decays.min() <= found.decays.max() <= 1.0
