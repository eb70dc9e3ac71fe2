import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.workloads import parse_workload
from pmldesign_solvers import gamma, reflection
from pmldesign_solvers.operators import DenseOperator


def symmetric(n, seed, rank=None):
    A = np.random.default_rng(seed).standard_normal((rank or n + 2, n))
    gram = A.T @ A
    return gram + gram[::-1, ::-1]


@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.booleans())
def test_two_halves_decompose_the_matrix(n, seed, singular):
    M = symmetric(n, seed, rank=1 if singular else None)
    values, vectors = reflection.decompose(M)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M), atol=1e-13 * values[-1])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-13)
    np.testing.assert_allclose(vectors * values @ vectors.T, M, atol=1e-13 * values[-1])


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_what_reversal_changes_is_not_decomposed(n):
    M = symmetric(n, n)
    for i, j in ((0, 0), (n // 2 - 1, n // 2 - 1), (0, n // 2 - 1)):
        other = M.copy()
        other[i, j] += 1e-9 * np.abs(M).max()
        other[j, i] = other[i, j]
        assert reflection.decompose(other) is None
    assert reflection.decompose(M + 1e-14 * np.abs(M).max()) is not None


@pytest.mark.parametrize("cells", [128, 129])
@pytest.mark.parametrize("p", [4, np.inf])
def test_solutions_are_those_of_the_shuffled_ranges(monkeypatch, cells, p):
    # shuffled cells: no reflection any more, the same norm
    A = parse_workload(f"random-range:500,{cells}").to_dense()
    A = np.vstack([A, A[:, ::-1]])
    used = []
    decompose = reflection.decompose

    def spy(matrix):
        used.append(decompose(matrix))
        return used[-1]

    monkeypatch.setattr(reflection, "decompose", spy)
    found = gamma.solve(DenseOperator(A), p, rel_gap=1e-3).certificate
    assert all(one is not None for one in used)
    order = np.random.default_rng(0).permutation(cells)
    used.clear()
    other = gamma.solve(DenseOperator(A[:, order]), p, rel_gap=1e-3).certificate
    assert all(one is None for one in used)
    assert max(found.gap, other.gap) <= 1e-3
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
