"""One assertion for every solver: its claims, derived again from the workload and its arrays.

Plain numpy, and nothing of the package: an error there cannot hide itself here.
"""

import numpy as np

EPS = np.finfo(float).eps
CHECK_P = (2.0, 2.5, 3.0, 4.0, 16.0, 1000.0, np.inf)


def p_norm(values, p):
    """norm(values)_p of non-negative values."""
    top = values.max()
    if top == 0 or np.isinf(p):
        return top
    return top * ((values / top) ** p).sum() ** (1 / p)


def dual_exponent(p):
    """The exponent q = p/(p - 2) of norm(u)_q."""
    if np.isinf(p):
        return 1.0
    return np.inf if p == 2 else p / (p - 2)


def factorization_value(strategy, reconstruction, p):
    """tr_{p/2}(L L^T)^(1/2) max_j norm(R e_j)."""
    return (
        p_norm(np.linalg.norm(reconstruction, axis=1), p) * np.linalg.norm(strategy, axis=0).max()
    )


def dual_value(A, u, w, p):
    """The nuclear norm of diag(u)^(1/2) A diag(w)^(1/2) at normalised weights."""
    u, w = u / p_norm(u, dual_exponent(p)), w / w.sum()
    return np.linalg.svd(np.sqrt(u)[:, None] * A * np.sqrt(w), compute_uv=False).sum()


def assert_certified(result, A, *, p, rel_gap=None):
    """Check a solution against A; with rel_gap also that it is that good and says so."""
    A = np.asarray(A, dtype=float)
    m, n = A.shape
    R, B, u, w = result.strategy, result.right_inverse, result.dual_u, result.dual_w
    bounds = result.certificate
    assert R.shape == (len(R), n)
    assert B.shape == (n, len(R))
    assert u.shape == (m,)
    assert w.shape == (n,)
    assert all(np.isfinite(array).all() for array in (R, B, u, w))

    # feasible: A = L R to rounding, sensitivity at most 1, weights in their unit balls
    L = A @ B
    rounding = 10 * (m + n) * EPS * (np.abs(A) @ np.abs(B) @ np.abs(R) + np.abs(A).max())
    assert (np.abs(L @ R - A) <= rounding).all()
    assert np.linalg.norm(R, axis=0).max() <= 1 + 1e-12
    assert (u >= 0).all()
    assert (w >= 0).all()
    assert p_norm(u, dual_exponent(p)) <= 1 + 1e-11
    assert w.sum() <= 1 + 1e-11

    # the bounds are those of these arrays, rounded the safe way
    value = factorization_value(R, L, p)
    residual = p_norm(np.linalg.norm(A - L @ R, axis=1), p)
    assert value * (1 - 1e-14) <= bounds.upper <= (value + residual) * (1 + 1e-9)
    nuclear = dual_value(A, u, w, p)
    # a large workload's small singular values are lost in its Gram matrix
    assert nuclear * (1 - 1e-5) <= bounds.lower <= nuclear * (1 + 1e-14)
    assert 0 < bounds.lower <= bounds.upper
    assert bounds.gap == bounds.upper / bounds.lower - 1
    assert (result.status.name == "OPTIMAL") >= (rel_gap is not None)
    if rel_gap is not None:
        assert bounds.gap <= rel_gap
