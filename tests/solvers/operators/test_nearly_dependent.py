"""Workloads whose singular values run into rounding: no strategy may be worse than a plain one."""

import numpy as np
import pytest
from certified import factorization_value, p_norm

from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import Cells, DenseOperator, Pairs, Projected

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


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_designs_for_cells_are_good(name, p):
    A = WORKLOADS[name]
    solution = solve_norm(DenseOperator(A), p)
    assert solution.certificate.gap <= 2e-3
    R, L = solution.strategy, A @ solution.right_inverse
    np.testing.assert_allclose(L @ R, A, atol=1e-9 * np.abs(A).max())
    value = factorization_value(R, L, p)
    assert value <= solution.certificate.upper * (1 + 1e-12)
    every_cell = p_norm(np.linalg.norm(A, axis=1), p)
    every_query = len(A) ** (1 / p) * np.linalg.norm(A, axis=0).max()
    assert solution.certificate.lower <= value <= min(every_cell, every_query) * (1 + 2e-3)


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, np.inf])
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_designs_for_pairs_are_good(name, p):
    A = WORKLOADS[name]
    solution = solve_norm(DenseOperator(A), p, relation="replace")
    assert solution.certificate.gap <= 2e-2
    R, L = solution.strategy, A @ solution.right_inverse
    moves = A - A.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(L @ R, moves, atol=1e-9 * np.abs(A).max())
    diameter = np.linalg.norm(R[:, :, None] - R[:, None, :], axis=0).max()
    value = factorization_value(np.eye(1), L, p) * diameter
    assert value <= solution.certificate.upper * (1 + 1e-12)
    every_cell = p_norm(np.linalg.norm(moves, axis=1), p) * np.sqrt(2)
    every_query = len(A) ** (1 / p) * np.linalg.norm(A[:, :, None] - A[:, None, :], axis=0).max()
    assert solution.certificate.lower <= value <= min(every_cell, every_query) * (1 + 2e-2)


def test_projected_pairs_are_pairs():
    rng = np.random.default_rng(0)
    pairs, Q, R = Pairs(4), rng.standard_normal((3, 4)), rng.standard_normal((2, 3))
    projected, w = Projected(pairs, Q), rng.uniform(0.1, 1, 10)
    V = Q @ pairs.vectors().T
    np.testing.assert_allclose(projected.vectors(), V.T)
    np.testing.assert_allclose(projected.weighted(R, w), R @ V @ np.diag(w) @ V.T @ R.T)
    np.testing.assert_allclose(projected.root(w) @ projected.root(w).T, V @ np.diag(w) @ V.T)
    np.testing.assert_allclose(projected.squared_norms(R), ((R @ V) ** 2).sum(axis=0))
    X = np.array([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(projected.products(R, X @ R), ((R @ V) * (X @ R @ V)).sum(axis=0))
    assert projected.count == pairs.count == 10
    assert Projected(Cells(4), Q).count == 4
