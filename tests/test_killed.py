"""Processes that are killed at any of their lines: nothing is published without being counted."""

import os
import signal
import sys

import numpy as np
import pytest
from children import in_a_child

from pmldesign.errors import InfeasibleError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PureDP
from pmldesign.releases import Ledger, carry_out, prepare

RELEASE = (
    "pmldesign/store.py",
    "releases/costs/accounts.py",
    "releases/costs/ledger.py",
    "releases/publish.py",
    "releases/result.py",
    "files/atomic.py",
)
BUDGET = "epsilon=1"
pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.fixture(scope="module")
def prepared():
    return prepare(mechanism("identity", "prefix:4", guarantee=PureDP(1.0)))


def watched(work, files, *, kill_at=None):
    """How many lines of these files some work passes; it is killed at one of them."""
    lines = set()

    def trace(frame, event, _argument):
        path = frame.f_code.co_filename
        if not path.endswith(files):
            return None
        if event == "line" and (path, frame.f_lineno) not in lines:
            lines.add((path, frame.f_lineno))
            if len(lines) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return len(lines)


def released(prepared, folder):
    np.save(folder / "x.npy", np.array([3, 1, 4, 1]))
    found = carry_out(prepared, folder / "x.npy", ledger=Ledger(folder / "ledger", budget=BUDGET))
    found.save(folder / "t.csv")


def test_a_release_killed_at_any_line_is_paid_for_or_not_published(prepared, tmp_path):
    def counted():  # an exit code holds numbers up to 255
        lines = watched(lambda: released(prepared, tmp_path), RELEASE)
        (tmp_path / "count").write_text(str(lines))

    assert in_a_child(counted) == 0
    count = int((tmp_path / "count").read_text())
    assert count > 60
    outcomes = set()
    for step in range(count, 0, -4):  # the last line is one of them
        folder = tmp_path / str(step)
        folder.mkdir()
        code = in_a_child(
            lambda at=step, here=folder: watched(
                lambda: released(prepared, here), RELEASE, kill_at=at
            )
        )
        assert code == -signal.SIGKILL
        ledger = folder / "ledger"
        account = Ledger(ledger).account()
        spent = account is not None and len(account.payments) > 0
        written = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        assert spent or written <= {"x.npy", "ledger", "ledger-journal"}
        assert "t.csv" not in written or "t.manifest.json" in written
        outcomes.add((spent, "t.csv" in written))
        if spent:
            with pytest.raises(InfeasibleError):
                carry_out(prepared, folder / "x.npy", ledger=Ledger(ledger))
    assert outcomes == {(False, False), (True, False), (True, True)}
