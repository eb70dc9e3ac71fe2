"""States are used once: every answer exactly once, whatever is killed or cut."""

import json
import os
import signal
import sqlite3
import sys
from functools import partial

import numpy as np
import pytest
from altered_states import run
from children import in_a_child
from journals import N, journal, position, sums, taken

from pmldesign import store
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.streams import Log, Stream

pytestmark = pytest.mark.usefixtures("quick_disk")
WATCHED = ("pmldesign/store.py", "streams/log.py", "streams/journal.py")


def watched(work, kill_at=None):
    """The lines of these files that some work passes, once per line; killed at one of them."""
    seen = []

    def trace(frame, event, _argument):
        path = frame.f_code.co_filename
        if not path.endswith(WATCHED):
            return None
        if event == "line" and (path, frame.f_lineno) not in seen:
            seen.append((path, frame.f_lineno))
            if len(seen) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return len(seen)


SCENES = {"first": (0, 1), "next": (2, 1), "group": (2, 3), "first group": (0, 4)}


@pytest.mark.parametrize("scene", SCENES)
def test_a_stream_killed_at_any_line_answers_every_input_once(designed, tmp_path, scene):
    before, group = SCENES[scene]
    inputs = [float(10 + t) for t in range(before + group + 2)]
    expected = sums(inputs)

    def answered(folder):
        """One commit, whose answers leave when it returns."""
        opened = journal(designed, folder / "state")
        values, _ = opened.steps(inputs[before : before + group])
        (folder / "left").write_text(json.dumps(values.tolist()))
        opened.close()

    def made(name):
        folder = tmp_path / name
        folder.mkdir()
        taken(designed, folder / "state", inputs[:before])
        return folder

    count = watched(partial(answered, made("counted")))
    outcomes = set()
    for at in {*range(1, count, 6), count - 1, count}:
        folder = made(str(at))
        code = in_a_child(lambda at=at, here=folder: watched(partial(answered, here), at) and 0)
        assert code == -signal.SIGKILL
        left = json.loads((folder / "left").read_text()) if (folder / "left").exists() else []
        again = journal(designed, folder / "state")
        assert again.position in (before, before + group)
        kept = [again.again(t, x).value for t, x in enumerate(inputs[: again.position], 1)]
        assert not left or left == kept[before:]
        outcomes.add((again.position - before, len(left)))
        rest, _ = again.steps(inputs[again.position :])
        assert [*kept, *rest] == pytest.approx(expected, abs=1e-6)
        again.close()
        assert position(folder / "state") == len(inputs)
        assert {path.name for path in folder.iterdir()} <= {"state", "state.log", "left"}
    assert outcomes == {(0, 0), (group, 0), (group, group)}


