"""Blocks of cells, for workloads that are too large for one matrix in the time that there is."""

import numpy as np
import pytest

from pmldesign.workloads import as_workload
from pmldesign_solvers.certificate import lower_bound, upper_bound
from pmldesign_solvers.norm import SolverOptions, Status, solve_norm
from pmldesign_solvers.operators import DenseOperator, MergedWorkload, power_mean
from pmldesign_solvers.unions import cell_blocks

RNG = np.random.default_rng(5)
TREE = np.vstack([np.ones(12), np.kron(np.eye(3), np.ones(4)), np.eye(12)])
IDLE = np.repeat(RNG.integers(0, 2, (14, 5)), 3, axis=1) * (np.arange(15) != 7)
MATRICES = {
    "tree": TREE,
    "window": np.tri(16) - np.tri(16, k=-3),
    "running sums": np.tri(11),
    "wide": RNG.standard_normal((4, 13)),
    "equal and idle cells": IDLE.astype(float),
    "one query": np.arange(1.0, 7)[None, :],
    "a zero query": np.vstack([np.tri(6), np.zeros(6)]),
}


@pytest.fixture
def slow(monkeypatch):
    """A processor on which one step on a matrix of 8 x 8 takes a second."""
    for speed in ("CUBES", "PRODUCTS"):
        monkeypatch.setattr(f"pmldesign_solvers.norm.solution.{speed}", 8.0**3)


def in_blocks(matrix, p, limit=1.0):
    operator = DenseOperator(matrix)
    return cell_blocks.solve_in_blocks(
        MergedWorkload(operator), p, SolverOptions(time_limit=limit, max_steps=30)
    )


@pytest.mark.sweep
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
@pytest.mark.parametrize("name", MATRICES)
def test_both_bounds_hold(name, p):
    """They enclose the norm, and are those of the arrays that come with them."""
    matrix = MATRICES[name]
    operator, found = DenseOperator(matrix), in_blocks(matrix, p)
    best, bounds = solve_norm(operator, p).certificate, found.certificate
    assert bounds.lower <= best.upper
    assert bounds.upper >= best.lower
    reconstruction = matrix @ found.right_inverse
    np.testing.assert_allclose(reconstruction @ found.strategy, matrix, atol=1e-9)
    variances = np.einsum("ij,ij->i", reconstruction, reconstruction)
    sensitivity = np.sqrt((found.strategy**2).sum(axis=0).max())
    assert bounds.upper >= np.sqrt(power_mean(variances, p / 2)) * sensitivity * (1 - 1e-14)
    assert bounds.upper == pytest.approx(
        upper_bound(operator, found.strategy, found.right_inverse, p), rel=1e-9
    )
    assert bounds.lower <= lower_bound(operator, found.dual_u, found.dual_w, p) * (1 + 1e-12)
    assert found.dual_w.sum() == pytest.approx(1.0)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
def test_blocks_that_no_query_crosses_are_best(p):
    """The norm of a direct sum is the p-norm of the norms."""
    parts = [np.tri(8), 2 * np.tri(8)]
    found = in_blocks(np.kron(np.diag([1.0, 2.0]), np.tri(8)), p, limit=13.0)
    alone = [solve_norm(DenseOperator(part), p).certificate.lower for part in parts]
    assert found.certificate.lower == pytest.approx(power_mean(np.array(alone), p), rel=1e-5)
    assert found.certificate.gap < 1e-5


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("exponent", [-660, 660])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_very_large_and_very_small_entries_change_the_scale_alone(relation, exponent):
    matrix = np.vstack([TREE, RNG.standard_normal((9, 12))])
    operator, options = DenseOperator(np.ldexp(matrix, exponent)), SolverOptions(time_limit=0.1)
    found = cell_blocks.solve_in_time(operator, 2.0, relation=relation, options=options)
    best = solve_norm(DenseOperator(matrix), 2.0, relation=relation).certificate
    lower, upper = np.ldexp([found.certificate.lower, found.certificate.upper], -exponent)
    assert 0.5 * best.upper <= lower <= best.upper
    assert best.lower <= upper <= 2 * best.lower


@pytest.mark.usefixtures("slow")
def test_only_what_takes_too_long_is_cut():
    """A step on 12 cells takes 4.5 s, which 4 s allow and 2 s do not, nor does no limit ask."""
    operator = DenseOperator(TREE)

    def status(limit, relation="add-remove"):
        options = SolverOptions(time_limit=limit)
        return cell_blocks.solve_in_time(operator, 2.0, relation=relation, options=options).status

    assert status(None) is Status.OPTIMAL
    assert status(4.0) is Status.OPTIMAL
    assert status(2.0) is Status.TIME_LIMIT
    assert status(14.0, "replace") is Status.TIME_LIMIT
    assert status(18.0, "replace") is Status.OPTIMAL


