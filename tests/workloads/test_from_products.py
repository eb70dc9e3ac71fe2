"""Queries that an object answers by products, and complex ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

import pmldesign as pml
from pmldesign.workloads import DenseWorkload, as_workload, dense

seeds = st.integers(0, 2**32 - 1)


class RunningSums:
    """Without a matrix: one column at a time."""

    def __init__(self, cells):
        self.shape = cells, cells

    def matvec(self, x):
        return np.cumsum(x)

    def rmatvec(self, y):
        return np.cumsum(y[::-1])[::-1]


class WithGram(RunningSums):
    def gram(self, u):
        tails = self.rmatvec(u)
        return np.minimum.outer(tails, tails)


@given(st.integers(1, 7), st.integers(1, 7), seeds)
def test_products_are_those_of_the_matrix(m, n, seed):
    rng = np.random.default_rng(seed)
    A, u, x = rng.normal(size=(m, n)), rng.random(m), rng.normal(size=(n, 2))
    X = rng.normal(size=(n, n))
    workload = dense.ProductsWorkload(aslinearoperator(A))
    np.testing.assert_allclose(workload.to_dense(), A)
    np.testing.assert_allclose(workload.matvec(x), A @ x, atol=1e-12)
    np.testing.assert_allclose(workload.rmatvec(u), A.T @ u, atol=1e-12)
    np.testing.assert_allclose(workload.gram(u), A.T @ np.diag(u) @ A, atol=1e-12)
    expected = np.diag(A @ (X + X.T) @ A.T)
    np.testing.assert_allclose(workload.row_quadratic(X + X.T), expected, atol=1e-11)
    np.testing.assert_array_equal(workload.row_sizes(), np.abs(A).max(axis=1))


def test_an_operator_is_written_out_and_a_gram_matrix_of_its_own_is_used():
    assert isinstance(as_workload(aslinearoperator(np.eye(3))), DenseWorkload)
    assert isinstance(as_workload(WithGram(5)), dense.ProductsWorkload)
    with pytest.raises(pml.InvalidInputError, match=r"got LinearOperator|a workload is"):
        as_workload(object())


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_bounds_of_products_and_of_the_matrix_overlap(p, relation, monkeypatch):
    expected = pml.factorize("prefix:12", p=p, neighbours=relation).certificate
    for kind in (RunningSums, WithGram):
        monkeypatch.setattr(dense, "WRITTEN", 0)  # as for one that is too large to write out
        found = pml.factorize(kind(12), p=p, neighbours=relation).certificate
        assert found.gap <= 1e-6
        assert found.lower <= expected.upper
        assert expected.lower <= found.upper


def test_every_guarantee_takes_an_operator():
    for guarantee in (pml.PureDP(1), pml.ApproxDP(1, 1e-6, "replace"), pml.PML(1, 0.2)):
        noisy = pml.optimize(WithGram(4), guarantee=guarantee, effort="quick").best
        same = pml.optimize("prefix:4", guarantee=guarantee, effort="quick").best
        assert noisy.error(2) <= 1.02 * same.error(2)


def wrong(**replaced):
    return type("Wrong", (WithGram,), replaced)(4)


@pytest.mark.parametrize(
    ("products_of", "words"),
    [
        ({"rmatvec": lambda _, y: np.cumsum(y)}, "not the transpose"),
        ({"gram": lambda _, u: np.eye(4) * u.sum()}, r"not A\^T diag\(u\) A"),
        ({"matvec": lambda _, x: np.cumsum(x)[:3]}, "got shape"),
        ({"matvec": lambda _, x: 1j * x}, "real numbers"),
        ({"matvec": lambda _, x: x * np.nan}, "not finite"),
    ],
)
def test_products_that_are_no_matrix_are_refused(products_of, words):
    with pytest.raises(pml.InvalidInputError, match=words):
        pml.factorize(wrong(**products_of))


def test_a_shape_that_is_none_is_refused():
    workload = RunningSums(4)
    for shape in ((4,), (0, 4), (2.5, 4)):
        workload.shape = shape
        with pytest.raises(pml.InvalidInputError):
            pml.factorize(workload)


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_a_complex_query_is_two(n):
    # the Fourier matrix is root n times a unitary one: norm n, attained by the identity
    workload = as_workload(np.fft.fft(np.eye(n)))
    certificate = pml.factorize(workload).certificate
    assert workload.shape == (2 * n, n)
    assert certificate.lower <= n <= certificate.upper
    assert workload.row_label(3) == "row 1, imaginary part"
    with pytest.raises(pml.InvalidInputError, match="finite"):
        as_workload(np.array([[1j * np.inf]]))
