"""States are used once: every answer exactly once, whatever is killed or cut."""

import json
import os
import signal
from functools import partial

import numpy as np
import pytest
from children import in_a_child
from journals import N, journal, position, sums, taken

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.streams import Log, Stream
from pmldesign.streams import log as files

pytestmark = pytest.mark.usefixtures("quick_disk")


class Dying:
    """The system calls of the log; the process is killed at one of them.

    Args:
        at: number of the call; None to count alone.
        when: "before" it, "after" it, or "within": a write of a part of its bytes.
    """

    def __init__(self, at=None, when="before"):
        self.at, self.when, self.names = at, when, []

    def __getattr__(self, name):
        call = getattr(os, name)
        if name not in ("open", "write", "fsync", "ftruncate", "close"):
            return call

        def dying(*arguments):
            self.names.append(name)
            here = len(self.names) == self.at
            if here and self.when == "within":
                call(arguments[0], arguments[1][: len(arguments[1]) * 2 // 3])
            if here and self.when != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*arguments)
            if here:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return dying


SCENES = {"first": (0, 1), "next": (2, 1), "group": (2, 3), "first group": (0, 4)}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("spare", [2**20, -1], ids=["appended", "replaced"])
def test_a_stream_killed_at_any_system_call_answers_every_input_once(
    designed, tmp_path, monkeypatch, scene, spare
):
    before, group = SCENES[scene]
    inputs = [float(10 + t) for t in range(before + group + 2)]
    expected = sums(inputs)
    monkeypatch.setattr(files, "SPARE", spare)

    def answered(folder, calls=None):
        """One commit, whose answers leave when it returns."""
        opened = journal(designed, folder / "state")
        if calls is not None:
            monkeypatch.setattr(files, "os", calls)
        values, _ = opened.steps(inputs[before : before + group])
        (folder / "left").write_text(json.dumps(values.tolist()))
        opened.close()

    def made(name):
        folder = tmp_path / name
        folder.mkdir()
        taken(designed, folder / "state", inputs[:before])
        return folder

    calls = Dying()
    answered(made("counted"), calls)
    assert "write" in calls.names
    monkeypatch.setattr(files, "os", os)
    outcomes = set()
    places = [(at, "before") for at in range(1, len(calls.names) + 1)]
    places += [(at, "within") for at, name in enumerate(calls.names, 1) if name == "write"]
    for at, when in [*places, (len(calls.names), "after")]:
        folder = made(f"{at} {when}")
        dying = Dying(at, when)
        code = in_a_child(lambda here=folder, call=dying: answered(here, call))
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


@pytest.mark.parametrize("lost", ["a part of the witness", "a part of the record"])
def test_a_stream_killed_while_it_recovers_recovers_again(designed, tmp_path, monkeypatch, lost):
    """Two kills in a row: the second one at any system call of the process that goes on."""
    inputs = [10.0, 11.0, 12.0]
    before = taken(designed, tmp_path / "state", inputs[:2])
    record, witness = (tmp_path / name for name in ("state", "state.log"))
    lines = witness.read_bytes().splitlines(keepends=True)
    if lost == "a part of the witness":
        cut, position = (record.read_bytes(), lines[0] + lines[1][:9]), 2
    else:
        cut, position = (record.read_bytes()[:-20], lines[0]), 1
    record.write_bytes(cut[0])
    witness.write_bytes(cut[1])

    def recovered(calls):
        monkeypatch.setattr(files, "os", calls)
        journal(designed, tmp_path / "state").close()

    calls = Dying()
    recovered(calls)
    monkeypatch.setattr(files, "os", os)
    assert {"ftruncate", "fsync"} <= set(calls.names)
    places = [(at, "before") for at in range(1, len(calls.names) + 1)]
    places += [(at, "within") for at, name in enumerate(calls.names, 1) if name == "write"]
    for at, when in places:
        record.write_bytes(cut[0])
        witness.write_bytes(cut[1])
        assert in_a_child(partial(recovered, Dying(at, when))) == -signal.SIGKILL
        again = journal(designed, record)
        assert again.position == position
        kept = [again.again(t, x).value for t, x in enumerate(inputs[:position], 1)]
        assert kept == before[:position]
        again.steps(inputs[position:])
        assert again.again(3, 12.0).value == pytest.approx(sums(inputs)[-1], abs=1e-6)
        again.close()
        assert len(witness.read_bytes().splitlines()) == 3 - (position == 1)


def test_a_record_cut_at_any_byte_is_refused(designed, tmp_path):
    state = tmp_path / "state"
    taken(designed, state, [1.0, 2.0, 3.0])
    log, whole = tmp_path / "state.log", state.read_bytes()
    witnessed = log.read_text().splitlines(keepends=True)
    third = len(whole) - len(b"".join(whole.splitlines(keepends=True)[-2:]))
    for end in [*range(0, len(whole), 23), third, len(whole) - 1]:
        state.write_bytes(whole[:end])
        with pytest.raises(FileError, match=r"damaged|no state"):
            Log(state)
        if end >= third:  # the third step was never witnessed: it is not taken
            log.write_text("".join(witnessed[:2]))
            again = journal(designed, state)
            assert again.position == 2
            assert again.step(7.0).value == pytest.approx(sums([1, 2, 7])[-1], abs=1e-6)
            again.close()
            assert position(state) == 3
            log.write_text("".join(witnessed))


def test_a_record_with_any_byte_changed_is_refused(designed, tmp_path):
    state = tmp_path / "state"
    taken(designed, state, [1.0, 2.0])
    whole = state.read_bytes()
    # the state of the first step is no longer needed, and yet a part of the record
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    for place in [*range(0, len(whole), 11), *ends]:
        state.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FileError, match=r"damaged|no state"):
            Log(state)


