"""Deadlines pass when they say, and budgets of work are deterministic."""

import math

from pmldesign_solvers import operators
from pmldesign_solvers.operators import NEVER, Deadline, Effort, Work


def test_a_deadline_passes_once_its_seconds_have_gone(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    deadline = Deadline(2.0)
    assert not deadline.over()
    now[0] = 101.9
    assert not deadline.over()
    now[0] = 102.0
    assert deadline.over()
    now[0] = math.inf
    assert deadline.over()


def test_no_limit_never_passes(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 1e300)
    assert not NEVER.over()
    assert not Deadline(None).over()


def test_seconds_become_a_deadline_once():
    deadline = Deadline.of(5.0)
    assert Deadline.of(deadline) is deadline
    assert not Deadline.of(None).over()
    assert Deadline(0.0).over()


def test_work_is_over_once_it_is_spent():
    work = Work(10.0)
    work.spend(9.0)
    assert not work.over()
    work.spend(1.0)
    assert work.over()
    assert work.spent == 10.0
    endless = Work()
    endless.spend(1e30)
    assert not endless.over()
    assert Work(0.0).over()


def test_more_effort_is_more_work():
    assert 0 < Effort.QUICK.work < Effort.NORMAL.work < Effort.THOROUGH.work == math.inf
    assert operators.Effort("quick") is Effort.QUICK
