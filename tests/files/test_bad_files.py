"""What can be wrong with a file of a workload, and how that is said."""

import os
import pickle
from functools import partial

import numpy as np
import pytest
from friendly import MATRIX, assert_friendly, bytes_of, npy, zip_of
from scipy import sparse

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import (
    load_workload,
    read_channel,
    read_prior,
    read_strategy,
    read_workload,
)
from pmldesign.releases import read_histogram

EXTENSIONS = (".npy", ".npz", ".csv", ".mtx")
SIGNALLING = np.array([[0x7F800001]], dtype=np.uint32).view(np.float32)


OBJECTS = np.array([[1, None]])


HUGE_HEADER = npy(np.zeros((1, 1))).replace(
    b"(1, 1), }" + b" " * 22, b"(9999999999, 9999999999), }    "
)


MTX = b"%%MatrixMarket matrix coordinate real general\n2 2 1\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *[(f"a{extension}", b"", "is empty") for extension in EXTENSIONS],
        ("a.npy", b"1,2\n", "not .npy: the contents|do not start with"),
        ("a.npy", pickle.dumps([1]), "do not start with"),
        ("a.npy", npy(OBJECTS, allow_pickle=True), "pickled Python objects, which are never"),
        ("a.npy", npy(MATRIX)[:-4], "damaged or not .npy"),
        ("a.npy", npy(MATRIX)[:30], "damaged or not .npy"),
        ("a.npy", HUGE_HEADER, "header promises shape"),
        ("a.npz", npy(MATRIX), "do not start with"),
        ("a.npz", bytes_of(workload=MATRIX)[:-40], "damaged or not .npz"),
        ("a.npz", bytes_of(a=MATRIX, b=MATRIX), 'must be called "workload"; found: a, b'),
        ("a.npz", bytes_of(arr_0=MATRIX, arr_1=MATRIX), "found: arr_0, arr_1"),
        ("a.npz", bytes_of(), "found: none"),
        ("a.npz", zip_of("readme.txt", b"hello"), "found: none"),
        ("a.npz", zip_of("a.npy", npy(OBJECTS, allow_pickle=True)), "pickled Python objects"),
        ("a.npz", bytes_of(format=np.bytes_(b"csr"), data=MATRIX), "damaged or not .npz"),
        ("a.csv", b"1,2\n3\n", "line 2 has 1 fields, the lines before have 2"),
        ("a.csv", b"a,b\n1,2\n\n3,4,5\n", "line 4 has 3 fields"),
        ("a.csv", b"\xff\xfe1\x00", "not a text file"),
        ("a.mtx", b"1 2\n3 4\n", "do not start with"),
        ("a.mtx", MTX, "damaged or not .mtx"),
        ("a.mtx", MTX + b"3 1 1.0\n", "damaged or not .mtx"),
        ("a.mtx", MTX + b"1 1 x\n", "damaged or not .mtx"),
    ],
)
def test_damaged_files_are_file_errors(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        read_workload(path)
    assert_friendly(caught.value, exit_code=6)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", npy(np.array([[0, np.nan]])), r"a.npy: workload entry \(0, 1\) is nan"),
        ("a.npy", npy(np.array([[0, np.nan]], dtype=np.longdouble)), "is nan"),
        ("a.npy", npy(SIGNALLING), "is nan"),
        ("a.npy", npy(np.array([[0, np.longdouble(10) ** 400]])), r"entry \(0, 1\) is inf"),
        ("a.npy", npy(np.eye(2) * 1j), "complex128; give real and imaginary parts as rows"),
        ("a.npy", npy(np.array([["x"]])), "<U1"),
        ("a.npy", npy(np.zeros(3)), "1 dimensions"),
        ("a.npy", npy(np.float64(3)), "0 dimensions"),
        ("a.npy", npy(np.zeros((2, 2, 2))), "3 dimensions"),
        ("a.npy", npy(np.zeros((0, 2))), "at least one query"),
        ("a.npz", bytes_of(workload=np.zeros(3)), "1 dimensions"),
        ("a.csv", b"1,inf\n", r"entry \(0, 1\) is inf"),
        ("a.csv", b"1,2\n3,x\n", "line 2: 'x' is not a number"),
        ("a.csv", b"1,x\n", "line 1: 'x' is not a number"),
        ("a.csv", b"1,,2\n", "line 1: '' is not a number"),
        ("a.csv", b"1,2\n,\n", "line 2: '' is not a number"),
        ("a.csv", b"1 2\n3 4\n", "line 2: '3 4' is not a number; numbers are separated by commas"),
        ("a.csv", b"1+2j,3\n4,5\n", r"line 1: '1\+2j' is not a number"),
        ("a.csv", b"a,b\n", "no numbers"),
        ("a.csv", b"\n\n", "no numbers"),
        ("a.mtx", MTX + b"1 2 nan\n", r"entry \(0, 1\) is nan"),
        ("a.mtx", MTX.replace(b"real", b"complex") + b"1 2 1 1\n", "complex128"),
    ],
)
def test_sound_files_without_a_workload_are_input_errors(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=words) as caught:
        read_workload(path)
    assert_friendly(caught.value, exit_code=2)
    assert str(caught.value).startswith(f"{name}: ")


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, sparse.bsr_array])
@pytest.mark.parametrize(
    "read", [read_workload, read_channel, read_prior, partial(read_histogram, cells=9)]
)
def test_sparse_indices_out_of_range_are_no_addresses(tmp_path, form, read):
    matrix = form(np.eye(3))
    matrix.indices[1] = 10**9
    sparse.save_npz(tmp_path / "a.npz", matrix)
    with pytest.raises(FileError, match=r"a\.npz is damaged"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.npy", "No such file"),
        ("folder.npy", "Is a directory"),
        ("file.npy/inner.npy", "Not a directory"),
        ("null\0byte.npy", "null byte"),
        ("a.txt", "ends in .npy, .npz, .csv, .mtx, not in .txt"),
        ("a", "this one has no extension"),
        ("x" * 300 + ".npy", "too long"),
    ],
)
def test_paths_that_cannot_be_read(tmp_path, name, words):
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "file.npy").write_bytes(b"x")
    for read in (read_workload, lambda path: load_workload(str(path))):
        with pytest.raises(FileError, match=words) as caught:
            read(tmp_path / name)
        assert_friendly(caught.value, exit_code=6)


