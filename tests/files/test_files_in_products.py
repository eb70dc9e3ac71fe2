"""Matrices in files as factors of products and tables."""

import numpy as np
import pytest
import scipy
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, InvalidInputError

PAIRS = scipy.sparse.csr_array(np.random.default_rng(0).integers(0, 2, (5, 12)).astype(float))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    scipy.sparse.save_npz(tmp_path / "pairs.npz", PAIRS)
    scipy.io.mmwrite(tmp_path / "pairs.mtx", PAIRS)
    np.save(tmp_path / "pairs.npy", PAIRS.toarray())
    np.savetxt(tmp_path / "pairs.csv", PAIRS.toarray(), delimiter=",")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("ending", ["npz", "mtx", "npy", "csv"])
def test_a_file_is_a_factor(folder, ending):
    expected = np.kron(PAIRS.toarray(), np.tril(np.ones((2, 2))))
    for path in (f"pairs.{ending}", f"./pairs.{ending}", f"{folder}/pairs.{ending}"):
        found = pml.workload(f"{path}*prefix:2")
        np.testing.assert_array_equal(found.to_dense(), expected)
        union = pml.workload(f"marginals:3,4,2,ways=1+2*{path}*total:2")
        np.testing.assert_array_equal(union.to_dense()[9:], 2 * np.kron(PAIRS.toarray(), [[1, 1]]))
    np.testing.assert_array_equal(pml.workload(f"pairs.{ending}").to_dense(), PAIRS.toarray())


def test_files_join_attributes_over_many_cells(folder):
    sizes = [3, 4, *[9] * 9]
    parts = ["pairs.npz*" + "*".join(["total:9"] * 9)]
    for place in (1, 2, 3):  # each pair overlaps the one before
        pair = f"within:{sizes[place]},{sizes[place + 1]}"
        totals = [f"total:{size}" for size in sizes]
        parts.append("*".join([*totals[:place], pair, *totals[place + 2 :]]))
    workload = pml.workload("+".join(["marginals:3,4,prefix9,9^8,ways=1", *parts]))
    assert not workload.crossed
    assert workload.shape == (3 + 4 + 81 + 5 + 9 + 9 + 9, 12 * 9**9)
    assert {(0, 1), (1, 2), (2, 3), (3, 4)} <= set(workload.subsets)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("prefix:2*nobody.npz", FileError, "No such file"),
        ("prefix:2*nobody.txt", InvalidInputError, "unknown workload"),
        ("pairs.npz*total:2+prefix:2", InvalidInputError, "ask about the same cells"),
        ("prefix:2*empty.mtx", FileError, "is empty"),
        ("prefix:2*bad.mtx", FileError, "do not start with"),
    ],
)
def test_bad_files_are_said_in_one_line(folder, text, error, message):
    (folder / "empty.mtx").write_text("")
    (folder / "bad.mtx").write_text("3 4\n")
    with pytest.raises(error, match=message):
        pml.workload(text)
    result = CliRunner().invoke(main, ["optimize", text])
    assert result.exit_code != 0
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_file_whose_name_has_a_plus_is_a_whole_workload(folder):
    (folder / "total:3+prefix:3.npz").write_bytes((folder / "pairs.npz").read_bytes())
    found = pml.workload("total:3+prefix:3.npz")
    np.testing.assert_array_equal(found.to_dense(), PAIRS.toarray())
