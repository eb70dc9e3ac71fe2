import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.error_bounds import is_prefix, kappa
from pmldesign.workloads import as_workload


def kappa_by_search(A):
    """2 over the longest vertex of norm(A^T theta)_inf <= 1: m of the n facets, every sign."""
    m, n = A.shape
    longest = 0.0
    for columns in itertools.combinations(range(n), m):
        B = A[:, columns].T
        if abs(np.linalg.det(B)) < 1e-9:
            continue
        signs = np.array(list(itertools.product([-1.0, 1.0], repeat=m))).T
        theta = np.linalg.solve(B, signs)
        inside = np.abs(A.T @ theta).max(axis=0) <= 1 + 1e-9
        if inside.any():
            longest = max(longest, np.linalg.norm(theta[:, inside], axis=0).max())
    return 2 / longest


@pytest.mark.parametrize("n", range(1, 13))
def test_prefix_sums_by_search_over_every_vertex(n):
    exact = kappa_by_search(np.tri(n))
    found = kappa(as_workload(f"prefix:{n}"))
    assert exact == pytest.approx(2 / math.sqrt(4 * n - 3), rel=1e-12)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-12)
    assert kappa(as_workload(np.tri(n))) == found


@settings(max_examples=12)
@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1), st.booleans())
def test_bound_is_below_the_value_found_by_search(m, extra, seed, whole):
    generator = np.random.default_rng(seed)
    A = generator.standard_normal((m, m + extra))
    if whole:
        A = generator.integers(-1, 2, A.shape).astype(float)
    found = kappa(as_workload(A))
    if np.linalg.matrix_rank(A) < m:
        assert found == 0
        return
    assert found <= kappa_by_search(A) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("histogram:7", 2 / math.sqrt(7)),  # theta constant
        ("parity:4,2", 2.0),  # one row, of signs; norm(A^T theta)_2 = sqrt(n)
        ("parity:5,3", 2.0),
        ("parity:3,3", 2.0),
    ],
)
def test_orthogonal_rows(name, exact):
    found = kappa(as_workload(name))
    assert found == pytest.approx(exact, rel=1e-12)
    assert found <= exact


def test_square_orthogonal_matrices():
    # y = A^T theta may be any vector of norm r: the flattest has entries r/sqrt(n)
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((8, 8)))[0]
    assert kappa(as_workload(3 * Q)) == pytest.approx(6 / math.sqrt(8), rel=1e-12)


def test_dependent_rows_have_no_width():
    assert kappa(as_workload("all-range:4")) == 0
    assert kappa(as_workload(np.array([[1.0, 1.0], [2.0, 2.0]]))) == 0


def test_prefix_sums_are_not_of_width_two():
    """theta = (2, -1)/sqrt 5 on two cells: [ZLU] Lemma 2.14 says 2."""
    theta = np.array([2, -1]) / math.sqrt(5)
    width = 2 * np.abs(np.tri(2).T @ theta).max()
    assert width == pytest.approx(2 / math.sqrt(5))
    assert kappa(as_workload("prefix:2")) <= width * (1 + 1e-12) < 2


def test_prefix_sums_are_recognised():
    assert is_prefix(as_workload("prefix:5"))
    assert is_prefix(as_workload(np.tri(5)))
    for other in ("histogram:5", "window:5,4", "all-range:1*histogram:5", "all-range:3"):
        assert not is_prefix(as_workload(other))


def test_workloads_too_large_to_decompose_get_the_trivial_bound():
    assert kappa(as_workload("histogram:5000")) == 0
