"""Strategy files: what is written, what is read back, what is refused."""

import json
import math
import zipfile

import numpy as np
import pytest

import pmldesign.files.strategies
import pmldesign.files.workloads
from pmldesign.designs import factorize
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.factorization import answer
from pmldesign.files import (
    fingerprint,
    read_guarantee,
    read_strategy,
    verify_file,
    write_strategy,
    write_workload,
)
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxPML, Neighbours, PureDP
from pmldesign.strategies import Strategy
from pmldesign.workloads import DenseWorkload, parse_workload


@pytest.fixture(scope="module")
def made():
    return factorize("prefix:6", p=math.inf)


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
        "versions",
        "queries",
        "cells",
        "sha256",
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


@pytest.mark.parametrize("name", ["within:4^5,ways=2", "marginals:prefix4,4,4,4,4,ways=1"])
def test_the_fingerprint_of_a_wide_workload_takes_as_many_products_as_it_has_queries(
    name, monkeypatch
):
    """Columns one by one are products with n x n numbers: ten minutes for 120 x 262144."""
    workload, taken = parse_workload(name), 0
    expected = fingerprint(DenseWorkload(workload.to_dense()))

    def counted(several, cells):
        def product(self, x):
            nonlocal taken
            taken += x.size // cells
            return several(self, x)

        return product

    m, n = workload.shape
    kind = type(workload)
    monkeypatch.setattr(kind, "matvec", counted(kind.matvec, n))
    monkeypatch.setattr(kind, "rmatvec", counted(kind.rmatvec, m))
    assert fingerprint(workload) == expected
    assert taken <= m < n / 8


def test_the_fingerprint_of_a_wide_product_is_that_of_its_columns():
    """Its entries are products of three numbers, rounded as one multiplies them."""
    workload = parse_workload("decay:3,0.9*decay:4,0.7*total:9*total:2")
    columns = DenseWorkload(workload.matvec(np.eye(workload.shape[1])))
    assert fingerprint(workload) == fingerprint(columns)


def test_minus_zero_is_zero_to_the_fingerprint():
    zero, minus = np.array([[1.0, 0.0]]), np.array([[1.0, -0.0]])
    assert fingerprint(DenseWorkload(zero)) == fingerprint(DenseWorkload(minus))


@pytest.mark.parametrize("extension", ["npy", "npz", "csv", "mtx"])
def test_any_workload_file_is_a_strategy_matrix(tmp_path, extension):
    path = tmp_path / f"tree.{extension}"
    write_workload(path, parse_workload("haar:4"))
    np.testing.assert_array_equal(read_strategy(path).matrix, parse_workload("haar:4").to_dense())


@pytest.mark.parametrize("stated", [2, 0, "1", True, None])
@pytest.mark.parametrize("read", [read_strategy, verify_file])
def test_another_format_is_refused_in_one_line(tmp_path, stated, read):
    path = tmp_path / "s.npz"
    np.savez(path, header=np.array(json.dumps({"format": stated})), strategy=np.eye(2))
    with pytest.raises(FileError, match=f"^s.npz has format {stated!r}, .* reads format 1 only"):
        read(path)


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


BLOCKS = {
    "free": np.array(0),
    "combinations": np.array([0, 1]),
    "basis_0": np.eye(2),
    "block_0": np.tri(2),
    "block_1": np.eye(2),
}
TABLES = {
    "sizes": np.array([2, 3]),
    "residuals": np.array([[-1, -1], [0, -1], [1, -1]]),
    "precisions": np.ones(3),
}


def header_of(arrays):
    """The header of arrays, which names their form."""
    form = "blocks" if "free" in arrays else "coordinates" if "residuals" in arrays else "product"
    return np.array(json.dumps({"format": 1, "form": form}))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"factor_0": np.eye(2), "factor_2": np.eye(2)}, "no array 'factor_1'"),
        ({"factor_1": np.eye(2)}, "no array 'factor_0'"),
        ({"factor_0": np.eye(2), "factor_00": np.eye(2)}, "no array 'factor_1'"),
        (BLOCKS | {"free": np.array(0.7)}, "'free' must hold whole numbers"),
        (BLOCKS | {"free": np.array(2)}, "attribute from 0 to 1, got 2"),
        (BLOCKS | {"free": np.array([0, 1])}, "damaged"),
        (BLOCKS | {"block_3": np.eye(2)}, "no array 'block_2'"),
        (BLOCKS | {"basis_2": np.eye(2)}, "no array 'basis_1'"),
        (TABLES | {"sizes": np.array([2, 3.5])}, "'sizes' must hold whole numbers"),
        (TABLES | {"residuals": np.array([[-1.0], [0.5]])}, "'residuals' must hold whole"),
    ],
)
def test_arrays_that_are_missing_or_no_numbers_of_things(tmp_path, arrays, words):
    np.savez(tmp_path / "s.npz", header=header_of(arrays), **arrays)
    with pytest.raises((FileError, InvalidInputError), match=words) as caught:
        read_strategy(tmp_path / "s.npz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arrays", [BLOCKS, TABLES])
