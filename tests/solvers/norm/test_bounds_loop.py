from itertools import count

import numpy as np
import pytest
from deadlines import CountedDeadline

from pmldesign_solvers.norm import (
    CLOSER,
    PATIENCE,
    Bounds,
    BoundsLoop,
    SolverOptions,
    Status,
    best_lower,
)
from pmldesign_solvers.norm import solve as norm
from pmldesign_solvers.operators import NEVER, Deadline, DenseOperator


def bounds(*pairs):
    return iter([Bounds(lower, upper) for lower, upper in pairs])


def search(candidates, **options):
    return BoundsLoop(candidates, SolverOptions(**options), 0.0)


def test_the_best_of_each_side_is_kept_whoever_offers_it():
    both = search(bounds((1.0, 3.0), (2.0, 9.0), (0.5, 2.5)), rel_gap=0.25)
    assert both.run() is Status.OPTIMAL
    assert (both.lower.lower, both.upper.upper, both.steps) == (2.0, 2.5, 3)


@pytest.mark.parametrize(("closer", "steps"), [(1.0, 1), (CLOSER, 2)])
def test_a_search_that_aims_closer_goes_on(closer, steps):
    both = search(bounds((1.0, 1.1), (1.0, 1.05)), rel_gap=0.1 * (1 + 1e-9))
    assert both.run(closer) is Status.OPTIMAL
    assert both.steps == steps


def test_limits_name_themselves():
    assert search(bounds((1.0, 2.0)), max_steps=1).run() is Status.ITERATION_LIMIT
    assert search(bounds((1.0, 2.0)), deadline=Deadline(0.0)).run() is Status.TIME_LIMIT
    assert search(bounds((1.0, 2.0))).run() is Status.STALLED  # nothing more is offered
    endless = search(Bounds(1.0, 2.0) for _ in count())
    assert endless.run() is Status.STALLED
    assert endless.steps == 1 + PATIENCE


@pytest.mark.parametrize("k", [1, 2, 30])
def test_a_search_asks_its_deadline_once_a_step_and_ends_there(k):
    deadline = CountedDeadline(k)
    both = search((Bounds(lower, 1e9) for lower in count(1.0)), deadline=deadline)
    assert both.run() is Status.TIME_LIMIT
    assert both.steps == k


def test_ctrl_c_is_the_deadline_of_all_that_share_it():
    deadline = Deadline()

    def interrupted():
        yield Bounds(1.0, 2.0)
        raise KeyboardInterrupt

    assert search(interrupted(), deadline=deadline).run() is Status.INTERRUPTED
    other = search((Bounds(lower, 1e9) for lower in count(1.0)), deadline=deadline)
    assert other.run() is Status.INTERRUPTED
    assert other.steps == 1


def test_a_search_inside_another_one_hands_on_ctrl_c():
    def interrupted():
        yield Bounds(1.0, 2.0)
        raise KeyboardInterrupt

    assert search(interrupted()).run() is Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        best_lower(interrupted(), 1e-6, 10, NEVER)
    assert best_lower(bounds((1.0, 3.0), (2.0, 9.0)), 1e-6, 2, NEVER).lower == 2.0


def test_ctrl_c_while_the_best_is_certified_loses_nothing(monkeypatch):
    calls, usual = [], norm.certify

    def certify(*arguments, **options):
        calls.append(arguments)
        if len(calls) <= presses:
            raise KeyboardInterrupt
        return usual(*arguments, **options)

    monkeypatch.setattr(norm, "certify", certify)
    operator, presses = DenseOperator(np.tril(np.ones((9, 9)))), 1
    found = norm.solve_norm(operator, 2.0, options=SolverOptions(1e-15, max_steps=5))
    assert found.status is Status.INTERRUPTED
    assert 0 < found.certificate.gap < 1e-2
    calls, presses = [], 2
    with pytest.raises(KeyboardInterrupt):
        norm.solve_norm(operator, 2.0)