def test_an_answer_that_cannot_be_written_is_withheld(designed, tmp_path, monkeypatch):
    """A full disk: no further step, and whether it was taken is told when the state is opened."""
    inputs = [1.0, 2.0, 3.0]
    for failing in (1, 2, 3, 4):  # a write or a flush, of the record or the log
        state = tmp_path / str(failing)
        first = journal(designed, state)
        first.step(1.0)
        monkeypatch.setattr(files, "os", Full(failing))
        with pytest.raises(FileError, match="the answer of step 2 is withheld: open the state"):
            first.step(2.0)
        monkeypatch.setattr(files, "os", os)
        for work in (lambda f=first: f.step(2.0), lambda f=first: f.again(2, 2.0)):
            with pytest.raises(InvalidInputError, match="a step of this Journal broke off"):
                work()
        first.close()
        again = journal(designed, state)
        assert again.position == (1 if failing == 1 else 2)
        values, _ = again.steps(inputs[again.position :])
        assert values[-1] == pytest.approx(sums(inputs)[-1], abs=1e-6)
        again.close()


@pytest.mark.parametrize("name", ["steps", "save"])
def test_a_step_that_is_interrupted_before_its_commit_is_the_last(
    designed, tmp_path, monkeypatch, name
):
    """Ctrl-C where the stream has counted the input, and the record has not."""
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


class Full:
    """The system calls of a log, of which a write takes half of its bytes and a flush fails."""

    def __init__(self, at):
        self.left = at

    def __getattr__(self, name):
        call = getattr(os, name)
        if name not in ("write", "fsync"):
            return call

        def failing(handle, *data):
            self.left -= 1
            if self.left:
                return call(handle, *data)
            if data:
                call(handle, data[0][: len(data[0]) // 2])
            raise OSError(28, "No space left on device")

        return failing


def test_states_that_are_no_longer_needed_are_removed(designed, tmp_path, monkeypatch):
    """The record keeps every answer, one state, and its owner's permissions alone."""
    monkeypatch.setattr(files, "SPARE", 3000)
    state = tmp_path / "state"
    sizes, answers = [], []
    for _ in range(3):
        opened = journal(designed, state)
        for _ in range(10):
            answers.append(opened.step(1.0).value)
            sizes.append(state.stat().st_size)
        opened.close()
    assert min(np.diff(sizes)) < 0
    assert state.read_text().count('"encoder"') < 8
    assert state.stat().st_mode & 0o777 == 0o600
    record = Log(state).record
    assert [step.answer.value for step in record.steps] == answers
    assert record.after == N - 1


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
    digests = [line.split(",")[3] for line in (tmp_path / "state").read_text().splitlines()[1:4]]
    assert len({len(digest) for digest in digests}) == 1
    other = journal(designed, tmp_path / "other")
    other.steps([3, 2.5, 0.0])
    assert opened._log.record.digest(1, 3) != other._log.record.digest(1, 3)
