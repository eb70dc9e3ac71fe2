import os
import signal
import threading
from functools import cache

import cvxpy
import numpy as np
import pytest
import scs
from certified import CHECK_P, assert_certified
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign_solvers.norm import Status, solve_norm
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.oracle import ProgramError, programs

GAP = 1e-4
seeds = st.integers(0, 2**32 - 1)
forms = pytest.mark.parametrize("form", ["primal", "dual"])
solvers = pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])


def gaussian(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns))


@forms
@solvers
@settings(max_examples=5)
@given(st.tuples(st.integers(2, 5), st.integers(1, 4)), st.sampled_from(CHECK_P[:5]), seeds)
def test_programs_agree_with_the_solver(form, solver, shape, p, seed):
    A = gaussian(*shape, seed)
    own = solve_norm(DenseOperator(A), p)
    oracle = programs.solve(A, p, form=form, solver=solver)
    assert_certified(own, A, p=p)
    assert_certified(oracle, A, p=p)
    # two brackets of one number
    assert own.certificate.lower <= oracle.certificate.upper
    assert oracle.certificate.lower <= own.certificate.upper


@pytest.mark.sweep
@forms
@solvers
@pytest.mark.parametrize("p", CHECK_P)
def test_programs_reach_their_gap_on_prefix_sums(form, solver, p):
    A = np.tril(np.ones((5, 5)))
    oracle = programs.solve(A, p, form=form, solver=solver, rel_gap=GAP)
    assert_certified(oracle, A, p=p, rel_gap=GAP)
    own = solve_norm(DenseOperator(A), p).certificate
    assert own.lower <= oracle.certificate.upper
    assert oracle.certificate.lower <= own.upper


@pytest.mark.sweep
@forms
@pytest.mark.parametrize("p", [1000, 20000])
def test_columns_shorter_than_1_stay_short(form, p):
    # close to p = inf few queries and cells have weights; the Gram matrix leaves the others room
    for seed in range(2):
        A = gaussian(4, 6, seed) * np.array([[9], [1], [0.1], [1]])
        solved = programs.solve(A, p, form=form, rel_gap=1e-6, accuracy=1e-8)
        assert solved.certificate.gap <= 1e-6


@forms
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_the_workload_does_not_matter(form, scale):
    A = scale * gaussian(4, 3)
    oracle = programs.solve(A, 4, form=form)
    assert_certified(oracle, A, p=4, rel_gap=GAP)


@pytest.mark.sweep
@forms
@solvers
@pytest.mark.parametrize("p", [2, 3, np.inf])
@pytest.mark.parametrize(
    "A",
    [
        np.outer([1.0, 2, 2, 0], [1.0, 0, -1]),
        np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]),
        np.array([[2.0]]),
    ],
    ids=["rank one", "copies", "one"],
)
def test_copies_zeros_and_deficient_ranks(form, solver, p, A):
    oracle = programs.solve(A, p, form=form, solver=solver)
    assert_certified(oracle, A, p=p)
    own = solve_norm(DenseOperator(A), p).certificate
    assert own.lower <= oracle.certificate.upper
    assert oracle.certificate.lower <= own.upper


@forms
@pytest.mark.parametrize("p", [2, 3, np.inf])
def test_an_early_stop_is_not_called_optimal(form, p, monkeypatch):
    monkeypatch.setattr(programs, "MAX_ITERATIONS", 50)
    A = gaussian(6, 4)
    early = programs.solve(A, p, form=form, rel_gap=1e-13)
    assert early.certificate.gap > 1e-13
    assert early.status in (Status.INACCURATE, Status.ITERATION_LIMIT)
    assert_certified(early, A, p=p)
    own = solve_norm(DenseOperator(A), p).certificate
    assert early.certificate.lower <= own.upper
    assert early.certificate.upper >= own.lower


@forms
def test_a_gap_that_is_met_is_optimal_whatever_the_solver_says(form, monkeypatch):
    monkeypatch.setattr(programs, "MAX_ITERATIONS", 50)
    A = gaussian(6, 4)
    early = programs.solve(A, 3, form=form, rel_gap=1.0)
    assert early.certificate.gap <= 1.0
    assert early.status is Status.OPTIMAL


