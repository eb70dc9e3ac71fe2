import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.workloads import parse_workload
from pmldesign_solvers.eigen import symmetric


def assert_decomposes(gram, root):
    values, vectors = symmetric.decompose(gram, root)
    matrix = root[:, None] * gram * root
    allowed = 1e-12 * np.trace(matrix)
    assert (np.diff(values) >= 0).all()
    assert np.allclose((vectors * values) @ vectors.T, matrix, rtol=0, atol=allowed)
    assert np.allclose(vectors.T @ vectors, np.eye(len(root)), rtol=0, atol=1e-10)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_any_matrix(rows, columns, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, columns))
    assert_decomposes(A.T @ A, rng.uniform(0.1, 1, columns))


@pytest.mark.parametrize("name", ["prefix:150", "all-range:150", "histogram:130"])
@pytest.mark.parametrize("even", [True, False])
def test_structured_matrices(name, even):
    workload = parse_workload(name)
    rng, (m, n) = np.random.default_rng(1), workload.shape
    root = np.ones(n) if even else rng.uniform(0.1, 1, n)
    assert_decomposes(workload.gram(np.ones(m)), root)