def test_a_file_without_permission(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(FileError, match=r"cannot read .*a.npy.: Permission denied"):
        read_workload(tmp_path / "a.npy")


ARRAY = b"%%MatrixMarket matrix array real general\n"


SPARSE = b"%%MatrixMarket matrix coordinate real general\n"


def sparse_bytes(form, shape, **arrays):
    return bytes_of(format=np.bytes_(form.encode()), shape=np.array(shape), **arrays)


DIAGONAL = {"data": np.ones((1, 1)), "offsets": np.array([0])}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.mtx", SPARSE + b"1 100000000 1\n1 1 1.0\n", "1048576 of them are read"),
        ("a.mtx", SPARSE + b"100000000 1 0\n", "1048576 of them are read"),
        ("a.mtx", ARRAY + b"1000000 1000000\n1\n", "as a matrix has 1000000 x 1000000 entries"),
        ("a.mtx", SPARSE + b"1 1000 999999999999999999\n", "asks for 999999999999999999 entries"),
        ("a.npz", sparse_bytes("dia", (10**9, 10**9), **DIAGONAL), "1048576 of them are read"),
        ("a.npz", sparse_bytes("dia", (10**9, 0), **DIAGONAL), "got shape"),
        ("a.npz", sparse_bytes("dia", (1e9, 1e9), **DIAGONAL), "'shape' must hold whole numbers"),
        ("a.npz", zip_of("workload.npy", HUGE_HEADER), "header promises shape"),
    ],
)
def test_small_files_that_ask_for_much(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((FileError, InvalidInputError), match=words) as caught:
        read_workload(path)
    assert_friendly(caught.value, caught.value.exit_code)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_devices_and_pipes_are_refused_at_once(tmp_path, extension):
    (tmp_path / f"zero{extension}").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"pipe{extension}")
    for name in ("zero", "pipe"):
        with pytest.raises(FileError, match="not a regular file"):
            read_workload(tmp_path / f"{name}{extension}")
        with pytest.raises(FileError, match="not a regular file"):
            read_strategy(tmp_path / f"{name}{extension}")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"1" * 70, "a line does not end"), (b"1,2\n1,\x002\n", "it has null bytes")],
)
def test_what_is_no_table(tmp_path, monkeypatch, content, words):
    monkeypatch.setattr("pmldesign.files.tables.LONGEST_LINE", 50)
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FileError, match=words):
        read_workload(tmp_path / "a.csv")


@pytest.mark.parametrize("field", ["1_0", "٣", "1 2"])
def test_what_python_alone_takes_for_a_number(tmp_path, field):
    (tmp_path / "a.csv").write_text(f"1,2\n1,{field}\n")
    with pytest.raises(InvalidInputError, match=r"line 2: .* is not a number"):
        read_workload(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a\nb.csv", "\x1b[31m.csv", os.fsdecode(b"\xff\xfe.csv")])
def test_names_of_files_are_printable(tmp_path, name):
    (tmp_path / name).write_text("1,0\n")
    shown = read_workload(tmp_path / name).name
    assert shown.isprintable()
    assert shown.endswith(".csv")
    shown.encode()


def test_names_of_arrays_are_escaped_and_no_unsafe_way_out_is_advised(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(bytes_of(**{"a\nb": MATRIX, "\x1b[31m": MATRIX}))
    with pytest.raises(FileError, match=r"found: a\\nb, \\x1b\[31m"):
        read_workload(path)
    long = npy(MATRIX).replace(b"(3, 3), }", b"(3, 3), 'x" + b"x" * 20_000 + b"': 1}")
    size = len(long) - len(npy(MATRIX)) + 118
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x02\x00" + size.to_bytes(4, "little") + long[10:])
    for read, content in [(read_workload, None), (read_strategy, pickle.dumps([1]))]:
        if content is not None:
            (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(FileError) as caught:
            read(tmp_path / ("a.npy" if content is None else "a.npz"))
        assert "allow_pickle" not in str(caught.value)
        assert "max_header_size" not in str(caught.value)
