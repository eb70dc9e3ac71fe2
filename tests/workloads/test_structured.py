"""Every structured workload against the matrix that it stands for."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from pmldesign.workloads import (
    CountsWorkload,
    DenseWorkload,
    RangeWorkload,
    SparseWorkload,
    Workload,
    distinct_shape,
    parse_workload,
    weighted,
)
from pmldesign_solvers.certificate import lower_bound
from pmldesign_solvers.operators import DenseOperator


@st.composite
def ranges(draw, most=8):
    n = draw(st.integers(1, most))
    first = draw(st.lists(st.integers(0, n), min_size=1, max_size=10))
    return RangeWorkload(first, [draw(st.integers(s, n)) for s in first], n)


def matrices(most=6):
    shape = st.tuples(st.integers(1, most), st.integers(1, most))
    entry = st.sampled_from([0.0, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5])
    return shape.flatmap(
        lambda s: st.lists(entry, min_size=s[0] * s[1], max_size=s[0] * s[1]).map(
            lambda values: np.array(values).reshape(s)
        )
    )


dense_workloads = matrices().map(DenseWorkload)
sparse_workloads = matrices().map(lambda a: SparseWorkload(sparse.coo_array(a)))
counts = st.integers(1, 5).map(CountsWorkload)
workloads = st.one_of(ranges(), dense_workloads, sparse_workloads, counts)


def matrix_of(workload: Workload) -> np.ndarray:
    """The matrix entry by entry, by the definition of each class."""
    if isinstance(workload, RangeWorkload):
        cells = range(workload.cells)
        return np.array(
            [
                [float(s <= j < t) for j in cells]
                for s, t in zip(workload.starts, workload.stops, strict=True)
            ]
        )
    return workload.to_dense()


@given(workloads, st.booleans())
def test_on_vectors_that_sum_to_zero(workload, idle):
    A = matrix_of(workload)
    assume(idle or A.shape[1] > 1)
    expected = A if idle else A[:, :-1] - A[:, -1:]
    operator, rows = workload.relative(idle=idle)
    np.testing.assert_array_equal(rows, np.flatnonzero(expected.any(axis=1)))
    if rows.size:
        found, expected = operator.to_dense(), expected[rows]
        signs = np.sign((found * expected).sum(axis=1, keepdims=True))
        np.testing.assert_array_equal(found, signs * expected)


@given(workloads, st.integers(0, 2**32 - 1))
def test_products_agree_with_the_matrix(workload, seed):
    rng = np.random.default_rng(seed)
    A = matrix_of(workload)
    m, n = A.shape
    X = rng.normal(size=(n, n))
    X += X.T
    assert workload.shape == (m, n)
    np.testing.assert_array_equal(workload.to_dense(), A)
    for u in (rng.random(m), rng.normal(size=m)):
        np.testing.assert_allclose(workload.gram(u), A.T @ np.diag(u) @ A, atol=1e-12)
    np.testing.assert_allclose(workload.row_quadratic(X), np.diag(A @ X @ A.T), atol=1e-11)
    H = rng.normal(size=(n, 1 + seed % 4))
    norms = np.square(A @ H).sum(axis=1)
    np.testing.assert_allclose(workload.row_norms(H), norms, rtol=2e-10, atol=1e-26)
    for columns in ((), (1,), (3,)):
        x, y = rng.normal(size=(n, *columns)), rng.normal(size=(m, *columns))
        np.testing.assert_allclose(workload.matvec(x), A @ x, atol=1e-12)
        np.testing.assert_allclose(workload.rmatvec(y), A.T @ y, atol=1e-12)


@given(workloads)
def test_merged_workload_expands_to_the_original(workload):
    A = workload.to_dense()
    merged = workload.merge()
    B = merged.operator.to_dense()
    padded = np.pad(B, ((0, 1), (0, 1)))  # index -1 is the zero row or column
    np.testing.assert_array_equal(padded[np.ix_(merged.row_of, merged.column_of)], A)
    assert B.shape == merged.operator.shape
    assert distinct_shape(workload) == B.shape
    for vectors in (B, B.T):
        assert len(np.unique(vectors, axis=0)) == len(vectors)
        assert vectors.any(axis=1).all()


@given(workloads)
def test_merge_numbers_as_the_dense_matrix_does(workload):
    merged, dense = workload.merge(), DenseOperator(workload.to_dense()).merge()
    np.testing.assert_array_equal(merged.row_of, dense.row_of)
    np.testing.assert_array_equal(merged.column_of, dense.column_of)


@given(ranges())
def test_merged_ranges_are_ranges(workload):
    assume(workload.to_dense().any())
    assert isinstance(workload.merge().operator, RangeWorkload)


def test_cells_that_are_apart_merge_when_the_same_ranges_cover_them():
    merged = RangeWorkload([0, 1], [3, 2], 4).merge()
    assert merged.column_of.tolist() == [0, 1, 0, -1]
    np.testing.assert_array_equal(merged.operator.to_dense(), [[1, 1], [0, 1]])


@pytest.mark.parametrize("n", [64, 512])
@pytest.mark.parametrize("spread", [0, 6])
def test_row_quadratic_is_as_accurate_as_the_dense_product(n, spread):
    # Each entry is a sum of its own terms: error <= (2n + 1) eps a^T |X| a, as for any summation.
    rng = np.random.default_rng(n)
    workload = parse_workload(f"random-range:60,{n},seed={n}")
    A = workload.to_dense()
    scale = 10.0 ** rng.uniform(-spread, spread, n)
    Q = rng.normal(size=(n, 40))
    X = (Q @ Q.T + np.eye(n)) * scale[:, None] * scale
    exact = np.einsum("ij,ij->i", (A.astype(np.longdouble) @ X.astype(np.longdouble)), A)
    bound = np.einsum("ij,ij->i", A @ np.abs(X), A) * (2 * n + 1) * np.finfo(float).eps
    assert np.all(np.abs(workload.row_quadratic(X) - exact) <= bound)


def test_a_small_range_keeps_its_digits_beside_large_ones():
    X = np.diag([1e20, 1.0, 1.0])
    assert parse_workload("histogram:3").row_quadratic(X).tolist() == [1e20, 1.0, 1.0]
    weights = np.array([1e20, 1.0, 1.0])
    np.testing.assert_array_equal(parse_workload("histogram:3").gram(weights), np.diag(weights))


@given(st.integers(2, 12), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_row_norms_are_rounded_up_where_prefix_sums_cancel(n, m, seed):
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, n, m)
    workload = RangeWorkload(starts, rng.integers(starts + 1, n + 1), n)
    H = rng.standard_normal((n, 3)) * 10.0 ** rng.uniform(-6, 6, (n, 1))
    exact = ((workload.to_dense().astype(np.longdouble) @ H) ** 2).sum(axis=1)
    assert (workload.row_norms(H) >= exact * (1 - 1e-15)).all()


@given(st.integers(9, 40), st.integers(0, 2**32 - 1), st.floats(0, 12))
def test_row_norms_of_many_ranges_are_rounded_up_and_close(n, seed, spread):
    # neighbouring rows of H of very different sizes: what is left of large prefix sums is small
    rng = np.random.default_rng(seed)
    workload = parse_workload(f"all-range:{n}")
    H = rng.normal(size=(n, 7)) * 10.0 ** rng.uniform(-spread, 0, (n, 1))
    exact = ((workload.to_dense().astype(np.longdouble) @ H) ** 2).sum(axis=1)
    norms = workload.row_norms(H)
    assert (norms >= exact * (1 - 1e-15)).all()
    # no prefix sum of n terms is known more closely than n units of the last place
    off = 4 * (n + 1) * 2.0**-52 * np.linalg.norm(np.abs(H).sum(axis=0))
    assert (norms <= (np.sqrt(exact) * (1 + 1e-10) + off) ** 2).all()


def test_large_range_workload_is_never_formed():
    # 524,800 x 1024 doubles are 4.3 GB; G_jj counts the ranges over cell j: (j + 1)(n - j).
    n = 1024
    workload = parse_workload(f"all-range:{n}")
    gram = workload.gram(np.ones(workload.shape[0]))
    j = np.arange(n)
    low, high = np.minimum.outer(j, j), np.maximum.outer(j, j)
    np.testing.assert_array_equal(gram, (low + 1.0) * (n - high))
    lengths = workload.row_quadratic(np.ones((n, n)))
    np.testing.assert_array_equal(lengths, np.square(workload.stops - workload.starts))


def test_sparse_workload_never_densifies_a_large_matrix():
    # Row i is 2 e_i - e_{i+1}: A A^T has 5 on the diagonal, 4 in the last row.
    n = 2**17
    A = sparse.diags_array([2.0, -1.0], offsets=[0, 1], shape=(n, n))
    workload = SparseWorkload(A)
    y = workload.matvec(workload.rmatvec(np.eye(1, n).ravel()))
    assert y[:3].tolist() == [5.0, -2.0, 0.0]
    merged = workload.merge()
    assert merged.operator.shape == (n, n)
    with pytest.raises(ValueError, match="ever written out"):
        workload.to_dense()


def test_a_tall_sparse_workload_keeps_the_products_of_its_entries():
    rng = np.random.default_rng(0)
    A = np.where(rng.random((90, 5)) < 0.5, rng.normal(size=(90, 5)), 0.0)
    A[3] = 0.0
    workload, X, u = SparseWorkload(sparse.csr_array(A)), rng.normal(size=(5, 5)), rng.random(90)
    turned = SparseWorkload(sparse.csr_array(A.T)).transposed()
    np.testing.assert_array_equal(turned.to_dense(), A)
    assert workload.products_of_entries is not None
    np.testing.assert_allclose(workload.row_quadratic(X + X.T), np.diag(A @ (X + X.T) @ A.T))
    np.testing.assert_allclose(workload.gram(u), A.T @ np.diag(u) @ A, atol=1e-14)


def test_a_wide_sparse_workload_is_bounded_without_its_matrix(monkeypatch):
    """Its transpose stays sparse, and a step takes as long as on a few of its cells."""
    A = sparse.random_array((200, 4000), density=0.002, rng=np.random.default_rng(4), format="csr")
    exact = np.linalg.svd(A.toarray() / np.sqrt(4000), compute_uv=False).sum()
    workload = SparseWorkload(A)
    assert workload.work == SparseWorkload(A.T).work == (200, 256)
    full = SparseWorkload(sparse.csr_array(np.ones((3, 500))))
    assert full.work == (3, 500)
    monkeypatch.setattr(SparseWorkload, "to_dense", None)
    lower = lower_bound(workload, np.ones(200), np.ones(4000), 2.0)
    assert exact * (1 - 1e-9) <= lower <= exact * (1 + 1e-12)


def test_weights_do_not_change_what_a_step_takes():
    ranges = parse_workload("all-range:30")
    assert weighted(ranges, np.arange(1.0, 466)).work == ranges.work == (30, 30)


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("text", ["all-range:6", "prefix:3*all-range:2", "window:7,3"])
def test_weights_keep_the_form_on_vectors_that_sum_to_zero(text, idle, monkeypatch):
    """And the differences of columns, but for the signs of rows; constant rows are left out."""
    plain = parse_workload(text)
    scales = np.arange(1.0, plain.shape[0] + 1)
    matrix = scales[:, None] * plain.to_dense()
    if isinstance(plain, RangeWorkload):
        monkeypatch.setattr(RangeWorkload, "to_dense", None)
    operator, rows = weighted(plain, scales).relative(idle=idle)
    monkeypatch.undo()
    moves = matrix if idle else matrix[:, :-1] - matrix[:, -1:]
    np.testing.assert_allclose(abs(operator.to_dense()), abs(moves[rows]), rtol=1e-15)
    assert not np.delete(moves, rows, axis=0).any()
