"""Strategies of blocks for unions of products, against the dense solver and the matrix itself."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from certified import dual_value, factorization_value
from certified_unions import assert_certified, assert_encloses_the_norm, written_out
from hypothesis import given
from hypothesis import strategies as st
from small_unions import EXPONENTS, Union, norm, union

from pmldesign.workloads import DenseWorkload, KroneckerWorkload, UnionWorkload, parse_workload
from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator
from pmldesign_solvers.structure import common_eigenspaces, distinct_columns, is_even
from pmldesign_solvers.unions import (
    Basis,
    BlockDesign,
    BlockProblem,
    ProductDesign,
    whole_unions,
)
from pmldesign_solvers.unions import bounds as product_bounds
from pmldesign_solvers.unions import solve as unions

SYMMETRIC = (
    "prefix:6*histogram:4+histogram:6*total:4",
    "prefix:8*total:5+histogram:8*total:5",  # nothing is asked about the second attribute
    "prefix:8*total:3+total:8*histogram:3",  # of the second block only a total
    "histogram:3*prefix:5*total:2+total:3*histogram:5*histogram:2+total:3*prefix:5*total:2",
    "prefix:5*histogram:3*histogram:2+histogram:5*total:3*histogram:2+prefix:5*total:3*total:2",
    "all-range:5*total:1+histogram:5*histogram:1",
    "total:4*prefix:8+histogram:4*haar:8+histogram:4*prefix:8",
)


@pytest.mark.sweep
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("text", SYMMETRIC)
def test_the_norm_is_that_of_the_matrix(text, p):
    one = union(text)
    found = unions.solve(*one.arguments, p)
    assert isinstance(found.strategy, BlockDesign)
    assert found.status is Status.OPTIMAL
    assert found.certificate.gap <= 1e-6
    assert_certified(found, one, p)
    assert found.certificate.upper == pytest.approx(norm(text, p).upper, rel=2e-6)
    assert found.certificate.lower <= norm(text, p).upper
    assert found.certificate.upper >= norm(text, p).lower
    # both bounds from the matrix written out
    R, B = written_out(found.strategy)
    lower = dual_value(one.dense, found.dual_u, found.dual_w, p)
    assert lower >= found.certificate.lower * (1 - 1e-12)
    assert factorization_value(R, one.dense @ B, p) <= lower * (1 + 1.1e-6)


@st.composite
def symmetric_unions(draw):
    """Anything on one attribute; a histogram, a total, or both in any proportion on the others."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    others = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    n, index = draw(st.integers(1, 4)), draw(st.integers(0, len(others)))
    parts = []
    for _ in range(draw(st.integers(2, 3))):
        factors = []
        for size in others:
            kind = draw(st.sampled_from(["histogram", "total", "mixed"]))
            matrix = {
                "histogram": np.eye(size),
                "total": np.ones((1, size)),
                "mixed": np.eye(size) * rng.uniform(0.5, 2) + rng.uniform(0, 1) / size,
            }[kind]
            factors.append(DenseWorkload(matrix))
        free = rng.normal(size=(draw(st.integers(1, 5)), n))
        factors.insert(index, DenseWorkload(free))
        parts.append(KroneckerWorkload(factors))
    return Union(UnionWorkload(parts)), rng


@given(symmetric_unions(), st.sampled_from(EXPONENTS))
def test_random_symmetric_unions(given_union, p):
    one, _ = given_union
    found = unions.solve(*one.arguments, p)
    assert_encloses_the_norm(found, one, p)
    assert (found.status is Status.OPTIMAL) == (found.certificate.gap <= 1e-6)
    assert found.certificate.gap <= 1e-4


