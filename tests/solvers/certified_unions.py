"""What the solver of unions claims, derived again from the matrix written out."""

from functools import reduce

import numpy as np
import pytest
from certified import dual_exponent, dual_value, factorization_value, p_norm

from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.unions import ProductDesign


def written_out(strategy):
    """R and R^+, row by row."""
    if isinstance(strategy, ProductDesign):
        roots = np.sqrt(strategy.weights)
        R = roots[:, None] * reduce(np.kron, [b.matrix for b in strategy.bases])
        return R, reduce(np.kron, [b.inverse for b in strategy.bases]) / roots
    rows, columns = [], []
    for b, block in np.ndenumerate(strategy.combinations):
        if block >= 0:
            vectors = [V[:, k][None, :] for V, k in zip(strategy.bases, b, strict=True)]
            vectors.insert(strategy.index, strategy.blocks[block].matrix)
            rows.append(reduce(np.kron, vectors))
            vectors[strategy.index] = strategy.blocks[block].inverse.T
            columns.append(reduce(np.kron, vectors).T)
    return np.vstack(rows), np.hstack(columns)


def assert_certified(found, one, p):
    """The claims of a solution, derived again from its arrays."""
    A = one.dense
    m, n = A.shape
    R, B = written_out(found.strategy)
    assert np.linalg.norm(R, axis=0).max() == pytest.approx(1.0, rel=1e-11)
    np.testing.assert_allclose(A @ B @ R, A, atol=1e-8 * np.abs(A).max())
    value = factorization_value(R, A @ B, p)
    assert value * (1 - 1e-12) <= found.certificate.upper <= value * (1 + 1e-8)
    u, w = found.dual_u, found.dual_w
    assert u.shape == (m,)
    assert w.shape == (n,)
    assert min(u.min(), w.min()) >= 0
    assert p_norm(u, dual_exponent(p)) == pytest.approx(1.0)
    assert w.sum() == pytest.approx(1.0)
    proved = dual_value(A, u, w, p)
    assert proved * (1 - 1e-4) <= found.certificate.lower <= proved * (1 + 1e-9)
    assert 0 < found.certificate.lower <= found.certificate.upper


def assert_encloses_the_norm(found, one, p):
    """The same, and the bounds are around those of the dense solver."""
    assert_certified(found, one, p)
    dense = solve_norm(DenseOperator(one.dense), p).certificate
    assert found.certificate.lower <= dense.upper
    assert found.certificate.upper >= dense.lower
