import math

import numpy as np
import pytest
from l1_checks import assert_sound, baselines, exact_error

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.operators import Deadline, DenseOperator, Work
from pmldesign_solvers.search import (
    LEAST_WORK,
    PATIENCE,
    AddRemoveL1,
    ColumnObjective,
    Descent,
    Leakage,
    ReplaceL1,
    SearchOptions,
    SearchProblem,
    Smoothing,
    Stacked,
    descent,
    solve,
)


@pytest.mark.parametrize("rule", [AddRemoveL1(1.0), ReplaceL1(1.0)])
def test_permuted_cells_have_the_same_error(rule):
    A = np.tril(np.ones((3, 3)))
    permutation = [2, 0, 1]
    errors = [
        solve(
            DenseOperator(np.ascontiguousarray(matrix)),
            2,
            scale=rule,
            options=SearchOptions(restarts=0),
        ).error
        for matrix in (A, A[:, permutation])
    ]
    assert errors[1] == pytest.approx(errors[0], rel=1e-4)


def test_equal_and_empty_cells_are_merged():
    A = np.tril(np.ones((2, 2)))
    wide = np.hstack([A[:, [0, 1, 1]], np.zeros((2, 2))])
    single = solve(DenseOperator(A), 2, scale=AddRemoveL1(1.0), options=SearchOptions(restarts=0))
    merged = solve(
        DenseOperator(wide), 2, scale=AddRemoveL1(1.0), options=SearchOptions(restarts=0)
    )
    assert merged.error == pytest.approx(single.error, rel=1e-9)
    assert_sound(merged, wide, AddRemoveL1(1.0))
    # where the total is public, a record may move to the empty cells
    public = solve(DenseOperator(wide), 2, scale=ReplaceL1(1.0), options=SearchOptions(restarts=0))
    assert_sound(public, wide, ReplaceL1(1.0))
    padded = np.hstack([A, np.zeros((2, 1))])
    same = solve(DenseOperator(padded), 2, scale=ReplaceL1(1.0), options=SearchOptions(restarts=0))
    assert public.error == pytest.approx(same.error, rel=1e-6)
    leakage = Leakage(1.0, np.full(5, 0.1))
    assert_sound(
        solve(DenseOperator(wide), 2, scale=leakage, options=SearchOptions(restarts=0)),
        wide,
        leakage,
    )


def test_fewer_queries_than_cells():
    A = np.array([[1.0, 1, 0, 0, 1], [0, 1, 1, 0, 0]])
    for rule in (AddRemoveL1(1.0), ReplaceL1(1.0)):
        solution = solve(
            DenseOperator(A),
            2,
            scale=rule,
            starts={"workload": A},
            options=SearchOptions(restarts=0),
        )
        assert_sound(solution, A, rule)
        assert solution.error <= exact_error(A, A, rule) * (1 + 1e-9)


def test_non_negative_strategies_of_a_public_total_are_no_restriction():
    workload = parse_workload("prefix:3")
    A, rule = workload.to_dense(), ReplaceL1(1.0)
    signed = solve(workload, 2, scale=rule, options=SearchOptions(restarts=0))
    shifted = solve(workload, 2, scale=rule, signed=False, options=SearchOptions(restarts=0))
    assert shifted.strategy.min() >= 0
    assert shifted.error == signed.error
    centred = shifted.strategy - shifted.strategy.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(centred, signed.strategy, atol=1e-12)
    assert exact_error(A, shifted.strategy, rule) == pytest.approx(signed.error, rel=3e-6)


