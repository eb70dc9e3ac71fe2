"""Errors and bounds beyond the solver: units, constants of rows, and totals that need no noise."""

import math

import numpy as np
import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.comparison import compare
from pmldesign.designs import factorize, laplace_design, promising
from pmldesign.error_bounds import kappa
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, ApproxPML, PureDP
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import RECORDS, DenseWorkload, given_invariants, near_one, parse_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.search import AddRemoveL1, ReplaceL1, SearchOptions, laplace

TRIANGLE = np.tril(np.ones((6, 6)))
OFFSETS = [0.0, 1e10, -1e12]


def result(matrix, *, p=2.0, neighbours="replace", guarantee=None):
    best = factorize(matrix, p=p, neighbours=neighbours)
    return best, mechanism(
        best.strategy, best.workload, neighbours=neighbours, guarantee=guarantee, p=p
    )


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
def test_a_constant_of_a_row_changes_nothing_under_replace(p, offset):
    best, plain = result(TRIANGLE, p=p)
    moved, other = result(TRIANGLE + offset, p=p)
    # the sixth query asks for the total
    assert other.standard_deviations == pytest.approx(plain.standard_deviations, rel=1e-4)
    assert other.error(p) == pytest.approx(plain.error(p), rel=1e-6)
    assert other.factorization.norm(p) == pytest.approx(moved.certificate.upper, rel=1e-6)
    # with one strategy, all digits
    same = mechanism(best.strategy, moved.workload, neighbours="replace", p=p)
    assert same.standard_deviations == pytest.approx(plain.standard_deviations, rel=1e-13)
    assert moved.reconstruction() @ moved.strategy.matrix == pytest.approx(
        best.reconstruction() @ best.strategy.matrix, abs=1e-9
    )


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_strategy_with_constants_in_its_rows(offset):
    plain, moved = (
        mechanism(Strategy("own", rows), parse_workload("prefix:6"), neighbours="replace")
        for rows in (TRIANGLE[:5], TRIANGLE[:5] + offset)
    )
    assert moved.sensitivity == pytest.approx(plain.sensitivity, rel=1e-13)
    assert moved.standard_deviations == pytest.approx(plain.standard_deviations, rel=1e-12)


