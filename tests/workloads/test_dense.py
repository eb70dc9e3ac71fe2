"""What is accepted as a workload, and what is refused with which words."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import (
    DenseWorkload,
    KroneckerWorkload,
    RangeWorkload,
    SparseWorkload,
    as_workload,
)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble])
def test_any_real_type_is_kept_as_float64(dtype):
    workload = DenseWorkload(np.array([[1, 0], [1, 1]], dtype=dtype))
    assert workload.to_dense().dtype == np.float64
    assert workload.to_dense().tolist() == [[1, 0], [1, 1]]


def test_the_copy_is_read_only_and_independent():
    given = np.eye(3)
    workload = DenseWorkload(given)
    given[0, 0] = 7
    assert workload.to_dense()[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        workload.to_dense()[0, 0] = 7


def test_an_array_that_is_handed_over_is_not_copied():
    given = np.eye(3)
    assert np.shares_memory(DenseWorkload(given, copy=False).to_dense(), given)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros(3), "1 dimensions"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.zeros((0, 3)), "at least one query"),
        (np.zeros((3, 0)), "at least one query"),
        (np.eye(2) * 1j, "complex128"),
        (np.array([["1", "2"]]), "<U1"),
        (np.array([[1, None]]), "object"),
        (np.array([[np.datetime64("2020-01-01")]]), "datetime64"),
        ([[1, 2], [3]], "rows of one length"),
        ([[10**400, 1]], "object"),
    ],
)
def test_what_is_not_a_real_matrix_is_refused(matrix, words):
    with pytest.raises(InvalidInputError, match=words):
        DenseWorkload(matrix)


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_the_first_entry_that_is_not_finite_is_named(value, shown):
    matrix = np.zeros((5, 9))
    matrix[3, 7] = matrix[4, 0] = value
    for workload in (matrix, sparse.coo_array(matrix)):
        with pytest.raises(InvalidInputError, match=rf"entry \(3, 7\) is {shown};"):
            as_workload(workload)


def test_a_number_beyond_float64_is_refused():
    big = np.array([[np.longdouble(10) ** 300]]) ** 2
    if np.isinf(big).all():  # where long double is float64
        big = np.array([[np.inf]])
    with pytest.raises(InvalidInputError, match=r"entry \(0, 0\) is inf"):
        DenseWorkload(big)


@pytest.mark.parametrize(
    ("starts", "stops", "cells", "words"),
    [
        ([0, 2], [1, 1], 3, "range 1 goes from 2 to 1"),
        ([0, -1], [1, 1], 3, "range 1 goes from -1 to 1"),
        ([0], [4], 3, "range 0 goes from 0 to 4"),
        ([], [], 3, "whole numbers|at least one range"),
        (np.zeros(0, int), np.zeros(0, int), 3, "at least one range"),
        ([0], [0], 0, "at least one range and one cell"),
        ([0, 1], [1], 3, "same length, got 2 and 1"),
        ([0.5], [1], 3, "starts must be .* whole numbers"),
        ([0], [[1]], 3, "stops must be"),
    ],
)
def test_wrong_ranges_are_refused(starts, stops, cells, words):
    with pytest.raises(InvalidInputError, match=words):
        RangeWorkload(starts, stops, cells)


@pytest.mark.parametrize(
    ("form", "name", "position", "value"),
    [
        ("csr", "indices", 0, 10**6),
        ("csc", "indices", 0, -1),
        ("csr", "indptr", -1, 0),
        ("csc", "indptr", 1, 2**31 - 1),
        ("bsr", "indptr", -1, 0),
        ("coo", "row", 0, 10**6),
    ],
)
def test_sparse_indices_out_of_range_are_refused(form, name, position, value):
    matrix = sparse.csr_array(np.eye(3)).asformat(form)
    getattr(matrix, name)[position] = value
    with pytest.raises(InvalidInputError, match="inconsistent"):
        SparseWorkload(matrix)


def test_diagonals_without_offsets_are_refused():
    matrix = sparse.dia_array(np.tri(3))
    matrix.offsets = matrix.offsets[:-1]
    with pytest.raises(InvalidInputError, match="inconsistent"):
        SparseWorkload(matrix)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_every_sparse_format_is_accepted(form):
    A = np.array([[1.0, 0, -2], [0, 3, 0]])
    for kind in (sparse.coo_array, sparse.coo_matrix):
        workload = as_workload(kind(A).asformat(form))
        assert isinstance(workload, SparseWorkload)
        np.testing.assert_array_equal(workload.to_dense(), A)


def test_stored_zeros_and_repeated_sparse_entries_do_not_disturb_merging():
    A = sparse.coo_array(([1.0, 1.0, 2.0, 0.0], ([0, 0, 1, 2], [1, 1, 1, 0])), shape=(3, 2))
    merged = SparseWorkload(A).merge()
    assert merged.row_of.tolist() == [0, 0, -1]
    assert merged.column_of.tolist() == [-1, 0]


def test_as_workload_takes_what_a_caller_has():
    workload = as_workload("prefix:4")
    assert as_workload(workload) is workload
    assert as_workload([[1, 0], [1, 1]]).shape == (2, 2)

    class Table:
        def __array__(self, dtype=None, copy=None):
            return np.eye(3)

    assert as_workload(Table()).shape == (3, 3)


@pytest.mark.parametrize("value", [None, 3, {"a": 1}, b"prefix:4", (x for x in [[1]]), {1}])
def test_as_workload_refuses_the_rest(value):
    with pytest.raises(InvalidInputError, match=f"got {type(value).__name__}"):
        as_workload(value)


def test_a_product_needs_two_factors():
    with pytest.raises(InvalidInputError, match="at least two workloads, got 1"):
        KroneckerWorkload([as_workload("prefix:2")])


def test_importing_workloads_leaves_the_parts_of_scipy_out():
    code = (
        "import sys, pmldesign.workloads, pmldesign.files;"
        "pmldesign.workloads.as_workload([[1]]);"
        "parts = {f'scipy.{name}' for name in sys.modules['scipy'].submodules};"
        "assert not parts & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize(
    ("density", "vectors", "written"), [(0.2, 20, 1), (0.2, 3, 0), (0.01, 20, 0)]
)
def test_products_with_many_vectors_take_the_matrix_where_few_entries_are_zero(
    density, vectors, written, monkeypatch
):
    calls, to_dense = [], SparseWorkload.to_dense
    monkeypatch.setattr(
        SparseWorkload, "to_dense", lambda queries: calls.append(1) or to_dense(queries)
    )
    rng = np.random.default_rng(4)
    A = np.where(rng.random((30, 200)) < density, rng.standard_normal((30, 200)), 0.0)
    queries = SparseWorkload(sparse.csr_array(A))
    x, y = rng.standard_normal((200, vectors)), rng.standard_normal((30, vectors))
    np.testing.assert_allclose(queries.matvec(x), A @ x, atol=1e-12)
    np.testing.assert_allclose(queries.rmatvec(y), A.T @ y, atol=1e-12)
    np.testing.assert_allclose(queries.matvec(x[:, 0]), A @ x[:, 0], atol=1e-12)
    assert len(calls) == written