@cache
def at_the_end(p, relation, form, solver):
    A = np.tril(np.ones((3, 3)))
    return programs.solve(A, p, relation=relation, form=form, solver=solver).certificate


@pytest.mark.sweep
@forms
@solvers
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("p", [2 + 1e-9, 2.0001, 1e5, 1e308])
def test_p_close_to_its_ends(form, solver, relation, p):
    # gamma_(p) falls in p, by a factor m^(1/p - 1/q) at most from p to q
    A = np.tril(np.ones((3, 3)))
    near = programs.solve(A, p, relation=relation, form=form, solver=solver)
    assert near.status is Status.OPTIMAL
    end = 2.0 if p < 3 else np.inf
    exact = at_the_end(end, relation, form, solver)
    change = 3 ** abs(1 / p - 1 / end)
    assert near.certificate.lower <= exact.upper * change
    assert near.certificate.upper * change >= exact.lower


@pytest.mark.sweep
@forms
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("exponent", [-996, -531, 498, 996])
def test_powers_of_two_change_nothing_but_the_unit(form, relation, exponent):
    A = gaussian(4, 3)
    unit = programs.solve(A, 3, relation=relation, form=form)
    scaled = programs.solve(A * 2.0**exponent, 3, relation=relation, form=form)
    assert scaled.status is unit.status is Status.OPTIMAL
    np.testing.assert_array_equal(scaled.strategy, unit.strategy)
    assert scaled.certificate.lower == unit.certificate.lower * 2.0**exponent
    assert scaled.certificate.upper == unit.certificate.upper * 2.0**exponent


@forms
def test_a_coarse_answer_is_not_called_optimal(form):
    # the solver is content, the certificate is not
    A = gaussian(6, 4)
    coarse = programs.solve(A, 4, form=form, accuracy=1e-2, rel_gap=1e-9)
    assert coarse.status is Status.INACCURATE
    assert coarse.certificate.gap > 1e-9
    assert_certified(coarse, A, p=4)


def test_a_failed_solver_is_an_error(monkeypatch):
    monkeypatch.setattr(cvxpy.Problem, "unpack_results", lambda problem, *answer: None)
    with pytest.raises(ProgramError, match="SCS returned no point"):
        programs.solve(gaussian(6, 4), 4, form="dual")


class Ended(BaseException):
    """What a handler raises."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_scs(monkeypatch, capfd, number):
    """It runs in C for seconds, takes Ctrl-C for itself, and prints that on standard output."""

    def handle(*_):
        raise Ended

    def begun(*arguments, **options):
        threading.Timer(0.1, os.kill, [os.getpid(), number]).start()
        return solve(*arguments, **options)

    solve = scs.SCS.solve
    monkeypatch.setattr(scs.SCS, "solve", begun)
    threads, before = {*threading.enumerate()}, signal.signal(number, handle)
    try:
        with pytest.raises(Ended):
            programs.solve(np.tril(np.ones((64, 64))), 2, accuracy=1e-9)
    finally:
        signal.signal(number, before)
    for thread in {*threading.enumerate()} - threads:
        thread.join(60)  # SCS, which would go on for longer, and the timer have only to end
    assert {*threading.enumerate()} <= threads
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("p", [1.9, np.nan, -np.inf])
def test_p_outside_its_range_is_refused(p):
    with pytest.raises(ValueError, match="p must be in"):
        programs.solve(np.eye(2), p)


def test_unknown_solvers_and_zero_workloads_are_refused():
    with pytest.raises(ValueError, match="SCS, CLARABEL"):
        programs.solve(np.eye(2), 2, solver="MOSEK")
    with pytest.raises(ValueError, match="zero"):
        programs.solve(np.zeros((2, 3)), 2)


@pytest.mark.sweep
@forms
@solvers
def test_a_time_limit_is_called_a_time_limit(form, solver):
    A = np.tril(np.ones((30, 30)))
    late = programs.solve(A, 4, form=form, solver=solver, time_limit=1e-9)
    assert late.status is Status.TIME_LIMIT
    assert_certified(late, A, p=4)
    in_time = programs.solve(A[:4, :4], 4, form=form, solver=solver, time_limit=1e6)
    assert in_time.status is Status.OPTIMAL
