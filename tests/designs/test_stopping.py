"""Limits and Ctrl-C end a design within a step, with bounds that hold; counted in steps."""

import math

import numpy as np
import pytest
from deadlines import CountedDeadline, InterruptingDeadline

import pmldesign as pml
from pmldesign.designs import dispatch, factorize
from pmldesign.factorization import answer
from pmldesign.workloads import as_workload
from pmldesign_solvers.norm import Status

SMALL = {"DENSE_CELLS": 24, "REGION_CELLS": 8, "STREAM_CELLS": 16, "PUBLIC_CELLS": 16}
"""Sizes beyond which structure is used, for workloads whose norm one matrix tells as well."""
MOST_LATE = 16
"""Questions after the deadline: one for each loop and each part of a workload."""
STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED)


def drawn(rng):
    """A random workload, of one of the forms that are solved in different ways."""
    a, b, c = (int(n) for n in rng.integers(2, 7, 3))
    forms = (
        lambda: rng.integers(0, 2, (a + 3, 4 * b)) + np.eye(a + 3, 4 * b),
        lambda: f"prefix:{10 * a}",
        lambda: f"window:{8 * a},{b}",
        lambda: f"all-range:{3 * a}",
        lambda: f"prefix:{2 * a}*histogram:{b}",
        lambda: f"prefix:{2 * a}*total:{b}+histogram:{2 * a}*prefix:{b}",
        lambda: f"prefix:{a}*prefix:{b}+histogram:{a}*total:{b}+total:{a}*histogram:{b}",
        lambda: f"marginals:{a},{b},{c},ways=2",
        lambda: f"marginals:prefix{a},{b},prefix{c},ways=2",
        lambda: f"at-most:{a},{b}",
    )
    return as_workload(forms[rng.integers(len(forms))]())


@pytest.fixture
def small(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(dispatch, name, value)


@pytest.mark.sweep(seed=12)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", [CountedDeadline, InterruptingDeadline])
@pytest.mark.parametrize("seed", range(40))
def test_a_design_stops_within_a_step_with_bounds_that_hold(seed, kind):
    rng = np.random.default_rng([seed, 1])
    workload, p = drawn(rng), float(rng.choice([2.0, 4.0, math.inf]))
    relation = str(rng.choice(["add-remove", "replace"]))
    deadline = kind(int(rng.integers(1, 40)))
    asked = {"p": p, "neighbours": relation}
    found = factorize(workload, time_limit=deadline, rel_gap=1e-9, **asked)
    exact = factorize(workload.to_dense(), **asked).certificate
    assert found.certificate.lower <= exact.upper * (1 + 1e-9)
    assert exact.lower <= found.certificate.upper * (1 + 1e-9)
    value = answer(found.strategy, workload, pml.Neighbours(relation)).norm(p)
    assert value <= found.certificate.upper * (1 + 1e-9)
    assert deadline.late <= MOST_LATE
    if deadline.asked >= deadline.k:
        assert found.status in STOPPED or found.certificate.gap <= 1e-9
