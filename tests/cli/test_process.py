"""The command line as a process of its own: python -m pmldesign, pipes, and a real Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import pmldesign.cli.process
from pmldesign.cli import COMMANDS

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "OPENBLAS_NUM_THREADS": "1",
}


def start(*arguments, code=None, **options):
    program = ["-m", "pmldesign"] if code is None else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        **options,
    )


def forked(code, *arguments, folder):
    """The exit code and the errors of code in a copy of this process, which imports nothing."""
    errors = folder.with_name("stderr")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(folder)
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600), 2)
            sys.argv, sys.stderr = ["-c", *arguments], open(2, "w", closefd=False)  # noqa: SIM115
            exec(code, {"__name__": "__main__"})
            status = 0
        except SystemExit as end:
            status = int(end.code)
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), errors.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, "pmldesign 0.1.0", ""),
        (["workload", "missing.npy"], 6, "", "error: cannot read 'missing.npy'"),
    ],
)
def test_exit_codes_and_streams(tmp_path, arguments, code, out, err):
    process = start(*arguments, cwd=tmp_path)
    stdout, stderr = process.communicate()
    assert process.returncode == code, stderr
    assert out in stdout
    assert (stderr == "") if not err else stderr.startswith(err)
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run, command):
    assert run(command, "-h").stdout.startswith(f"Usage: pmldesign {command} ")


EAGER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # even if the parent ignores it
import pmldesign.cli.documents.document
from pmldesign.cli import complain
# a line after every step, without a terminal
pmldesign.cli.documents.document._ignore = lambda step: complain(str(step))
from pmldesign.cli import main
main(sys.argv[1:])
"""


def test_ctrl_c_during_a_long_solve(tmp_path):
    arguments = ["optimize", "prefix:400", "--rel-gap", "1e-15", "-o", "s.npz", "--json"]
    process = start(*arguments, code=EAGER, cwd=tmp_path)
    assert process.stderr.readline().startswith("step 1")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 3, stderr
    shown = json.loads(stdout)
    assert shown["status"] == "interrupted"
    assert stderr.splitlines()[-1].startswith("error: the gap is ")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as arrays:
        product = arrays["reconstruction"] @ arrays["strategy"]
    np.testing.assert_allclose(product, np.tril(np.ones((400, 400))), atol=1e-8)
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize(
    ("words", "never"),
    [
        ("--help", "numpy scipy cvxpy matplotlib rich importlib.metadata"),
        (
            "compare prefix:8 --epsilon -1",
            "pmldesign.comparison.comparison pmldesign.workloads.base",
        ),
        ("optimize prefix:8", "scipy.linalg scipy.special scipy.optimize scipy.sparse"),
        ("calibrate identity:8 --guarantee gdp:1", "scipy.linalg scipy.special scipy.optimize"),
    ],
)
def test_commands_load_only_what_they_use(tmp_path, words, never):
    code = (
        "import sys; from pmldesign.cli import main; "
        f"main({words.split()}, standalone_mode=False);"
        f"found = set({never.split()}) & set(sys.modules); assert not found, found"
    )
    process = start(code=code, cwd=tmp_path)
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr


def shell(line, folder):
    """The exit code and both streams of a line of the shell, in which pmldesign is the program."""
    program = f'pmldesign() {{ {sys.executable} -m pmldesign "$@"; }}; {line}'
    done = subprocess.run(
        ["/bin/sh", "-c", program], env=ENVIRONMENT, cwd=folder, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


FULL = "error: cannot write to standard output: No space left on device\n"
CLOSED = "error: cannot write to standard output: Bad file descriptor\n"


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("pmldesign --help > /dev/full", 6, FULL),
        ("pmldesign --version >&-", 6, CLOSED),
        ("pmldesign --help 2>&-", 0, ""),
        ("pmldesign prefx 2>/dev/full", 2, ""),
        ("pmldesign >&- 2>&- <&-", 2, ""),
        ("pmldesign prefx 2>&-", 2, ""),
        ("pmldesign workload > /dev/full", 6, FULL),
        ("pmldesign workload prefix:4 -o w.csv >&- 2>&-", 3, ""),
        ("pmldesign workload prefix:4 -o w.csv >&-", 3, CLOSED[:-1] + "; written: w.csv\n"),
        ("pmldesign workload - <&-", 6, "error: cannot read standard input: it is closed\n"),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path, line, code, err):
    got, _, stderr = shell(line, tmp_path)
    assert (got, stderr) == (code, err)
    if "-o" in line:
        assert (tmp_path / "w.csv").read_text().startswith("1,0,0,0\n")


