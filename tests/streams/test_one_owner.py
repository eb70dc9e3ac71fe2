"""A state has one process, and its newest files: old ones, copies and forks are refused."""

import os
import threading

import pytest
from children import in_a_child
from journals import QUIET, N, journal, position, sums, taken

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.store import Kind, connect
from pmldesign.streams import Log

pytestmark = pytest.mark.usefixtures("quick_disk")


def test_older_files_are_refused_and_the_witness_of_one_commit_is_completed(designed, tmp_path):
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
    log.write_bytes(versions[1][1])  # as after a kill: the state knows that 100 was taken in
    again = journal(designed, state)
    assert again.position == 3
    assert log.read_bytes() == versions[2][1]
    with pytest.raises(InvalidInputError, match="step 3 was answered already, for another number"):
        again.again(3, 7.0)
    assert again.again(3, 100.0).value == pytest.approx(sums([1, 10, 100])[-1], abs=1e-6)
    again.close()
    line = versions[2][1]
    for wrong in (b"x\n", b"3\n", b"\xff" * len(line), line[:-1], line + b"\n", b"0" + line[1:]):
        log.write_bytes(wrong)
        with pytest.raises(FileError, match=r"state.log is damaged"):
            journal(designed, state)
    log.write_bytes(line)
    state.unlink()
    with pytest.raises(FileError, match="has 3 steps, but there is no state"):
        journal(designed, state)
    state.touch()
    with pytest.raises(FileError, match="has 3 steps, but there is no state"):
        journal(designed, state)


def test_other_files_are_no_states(designed, tmp_path):
    state, log = tmp_path / "state", tmp_path / "state.log"
    log.touch()
    state.write_text('{"stream": 3, "identity": "a"}')
    with pytest.raises(FileError, match=r"stream state .* not a database"):
        journal(designed, state)
    state.unlink()
    connect(state, Kind.LEDGER, "", new=True).close()
    with pytest.raises(FileError, match="it is a ledger"):
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
    early.close()
    for opened in (Log, lambda path: journal(designed, path)):
        with pytest.raises(FileError, match="in use by another stream"):
            opened(state)
        assert in_a_child(lambda work=opened: raised(work, state)) == 0
    first.step(3.0)
    copy.write_bytes(state.read_bytes())  # closing a handle ends the lock of SQLite, this one not
    assert in_a_child(lambda: raised(Log, state)) == 0
    first.close()
    copy.write_bytes(state.read_bytes())
    with pytest.raises(FileError, match="there is no log"):
        journal(designed, copy)
    (tmp_path / "copy.log").touch()
    with pytest.raises(FileError, match="copy may not be used: its log has 0 steps"):
        journal(designed, copy)


def raised(work, path):
    with pytest.raises(FileError, match="in use by another stream"):
        work(path)


def test_of_two_processes_that_begin_a_stream_one_is_refused(designed, tmp_path):
    """Both find no files, or the empty witness that a kill has left."""
    state = tmp_path / "state"
    late, quick = journal(designed, state), journal(designed, state)
    answer = quick.step(5.0).value
    later = journal(designed, state.with_name("later"))
    with pytest.raises(FileError, match="in use by another stream"):
        late.step(7.0)
    quick.close()
    taken(designed, state.with_name("later"), [5.0])
    with pytest.raises(FileError, match="in use by another stream"):
        later.step(7.0)  # the other process has ended
    again = journal(designed, state)
    assert again.again(1, 5.0).value == answer
    again.close()
    (tmp_path / "third.log").touch()
    first = journal(designed, tmp_path / "third")
    with pytest.raises(FileError, match="in use by another stream"):
        journal(designed, tmp_path / "third")
    first.step(1.0)
    first.close()


@pytest.mark.parametrize("name", ["state", "state.log"])
def test_a_file_that_is_replaced_ends_the_process_that_has_it_open(designed, tmp_path, name):
    """Editors replace files, and the lock of a log goes with the old one."""
    first, file = journal(designed, tmp_path / "state"), tmp_path / name
    first.step(1.0)
    copy = tmp_path / "copy"
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    with pytest.raises(FileError, match=f"{name} was replaced; the answer of step 2 is withheld"):
        first.step(3.0)
    first.close()
    again = journal(designed, tmp_path / "state")
    assert again.position == 1
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
    again.close()


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
