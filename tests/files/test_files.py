"""Files of workloads: every format there and back, standard input, and names that are none."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from friendly import MATRIX, assert_friendly, npy
from scipy import sparse

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import (
    load_workload,
    read_channel,
    read_prior,
    read_strategy,
    read_workload,
    write_workload,
)
from pmldesign.releases import read_histogram
from pmldesign.workloads import DenseWorkload, SparseWorkload, parse_workload

EXTENSIONS = (".npy", ".npz", ".csv", ".mtx")


@pytest.mark.parametrize("extension", [*EXTENSIONS, ".CSV"])
def test_what_is_written_reads_back_to_the_last_bit(tmp_path, extension):
    path = tmp_path / f"workload{extension}"
    write_workload(path, DenseWorkload(MATRIX))
    workload = read_workload(path)
    assert isinstance(workload, DenseWorkload)
    assert workload.name == path.name
    np.testing.assert_array_equal(workload.to_dense(), MATRIX)
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("name", ["prefix:5", "haar:8", "prefix:3*parity:2,1", "random-range:1,4"])
def test_structured_workloads_are_written_as_their_matrix(tmp_path, name, extension):
    workload = parse_workload(name)
    write_workload(tmp_path / f"w{extension}", workload)
    again = load_workload(str(tmp_path / f"w{extension}"))
    np.testing.assert_array_equal(again.to_dense(), workload.to_dense())


def test_sparse_workloads_stay_sparse_in_matrix_market_files(tmp_path):
    A = sparse.random_array((50, 20), density=0.05, rng=np.random.default_rng(1))
    write_workload(tmp_path / "a.mtx", SparseWorkload(A))
    workload = read_workload(tmp_path / "a.mtx")
    assert isinstance(workload, SparseWorkload)
    np.testing.assert_array_equal(workload.to_dense(), A.toarray())


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_scipy_sparse_npz_files_are_read(tmp_path, form):
    A = np.triu(np.ones((4, 6)), 2)
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(A).asformat(form))
    workload = read_workload(tmp_path / "a.npz")
    assert isinstance(workload, SparseWorkload)
    np.testing.assert_array_equal(workload.to_dense(), A)


@pytest.mark.parametrize(
    "arrays",
    [
        {"anything": MATRIX},
        {"workload": MATRIX, "labels": np.arange(3)},
        {"arr_0": MATRIX, "labels": np.arange(3)},
    ],
)
def test_the_array_of_an_npz_is_found(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    np.testing.assert_array_equal(read_workload(tmp_path / "a.npz").to_dense(), MATRIX)


@pytest.mark.parametrize("dtype", [bool, np.int8, ">f4", np.float16])
def test_other_types_and_orders_are_read(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.tri(3, 4, dtype=dtype)))
    np.testing.assert_array_equal(read_workload(tmp_path / "a.npy").to_dense(), np.tri(3, 4))


@pytest.mark.parametrize(
    "text",
    [
        "1,0\n1,1\n",
        "1,0\r\n1,1",
        "first,second\n1,0\n1,1\n",
        '"a, b",c\n1,0\n1,1\n',
        "\ufeff1,0\n1,1\n",
        "# made by hand\n1.0, 0e0\n\n 1,+1 \n\n",
        '"1","0"\n"1","1"\n',
    ],
)
def test_csv_variants(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(read_workload(tmp_path / "a.csv").to_dense(), [[1, 0], [1, 1]])


FRAME = "1.0,0.0,0.0,0.0\n1.0,1.0,0.0,0.0\n1.0,1.0,1.0,0.0\n1.0,1.0,1.0,1.0\n"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("0,1,2,3\n" + FRAME, "index=False, header=False.*, or 0.0 in place of 0"),
        ('"0","1"\n0.9,0.1\n0.1,0.9\n', "or 0.0 in place of 0"),
        ("0\n5\n3\n2\n7\n", "or 0.0 in place of 0"),
        (",0,1\n0,0.9,0.1\n1,0.1,0.9\n", r"index=False, header=False\)$"),
        (",0\n0,5\n1,3\n", r"index=False, header=False\)$"),
        (",count\n0,5\n1,3\n", r"index=False, header=False\)$"),
    ],
)
def test_headers_that_pandas_writes_by_itself_are_refused(tmp_path, text, remedy):
    """Read as data, the first is a fifth query; of the last two, indices are coefficients."""
    (tmp_path / "a.csv").write_text(text)
    for read in (read_workload, read_strategy, read_channel, read_prior):
        with pytest.raises(InvalidInputError, match=f"is a header of pandas; .*{remedy}"):
            read(tmp_path / "a.csv")
    with pytest.raises(InvalidInputError, match="is a header of pandas"):
        read_histogram(tmp_path / "a.csv", 5)


@pytest.mark.parametrize(
    "text", ["0,1,2\n", "0.0,1,2\n1,1,1\n", "0\n", "a,b,c\n0,1,2\n1,1,1\n", "0,1,3\n1,1,1\n"]
)
def test_lines_that_only_resemble_them_are_numbers(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert read_workload(tmp_path / "a.csv").to_dense()[0].tolist()[:2] in ([0, 1], [0])


@pytest.mark.parametrize("matrix", [[[0, 1, 2], [1, 1, 1]], [[0], [5]], [[0, 1]], [[0.5, 1e30]]])
def test_what_is_written_is_no_header(tmp_path, matrix):
    write_workload(tmp_path / "a.csv", DenseWorkload(np.array(matrix, dtype=float)))
    assert read_workload(tmp_path / "a.csv").to_dense().tolist() == matrix


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def test_names_and_files_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "census-p12").mkdir()
    (tmp_path / "plain").write_text("1,0\n")
    write_workload("prefix.csv", DenseWorkload(MATRIX))
    assert load_workload("prefix:4").name == "prefix:4"
    assert load_workload("census-p12").shape == (49, 232)
    assert load_workload("prefix.csv").shape == (3, 3)
    for text in ("plain", "./prefix:4", "missing.npy"):
        with pytest.raises(FileError):
            load_workload(text)
    for text in ("prefx:4", "x" * 5000, "a\0b"):
        with pytest.raises(InvalidInputError):
            load_workload(text)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_standard_input(tmp_path, monkeypatch, extension):
    write_workload(tmp_path / f"a{extension}", DenseWorkload(MATRIX))
    data = (tmp_path / f"a{extension}").read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    workload = load_workload("-")
    assert workload.name == "standard input"
    np.testing.assert_array_equal(workload.to_dense(), MATRIX)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", FileError, "standard input is empty"),
        (npy(MATRIX)[:-1], FileError, "standard input is damaged"),
        (b"1,2\n3\n", FileError, "standard input: line 2"),
        (b"1,nan\n", InvalidInputError, "standard input: workload entry"),
    ],
)
def test_bad_standard_input(monkeypatch, data, error, words):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    with pytest.raises(error, match=words) as caught:
        load_workload("-")
    assert_friendly(caught.value, error.exit_code)


class Endless(io.RawIOBase):
    """A stream that never ends."""

    def readable(self):
        return True

    def readinto(self, buffer):
        buffer[:] = bytes(len(buffer))
        return len(buffer)


def test_standard_input_without_an_end(monkeypatch):
    monkeypatch.setattr("pmldesign.files.workloads.STANDARD_INPUT", 10_000)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(Endless())))
    with pytest.raises(FileError, match="more than the 10000 bytes"):
        load_workload("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileError, match="standard input: it is closed"):
        load_workload("-")


PEOPLE = "age,sex\n" + "".join(f"{20 + i},{i % 2}\n" for i in range(9))


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        (PEOPLE, "9 rows, a query each, on 2 columns, a cell each (age, sex)"),
        (PEOPLE.partition("\n")[2] * 2, "18 rows"),
        ("smokes,male\n" + "1,0\n" * 16, "16 rows"),
        ("young,old\n1,1\n1,0\n", None),
        ("1,0\n" * 100, None),
        ("0.5,2.5\n" * 100, None),
        ("3,5\n4,7\n", None),
    ],
)
def test_a_table_of_people_is_noted(tmp_path, text, noted):
    (tmp_path / "a.csv").write_text(text)
    notes = []
    load_workload(str(tmp_path / "a.csv"), note=notes.append)
    assert len(notes) == (noted is not None)
    if noted:
        assert notes[0].startswith("a.csv was read as queries: ")
        assert noted in notes[0]
        assert "if its rows are people" in notes[0]


@pytest.mark.parametrize(
    "name", ["marginals:prefix6,window5/2,ways=2", "2*marginals:prefix3,window5/2,upto=2"]
)
def test_a_slash_in_a_name_is_no_folder(name):
    assert load_workload(name).shape == parse_workload(name).shape
    with pytest.raises(FileError, match=r"ends in \.npy"):
        load_workload(f"./{name}")