def test_the_help_on_a_terminal_is_that_of_a_file(tmp_path):
    """Of a bare command as of --help; it used to be one paragraph."""
    shown = {}
    for arguments in ([], ["--help"]):
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        process = subprocess.Popen(
            [sys.executable, "-m", "pmldesign", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=ENVIRONMENT,
            cwd=tmp_path,
        )
        os.close(theirs)
        lines = b""
        with suppress(OSError):  # a terminal whose other side is closed
            while part := os.read(ours, 2**16):
                lines += part
        os.close(ours)
        assert process.wait() == (0 if arguments else 2)
        shown[len(arguments)] = lines.decode().splitlines()
    assert shown[0] == shown[1]
    assert len(shown[0]) > 20
    assert max(map(len, shown[0])) <= 80


def test_what_is_published_is_named_if_nothing_can_be_shown(tmp_path):
    (tmp_path / "counts.csv").write_text("3\n1\n4\n")
    line = "pmldesign release histogram:3 counts.csv --epsilon 1 -o t.csv > /dev/full"
    code, _, stderr = shell(line, tmp_path)
    assert (code, stderr.splitlines()[-1]) == (
        3,
        FULL[:-1] + "; written: t.manifest.json, t.csv",
    )
    assert {"t.csv", "t.manifest.json"} < {path.name for path in tmp_path.iterdir()}


ENDLESS = "pmldesign stream prefix:inf --epsilon 1 --delta 1e-6"
UNREAD = "error: cannot read standard input: "


@pytest.mark.parametrize(
    ("line", "code", "answers", "err"),
    [
        (f"{ENDLESS} <&-", 6, 0, f"{UNREAD}it is closed\n"),
        (f"{ENDLESS} 0>f", 6, 0, f"{UNREAD}Bad file descriptor\n"),
        (f"{ENDLESS} < /proc/self/mem", 6, 0, f"{UNREAD}Input/output error\n"),
        (f"seq 3 | {ENDLESS} --state s 2>/dev/full", 0, 3, ""),
        (f"seq 3 | {ENDLESS} --state s 2>&-", 0, 3, ""),
        (f"seq 3 | {ENDLESS} --state s > /dev/full", 6, 0, FULL),
        (f"seq 3 | {ENDLESS} --state s >&- 2>&-", 6, 0, ""),
    ],
)
def test_streams_of_a_stream(tmp_path, line, code, answers, err):
    got, stdout, stderr = shell(line, tmp_path)
    errors = [line for line in stderr.splitlines(keepends=True) if not line.startswith("note: ")]
    assert (got, len(stdout.splitlines()), "".join(errors)) == (code, answers, err)
    if "--state" in line:
        _, stdout, _ = shell("pmldesign stream --replay s", tmp_path)
        assert len(stdout.splitlines()) >= 1


def test_progress_that_nobody_can_read(tmp_path):
    code = EAGER.replace("signal.default_int_handler)", "signal.SIG_IGN); import os; os.close(2)")
    process = start("optimize", "prefix:4", "--json", code=code, cwd=tmp_path)
    stdout, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(stdout)["status"] == "optimal"


def test_names_that_are_no_utf8(tmp_path):
    name = os.fsdecode(b"\xff.csv")
    (tmp_path / name).write_text("1,0\n1,1\n")
    options = ["--strategies", "identity", "--table", "rows.csv"]
    process = start("compare", name, *options, cwd=tmp_path)
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    assert "\\udcff.csv" in stdout
    assert "\\udcff.csv" in (tmp_path / "rows.csv").read_text(encoding="utf-8")


INTERRUPTED = "error: interrupted before it was done\n"
IMPORTING = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
number = getattr(signal, sys.argv.pop())
name = sys.argv.pop()
usual = builtins.__import__
def interrupted(imported, *arguments, **options):
    if imported == name:
        builtins.__import__ = usual
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise ImportError  # as libraries do
    return usual(imported, *arguments, **options)
builtins.__import__ = interrupted
import pmldesign.__main__
pmldesign.__main__.run()
"""


@pytest.mark.parametrize(
    ("module", "name", "code", "err"),
    [
        ("numpy", "SIGINT", 1, INTERRUPTED),
        ("numpy", "SIGTERM", -signal.SIGTERM, ""),
    ],
)
def test_signals_during_imports(tmp_path, module, name, code, err):
    process = start("workload", "prefix:4", module, name, code=IMPORTING, cwd=tmp_path)
    assert process.communicate() == ("", err)
    assert process.returncode == code


BETWEEN = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import pmldesign.__main__, pmldesign.cli
pmldesign.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGINT)
pmldesign.__main__.run()
"""


def test_ctrl_c_before_a_command_handles_it(tmp_path):
    process = start(code=BETWEEN, cwd=tmp_path)
    assert process.communicate() == ("", INTERRUPTED)
    assert process.returncode == 1


def test_ctrl_c_in_bounds(tmp_path):
    arguments = ["bounds", "prefix:64", "--epsilon", "1", "--rel-gap", "1e-15", "--json"]
    once = """
import os
kills = [signal.SIGINT]
pmldesign.cli.documents.document._ignore = lambda step: kills and os.kill(os.getpid(), kills.pop())
"""
    process = start(*arguments, code=EAGER.replace("from pm", once + "from pm"), cwd=tmp_path)
    stdout, stderr = process.communicate()
    assert process.returncode == 3, stderr
    assert json.loads(stdout)
    assert stderr.splitlines()[-1].startswith("error: interrupted")


WRITING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
*numbers, = map(signal.Signals.__getitem__, sys.argv.pop().split("+"))
def fsync(_):
    for number in numbers:
        os.kill(os.getpid(), number)
os.fsync = fsync
from pmldesign.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("names", "code", "content"),
    [
        ("SIGINT", 3, "1,0\n1,1\n"),
        ("SIGTERM", -signal.SIGTERM, "1,0\n1,1\n"),
        ("SIGHUP", -signal.SIGHUP, "1,0\n1,1\n"),
        ("SIGTERM+SIGINT", -signal.SIGTERM, "1,0\n1,1\n"),
    ],
)
def test_signals_wait_until_a_file_is_written(tmp_path, names, code, content):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "w.csv").write_text("before")
    options = ["workload", "prefix:2", "-o", "w.csv", names]
    unfinished = f"error: {pmldesign.cli.process.UNFINISHED}; written: w.csv\n"
    says = {1: INTERRUPTED, 3: unfinished}.get(code, "")
    assert forked(WRITING, *options, folder=folder) == (code, says)
    assert [path.name for path in folder.iterdir()] == ["w.csv"]
    assert (folder / "w.csv").read_text() == content


JOBS = """
import os, signal, sys, time
from functools import partial
from pathlib import Path
def wait(number):
    Path(f"worker-{number}").write_text(str(os.getpid()))
    os.rename(f"worker-{number}", f"{number}.pid")
    time.sleep(600)
if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    from pmldesign.comparison.parallel import Workers, run
    list(run([partial(wait, 0), partial(wait, 1)], Workers(2)))
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_no_worker_outlives_its_parent(tmp_path, name):
    process = start(code=JOBS, cwd=tmp_path)
    while len(pids := list(tmp_path.glob("*.pid"))) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    workers = [int(path.read_text()) for path in pids]
    process.send_signal(getattr(signal, name))
    process.communicate()  # returns when nobody holds the streams
    assert process.returncode == -getattr(signal, name)
    for _ in range(3000):  # a process closes its streams a moment before it has ended
        if any(map(alive, workers)):
            time.sleep(0.02)
    assert not any(map(alive, workers))
    shared = Path("/dev/shm")
    assert not [path for path in shared.glob("*") if str(process.pid) in path.name.split("-")]
