import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import helmert

from pmldesign.strategies import residuals


@given(st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_contrasts_are_those_of_the_helmert_matrix(n, seed):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    H = helmert(n, full=True)[1:]
    np.testing.assert_allclose(residuals.contrasts(x), np.sqrt(n) * H @ x, atol=1e-12)
    np.testing.assert_allclose(
        residuals.expand(np.vstack([x.sum(axis=0), residuals.contrasts(x)])),
        x,
        atol=1e-12,
    )


@given(st.integers(1, 300))
def test_the_first_column_has_the_largest_sum(n):
    columns = np.abs(residuals.contrasts(np.eye(n))).sum(axis=0) / np.sqrt(n)
    assert residuals.largest_column(n) == pytest.approx(
        columns.max(initial=0.0), rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("n", [4096, 4097, 5000, 200_000])
def test_long_sums_keep_their_digits(n):
    k = np.arange(1, n, dtype=np.longdouble)
    assert residuals.largest_column(n) == pytest.approx(
        float((1 / np.sqrt(k * (k + 1))).sum()), rel=1e-14
    )


def test_a_sum_too_long_to_add_up():
    # log n + a constant: the terms are 1/(k + 1/2) up to a summable rest
    difference = residuals.largest_column(2**53) - residuals.largest_column(2**40)
    assert difference == pytest.approx(13 * np.log(2), rel=1e-11)
