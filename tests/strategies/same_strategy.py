"""Strategies that are never written out, against the matrices that they stand for."""

import numpy as np
import pytest

from pmldesign.privacy import Neighbours


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
