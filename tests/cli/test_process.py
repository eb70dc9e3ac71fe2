"""The command line as a process of its own: python -m pmldesign, pipes, and a real Ctrl-C."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from children import in_a_child

import pmldesign.cli.process
from pmldesign.cli import COMMANDS, signals

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
        ("pmldesign workload > /dev/full", 6, FULL),
        ("pmldesign workload prefix:4 -o w.csv >&- 2>&-", 6, ""),
        ("pmldesign workload - <&-", 6, "error: cannot read standard input: it is closed\n"),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path, line, code, err):
    got, _, stderr = shell(line, tmp_path)
    assert (got, stderr) == (code, err)
    if "-o" in line:
        assert (tmp_path / "w.csv").read_text().startswith("1,0,0,0\n")


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


IMPORTING = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
number = getattr(signal, sys.argv.pop())
usual = builtins.__import__
def interrupted(name, *arguments, **options):
    if name == "numpy":
        try:
            os.kill(os.getpid(), number)
        except BaseException:
            raise ImportError  # as libraries do
    return usual(name, *arguments, **options)
builtins.__import__ = interrupted
import pmldesign.__main__
pmldesign.__main__.run()
"""
INTERRUPTED = "error: interrupted before it was done\n"


@pytest.mark.parametrize(
    ("name", "code", "err"), [("SIGINT", 1, INTERRUPTED), ("SIGTERM", 143, "")]
)
def test_signals_during_imports(tmp_path, name, code, err):
    process = start("workload", "prefix:4", name, code=IMPORTING, cwd=tmp_path)
    assert process.communicate() == ("", err)
    assert process.returncode == code


ALONE = """
import sys
before = set(sys.modules)
import pmldesign.__main__
print(*sorted(set(sys.modules) - before))
"""
BETWEEN = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import pmldesign.__main__, pmldesign.cli
pmldesign.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGINT)
pmldesign.__main__.run()
"""
AT_THE_START = "from pmldesign.__main__ import _quit; signal.signal(signal.SIGINT, _quit)"
OF_A_COMMAND = """
from pmldesign.cli.process import _signals
_signals.importing = True
signal.signal(signal.SIGINT, _signals.handle)
"""
TWICE = """
import os, signal
{handled}
usual = os.write
def again(*arguments):
    usual(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
os.write = again
again(1, b"")
"""


@pytest.mark.parametrize("handled", [AT_THE_START, OF_A_COMMAND])
def test_ctrl_c_twice_is_said_once(handled, tmp_path):
    process = start(code=TWICE.format(handled=handled), cwd=tmp_path)
    assert process.communicate() == ("", INTERRUPTED)
    assert process.returncode == 1


def test_ctrl_c_is_heeded_before_anything_is_imported(tmp_path):
    stdout, _ = start(code=ALONE, cwd=tmp_path).communicate()
    assert stdout.split() == ["pmldesign", "pmldesign.__main__"]
    process = start(code=BETWEEN, cwd=tmp_path)
    assert process.communicate() == ("", INTERRUPTED)
    assert process.returncode == 1


SWALLOWING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGTERM)
except BaseException:
    pass
"""


class Finalized:
    def __del__(self):
        exec(SWALLOWING)


def imported():
    import late  # noqa: F401 - the file that the test writes


def closed():
    def values():
        try:
            yield
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    next(values())  # ends here, as nobody asks for more


@pytest.mark.parametrize("swallows", [Finalized, imported, closed])
def test_a_signal_waits_where_its_exception_would_be_swallowed(
    tmp_path, monkeypatch, capfd, swallows
):
    (tmp_path / "late.py").write_text(SWALLOWING)
    monkeypatch.syspath_prepend(tmp_path)

    def ended():
        with signals():
            swallows()
            time.sleep(60)

    with pytest.raises(SystemExit, match="143"):
        ended()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 1), ("SIGTERM", 143)])
def test_a_signal_does_not_wait_for_a_long_import(tmp_path, monkeypatch, name, code):
    (tmp_path / "endless.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), signal.{name})\nwhile True:\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(pmldesign.cli.process, "PATIENCE", 0.1)

    def ended():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with signals():
            importlib.import_module("endless")

    assert in_a_child(ended) == code


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
        ("SIGTERM", 143, "1,0\n1,1\n"),
        ("SIGHUP", 129, "1,0\n1,1\n"),
        ("SIGINT+SIGINT", 1, "before"),
        ("SIGINT+SIGTERM", 1, "before"),
    ],
)
def test_a_signal_waits_until_a_file_is_written_and_a_second_one_does_not(
    tmp_path, names, code, content
):
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
    from pmldesign.cli import signals
    from pmldesign.comparison.parallel import run
    from pmldesign.comparison.parallel import Workers
    with signals():
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
    assert process.returncode == {"SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9}[name]
    for _ in range(500):  # a process closes its streams a moment before it has ended
        if any(map(alive, workers)):
            time.sleep(0.02)
    assert not any(map(alive, workers))
    shared = Path("/dev/shm")
    assert not [path for path in shared.glob("*") if str(process.pid) in path.name.split("-")]
