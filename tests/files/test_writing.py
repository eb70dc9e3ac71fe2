"""Writing files: complete or not at all, and nothing left behind."""

import errno
import io
import os
import tempfile

import numpy as np
import pytest
from friendly import MATRIX, assert_friendly

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import (
    atomic_write,
    check_writable,
    read_workload,
    write_workload,
)
from pmldesign.workloads import DenseWorkload, parse_workload


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupted_write_leaves_everything_as_it_was(tmp_path, failure):
    path = tmp_path / "a.csv"
    path.write_text("before")

    def write():
        with atomic_write(path, "w") as handle:
            handle.write("half")
            raise failure

    with pytest.raises(failure):
        write()
    assert path.read_text() == "before"
    assert names_in(tmp_path) == ["a.csv"]


def test_a_full_disk_is_a_file_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device") as caught:
        write_workload(tmp_path / "a.npy", DenseWorkload(MATRIX))
    assert_friendly(caught.value, exit_code=6)
    assert names_in(tmp_path) == []


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path, "w") as handle:
        handle.write("α\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "α\n".encode()


def test_links_and_permissions_survive(tmp_path):
    target, link = tmp_path / "target.npy", tmp_path / "link.npy"
    target.write_bytes(b"x")
    target.chmod(0o640)
    link.symlink_to(target)
    write_workload(link, DenseWorkload(MATRIX))
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    np.testing.assert_array_equal(read_workload(target).to_dense(), MATRIX)


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    write_workload(tmp_path / "a.npy", DenseWorkload(MATRIX))
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder.npy", "it is a folder"),
        ("missing/a.npy", "there is no folder"),
        ("null\0byte.npy", "null"),
    ],
)
def test_paths_that_cannot_be_written(tmp_path, name, words):
    (tmp_path / "folder.npy").mkdir()
    path = tmp_path / name
    with pytest.raises(FileError, match=words):
        check_writable(path)
    with pytest.raises(FileError, match=words) as caught:
        write_workload(path, DenseWorkload(MATRIX))
    assert_friendly(caught.value, exit_code=6)
    assert names_in(tmp_path) == ["folder.npy"]


def test_devices_and_folders_that_take_no_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(FileError, match="not a regular file"):
        check_writable("/dev/null")

    def read_only(**_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with pytest.raises(FileError, match="takes no new files: Read-only file system"):
        check_writable(tmp_path / "a.npy")


def test_writing_another_extension_or_too_much_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"ends in .npy, .npz, .csv, .mtx, not in .json"):
        write_workload(tmp_path / "a.json", DenseWorkload(MATRIX))
    with pytest.raises(InvalidInputError, match="prefix:65536 as a matrix has 65536 x 65536"):
        write_workload(tmp_path / "a.npy", parse_workload("prefix:65536"))
    assert names_in(tmp_path) == []