@pytest.mark.parametrize(
    "guarantee", [PureDP(1.0, "replace"), PML(1.0, 0.1), ApproxPML(1.0, 1e-3, 0.1)]
)
def test_all_strategies_and_the_search_with_constants(guarantee, little_work):
    names = ["identity", "tree", "workload"]
    tables = [
        compare(TRIANGLE + offset, strategies=names, guarantee=guarantee, noise="laplace")
        for offset in OFFSETS[:2]
    ]
    plain, moved = ({row.strategy: row.error for row in table.rows} for table in tables)
    assert moved == pytest.approx(plain, rel=1e-9)
    searched = laplace_design(TRIANGLE + 1e10, guarantee)
    assert 0 < searched.mechanism.error(2.0) <= min(plain.values()) * (1 + 1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("scale", [2.0**-900, 2.0**-530, 2.0**66, 2.0**510, 2.0**1000])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("p", [2.0, 10.0, math.inf])
def test_errors_scale_with_the_workload(p, neighbours, scale):
    _, plain = result(TRIANGLE, p=p, neighbours=neighbours)
    best, scaled = result(scale * TRIANGLE, p=p, neighbours=neighbours)
    assert best.status is Status.OPTIMAL
    assert scaled.error(p) == pytest.approx(scale * plain.error(p), rel=1e-12)
    assert scaled.max_std == pytest.approx(scale * plain.max_std, rel=1e-12)
    assert scaled.standard_deviations / scale == pytest.approx(plain.standard_deviations, rel=1e-12)


def test_laplace_errors_scale_with_the_workload():
    identity = Strategy("identity", np.eye(6))
    plain, tiny = (
        mechanism(identity, DenseWorkload(scale * TRIANGLE), guarantee=PureDP(1.0), p=4.0)
        for scale in (1.0, 2.0**-900)
    )
    assert tiny.error(4.0) == pytest.approx(2.0**-900 * plain.error(4.0), rel=1e-12)


def test_rows_of_very_different_size_keep_their_deviations():
    rows = np.array([[1e154, 0.0], [0.0, 1e-154]])
    made = mechanism(Strategy("identity", np.eye(2)), DenseWorkload(rows))
    assert made.standard_deviations == pytest.approx([1e154, 1e-154])
    assert made.error(2.0) == pytest.approx(1e154)


def test_errors_that_are_no_numbers_are_refused():
    made = mechanism(Strategy("identity", np.eye(64)), DenseWorkload(np.full((64, 64), 1e307)))
    with pytest.raises(InvalidInputError, match="outside the range of float64; rescale"):
        made.error(2.0)


def test_marginals_in_a_product_under_replace():
    best = factorize("marginals:3,3,ways=1*prefix:240", neighbours="replace", rel_gap=0.2)
    assert 0 < best.certificate.lower <= best.certificate.upper
    made = mechanism(best.strategy, best.workload, neighbours="replace")
    assert made.error(2.0) == pytest.approx(best.certificate.upper, rel=1e-6)


def test_a_total_among_many_cells_is_nothing_without_it():
    workload = parse_workload("marginals:16,16,ways=0*prefix:9")
    x = np.random.default_rng(0).standard_normal(workload.shape[1])
    answers = given_invariants(workload, RECORDS).matvec(x)
    assert answers[-1] == 0
    assert answers == pytest.approx(workload.matvec(x - x.mean()), abs=1e-9)
    assert (answers[:-1] != 0).all()


def test_dual_weights_of_a_product_with_marginals_have_one_entry_for_each_query():
    best = factorize("marginals:3,2,ways=1*prefix:4", p=3.0)
    m, n = best.workload.shape
    assert best.dual_u.shape == (m,)
    assert best.dual_w.shape == (n,)
    assert (best.dual_u**3).sum() == pytest.approx(1.0)  # q = p/(p - 2) = 3
    assert best.dual_w.sum() == pytest.approx(1.0)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "text", ["total:4", "histogram:1", "prefix:4*total:2", "marginals:3,3,ways=0", "total:1"]
)
@pytest.mark.parametrize("guarantee", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_one_number_needs_no_search(text, guarantee, little_work):
    # warnings are errors here
    found = laplace_design(text, guarantee)
    assert math.isfinite(found.mechanism.error(2.0))


def test_the_command_shows_errors_beside_constants(tmp_path):
    path = tmp_path / "off.csv"
    path.write_text("10000000001,10000000000,10000000000\n10000000001,10000000001,10000000000\n")
    shown = CliRunner().invoke(main, ["optimize", str(path), "--neighbours", "replace"])
    assert shown.exit_code == 0
    options = ["--neighbours", "replace", "--epsilon", "1", "--delta", "1e-6"]
    bounds = CliRunner().invoke(main, ["bounds", str(path), *options])
    assert bounds.exit_code == 0
    # the answers themselves: sensitivity 2^(1/2), two queries, 4.22468 for each unit of noise
    upper = next(line for line in bounds.output.splitlines() if line.startswith("Gaussian on the"))
    assert "8.44936" in upper
    # identity: errors of e_1 - mean and e_1 + e_2 - mean, each (2/3)^(1/2) of sensitivity 2^(1/2)
    row = next(line.split() for line in shown.output.splitlines() if line.startswith("identity"))
    assert row[4:7] == ["1.63299", "1.1547", "1.1547"]


@pytest.mark.parametrize("rule", [AddRemoveL1(1.0), ReplaceL1(1.0)])
def test_searches_do_not_see_the_scale(rule):
    def solved(factor):
        steps = []
        options = SearchOptions(restarts=0, callback=steps.append)
        found = laplace.solve(
            DenseWorkload(factor * TRIANGLE[:2, :2]), 2.0, scale=rule, options=options
        )
        return found, steps

    plain, _ = solved(1.0)
    for scale in (2.0**-600, 2.0**600):
        far, steps = solved(scale)
        assert far.error == pytest.approx(scale * plain.error, rel=1e-12)
        np.testing.assert_array_equal(far.strategy, plain.strategy)
        assert all(0.1 * scale < step.error < 100 * scale for step in steps)


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**600])
def test_bounds_and_baselines_scale_with_the_workload(scale):
    # no prefix sums, for which kappa is known
    plain, far = DenseWorkload(0.75 * TRIANGLE), DenseWorkload(scale * 0.75 * TRIANGLE)
    assert kappa(far) == pytest.approx(scale * kappa(plain), rel=1e-12)
    for name in ("eigen-design", "weighted-tree"):
        matrices = [baseline(name, workload).matrix for workload in (plain, far)]
        np.testing.assert_allclose(matrices[1], matrices[0], rtol=1e-12)
    scaled, exponent = near_one(far)
    np.testing.assert_array_equal(np.ldexp(scaled.to_dense(), exponent), far.to_dense())
    assert near_one(plain) == (plain, 0)


def test_errors_beyond_float64_are_refused():
    made = mechanism(
        Strategy("identity", np.eye(1)), DenseWorkload(np.array([[1e308]])), guarantee=PureDP(0.1)
    )
    for value in (lambda: made.error(2.0), lambda: made.rmse, lambda: made.max_std):
        with pytest.raises(InvalidInputError, match="rescale the workload"):
            value()


def test_which_strategies_are_promising_does_not_hang_on_units():
    candidates = [baseline(name, DenseWorkload(TRIANGLE)) for name in ("identity", "tree", "haar")]
    names = []
    for exponent in (0, 990):
        best = mechanism(
            "identity", DenseWorkload(np.ldexp(TRIANGLE, exponent)), guarantee=PureDP(1.0)
        )
        names.append([strategy.name for strategy in promising(candidates, best, 2.0)])
    assert names[0] == names[1]
    assert names[0] != [strategy.name for strategy in candidates]