@given(symmetric_unions(), st.sampled_from(EXPONENTS), st.sampled_from([0.0, 1e-6, 1e-2]))
def test_the_upper_bound_holds_for_any_arrays(given_union, p, size):
    one, rng = given_union
    found = unions.solve(*one.arguments, p, options=SolverOptions(rel_gap=0.1))
    if not isinstance(found.strategy, BlockDesign):
        return
    lower = solve_norm(DenseOperator(one.dense), p).certificate.lower

    def noisy(matrix):
        return matrix + size * rng.normal(size=matrix.shape) * np.abs(matrix).max()

    blocks = [Basis(noisy(one.matrix), noisy(one.inverse)) for one in found.strategy.blocks]
    bases = tuple(noisy(basis) for basis in found.strategy.bases)
    combinations = found.strategy.combinations.copy()
    if size and rng.random() < 0.5:
        combinations.flat[rng.integers(combinations.size)] = -1  # does not answer everything
    other = replace(found.strategy, blocks=blocks, bases=bases, combinations=combinations)
    assert other.upper_bound(one.parts, p) >= lower * (1 - 1e-12)
    R, B = written_out(found.strategy)
    value = factorization_value(R, one.dense @ B, p)
    assert value * (1 - 1e-13) <= found.strategy.upper_bound(one.parts, p) <= value * (1 + 1e-9)


@pytest.mark.parametrize("p", EXPONENTS)
def test_uneven_rows_leave_the_choice_to_the_better_strategy(p):
    # differences of Haar wavelets vary in length: at p = 2 only their sum counts
    text = "prefix:3*haar:4+histogram:3*total:4"
    one = union(text)
    assert [problem.exact for problem in whole_unions(one.parts, p, 0.0)] == [p == 2]
    found = unions.solve(*one.arguments, p)
    assert_certified(found, one, p)
    assert found.certificate.lower <= norm(text, p).upper
    assert found.certificate.upper >= norm(text, p).lower
    assert (found.status is Status.OPTIMAL) == (p == 2)
    assert found.certificate.gap < 0.06


def test_what_has_no_strategy_of_blocks():
    for text in ("prefix:4*prefix:3+histogram:4*total:3", "prefix:3*prefix:3+prefix:3*histogram:3"):
        one = union(text)
        assert list(whole_unions(one.parts, 2.0, 0.0)) == []
        found = unions.solve(*one.arguments, 2.0, options=SolverOptions(rel_gap=0.02))
        assert isinstance(found.strategy, ProductDesign)


def test_blocks_that_are_too_many_are_left_to_a_product_basis(monkeypatch):
    one = union(SYMMETRIC[0])
    monkeypatch.setattr(product_bounds, "WHOLE_COST", 2 * 6**3)
    assert len(list(whole_unions(one.parts, 2.0, 0.0))) == 1
    monkeypatch.setattr(product_bounds, "WHOLE_COST", 2 * 6**3 - 1)
    assert list(whole_unions(one.parts, 2.0, 0.0)) == []
    assert isinstance(unions.solve(*one.arguments, 2.0).strategy, ProductDesign)


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_product_basis_can_be_insisted_on(p):
    one = union(SYMMETRIC[0])
    options = SolverOptions(rel_gap=0.02)
    found = unions.solve(*one.arguments, p, product=True, options=options)
    assert isinstance(found.strategy, ProductDesign)
    assert_certified(found, one, p)
    assert found.certificate.lower <= norm(SYMMETRIC[0], p).upper


@pytest.mark.parametrize("max_steps", [1, 2, 7])
def test_the_steps_are_limited(max_steps):
    one = union(SYMMETRIC[4])
    found = unions.solve(*one.arguments, np.inf, options=SolverOptions(max_steps=max_steps))
    assert found.status is Status.ITERATION_LIMIT
    assert found.steps == max_steps
    assert_certified(found, one, np.inf)


def test_out_of_time_after_the_first_strategy():
    one = union(SYMMETRIC[4])
    found = unions.solve(*one.arguments, 4.0, options=SolverOptions(deadline=Deadline(1e-9)))
    assert found.status is Status.TIME_LIMIT
    assert found.steps == 1
    assert_certified(found, one, 4.0)


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_ctrl_c_keeps_the_best(calls):
    one = union(SYMMETRIC[4])
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == calls:
            raise KeyboardInterrupt

    found = unions.solve(*one.arguments, np.inf, options=SolverOptions(callback=interrupt))
    assert found.status is Status.INTERRUPTED
    assert_certified(found, one, np.inf)
    assert found.certificate.upper <= seen[-1].upper
    assert found.certificate.lower >= seen[-1].lower


