"""gamma_(p) of unions of products from their structure, against the dense solver."""

import math
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pytest
from certified_unions import assert_certified, assert_encloses_the_norm
from hypothesis import given, settings
from hypothesis import strategies as st
from small_unions import EXPONENTS, TEXTS, norm, random_unions, union

from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator
from pmldesign_solvers.unions import Basis, solve
from pmldesign_solvers.unions import descent as basis_descent
from pmldesign_solvers.unions import solve as unions


@pytest.mark.sweep
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("text", TEXTS)
def test_the_bounds_enclose_the_norm(text, p):
    one = union(text)
    found = unions.solve(*one.arguments, p, options=SolverOptions(rel_gap=0.02))
    assert_certified(found, one, p)
    assert found.certificate.lower <= norm(text, p).upper
    assert found.certificate.upper >= norm(text, p).lower
    assert found.certificate.gap < 0.06
    assert found.status in (Status.STRUCTURED, Status.OPTIMAL)


@given(random_unions(), st.sampled_from(EXPONENTS))
@settings(max_examples=3)
def test_random_unions(given_union, p):
    one, _ = given_union
    found = unions.solve(*one.arguments, p, options=SolverOptions(rel_gap=0.02))
    assert_encloses_the_norm(found, one, p)


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_union_that_is_one_product_is_solved_to_the_gap(p):
    one = union("prefix:4*histogram:3+prefix:4*histogram:3")
    found = unions.solve(*one.arguments, p, options=SolverOptions(rel_gap=3e-3))
    assert_certified(found, one, p)
    assert found.status is Status.OPTIMAL
    assert found.certificate.gap <= 3e-3


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("max_steps", [1, 2, 7, 30])
def test_the_steps_are_limited(max_steps, p):
    one = union(TEXTS[5])
    found = unions.solve(*one.arguments, p, options=SolverOptions(max_steps=max_steps))
    assert found.status is Status.ITERATION_LIMIT
    assert found.steps == max_steps
    assert_certified(found, one, p)


def test_out_of_time_after_the_first_strategy():
    one = union(TEXTS[5])
    found = unions.solve(*one.arguments, 4.0, options=SolverOptions(deadline=Deadline(1e-9)))
    assert found.status is Status.TIME_LIMIT
    assert_certified(found, one, 4.0)


@pytest.mark.parametrize("calls", [1, 2, 20, 60, 100, 400])
def test_ctrl_c_keeps_the_best(calls):
    one = union(TEXTS[5])
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == calls:
            raise KeyboardInterrupt

    found = unions.solve(*one.arguments, 4.0, options=SolverOptions(callback=interrupt))
    assert len(seen) == calls
    assert found.status is Status.INTERRUPTED
    assert_certified(found, one, 4.0)
    assert found.certificate.upper <= seen[-1].upper
    assert found.certificate.lower >= seen[-1].lower


@pytest.mark.parametrize(("limit", "most"), [(1, 4), (5, 5)])
def test_ctrl_c_in_the_design_for_an_attribute_ends_the_solver(limit, most, monkeypatch):
    # those designs keep the best so far themselves, and those that follow take one step each
    calls = count(1)
    one = union(TEXTS[0])

    def interrupted(operator, p, *, options, **arguments):
        def stop(_):
            raise KeyboardInterrupt

        number = next(calls)
        callback = stop if number == limit else None
        return solve_norm(operator, p, options=replace(options, callback=callback), **arguments)

    monkeypatch.setattr(solve, "solve_norm", interrupted)
    # two kinds of factors, two attributes, then what differs between the cells
    found = unions.solve(*one.arguments, 2.0)
    assert found.status is Status.INTERRUPTED
    assert next(calls) == most + 1
    assert_certified(found, one, 2.0)


def test_the_bounds_that_are_reported_only_get_better():
    one = union(TEXTS[5])
    seen = []
    found = unions.solve(*one.arguments, 4.0, options=SolverOptions(callback=seen.append))
    assert len(seen) > 100
    for before, after in pairwise(seen):
        assert after.lower >= before.lower
        assert after.upper <= before.upper
        assert after.seconds >= before.seconds
    assert seen[-1].upper == found.certificate.upper
    assert seen[-1].lower == found.certificate.lower


def test_without_the_descent_it_is_no_better(monkeypatch):
    one, p = union(TEXTS[5]), math.inf
    found = unions.solve(*one.arguments, p)
    monkeypatch.setattr(unions, "descend", lambda *_, **__: iter(()))
    plain = unions.solve(*one.arguments, p)
    assert found.certificate.upper <= plain.certificate.upper
    assert found.certificate.lower >= plain.certificate.lower


def test_bad_bases_from_the_descent_are_not_taken(monkeypatch):
    # a basis that lost a row does not answer the workload, whatever its weights promise
    one = union(TEXTS[0])
    m, n = one.dense.shape
    broken = []
    end = basis_descent.UnionDescended(broken, np.ones(1), np.ones(m), np.ones(n))
    monkeypatch.setattr(unions, "descend", lambda *_, **__: iter([end]))
    for attribute in one.arguments[2]:
        size = attribute.shape[1]
        broken.append(Basis(np.eye(size)[:1], np.eye(size)[:, :1]))
    found = unions.solve(*one.arguments, 2.0)
    assert_certified(found, one, 2.0)


@pytest.mark.parametrize("p", [4.0])
def test_beyond_dense_size_the_bounds_hold_without_the_matrix(monkeypatch, p):
    monkeypatch.setattr(unions, "UNION_CELLS", 1)
    text = TEXTS[5]
    one = union(text)
    found = unions.solve(*one.arguments, p, options=SolverOptions(rel_gap=0.02))
    assert_certified(found, one, p)
    assert found.certificate.lower <= norm(text, p).upper
    assert found.certificate.upper >= norm(text, p).lower


def test_scaling_the_workload_scales_the_bounds():
    p = 2.0
    one, options = union(TEXTS[1]), SolverOptions(rel_gap=0.05)
    found = unions.solve(*one.arguments, p, options=options).certificate

    class Scaled:
        def __init__(self, operator):
            self.dense = DenseOperator(1e-6 * operator.to_dense())

        def __getattr__(self, name):
            return getattr(self.dense, name)

    workload, parts, attributes = one.arguments
    scaled = [[Scaled(part[0]), *part[1:]] for part in parts]
    other = unions.solve(Scaled(workload), scaled, attributes, p, options=options).certificate
    assert other.upper == pytest.approx(1e-6 * found.upper, rel=1e-2)
    assert other.lower == pytest.approx(1e-6 * found.lower, rel=1e-2)
    assert math.isfinite(other.gap)
