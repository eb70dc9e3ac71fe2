"""A part of `make fuzz`: the same cases in the same processes, without a fault."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzz.cases import Case, draw
from fuzz.processes import Outcome, faults

CASES = 8
FOLDER = Path(__file__).parent


def test_no_command_line_and_no_file_does_harm():
    paths = os.pathsep.join([str(FOLDER), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    options = ["--seed", "1", "--cases", str(CASES)]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", *options], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases of seed 1" in done.stdout


def test_a_case_is_the_same_at_every_call():
    archive = [b"PK" + bytes(99)]
    samples = {"strategy": archive, "measurements": archive, "manifest": archive}
    samples |= {"ledger": [b"{}"], "shared": [b""]}
    np.testing.assert_equal(vars(draw(3, 14, samples)), vars(draw(3, 14, samples)))
    assert vars(draw(3, 14, samples)) != vars(draw(3, 15, samples))


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ({}, []),
        ({"code": 2, "stderr": "error: p must be in [2, inf]\n"}, []),
        ({"code": 3, "stderr": "step 1\nerror: the gap is 1\n"}, []),
        ({"code": 2, "stderr": ""}, ["message"]),
        ({"code": 2, "stderr": "error: two\nlines\n"}, ["message"]),
        ({"code": 6, "stderr": "error: try allow_pickle\n"}, ["message"]),
        ({"code": 2, "stderr": "error: \x1b[31m\n"}, ["message"]),
        ({"code": 1, "stderr": "error: \n"}, ["code"]),
        ({"code": 8, "stderr": "note: not checked: method\n"}, []),
        ({"code": 120}, ["code"]),
        ({"code": 1, "stderr": "Traceback (most recent call last):\n"}, ["traceback"]),
        ({"code": -6}, ["abort"]),
        ({"code": -24}, ["hang"]),
        ({"code": -9, "late": True}, ["hang"]),
        ({"code": 1, "stderr": "error: this does not fit into memory\n"}, ["memory"]),
        ({"stderr": "a.py:1: RuntimeWarning: overflow\n"}, ["warning"]),
        ({"stdout": '{"scale": NaN}'}, ["nan"]),
        ({"stdout": "err_2  nan"}, ["nan"]),
        ({"left": {".pmldesign-1.tmp": Path("none.tmp")}}, ["left"]),
    ],
)
def test_every_fault_is_noticed(outcome, found):
    usual = {"code": 0, "stdout": "", "stderr": "", "seconds": 0.0, "late": False, "left": {}}
    assert faults(Case([]), Outcome(**{**usual, **outcome})) == found
