"""A state has one process, and its newest files: old ones, copies and forks are refused."""

import os
import threading

import pytest
from children import in_a_child
from journals import QUIET, N, journal, position, sums, taken

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.streams import Log

pytestmark = pytest.mark.usefixtures("quick_disk")


def test_older_files_are_refused_and_one_log_line_is_completed(designed, tmp_path):
    state, log = tmp_path / "state", tmp_path / "state.log"
    versions = []
    for x in (1.0, 10.0, 100.0):
        taken(designed, state, [x])
        versions.append((state.read_bytes(), log.read_bytes()))
    for old, _ in versions[:2]:
        state.write_bytes(old)
        with pytest.raises(FileError, match=r"up to step 3 it is not what state\.log has seen"):
            journal(designed, state)
    state.write_bytes(versions[2][0])
    for line in (b"", versions[0][1]):
        log.write_bytes(line)
        with pytest.raises(FileError, match=r"may not be used: its log has [01] steps, fewer"):
            journal(designed, state)
    log.write_bytes(versions[1][1])  # as after a kill: the record says that 100 was taken in
    again = journal(designed, state)
    assert again.position == 3
    assert log.read_bytes() == versions[2][1]
    with pytest.raises(InvalidInputError, match="step 3 was answered already, for another number"):
        again.again(3, 7.0)
    assert again.again(3, 100.0).value == pytest.approx(sums([1, 10, 100])[-1], abs=1e-6)
    again.close()
    for wrong in (b"x\n", b"3\n", b"3 \xff\n", versions[2][1] + b"2 ab\n"):
        log.write_bytes(wrong)
        with pytest.raises(FileError, match=r"state.log is damaged, or of an earlier version"):
            journal(designed, state)
    log.write_bytes(versions[2][1])
    state.unlink()
    with pytest.raises(FileError, match="has 3 steps, but there is no state"):
        journal(designed, state)


def test_states_of_earlier_versions_are_refused(designed, tmp_path):
    state, log = tmp_path / "state", tmp_path / "state.log"
    state.write_text('{"identity": "a", "stream": {"time": 1, "encoder": ["0"]}}')
    for line in ("1\n", ""):
        log.write_text(line)
        with pytest.raises(FileError, match=r"earlier version.* begin another"):
            journal(designed, state)


def test_files_of_another_stream_or_guarantee_are_refused(designed, tmp_path):
    for name in ("north", "south"):
        taken(designed, tmp_path / name, [1.0, 2.0])
    with pytest.raises(FileError, match="another strategy, workload or guarantee"):
        journal(designed, tmp_path / "north", 2 * QUIET)
    (tmp_path / "north").write_bytes((tmp_path / "south").read_bytes())
    with pytest.raises(FileError, match=r"it is not what north.log has seen"):
        journal(designed, tmp_path / "north")


def test_two_processes_or_copies_do_not_answer_the_same_step(designed, tmp_path):
    state, copy = tmp_path / "state", tmp_path / "copy"
    first = journal(designed, state)
    early = journal(designed, state)  # nothing is written yet
    first.steps([1.0, 2.0])
    with pytest.raises(FileError, match=r"in use by another stream.*step 1 is withheld"):
        early.step(1.0)
    for opened in (Log, lambda path: journal(designed, path)):
        with pytest.raises(FileError, match="in use by another stream"):
            opened(state)
    copy.write_bytes(state.read_bytes())
    with pytest.raises(FileError, match="there is no log"):
        journal(designed, copy)
    first.step(3.0)
    first.close()
    (tmp_path / "copy.log").touch()
    copy.write_bytes(state.read_bytes())
    with pytest.raises(FileError, match="copy may not be used: its log has 0 steps"):
        journal(designed, copy)


@pytest.mark.parametrize("name", ["state", "state.log"])
def test_a_file_that_is_replaced_ends_the_process_that_has_it_open(designed, tmp_path, name):
    """Editors replace files, and the lock of a log goes with the old one."""
    first, file = journal(designed, tmp_path / "state"), tmp_path / name
    first.step(1.0)
    copy = tmp_path / "copy"
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    if name == "state.log":
        other = journal(designed, tmp_path / "state")
        assert other.step(2.0).value == pytest.approx(sums([1.0, 2.0])[-1], abs=1e-6)
        other.close()
    with pytest.raises(FileError, match=f"{name} was replaced; the answer of step 2 is withheld"):
        first.step(3.0)
    first.close()
    again = journal(designed, tmp_path / "state")
    assert again.position == (2 if name == "state.log" else 1)
    again.close()


def test_a_child_gives_the_lock_up_and_takes_no_step(designed, tmp_path):
    """A process that ends while its child lives on leaves the state to the next one."""
    state = tmp_path / "state"

    def parent():
        opened = journal(designed, state)
        opened.step(1.0)
        child = os.fork()
        if child == 0:
            os.write(begun, b"!")
            os.close(living)
            os.read(ended, 1)
            os._exit(0)
        os.read(heard, 1)  # the copy of a process has the lock until it begins

    ended, living = os.pipe()  # the child of the child lives until the test closes it
    heard, begun = os.pipe()
    try:
        assert in_a_child(parent) == 0
        again = journal(designed, state)
    finally:
        for end in (living, ended, heard, begun):
            os.close(end)
    assert again.position == 1

    def inherited():
        with pytest.raises(InvalidInputError, match="a Journal was made in another process"):
            again.step(2.0)
        with pytest.raises(InvalidInputError, match="another process"):
            again.again(1, 1.0)
        again.close()

    assert in_a_child(inherited) == 0
    again.step(2.0)
    with pytest.raises(FileError, match="in use by another stream"):
        Log(state)


def test_threads_share_a_journal(designed, tmp_path):
    opened = journal(designed, tmp_path / "state")
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.extend(opened.step(1.0).value for _ in range(5)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == pytest.approx(sums([1.0] * N), abs=1e-6)
    opened.close()
    assert position(tmp_path / "state") == N
