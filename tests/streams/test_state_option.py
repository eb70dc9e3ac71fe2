"""`pmldesign stream --state`: lines in, answers out, each once."""

import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.files import write_strategy
from pmldesign.privacy import ApproxDP
from pmldesign.streams import FloatingGaussian, Journal, Log, endless_stream

pytestmark = pytest.mark.usefixtures("quick_disk")


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
    monkeypatch.setattr(Log, "commit", lambda log, *parts: (commits.append(1), commit(log, *parts)))
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


def test_command_refuses_old_files_and_folders(stream, tmp_path):
    lines = stream("1\n10\n100\n")
    log, state, seen = tmp_path / "d.state.log", tmp_path / "d.state", []
    for more in ("1000\n", "10000\n"):
        seen.append((state.read_bytes(), log.read_bytes()))
        lines += stream(more)
    log.write_bytes(seen[1][1])
    assert stream.show("--position").stdout == "5\n"  # the state knows: nothing is fed twice
    assert stream.show("--replay").stdout.splitlines() == lines
    state.write_bytes(seen[1][0])
    for found in (stream("100\n", code=6), stream.show("--position"), stream.show("--replay")):
        assert found.exit_code == 6
        assert "d.state is damaged, cut or an old one: up to step 5" in found.stderr
        assert found.stdout == ""
    found = stream("1\n", "--state", str(tmp_path), code=6)
    assert "it is a folder" in found.stderr
    assert stream.show("--position", str(tmp_path)).exit_code == 6


def test_the_stream_without_an_end_keeps_few_numbers_however_long_it_is(tmp_path):
    """Neither a running process nor one that goes on holds the steps that were answered."""
    peaks = []
    for commits in (4, 40):
        state = tmp_path / f"{commits}.state"
        stream = endless_stream(ApproxDP(1, 1e-6), noise=FloatingGaussian())
        journal = Journal(stream, state)
        journal.steps([1.0] * 250)
        tracemalloc.start()
        for _ in range(commits):
            journal.steps([1.0] * 250)
        journal.close()
        with closing(Log(state)) as log:
            assert sum(1 for _ in log.answers()) == log.position == 250 * (1 + commits)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_command_without_a_state(stream, tmp_path):
    options = ["stream", str(tmp_path / "s.npz"), "--epsilon", "1", "--delta", "1e-6"]
    found = CliRunner().invoke(main, options, input="1,4\n5\n1,4\n")
    assert [line.split(",")[0] for line in found.stdout.splitlines()] == ["1", "2"]
    assert "line 3 of standard input: step 1 was answered already; answers are kept" in found.stderr
    other = tmp_path / "matrix.npy"
    np.save(other, np.eye(3))
    found = CliRunner().invoke(main, ["stream", str(other), *options[2:]])
    assert found.exit_code == 2
    assert "contains no workload; add for example --workload prefix:3" in found.output
    found = CliRunner().invoke(
        main, ["stream", str(other), *options[2:], "--workload", "prefix:3"], input="1\n2\n"
    )
    assert found.exit_code == 0, found.output
