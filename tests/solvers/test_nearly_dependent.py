"""Workloads whose singular values run into rounding: no strategy may be worse than a plain one."""

import numpy as np
import pytest
from certified import factorization_value, p_norm

from pmldesign_solvers.gamma import solve
from pmldesign_solvers.operators import DenseOperator

points = np.linspace(0, 1, 37)
WORKLOADS = {
    "monomials": np.vander(points, 29),
    "monomials, more cells": np.vander(points, 29).T,
    "Hilbert's matrix": 1 / (1 + np.arange(30)[:, None] + np.arange(25)),
    "smooth kernel": np.exp(-4 * (points[:, None] - np.linspace(0, 1, 31)) ** 2),
    "low rank and rounding": np.random.default_rng(2).standard_normal((30, 3))
    @ np.random.default_rng(3).standard_normal((3, 20))
    + 1e-12 * np.random.default_rng(4).standard_normal((30, 20)),
}


@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_designs_for_cells_are_good(name, p):
    A = WORKLOADS[name]
    solution = solve(DenseOperator(A), p)
    assert solution.certificate.gap <= 2e-3
    R, L = solution.strategy, A @ solution.basis
    np.testing.assert_allclose(L @ R, A, atol=1e-9 * np.abs(A).max())
    value = factorization_value(R, L, p)
    assert value <= solution.certificate.upper * (1 + 1e-12)
    every_cell = p_norm(np.linalg.norm(A, axis=1), p)
    every_query = len(A) ** (1 / p) * np.linalg.norm(A, axis=0).max()
    assert solution.certificate.lower <= value <= min(every_cell, every_query) * (1 + 2e-3)
