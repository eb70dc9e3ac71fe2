"""Limits of time and Ctrl-C on the coarse levels, before there is a step on the workload itself."""

import numpy as np
import pytest

from pmldesign_solvers.norm import SolverOptions, Status
from pmldesign_solvers.operators import Deadline
from pmldesign_solvers.participation import Epochs, fixed_epochs
from pmldesign_solvers.streams import RunningSums, fixed_point, solve

SUMS = RunningSums(np.ones(1023), np.ones(1024), np.ones(1024))


def solved(kind, options):
    if kind == "once":
        return solve.solve(SUMS, 2.0, options=options)
    return fixed_epochs.solve(Epochs(SUMS, 256), options)


@pytest.mark.parametrize("kind", ["once", "epochs"])
def test_bounds_hold_when_time_is_over_at_once(kind):
    solution = solved(kind, SolverOptions(rel_gap=1e-9, deadline=Deadline(1e-9)))
    assert solution.status is Status.TIME_LIMIT
    # 94.57446 for one participation (docs/background/streams.md), and more for several
    assert 1 < solution.certificate.lower <= solution.certificate.upper
    assert solution.certificate.upper >= 94.57446


@pytest.mark.parametrize("kind", ["once", "epochs"])
def test_an_interrupt_on_a_coarse_level_keeps_what_there_is(kind, monkeypatch):
    module = fixed_point if kind == "once" else fixed_epochs
    fit = module.fit

    def interrupted(*arguments):
        yield next(fit(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fit", interrupted)
    solution = solved(kind, SolverOptions(rel_gap=1e-9))
    assert solution.status is Status.INTERRUPTED
    assert 80 < solution.certificate.lower <= solution.certificate.upper < 300


def interrupt_first(monkeypatch, module, work):
    """The first call of a function for all steps is interrupted, others are not."""
    plain, calls = getattr(module, work), []

    def interrupted(*arguments, **options):
        whole = getattr(arguments[0], "sums", SUMS) is SUMS
        calls.extend([work] if whole else [])
        if whole and len(calls) == 1:
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(module, work, interrupted)


@pytest.mark.sweep
@pytest.mark.parametrize("buffers", [None, 4])
@pytest.mark.parametrize("work", ["_best_cut", "fit", "certify", "_with_buffers"])
def test_an_interrupt_in_the_first_step_keeps_what_there_is(work, buffers, monkeypatch):
    interrupt_first(monkeypatch, solve, work)
    solution = solve.solve(SUMS, 2.0, buffers=buffers, options=SolverOptions(rel_gap=1e-4))
    assert 94 < solution.certificate.lower <= 94.57447
    assert 94.57446 <= solution.certificate.upper < 100
    assert solution.nodes.poles.size == buffers or buffers is None
    if work in ("_best_cut", "fit"):
        assert solution.steps == 1


@pytest.mark.parametrize("work", ["fit", "lower_bound", "upper_bound"])
def test_an_interrupt_in_the_first_step_on_epochs_keeps_what_there_is(work, monkeypatch):
    interrupt_first(monkeypatch, fixed_epochs, work)
    solution = solved("epochs", SolverOptions(rel_gap=1e-4))
    # 6.046593 to 6.046614 times 1024^(1/2) for 4 epochs (docs/background/streams.md)
    assert 190 < solution.certificate.lower <= 6.046614 * 32
    assert 6.046593 * 32 <= solution.certificate.upper < 210
