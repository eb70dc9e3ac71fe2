"""Strategies that are never written out, against the matrices that they stand for."""

import numpy as np
import pytest

from pmldesign.privacy import Neighbours, Noise
from pmldesign.releases import lattice_of


def well_conditioned(rng, rows, cells):
    """Random, with singular values between 1/2 and 2."""
    u, _, v = np.linalg.svd(rng.normal(size=(rows, cells)), full_matrices=False)
    return (u * rng.uniform(0.5, 2, size=min(rows, cells))) @ v


def assert_same_strategy(strategy, dense, rng):
    """The same measurements, sensitivities and estimates."""
    assert strategy.shape == dense.shape
    assert strategy.rank == dense.rank
    np.testing.assert_allclose(strategy.matrix, dense.matrix, atol=1e-12)
    np.testing.assert_allclose(strategy.pseudo_inverse, dense.pseudo_inverse, atol=1e-9)
    for relation in Neighbours:
        for norm in ("l1", "l2"):
            assert strategy.sensitivity_under(relation, norm) == pytest.approx(
                dense.sensitivity_under(relation, norm), rel=1e-10, abs=1e-12
            )
    for trailing in ((), (3,)):
        x = rng.normal(size=(dense.cells, *trailing))
        y = rng.normal(size=(dense.shape[0], *trailing))
        np.testing.assert_allclose(strategy.measure(x), dense.matrix @ x, atol=1e-10)
        np.testing.assert_allclose(strategy.estimate(y), dense.pseudo_inverse @ y, atol=1e-9)


def assert_answers(strategy, dense, workload, rng):
    """The variances, answers and reconstruction of the pseudo-inverse of the matrix."""
    A = workload.to_dense()
    expected = ((A @ np.linalg.pinv(dense.matrix, rcond=1e-10)) ** 2).sum(axis=1)
    np.testing.assert_allclose(strategy.variances(workload), expected, rtol=1e-7, atol=1e-10)
    for power in (1, 1.5, np.inf):
        norm = np.linalg.norm(expected, ord=power)
        assert strategy.variance_norm(workload, power) == pytest.approx(norm, rel=1e-7)
    x = rng.normal(size=dense.cells)
    answers = strategy.answer(workload, strategy.measure(x))
    np.testing.assert_allclose(answers, A @ x, atol=1e-8 * (1 + np.abs(A).sum()))
    L = strategy.reconstruction(workload)
    np.testing.assert_allclose((L**2).sum(axis=1), expected, rtol=1e-7, atol=1e-10)


def assert_exact_lattice(strategy, workload, rng):
    """Whole numbers that are linear in the cells, with the sensitivities of all columns."""
    lattice = lattice_of(strategy, workload, 12)
    x = rng.integers(0, 100, strategy.cells)
    Z = np.array([lattice.image(cell) for cell in np.eye(strategy.cells, dtype=np.int64)]).T
    assert (lattice.image(x) == Z @ x).all()
    np.testing.assert_allclose(lattice.units * (Z @ x), strategy.measure(x), rtol=1e-12)
    apart = np.abs(Z[:, :, None] - Z[:, None])
    exact = {
        ("add-remove", Noise.LAPLACE): np.abs(Z).sum(axis=0).max(),
        ("add-remove", Noise.GAUSSIAN): (Z**2).sum(axis=0).max(),
        ("replace", Noise.LAPLACE): apart.sum(axis=0).max(),
        ("replace", Noise.GAUSSIAN): (apart**2).sum(axis=0).max(),
    }
    for (relation, noise), value in exact.items():
        assert lattice.sensitivity(Neighbours(relation), noise) == (value, True)
