"""The command line as a process of its own: python -m pmldesign, pipes, and a real Ctrl-C."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, "pmldesign 0.1.0", ""),
        (["--help"], 0, "Exit codes", ""),
        (["optimize", "prefix:4"], 0, "gamma_(2)", ""),
        (["optimize", "prefix:4", "--p", "1.9"], 2, "", "error: p must be in [2, inf]"),
        (["compare", "prefix:4", "--epsilon", "3", "--alpha", "0.1"], 4, "", "error: epsilon"),
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


@pytest.mark.parametrize("command", ["workload", "optimize", "compare"])
def test_every_command_explains_itself(tmp_path, command):
    stdout, _ = start(command, "-h", cwd=tmp_path).communicate()
    assert stdout.startswith(f"Usage: pmldesign {command} ")


EAGER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # even if the parent ignores it
import pmldesign.cli.show
pmldesign.cli.show.QUIET_SECONDS = 0.0  # a line after every step
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


def test_help_loads_no_numerical_library(tmp_path):
    code = (
        "import sys; from pmldesign.cli import main; main(['--help'], standalone_mode=False);"
        "assert not {'numpy', 'scipy', 'cvxpy', 'matplotlib', 'rich'} & set(sys.modules)"
    )
    process = start(code=code, cwd=tmp_path)
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
