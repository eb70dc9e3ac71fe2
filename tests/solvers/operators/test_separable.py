"""Traces with G_ij = u_min(i,j) v_max(i,j), which is never written out."""

import numpy as np
import pytest

from pmldesign_solvers.operators import intervals


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 4), (5, 1), (6, 0), (9, 4)])
@pytest.mark.parametrize("block", [1, 300, 2**25])
def test_the_trace_is_that_of_the_written_matrix(n, k, block, monkeypatch):
    monkeypatch.setattr(intervals, "BLOCK_BYTES", block)
    rng = np.random.default_rng(n + k)
    u, v, B = rng.uniform(0.1, 2, n), rng.uniform(0.1, 2, n), rng.standard_normal((n, k))
    i, j = np.indices((n, n))
    G = u[np.minimum(i, j)] * v[np.maximum(i, j)]
    assert intervals.separable_trace(u, v, B) == pytest.approx(np.trace(B.T @ G @ B), rel=1e-12)