@pytest.mark.parametrize("name", ["design", "lower_bound", "expand"])
def test_ctrl_c_between_the_two_bounds_leaves_no_strategy_without_a_lower_one(name, monkeypatch):
    """Again and again: a bound of 0 with weights that prove more is not what a file may say."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockProblem, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        unions.solve(*union(SYMMETRIC[0]).arguments, 4.0)


def test_the_bounds_that_are_reported_only_get_better():
    one = union(SYMMETRIC[4])
    seen = []
    found = unions.solve(*one.arguments, np.inf, options=SolverOptions(callback=seen.append))
    assert [step.number for step in seen] == list(range(1, found.steps + 1))
    for before, after in pairwise(seen):
        assert before.lower <= after.lower
        assert before.upper >= after.upper
    assert (seen[-1].lower, seen[-1].upper) == (found.certificate.lower, found.certificate.upper)


def test_a_gap_below_rounding_ends_in_a_stall():
    one = union(SYMMETRIC[0])
    found = unions.solve(*one.arguments, 4.0, options=SolverOptions(rel_gap=1e-15))
    assert found.status is Status.STALLED
    assert found.certificate.gap < 1e-11
    assert_certified(found, one, 4.0)


def test_the_scale_of_the_workload_is_that_of_the_bounds():
    one = union(SYMMETRIC[0])
    expected = unions.solve(*one.arguments, 4.0).certificate
    for scale in (1e-90, 1e90):
        parts = [
            KroneckerWorkload([DenseWorkload(scale * part[0].to_dense()), *part[1:]])
            for part in one.parts
        ]
        found = unions.solve(*Union(UnionWorkload(parts)).arguments, 4.0)
        assert found.status is Status.OPTIMAL
        assert found.certificate.upper == pytest.approx(scale * expected.upper, rel=2e-6)


def test_histograms_and_totals_have_even_eigenspaces_of_contrasts():
    found = common_eigenspaces([parse_workload("histogram:4"), parse_workload("total:4")])
    assert found is not None
    spaces, values = found
    order = np.argsort(values[1])
    np.testing.assert_allclose(values[:, order], [[1, 1], [0, 4]], atol=1e-11)
    np.testing.assert_allclose(spaces.vectors.T @ spaces.vectors, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(spaces.diagonals[:, order], [[0.75, 0.25]] * 4, atol=1e-14)
    assert is_even(spaces.diagonals)
    # each contrast compares one value with those before it
    contrasts = spaces.vectors[:, spaces.labels == order[0]]
    assert sorted((np.abs(contrasts) > 1e-9).sum(axis=0)) == [2, 3, 4]
    shares = spaces.shares(parse_workload("histogram:4"))
    np.testing.assert_allclose(shares, spaces.diagonals, atol=1e-14)


def test_matrices_that_do_not_commute_have_no_common_eigenspaces():
    assert common_eigenspaces([parse_workload("prefix:4"), parse_workload("total:4")]) is None
    found = common_eigenspaces([parse_workload("prefix:4"), parse_workload("histogram:4")])
    assert found is not None
    assert not is_even(found[0].diagonals)


def test_columns_that_differ_by_rounding_are_one_rounded_down():
    values = np.array([[1.0, 1 - 3e-16, 0.5, 1e-14], [2.0, 2 + 4e-16, 0.0, 1e-15]])
    distinct, labels = distinct_columns(values)
    assert distinct.shape == (2, 3)
    assert labels[0] == labels[1]
    assert (distinct[:, labels] <= values).all()
    np.testing.assert_array_equal(distinct[:, labels[3]], [0.0, 0.0])
    np.testing.assert_allclose(distinct[:, labels], values, rtol=0, atol=1e-11)
    assert math.isclose(distinct[0, labels[0]], 1.0)
