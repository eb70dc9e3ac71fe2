"""States are used once: every answer exactly once, whatever is killed, cut, copied or forked."""

import json
import os
import signal
import threading

import numpy as np
import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.designs import factorize
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import write_strategy
from pmldesign.streams import FloatingGaussian, Journal, Log, Stream
from pmldesign.streams.durable import log as files

N, RATE, QUIET = 30, 0.9, 1e-9


@pytest.fixture(scope="module")
def designed():
    return factorize(f"decay:{N},{RATE}", buffers=4, rel_gap=1e-1)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A killed process leaves to the system what it has written."""
    monkeypatch.setattr(os, "fsync", lambda _handle: None)


def journal(designed, path, scale=QUIET):
    """With so little noise that an answer shows which inputs were counted."""
    return Journal(Stream(designed.strategy, scale, FloatingGaussian()), path)


def sums(inputs):
    """The exact answers to inputs."""
    found = []
    for x in inputs:
        found.append(x + (RATE * found[-1] if found else 0.0))
    return found


def taken(designed, path, inputs):
    """Take inputs in, one by one, and close the files."""
    opened = journal(designed, path)
    answers = [opened.step(x).value for x in inputs]
    opened.close()
    return answers


def position(path):
    """Where a state stands."""
    log = Log(path)
    log.close()
    return log.position


def in_a_child(work):
    """What a process of its own ends with: minus the signal that killed it, or its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
            os.close(living)
            os.read(ended, 1)
            os._exit(0)

    ended, living = os.pipe()  # the child of the child lives until the test closes it
    try:
        assert in_a_child(parent) == 0
        again = journal(designed, state)
    finally:
        os.close(living)
        os.close(ended)
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


@pytest.fixture
def stream(designed, tmp_path):
    """The command on a state, and what it prints."""
    write_strategy(tmp_path / "s.npz", designed)
    state = str(tmp_path / "d.state")

    def run(lines, *more, code=0):
        options = ["stream", str(tmp_path / "s.npz"), "--epsilon", "1", "--delta", "1e-6"]
        found = CliRunner().invoke(main, [*options, "--state", state, *more], input=lines)
        assert found.exit_code == code, found.output
        return found.stdout.splitlines() if code == 0 else found

    run.state = state
    run.show = lambda option, path=state: CliRunner().invoke(main, ["stream", option, path])
    return run


def test_command(stream):
    assert stream.show("--position").stdout == "0\n"
    lines = stream("1\n10\n") + stream("100\n")
    assert [line.split(",")[0] for line in lines] == ["1", "2", "3"]
    assert all(float(line.split(",")[2]) > 0 for line in lines)
    assert stream.show("--position").stdout == "3\n"
    assert stream.show("--replay").stdout.splitlines() == lines
    # numbered lines: what is answered already is answered from the record
    more = stream("2,10\n3,100\n4,7\n4,7\n4,7.0\n5\n")
    assert more[:2] == lines[1:]
    assert more[2] == more[3] == more[4]
    assert stream.show("--replay").stdout.splitlines() == [*lines, *more[2::3]]


def test_command_refuses_lines_and_answers_those_before(stream):
    stream("1\n2\n")
    blank = r"it is blank; each line holds a number, 0 where nothing was counted"
    for wrong, reason in (
        ("one", "it must be one number, or its step and the number (17,42), got 'one'"),
        ("", blank),
        ("  ", blank),
        ("nan", "an input of a stream must be a number, got nan"),
        ("-1e300", "an input of a stream must be at most 2^53"),
        (",5", "it must be one number, or its step"),
        ("0,5", "it must be one number, or its step"),
        ("1,2,3", "it must be one number, or its step"),
        ("2,5", "step 2 was answered already, for another number than 5.0"),
    ):
        position = int(stream.show("--position").stdout)
        found = stream(f"4\n{wrong}\n5\n", "--commit", "3", code=2)
        assert f"line 2 of standard input: {reason}" in found.stderr
        assert found.stdout.startswith(f"{position + 1},")
        assert stream.show("--position").stdout == f"{position + 1}\n"
    found = stream("13,5\n", code=2)
    assert "line 1 of standard input: its step is 13, but step 12 comes next" in found.stderr
    found = stream("1\n" * 20, code=2)
    assert "line 20 of standard input: the stream has 30 steps" in found.stderr
    assert stream.show("--position").stdout == "30\n"


def test_command_answers_in_groups(stream, monkeypatch):
    commits = []
    commit = Log.commit
    monkeypatch.setattr(
        Log, "commit", lambda log, record, lines: (commits.append(1), commit(log, record, lines))
    )
    lines = stream("1\n" * 7, "--commit", "3")
    assert len(commits) == 3
    assert stream.show("--replay").stdout.splitlines() == lines
    assert "1 " not in stream("1\n", "--commit", "0", code=2).stdout


def test_a_refused_first_line_leaves_no_files(stream, tmp_path):
    for wrong in ("one\n", "\n", "2,1\n", "nan\n"):
        stream(wrong, code=2)
        assert {path.name for path in tmp_path.iterdir()} == {"s.npz"}
    stream("")
    assert {path.name for path in tmp_path.iterdir()} == {"s.npz"}


def test_command_refuses_cut_files_and_folders(stream, tmp_path):
    lines = stream("1\n10\n100\n")
    log, state = tmp_path / "d.state.log", tmp_path / "d.state"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    assert stream.show("--position").stdout == "3\n"  # the record knows: nothing is fed twice
    assert stream.show("--replay").stdout.splitlines() == lines
    state.write_text("".join(state.read_text().splitlines(keepends=True)[:-1]))
    for found in (stream("100\n", code=6), stream.show("--position"), stream.show("--replay")):
        assert found.exit_code == 6
        assert "d.state is damaged, cut or an old one: up to step 3" in found.stderr
        assert found.stdout == ""
    found = stream("1\n", "--state", str(tmp_path), code=6)
    assert "it is a folder" in found.stderr
    assert stream.show("--position", str(tmp_path)).exit_code == 6


def test_command_without_a_state(stream, tmp_path):
    options = ["stream", str(tmp_path / "s.npz"), "--epsilon", "1", "--delta", "1e-6"]
    found = CliRunner().invoke(main, options, input="1,4\n5\n1,4\n")
    assert [line.split(",")[0] for line in found.stdout.splitlines()] == ["1", "2"]
    assert "line 3 of standard input: step 1 was answered already; answers are kept" in found.stderr
    other = tmp_path / "matrix.npy"
    np.save(other, np.eye(3))
    found = CliRunner().invoke(main, ["stream", str(other), *options[2:]])
    assert found.exit_code == 2
    assert "does not say what it answers; give --workload, such as prefix:3" in found.output
    found = CliRunner().invoke(
        main, ["stream", str(other), *options[2:], "--workload", "prefix:3"], input="1\n2\n"
    )
    assert found.exit_code == 0, found.output