def test_the_same_seed_gives_the_same_strategy():
    workload = parse_workload("prefix:3")
    runs = [
        solve(workload, 2, scale=ReplaceL1(1.0), options=SearchOptions(restarts=1, seed=3))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(runs[0].strategy, runs[1].strategy)
    assert runs[0].starts == runs[1].starts


@pytest.mark.parametrize("rule", [AddRemoveL1(1.0), ReplaceL1(1.0)])
def test_no_time_at_all_still_gives_the_best_start(rule):
    workload = parse_workload("prefix:16")
    starts = baselines(workload)
    A = workload.to_dense()
    solution = solve(
        workload,
        2,
        scale=rule,
        starts=starts,
        options=SearchOptions(work=Work(deadline=Deadline(0.0))),
    )
    assert solution.status is Status.TIME_LIMIT
    assert_sound(solution, A, rule)
    for R in starts.values():
        assert solution.error <= exact_error(A, R, rule) * (1 + 1e-9)


def test_interruption_keeps_the_best():
    workload = parse_workload("prefix:32")
    seen = []

    def stop(step):
        seen.append(step)
        if step.number == 3:
            raise KeyboardInterrupt

    solution = solve(workload, 2, scale=AddRemoveL1(1.0), options=SearchOptions(callback=stop))
    assert solution.status is Status.INTERRUPTED
    assert [step.number for step in seen] == [1, 2, 3]
    assert solution.error == seen[-1].error < 26
    assert_sound(solution, workload.to_dense(), AddRemoveL1(1.0))


def test_interruption_of_a_descent_keeps_its_progress(monkeypatch):
    workload = parse_workload("prefix:16")
    calls = 0
    gram = SearchProblem.gram

    def interrupting(self, weights):
        nonlocal calls
        calls += 1
        if calls == 12:  # one call for every evaluation at p = 4; the tents are for p = 2
            raise KeyboardInterrupt
        return gram(self, weights)

    monkeypatch.setattr(SearchProblem, "gram", interrupting)
    solution = solve(workload, 4, scale=AddRemoveL1(1.0))
    assert solution.status is Status.INTERRUPTED
    followed = [start for start in solution.starts if start.after < start.before]
    assert "tents" in followed[0].name
    assert len(followed) == 2
    assert solution.error < followed[1].before
    assert not followed[1].settled


def test_arguments_are_checked():
    operator = DenseOperator(np.eye(3))
    rule = AddRemoveL1(1.0)
    with pytest.raises(ValueError, match=r"p must be in \[2, inf\], got 1"):
        solve(operator, 1, scale=rule)
    with pytest.raises(ValueError, match="without measuring anything"):
        solve(DenseOperator(np.zeros((2, 3))), 2, scale=rule)
    with pytest.raises(ValueError, match="without measuring anything"):
        solve(DenseOperator(np.ones((2, 3))), 2, scale=ReplaceL1(1.0))
    with pytest.raises(ValueError, match="start 'a' must have 3 columns"):
        solve(operator, 2, scale=rule, starts={"a": np.eye(2)})
    with pytest.raises(ValueError, match="negative entries"):
        solve(operator, 2, scale=rule, signed=False, starts={"a": -np.eye(3)})


def test_a_search_ends_when_nothing_gains():
    rng = np.random.default_rng(3)
    identity = np.eye(5)
    # the identity is the best possible for a histogram (err_2 >= sqrt(2) gamma_(2) / epsilon)
    starts = {f"start {k}": identity + 0.1 * rng.random((5, 5)) for k in range(40)}
    solution = solve(
        DenseOperator(identity),
        2,
        scale=AddRemoveL1(1.0),
        starts=starts,
        options=SearchOptions(restarts=20),
    )
    assert solution.error == pytest.approx(np.sqrt(10), rel=1e-6)
    assert solution.status is Status.COMPLETED
    followed = [start for start in solution.starts if start.after < start.before or start.settled]
    assert len(followed) < 2 * PATIENCE + 8
    # every start counts as it stands, though it is not followed
    assert {start.name for start in solution.starts} >= set(starts)


def test_a_search_that_hardly_gains_ends_early_and_never_below_a_start():
    workload = parse_workload("prefix:3")
    whole = solve(workload, 2, scale=AddRemoveL1(1.0), options=SearchOptions(restarts=1))
    brief = SearchOptions(restarts=1, least_gain=0.5)
    short = solve(workload, 2, scale=AddRemoveL1(1.0), options=brief)
    assert whole.status is Status.COMPLETED
    assert whole.error <= short.error * (1 + 1e-9)
    assert short.error <= np.sqrt(2) * np.linalg.norm(workload.to_dense())


def test_the_later_half_of_the_work_decides_whether_a_search_pays():
    problem = SearchProblem(parse_workload("prefix:4"), 2, public_total=False, ordered=True)
    search = Descent(problem, AddRemoveL1(1.0), Work(), 0.01)
    search.offer(np.tril(np.ones((4, 4))) / 4)
    while search._moved < LEAST_WORK:
        assert search.pays()
        search._proceed(1.0)
    assert not search.pays()  # nothing since the first
    search.offer(np.tril(np.ones((4, 4))) / 4)
    assert not search.pays()
    search.offer(np.eye(4))
    assert search.pays()
    gained = search._moved
    while search._moved < 2 * gained:
        assert search.pays()
        search._proceed(1.0)
    assert not search.pays()


@pytest.mark.parametrize("p", [2, math.inf])
def test_a_descent_that_cannot_win_is_given_up_and_one_that_wins_is_not(p):
    problem = SearchProblem(parse_workload("prefix:12"), p, public_total=False, ordered=True)
    rule = AddRemoveL1(1.0)
    objective = ColumnObjective(problem, np.zeros(12), True)
    stages = [Smoothing(10.0**-k) for k in range(1, 6)]
    start = Stacked(np.zeros(12), np.eye(12) + np.tril(np.full((12, 12), 0.1)))
    alone = Descent(problem, rule, Work())
    reached = alone.follow("alone", objective, start, stages)
    for factor, wins in ((0.97, True), (1.0 + 1e-3, False)):
        # the error that is to be beaten: the one that is reached, over a factor
        search = Descent(problem, rule, Work())
        search.best = (reached / factor, np.eye(12))
        steps = search._moved
        found = search.follow("again", objective, start, stages)
        assert found >= reached * (1 - 1e-9)
        assert (found == reached) is wins
        assert (search._moved - steps == alone._moved) is wins


def test_errors_that_fall_linearly_tell_the_limit():
    limit, slope = 2.0, 0.7
    for wider, width in ((0.03, 0.01), (1e-3, 3e-4)):
        errors = [limit * (1 + slope * mu) for mu in (wider, width)]
        drop = errors[0] - errors[1]
        told = descent._limit(*errors, wider, width)
        assert limit - descent.DOUBT * drop * (1 + 1e-9) <= told <= limit
    # an error that rises promises nothing; the same stage again promises what it gained last
    assert descent._limit(1.0, 1.5, 0.03, 0.01) == 1.5
    assert descent._limit(1.5, 1.25, 0.01, 0.01) == 1.0


def test_starts_that_repeat_others_are_followed_once():
    rows = np.tril(np.ones((6, 6)))
    starts = {"one": rows, "again": rows * (1 + 1e-14), "other": np.triu(rows.T + 1.0)}
    solution = solve(
        parse_workload("prefix:6"),
        2,
        scale=AddRemoveL1(1.0),
        starts=starts,
        options=SearchOptions(restarts=0),
    )
    names = [start.name for start in solution.starts]
    assert {"one", "other"} <= set(names)
    assert "again" not in names