def copied(folder):
    """The content of the files of a stream, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def restored(folder, files):
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.fixture
def crashed(designed, tmp_path):
    """The files after two commits, and after a third one, of a process that did not close them."""
    folder, found = tmp_path / "files", {}
    folder.mkdir()
    names = "state", "state-wal", "state.log"

    def dying():
        opened = journal(designed, folder / "state")
        opened.steps([1.0, 10.0])
        for name in ("before", "after"):
            for file in names:
                os.system(f"cp {folder / file} {tmp_path / name}.{file}")  # no handle here
            if name == "before":
                opened.step(100.0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(dying) == -signal.SIGKILL
    for name in ("before", "after"):
        found[name] = {file: (tmp_path / f"{name}.{file}").read_bytes() for file in names}
    return folder, found


def test_a_power_cut_at_any_byte_of_a_commit_leaves_it_whole_or_undone(designed, crashed):
    """Of what a commit appends any part may be on the disk; its answer has not left by then."""
    folder, files = crashed
    before, after = files["before"], files["after"]
    start, end = len(before["state-wal"]), len(after["state-wal"])
    assert before["state"] == after["state"]
    assert after["state-wal"].startswith(before["state-wal"])
    outcomes = set()
    for cut in (*range(start, end, 509), end - 1, end):
        restored(folder, {**before, "state-wal": after["state-wal"][:cut]})
        opened = journal(designed, folder / "state")
        outcomes.add(opened.position)
        assert opened.position == (3 if cut == end else 2)
        opened.steps([100.0] * (3 - opened.position))
        assert [opened.again(t, 10.0 ** (t - 1)).value for t in (1, 2, 3)] == pytest.approx(
            sums([1, 10, 100]), abs=1e-6
        )
        opened.close()
        restored(folder, {**after, "state-wal": after["state-wal"][:cut]})
        if cut < end:  # the witness is written after the commit: this state is not the newest
            with pytest.raises(FileError, match=r"up to step 3 it is not what state.log has seen"):
                journal(designed, folder / "state")
    assert outcomes == {2, 3}


def test_a_stream_killed_while_it_recovers_recovers_again(designed, crashed):
    folder, files = crashed
    lost = {**files["after"], "state.log": files["before"]["state.log"]}

    def recovered():
        journal(designed, folder / "state").close()

    restored(folder, lost)
    count = watched(recovered)
    for at in range(1, count + 1, 6):
        restored(folder, lost)
        assert in_a_child(lambda at=at: watched(recovered, at) and 0) == -signal.SIGKILL
        again = journal(designed, folder / "state")
        assert again.position == 3
        assert again.again(3, 100.0).value == pytest.approx(sums([1, 10, 100])[-1], abs=1e-6)
        again.step(7.0)
        again.close()


def test_a_state_cut_at_any_byte_is_refused(designed, tmp_path):
    state = tmp_path / "state"
    taken(designed, state, [1.0, 2.0, 3.0])
    whole = state.read_bytes()
    for end in (*range(0, len(whole), 499), len(whole) - 1):
        state.write_bytes(whole[:end])
        with pytest.raises(FileError, match=r"state"):
            Log(state)


ALTERED = [
    "UPDATE step SET number = 7 WHERE number = 2",
    "UPDATE step SET answer = '9.0,1.0' WHERE number = 2",
    "UPDATE step SET input = 'x' WHERE number = 2",
    "UPDATE step SET chain = '' WHERE number = 2",
    "UPDATE step SET answer = x'00' WHERE number = 2",
    "DELETE FROM step WHERE number = 2",
    "DELETE FROM step",
    "INSERT INTO step SELECT 3, answer, input, chain FROM step WHERE number = 2",
    "UPDATE state SET content = replace(content, '1', '2')",
    "UPDATE state SET content = '{}'",
    "UPDATE state SET content = x'00'",
    "UPDATE state SET digest = upper(digest)",
    "UPDATE state SET after = 0.5",
    "UPDATE state SET after = 2",
    "DELETE FROM state",
    "DELETE FROM stream",
    "UPDATE stream SET identity = '[1]'",
    "UPDATE stream SET key = 'z'",
    "DROP TABLE step",
    "PRAGMA user_version = 2",
]


@pytest.mark.parametrize("statement", ALTERED)
def test_an_altered_state_is_refused(designed, tmp_path, statement):
    state = tmp_path / "state"
    taken(designed, state, [1.0, 2.0])
    run(state, statement)
    with pytest.raises(FileError, match=r"state"):
        journal(designed, state)


def test_an_altered_answer_is_found_when_it_is_read(designed, tmp_path):
    """Opening a state reads its end only, however long it is."""
    state = tmp_path / "state"
    answers = taken(designed, state, [1.0, 2.0, 3.0, 4.0])
    run(state, "UPDATE step SET answer = '9.0,1.0' WHERE number = 2")
    opened = journal(designed, state)
    assert opened.again(1, 1.0).value == answers[0]
    with pytest.raises(FileError, match="damaged"):
        opened.again(2, 2.0)
    assert opened.again(3, 3.0).value == answers[2]
    opened.close()


class Full:
    """A connection to a database of which a statement, or the end of a transaction, fails."""

    def __init__(self, connection, failing):
        self.connection, self.failing = connection, failing

    def __getattr__(self, name):
        work = getattr(self.connection, name)
        if name not in ("execute", "executemany"):
            return work

        def failed(statement, *values):
            if self.failing in ("all", statement.split()[0]):
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorname = "SQLITE_FULL"
                raise error
            return work(statement, *values)

        return failed


@pytest.mark.parametrize("failing", ["BEGIN", "INSERT", "UPDATE", "COMMIT", "witness"])
def test_an_answer_that_cannot_be_written_is_withheld(designed, tmp_path, monkeypatch, failing):
    """A full disk: no further step, and whether it was taken is known when the state is opened."""
    inputs, state = [1.0, 2.0, 3.0], tmp_path / "state"
    first = journal(designed, state)
    first.step(1.0)
    if failing == "witness":
        monkeypatch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    else:
        first._log._database = Full(first._log._database, failing)
    with pytest.raises(FileError, match="the answer of step 2 is withheld: open the state"):
        first.step(2.0)
    monkeypatch.undo()
    monkeypatch.setattr(store, "SYNCHRONOUS", "OFF")
    for work in (lambda: first.step(2.0), lambda: first.again(2, 2.0)):
        with pytest.raises(InvalidInputError, match="a step of this Journal broke off"):
            work()
    first.close()
    again = journal(designed, state)
    assert again.position == (2 if failing == "witness" else 1)
    values, _ = again.steps(inputs[again.position :])
    assert values[-1] == pytest.approx(sums(inputs)[-1], abs=1e-6)
    again.close()


@pytest.mark.parametrize("name", ["steps", "save"])
def test_a_step_that_is_interrupted_before_its_commit_is_the_last(
    designed, tmp_path, monkeypatch, name
):
    """Ctrl-C where the stream has counted the input, and the state has not."""
    opened = journal(designed, tmp_path / "state")
    opened.step(1.0)
    work = getattr(Stream, name)

    def interrupted(*arguments):
        work(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.step(2.0)
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="a step of this Journal broke off"):
        opened.step(2.0)
    opened.close()
    again = journal(designed, tmp_path / "state")
    assert again.position == 1
    assert again.step(2.0).value == pytest.approx(sums([1.0, 2.0])[-1], abs=1e-6)
    again.close()


def test_a_state_keeps_every_answer_for_its_owner(designed, tmp_path):
    state, answers = tmp_path / "state", []
    for _ in range(3):
        opened = journal(designed, state)
        answers += [opened.step(1.0).value for _ in range(10)]
        for path in tmp_path.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
        opened.close()
    log = Log(state)
    assert [answer.value for answer in log.answers()] == answers
    log.close()
    assert (log.position, len(answers)) == (N, N)


def test_inputs_are_compared_as_the_stream_counts_them(designed, tmp_path):
    opened = journal(designed, tmp_path / "state")
    opened.steps([3, 2.5, -0.0])
    for step, same in ((1, 3.0), (2, np.float64(2.5)), (3, 0), (1, np.int64(3))):
        opened.again(step, same)
    for step, other in ((1, 2.5), (2, 3), (2, 2.5000001)):
        with pytest.raises(InvalidInputError, match="was answered already, for another number"):
            opened.again(step, other)
    for step in (0, 4, -1):
        with pytest.raises(InvalidInputError, match="is not answered yet"):
            opened.again(step, 1.0)
    other = journal(designed, tmp_path / "other")
    other.steps([3, 2.5, 0.0])
    digests = {row[2] for log in (opened._log, other._log) for row in log._kept(1)}
    assert len(digests) == 6
    assert {len(digest) for digest in digests} == {32}
