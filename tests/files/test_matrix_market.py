"""Matrix Market files: those of scipy and of others, and damaged ones."""

import numpy as np
import pytest
from friendly import assert_friendly
from scipy import io as scipy_io
from scipy import sparse

from pmldesign.errors import FileError
from pmldesign.files import (
    read_workload,
)


def test_dense_matrix_market_files_of_others_are_read(tmp_path):
    scipy_io.mmwrite(tmp_path / "a.mtx", np.array([[2, 1], [1, 2]]), symmetry="symmetric")
    np.testing.assert_array_equal(read_workload(tmp_path / "a.mtx").to_dense(), [[2, 1], [1, 2]])


ARRAY = b"%%MatrixMarket matrix array real general\n"
SPARSE = b"%%MatrixMarket matrix coordinate real general\n"


def market(text):
    return text.encode() if isinstance(text, str) else text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("%%MatrixMarket vector array real general\n3\n1\n2\n3\n", "first line must be"),
        ("%%MatrixMarket matrix coordinate real\n", "first line must be"),
        ("%%MatrixMarket matrix array text general\n1 1\n1\n", "field 'text'"),
        ("%%MatrixMarket matrix array pattern general\n1 1\n", "field 'pattern'"),
        ("%%MatrixMarket matrix array real diagonal\n1 1\n1\n", "symmetry 'diagonal'"),
        ("%%MatrixMarket matrix array real symmetric\n1 2\n1\n2\n", "1 x 2 is not symmetric"),
        (SPARSE, "ends before the line with its size"),
        (SPARSE + b"1 1 1.0\n", "line 2 must be the numbers of rows, columns and entries"),
        (SPARSE + b"2 2\n1 1 1\n", "line 2 must be"),
        (SPARSE + b"-2 2 1\n1 1 1\n", "line 2 must be"),
        (SPARSE + b"2 2 99999999999999999999\n", "line 2 must be"),
        (SPARSE + b"% why\n2 2 3\n1 1 1\n2 2 1\n", "asks for 3 entries, 2 follow"),
        (SPARSE + b"2 2 1\n1 1 1\n2 2 1\n", "asks for 1 entries, 2 follow"),
        (SPARSE + b"2 2 1\n1 1 0,5\n", "line 3, '1 1 0,5', is not 3 decimal numbers"),
        (SPARSE + b"2 2 1\n1 1 1;7\n", "line 3, '1 1 1;7'"),
        (SPARSE + b"2 2 1\n1 1 1_0\n", "line 3, '1 1 1_0'"),
        (SPARSE + b"% why\n\n2 2 2\n1 1 1\n1 1\n", "line 6, '1 1'"),
        (SPARSE + b"2 2 1\n1 0 1\n", "entry 1 is in column 0 of 2"),
        (SPARSE + b"2 2 1\n1.5 1 1\n", "entry 1 is in row 1.5 of 2"),
        (SPARSE + b"2 2 1\nnan 1 1\n", "entry 1 is in row nan of 2"),
        (SPARSE + b"2 2 1\n1 1 1\n" + b"%" * 100_000, "bytes follow the size line"),
        (SPARSE.replace(b"general", b"symmetric") + b"2 2 2\n1 2 1\n2 1 1\n", "one triangle"),
        (ARRAY + b"1 2\n1 2\n", "line 3, '1 2', is not 1 decimal number "),
        (ARRAY + b"1 2\n0,5\n1\n", "line 3, '0,5'"),
        (b"%%MatrixMarket matrix\x00", "not text"),
        (b"%%MatrixMarket" + b"x" * 100_000, "not text"),
    ],
)
def test_damaged_matrix_market_files(tmp_path, content, words):
    (tmp_path / "a.mtx").write_bytes(market(content))
    with pytest.raises(FileError, match=words) as caught:
        read_workload(tmp_path / "a.mtx")
    assert_friendly(caught.value, exit_code=6)


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("form", ["array", "coordinate"])
@pytest.mark.parametrize("dtype", [float, np.int64])
def test_matrix_market_files_of_scipy_are_read(tmp_path, symmetry, form, dtype):
    rng = np.random.default_rng(3)
    A = np.tril(rng.integers(-9, 9, (5, 5)).astype(dtype))
    if symmetry != "general":
        sign = 1 if symmetry == "symmetric" else -1
        A = np.tril(A, -1) + sign * np.tril(A, -1).T + (A * np.eye(5, dtype=dtype)) * (sign > 0)
    given = A if form == "array" else sparse.coo_array(A)
    scipy_io.mmwrite(tmp_path / "a.mtx", given, symmetry=symmetry, comment="by\nhand")
    np.testing.assert_array_equal(read_workload(tmp_path / "a.mtx").to_dense(), A)


def test_patterns_repeated_entries_and_loose_lines(tmp_path):
    text = "%%matrixmarket MATRIX Coordinate Pattern General\r\n%\n\n 2 3 3 \n1 1\n\n2 3\r\n2 3\n"
    text = text.replace("%%matrixmarket", "%%MatrixMarket")
    (tmp_path / "a.mtx").write_text(text)
    np.testing.assert_array_equal(
        read_workload(tmp_path / "a.mtx").to_dense(), [[1, 0, 0], [0, 0, 2]]
    )


@pytest.mark.parametrize("body", ["", "\n", "%\n", "  % none\r\n\n%"])
def test_a_matrix_without_entries_may_have_comments(tmp_path, body):
    (tmp_path / "a.mtx").write_text(SPARSE.decode() + "2 3 0\n" + body)
    np.testing.assert_array_equal(read_workload(tmp_path / "a.mtx").to_dense(), np.zeros((2, 3)))
