"""Strategy files: what is written, what is read back, what is refused."""

import json
import math
import zipfile

import numpy as np
import pytest

from pmldesign.design import design
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import read_strategy, write_strategy, write_workload
from pmldesign.files.strategies import fingerprint
from pmldesign.workloads import DenseWorkload, parse_workload


@pytest.fixture(scope="module")
def made():
    return design("prefix:6", p=math.inf)


def test_round_trip(tmp_path, made):
    path = tmp_path / "s.npz"
    write_strategy(path, made)
    again = read_strategy(path)
    assert again.name == "s.npz"
    np.testing.assert_array_equal(again.matrix, made.strategy.matrix)
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {"header", "strategy", "reconstruction", "dual_u", "dual_w"}
        L, R = arrays["reconstruction"], arrays["strategy"]
        np.testing.assert_allclose(L @ R, np.tril(np.ones((6, 6))), atol=1e-12)
        np.testing.assert_array_equal(arrays["dual_u"], made.dual_u)
        np.testing.assert_array_equal(arrays["dual_w"], made.dual_w)
        header = json.loads(str(arrays["header"]))
    assert set(header) == {
        "format",
        "pmldesign",
        "p",
        "neighbours",
        "lower",
        "upper",
        "workload",
        "fingerprint",
    }
    assert float(header["p"]) == math.inf
    assert (header["lower"], header["upper"]) == (made.certificate.lower, made.certificate.upper)
    assert header["fingerprint"] == fingerprint(parse_workload("prefix:6"))


def test_no_array_of_the_file_is_pickled(tmp_path, made):
    write_strategy(tmp_path / "s.npz", made)
    with zipfile.ZipFile(tmp_path / "s.npz") as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                np.lib.format.read_magic(member)
                _, _, dtype = np.lib.format.read_array_header_1_0(member)
                assert not dtype.hasobject


def test_the_fingerprint_is_that_of_the_matrix_whatever_its_form():
    ranges = parse_workload("prefix:70")
    assert fingerprint(ranges) == fingerprint(DenseWorkload(ranges.to_dense()))
    product = parse_workload("prefix:3*haar:4")
    assert fingerprint(product) == fingerprint(DenseWorkload(product.to_dense()))
    changed = ranges.to_dense().copy()
    changed[3, 2] = np.nextafter(1, 2)
    assert fingerprint(DenseWorkload(changed)) != fingerprint(ranges)
    assert fingerprint(DenseWorkload(np.ones((2, 3)))) != fingerprint(
        DenseWorkload(np.ones((3, 2)))
    )


def test_minus_zero_is_zero_to_the_fingerprint():
    zero, minus = np.array([[1.0, 0.0]]), np.array([[1.0, -0.0]])
    assert fingerprint(DenseWorkload(zero)) == fingerprint(DenseWorkload(minus))


@pytest.mark.parametrize("extension", ["npy", "npz", "csv", "mtx"])
def test_any_workload_file_is_a_strategy_matrix(tmp_path, extension):
    path = tmp_path / f"tree.{extension}"
    write_workload(path, parse_workload("haar:4"))
    np.testing.assert_array_equal(read_strategy(path).matrix, parse_workload("haar:4").to_dense())


def test_a_later_format_is_not_guessed_at(tmp_path):
    path = tmp_path / "s.npz"
    np.savez(path, header=np.array(json.dumps({"format": 2})), strategy=np.eye(2))
    with pytest.raises(FileError, match="format 2 is not 1"):
        read_strategy(path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"header": np.array("not json"), "strategy": np.eye(2)},
        {"header": np.array("{}"), "strategy": np.eye(2)},
        {"header": np.array('{"format": 1}'), "strategy": np.full((2, 2), np.nan)},
        {"header": np.array('{"format": 1}'), "strategy": np.ones(2)},
        {"header": np.array('{"format": 1}'), "strategy": np.zeros((2, 2))},
    ],
)
def test_damaged_contents(tmp_path, arrays):
    path = tmp_path / "s.npz"
    np.savez(path, **arrays)
    with pytest.raises((FileError, InvalidInputError), match=r"s\.npz"):
        read_strategy(path)


def test_a_truncated_file(tmp_path, made):
    path = tmp_path / "s.npz"
    write_strategy(path, made)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileError, match=r"s\.npz is damaged"):
        read_strategy(path)


def test_other_extensions_and_folders_are_refused(tmp_path, made):
    for name, words in [("s.npy", "ends in .npz"), ("none/s.npz", "there is no folder")]:
        with pytest.raises(FileError, match=words):
            write_strategy(tmp_path / name, made)
    (tmp_path / "s.npz").mkdir()
    with pytest.raises(FileError, match="it is a folder"):
        write_strategy(tmp_path / "s.npz", made)
    with pytest.raises(FileError, match="cannot read"):
        read_strategy(tmp_path / "s.npz")