def test_the_sound_versions_of_those_are_read(tmp_path, arrays):
    np.savez(tmp_path / "s.npz", header=header_of(arrays), **arrays)
    assert read_strategy(tmp_path / "s.npz").cells in (4, 6)


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


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_neighbours_are_advised_only_where_they_are_others(neighbours):
    contrast = Strategy("contrast", np.array([[1.0, -1, 0, 0]]))
    with pytest.raises(InvalidInputError, match="cannot answer") as caught:
        answer(contrast, parse_workload("prefix:4"), Neighbours(neighbours))
    assert ("use `neighbours='replace'`" in str(caught.value)) == (neighbours == "add-remove")


@pytest.mark.parametrize("guarantee", [PureDP(1.0000049), ApproxPML(0.5, 0.01, (0.1,) * 6)])
def test_the_guarantee_is_read_back(tmp_path, made, guarantee):
    path = tmp_path / "s.npz"
    calibrated = mechanism(made.strategy, made.workload, guarantee=guarantee)
    write_strategy(path, made, mechanism=calibrated)
    assert read_guarantee(path) == guarantee
    with np.load(path) as arrays:
        contents = dict(arrays)
    header = json.loads(str(contents["header"]))
    header["guarantee_numbers"]["epsilon"] = -1.0
    np.savez(path, **{**contents, "header": np.array(json.dumps(header))})
    for read in (read_strategy, read_guarantee):
        with pytest.raises(FileError, match="damaged or no strategy file: epsilon must be"):
            read(path)
    del header["guarantee_numbers"]  # as files were before they had it
    np.savez(path, **{**contents, "header": np.array(json.dumps(header))})
    assert read_guarantee(path) is None
    np.testing.assert_array_equal(read_strategy(path).matrix, calibrated.strategy.matrix)


@pytest.fixture
def tall(tmp_path, monkeypatch):
    """The file of ranges whose L is counted as too large, and what it answers."""
    monkeypatch.setattr(pmldesign.files.strategies, "WRITTEN_ENTRIES", 100)
    workload = parse_workload("all-range:6")
    write_strategy(tmp_path / "tall.npz", factorize(workload))
    with np.load(tmp_path / "tall.npz", allow_pickle=False) as arrays:
        return tmp_path / "tall.npz", workload, dict(arrays)


def test_a_tall_reconstruction_is_written_as_the_right_inverse(tall):
    path, workload, arrays = tall
    assert set(arrays) == {"strategy", "right_inverse", "dual_u", "dual_w", "header"}
    R, inverse, A = arrays["strategy"], arrays["right_inverse"], workload.to_dense()
    np.testing.assert_allclose(A @ inverse @ R, A, atol=1e-12)
    upper = np.linalg.norm(A @ inverse) * np.linalg.norm(R, axis=0).max()
    assert upper == pytest.approx(json.loads(str(arrays["header"]))["upper"], rel=1e-9)
    np.testing.assert_array_equal(read_strategy(path).matrix, R)


@pytest.mark.parametrize("damage", ["entry", "shape", "nan", "type"])
def test_a_right_inverse_that_is_none_is_refused(tall, damage):
    path, _, arrays = tall
    inverse = arrays["right_inverse"].copy()
    if damage == "shape":
        inverse = inverse[:-1]
    elif damage == "type":
        inverse = inverse.astype(str)
    else:
        inverse[2, 1] = np.nan if damage == "nan" else inverse[2, 1] + 0.01
    np.savez(path, **{**arrays, "right_inverse": inverse})
    with pytest.raises(FileError, match="right_inverse"):
        read_strategy(path)


def test_under_replace_the_right_inverse_answers_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(pmldesign.files.strategies, "WRITTEN_ENTRIES", 100)
    workload = parse_workload("all-range:6")
    write_strategy(tmp_path / "s.npz", factorize(workload, neighbours="replace"))
    with np.load(tmp_path / "s.npz", allow_pickle=False) as arrays:
        R, inverse = arrays["strategy"], arrays["right_inverse"]
    A = workload.to_dense()
    centred = A - A.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(A @ inverse @ R, centred, atol=1e-9)
    assert read_strategy(tmp_path / "s.npz").shape == R.shape


def test_workloads_that_take_long_to_hash_have_no_fingerprint(monkeypatch, tmp_path):
    monkeypatch.setattr(pmldesign.files.workloads, "FINGERPRINT_ENTRIES", 15)
    write_strategy(tmp_path / "s.npz", factorize("prefix:4"))
    with np.load(tmp_path / "s.npz", allow_pickle=False) as arrays:
        assert json.loads(str(arrays["header"]))["fingerprint"] is None