@pytest.mark.sweep
@pytest.mark.parametrize("limit", [0.1, 30.0])
@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
@pytest.mark.parametrize("name", MATRICES)
def test_under_replace_the_strategy_for_one_cell_is_evaluated(slow, monkeypatch, name, p, limit):
    """In blocks or not, its bounds enclose the norm for pairs, and are those of its arrays."""
    matrix = MATRICES[name]
    operator = DenseOperator(matrix)
    options = SolverOptions(time_limit=limit, max_steps=30)
    monkeypatch.setattr(cell_blocks, "PAIRS", np.inf)
    found = cell_blocks.solve_in_time(operator, p, relation="replace", options=options)
    best, bounds = solve_norm(operator, p, relation="replace").certificate, found.certificate
    assert bounds.lower <= best.upper
    assert bounds.upper >= best.lower
    cells = np.eye(matrix.shape[1])
    moves = (cells[:, None] - cells[None]).reshape(-1, matrix.shape[1]).T
    np.testing.assert_allclose(found.strategy.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.right_inverse.sum(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(
        found.right_inverse, np.linalg.pinv(found.strategy, rcond=1e-9), atol=1e-8
    )
    reconstruction = matrix @ found.right_inverse
    np.testing.assert_allclose(reconstruction @ found.strategy @ moves, matrix @ moves, atol=1e-9)
    distance = np.linalg.norm(found.strategy @ moves, axis=0).max()
    value = np.sqrt(power_mean((reconstruction**2).sum(axis=1), p / 2)) * distance
    assert value * (1 - 1e-12) <= bounds.upper <= value * (1 + 1e-8)
    assert bounds.lower <= lower_bound(operator, found.dual_u, found.dual_w, p) * (1 + 1e-12)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_ranges_take_no_longer_than_their_cells(relation, monkeypatch):
    """45,150 ranges of 300 cells: seconds as a matrix, a tenth of one without."""
    ranges = as_workload("all-range:300")
    monkeypatch.setattr(cell_blocks, "solve_in_blocks", None)
    options = SolverOptions(time_limit=1.0, max_steps=2)
    found = cell_blocks.solve_in_time(ranges, 2.0, relation=relation, options=options)
    assert 0 < found.certificate.lower <= found.certificate.upper
    if relation == "add-remove":
        assert found.certificate.gap <= 0.01


@pytest.mark.usefixtures("slow")
def test_equal_cells_are_merged_first():
    """40 cells of 2 kinds take no time."""
    operator = DenseOperator(np.repeat(np.tri(2), 20, axis=1))
    options = SolverOptions(time_limit=0.5)
    found = cell_blocks.solve_in_time(operator, 2.0, relation="add-remove", options=options)
    assert found.status is Status.OPTIMAL


def test_a_strategy_that_would_be_too_large_is_refused(slow, monkeypatch):
    """With the time that a step takes, and 144 entries of a strategy on 12 cells, at 0.1 s each."""
    monkeypatch.setattr(cell_blocks, "ASSEMBLED", 0.1)
    with pytest.raises(ValueError, match=r"takes about 4\.5 s, .* allow 29 s or more"):
        in_blocks(TREE, 2.0)
    assert in_blocks(TREE, 2.0, limit=14.0).strategy.shape == (12, 12)


def test_a_wide_matrix_leaves_time_for_its_inverse(monkeypatch):
    """Of 10 s, 12 s of them for the inverse and the certificate, 2 s are left for steps."""
    wide = MATRICES["wide"]
    monkeypatch.setattr(cell_blocks, "INVERTED", wide.shape[1] * wide.shape[0] ** 2 / 12.0)
    limits = []
    monkeypatch.setattr(
        cell_blocks, "solve_norm", lambda *_, options, **__: limits.append(options.time_limit)
    )
    for matrix in (wide, wide.T):
        options = SolverOptions(time_limit=10.0)
        cell_blocks.solve_in_time(
            DenseOperator(matrix), 2.0, relation="add-remove", options=options
        )
    assert limits == [2.0, 10.0]


def test_equal_cells_leave_time_for_the_certificate_of_all(monkeypatch):
    """Half of 12 s for the certificate of all cells, half of 6 s for those that differ: of 14 s."""
    wide = np.repeat(MATRICES["wide"], 2, axis=1)
    monkeypatch.setattr(cell_blocks, "INVERTED", wide.shape[1] * wide.shape[0] ** 2 / 12.0)
    monkeypatch.setattr(cell_blocks, "step_seconds", lambda _, n: 1e9 if n > 13 else 1.0)
    limits, found = [], solve_norm(DenseOperator(wide), 2.0)

    def recorded(*_, options, **__):
        limits.append(options.time_limit)
        return found

    monkeypatch.setattr(cell_blocks, "solve_norm", recorded)
    options = SolverOptions(time_limit=10.0)
    cell_blocks.solve_in_time(DenseOperator(wide), 2.0, relation="add-remove", options=options)
    assert limits == [5.0]


def test_a_wide_matrix_is_refused_with_the_time_that_is_enough_for_it_as_one():
    """A step on 500 x 20,000 takes 2.6 s, and its strategy 1.5 s; in blocks of cells it is 60 s."""
    matrix, options = np.broadcast_to(1.0, (500, 20000)), SolverOptions(time_limit=2.0)
    with pytest.raises(ValueError, match="about 60 s, far beyond the time limit; allow 9 s"):
        cell_blocks._parts(matrix, 20000, options)


def test_pairs_that_would_end_far_too_late_are_refused(monkeypatch):
    """8 s for all pairs are far beyond a limit of 2 s, and within one of 5 s."""
    monkeypatch.setattr(cell_blocks, "_first_step", lambda *_: 1e9)
    monkeypatch.setattr(cell_blocks, "PAIRED", 8.0 / TREE.shape[1] ** 3)
    found = solve_norm(DenseOperator(TREE), 2.0)
    monkeypatch.setattr(cell_blocks, "under_replace", lambda *_: found)
    monkeypatch.setattr(cell_blocks, "solve_in_blocks", lambda *_: None)

    def solved(limit):
        options = SolverOptions(time_limit=limit)
        return cell_blocks.solve_in_time(
            DenseOperator(TREE), 2.0, relation="replace", options=options
        )

    assert solved(5.0).strategy is found.strategy
    with pytest.raises(ValueError, match="take about 8 s, far beyond the time limit; allow 16 s"):
        solved(2.0)
