"""compare(): every row is what its mechanism says, in the order asked for."""

import math

import numpy as np
import pytest
from scipy import integrate

import pmldesign.comparison.parallel
import pmldesign.strategies.base
from pmldesign.comparison import compare, compare_all
from pmldesign.designs import flow, solve
from pmldesign.designs.laplace import search as laplace_search
from pmldesign.error_bounds import all_bounds
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ZCDP, ApproxDP, EnvelopePML, PureDP
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import parse_workload

NAMES = ["tree", "tree:3", "haar", "identity", "workload", "square-root"]


@pytest.mark.parametrize("guarantee", [None, PureDP(0.5), ApproxDP(1.0, 1e-6), PML(1.0, 0.05)])
def test_rows_are_those_of_the_mechanisms(guarantee):
    workload = parse_workload("prefix:9")
    shown = compare(workload, strategies=NAMES, p=[2, 4, math.inf], guarantee=guarantee)
    expected = [(p, name) for p in (2.0, 4.0, math.inf) for name in NAMES]
    assert [(row.p, row.strategy) for row in shown.rows] == expected
    for row in shown.rows:
        made = mechanism(baseline(row.strategy, workload), workload, guarantee=guarantee, p=row.p)
        assert (row.noise, row.scale) == (made.noise.value, made.scale)
        assert (row.sensitivity, row.error) == (made.sensitivity, made.error(row.p))
        assert (row.rmse, row.max_std) == (made.rmse, made.max_std)
        best = min(other.error for other in shown.rows if other.p == row.p)
        assert row.ratio == row.error / best
    assert shown.designs == {}


def moment_root(p):
    """(E |N(0, 1)|^p)^(1/p), by integration: the error of one query with unit noise."""
    moment = integrate.quad(lambda x: x**p * math.exp(-(x**2) / 2), 0, math.inf)[0]
    return (moment * math.sqrt(2 / math.pi)) ** (1 / p)


def test_the_optimum_is_designed_for_every_p():
    shown = compare("prefix:8", strategies=["least-norm", "tree"], p=(2, 4))
    assert set(shown.designs) == {2.0, 4.0}
    for p, made in shown.designs.items():
        row = next(row for row in shown.rows if (row.strategy, row.p) == ("least-norm", p))
        assert row.error == pytest.approx(moment_root(p) * made.certificate.upper, rel=1e-9)
        # designed for this p: at the other one it is no better than the optimum there
        other = mechanism(made.strategy, parse_workload("prefix:8")).error(6 - p)
        best = moment_root(6 - p) * shown.designs[6 - p].certificate.lower
        assert other >= best * (1 - 1e-12)


def test_strategies_of_the_caller():
    mine = Strategy("mine", 3 * np.eye(5))
    shown = compare(np.tril(np.ones((5, 5))), strategies=[mine, "identity"], p=3)
    assert [row.strategy for row in shown.rows] == ["mine", "identity"]
    assert shown.rows[0].error == pytest.approx(shown.rows[1].error, rel=1e-12)
    assert shown.rows[0].sensitivity == 3


def test_rows_convert_to_the_documented_keys():
    row = compare("prefix:3", strategies=["identity"]).rows[0]
    assert list(row.to_json()) == [
        "name",
        "p",
        "noise",
        "sensitivity",
        "scale",
        "error",
        "rmse",
        "max_std",
        "ratio",
    ]


def test_what_cannot_be_compared_is_refused_before_any_design(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("the design began before the arguments were checked")

    monkeypatch.setattr(flow, "solve", refuse)
    part = Strategy("part", np.eye(4)[:3])
    for strategies, options, error, words in [
        (["least-norm", part], {}, InvalidInputError, "cannot answer row 3"),
        (["least-norm", "oak"], {}, InvalidInputError, "strategy must be one of"),
        ([], {}, InvalidInputError, "nothing to compare"),
        (["least-norm"], {"p": []}, InvalidInputError, "nothing to compare"),
        (["least-norm"], {"p": [2, 1]}, InvalidInputError, "p must be in"),
        (["least-norm"], {"guarantee": PML(2.4, 0.1)}, VacuousGuaranteeError, "nobody"),
        (["least-norm"], {"neighbours": "both"}, InvalidInputError, "neighbours must be"),
    ]:
        with pytest.raises(error, match=words):
            compare("prefix:4", strategies=strategies, **options)


GUARANTEES = (None, PureDP(0.5), ApproxDP(1.0, 1e-6), PML(1.0, 0.05), ApproxDP(2.0, 1e-9))


def test_all_combinations_are_those_of_single_comparisons():
    names = ["least-norm", "tree", "eigen-design"]
    workloads = ["prefix:4", "prefix:2*histogram:3"]
    found = compare_all(workloads, names, p=[2, 3, math.inf], guarantees=GUARANTEES)
    single = [
        compare(workload, strategies=names, p=[2, 3, math.inf], guarantee=guarantee)
        for workload in workloads
        for guarantee in GUARANTEES
    ]
    assert [one.rows for one in found] == [one.rows for one in single]
    assert [one.guarantee for one in found] == [*GUARANTEES] * 2
    assert {one.workload.name for one in found} == {*workloads}


def test_every_norm_is_solved_once(monkeypatch):
    solved = []

    def counted(workload, p, options):
        solved.append((workload.name, p, options.neighbours.value))
        return solve(workload, p, options)

    monkeypatch.setattr(flow, "solve", counted)
    compare_all(["prefix:4", "prefix:8"], ["least-norm"], p=[2, 4], guarantees=GUARANTEES)
    # PML speaks of replace, the others of add-remove
    assert len(solved) == len(set(solved)) == 2 * 2 * 2


def test_pseudo_inverses_are_computed_once_for_all_p_and_guarantees(monkeypatch):
    counted = []
    inverted = pmldesign.strategies.base.inverted
    monkeypatch.setattr(
        pmldesign.strategies.base, "inverted", lambda *R: counted.append(1) or inverted(*R)
    )
    guarantees = [None, PureDP(0.5), ApproxDP(1.0, 1e-6)]
    compare_all(["prefix:8"], ["haar", "square-root"], p=[2, 3, 4, 8], guarantees=guarantees)
    assert len(counted) == 1  # the inverse of one of them is known


def test_norm_of_a_row_is_its_error_without_noise_and_guarantee():
    shown = compare(
        "prefix:8", strategies=["least-norm", "tree"], p=[2, 5, math.inf], noise="gaussian"
    )
    for row in shown.rows:
        c = 1.0 if math.isinf(row.p) else moment_root(row.p)
        assert row.error == pytest.approx(c * row.norm, rel=1e-9)
        bracket = shown.designs[row.p].certificate
        assert row.norm >= bracket.lower
        if row.strategy == "least-norm":
            assert row.norm == pytest.approx(bracket.upper, rel=1e-9)
        assert row.class_bound == pytest.approx(c * bracket.lower, rel=1e-9)
        assert row.lower_bound is None
        assert row.over_class_bound == row.error / row.class_bound


@pytest.mark.sweep
@pytest.mark.parametrize(
    "guarantee", [PureDP(0.5), ApproxDP(0.5, 1e-4), PML(0.5, 0.01), EnvelopePML(0.5, 1e-6, 0.01)]
)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_lower_bounds_of_rows_are_those_of_the_bounds(guarantee, noise):
    if noise == "gaussian" and isinstance(guarantee, PureDP | PML):
        noise = "auto"
    workload = parse_workload("prefix:6")
    shown = compare(
        workload, strategies=["least-norm", "identity"], p=[2, 4], guarantee=guarantee, noise=noise
    )
    for row in shown.rows:
        norm = shown.designs[row.p].certificate
        listed = {
            bound.name: bound
            for bound in all_bounds(
                workload,
                norm_lower=norm.lower,
                norm_upper=norm.upper,
                p=row.p,
                guarantee=guarantee,
            )
        }
        every = [
            bound.value
            for bound in listed.values()
            if bound.kind == "lower"
            and bound.holds
            and "cells of real values" not in bound.mechanisms
            and bound.mechanisms.startswith(("every", "additive noise that"))
        ]
        assert row.lower_bound == max(every)
        name = {"gaussian": "Gaussian mechanisms", "laplace": "Laplace matrix mechanisms"}
        assert row.class_bound == listed[name[row.noise]].value
        assert row.lower_bound <= row.error
        assert row.class_bound is None or row.class_bound <= row.error


def test_without_a_design_there_are_no_bounds():
    rows = compare("prefix:4", strategies=["tree"], guarantee=PureDP(1.0)).rows
    assert [(row.lower_bound, row.over_lower_bound, row.class_bound) for row in rows] == [
        (None, None, None)
    ]


def test_records_have_every_column():
    row = compare(
        "prefix:3", strategies=["least-norm"], guarantee=EnvelopePML(0.5, 1e-3, 0.1)
    ).rows[0]
    record = row.to_record()
    assert (record["workload"], record["epsilon"], record["delta"]) == ("prefix:3", 0.5, 1e-3)
    assert record["alpha"] == 0.1
    assert {**record, **row.to_json()} == record
    assert record["over_lower_bound"] == row.error / row.lower_bound
    plain = compare("prefix:3", strategies=["tree"]).rows[0].to_record()
    assert [plain[key] for key in ("epsilon", "delta", "alpha", "lower_bound")] == [None] * 4


def test_strategies_that_cannot_answer_are_left_out_where_that_is_allowed():
    part = Strategy("part", np.eye(4)[:3])
    workloads = ["prefix:4", np.eye(3, 4)]
    with pytest.raises(InvalidInputError, match="cannot answer row 3"):
        compare_all(workloads, ["tree", part])
    first, second = compare_all(workloads, ["tree", part], leave_out=True)
    assert [row.strategy for row in first.rows] == ["tree"]
    assert len(first.left_out) == 1
    assert "'part' cannot answer row 3" in first.left_out[0]
    assert [row.strategy for row in second.rows] == ["tree", "part"]
    assert second.left_out == ()
    with pytest.raises(InvalidInputError, match="cannot answer row 3"):
        compare_all(workloads, [part], leave_out=True)


def test_several_processes_give_the_same_rows():
    arguments = (["prefix:2", "prefix:3"], ["least-norm", "tree", "haar"])
    options = {"p": [2], "guarantees": [None, PML(1.0, 0.05)]}
    said = []
    one = compare_all(*arguments, **options, announce=said.append)
    two = compare_all(*arguments, **options, jobs=2)
    assert [c.rows for c in one] == [c.rows for c in two]
    assert said == [f"table {number} of 4 is done" for number in (1, 2, 3, 4)]
    for a, b in zip(one, two, strict=True):
        assert a.designs.keys() == b.designs.keys()
        for p in a.designs:
            assert np.array_equal(a.designs[p].strategy.matrix, b.designs[p].strategy.matrix)
            assert b.designs[p].workload is b.workload


def test_jobs_are_checked(monkeypatch):
    for jobs in (0, -1, 1.5, "2"):
        with pytest.raises(InvalidInputError, match="jobs must be a whole number of at least 1"):
            compare_all(["prefix:4"], ["tree"], jobs=jobs)
    monkeypatch.setattr(pmldesign.errors, "find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=r"pip install '\.\[jobs\]'"):
        compare_all(["prefix:4"], ["tree"], jobs=2)
    assert compare_all(["prefix:4"], ["tree"], jobs=1)[0].rows


def test_the_limit_of_time_covers_the_searches_of_a_design(monkeypatch):
    limits = []
    search = laplace_search.laplace_design

    def recorded(*arguments, time_limit, **options):
        limits.append(time_limit)
        return search(*arguments, time_limit=time_limit, **options)

    monkeypatch.setattr(laplace_search, "laplace_design", recorded)
    compare("prefix:3", strategies=["design"], guarantee=PureDP(1.0), time_limit=1e6)
    assert 0 < limits[0].left() <= 1e6


def test_an_interrupted_design_is_the_last():
    def interrupt(step):
        raise KeyboardInterrupt

    first, second = compare_all(
        ["prefix:16", "prefix:32"],
        ["tree", "least-norm"],
        p=[2, 4],
        guarantees=[None, PureDP(1.0)],
        callback=interrupt,
    )
    # the first design, with its true bounds, under both guarantees; nothing of the rest
    assert first.interrupted
    for one in (first, second):
        assert one.workload.name == "prefix:16"
        assert [(row.strategy, row.p) for row in one.rows] == [("tree", 2.0), ("least-norm", 2.0)]
        assert one.designs[2.0].status.name == "INTERRUPTED"


@pytest.mark.parametrize("after", [0, 1, 2])
def test_ctrl_c_between_tables_keeps_what_is_finished(after, monkeypatch):
    solved = []

    def stopped(*arguments):
        if len(solved) == after:
            raise KeyboardInterrupt
        solved.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(flow, "solve", stopped)

    def work():
        return compare_all(["prefix:4"], ["tree", "haar", "least-norm"], p=[2, 4, math.inf])

    if after == 0:
        with pytest.raises(KeyboardInterrupt):
            work()
        return
    (shown,) = work()
    assert shown.interrupted
    assert {row.p for row in shown.rows} == ({2.0} if after == 1 else {2.0, 4.0})
    assert len(shown.rows) == 3 * after


def test_rows_say_what_their_noise_satisfies():
    for guarantee in (ApproxDP(1, 1e-6), ZCDP(0.3), PML(1, 0.1)):
        table = compare("prefix:6", strategies=["tree", "identity"], guarantee=guarantee)
        for row, record in zip(table.rows, table.to_records(), strict=True):
            noisy = mechanism(row.strategy, "prefix:6", guarantee=guarantee, noise=row.noise)
            assert record["satisfied_rho"] == noisy.privacy.rho
            assert record["satisfied_mu"] == noisy.privacy.mu
            pure = None if row.noise == "gaussian" else noisy.privacy.pure
            assert record["satisfied_epsilon"] == pure
    plain = compare("prefix:6", strategies=["tree"]).to_records()[0]
    assert plain["satisfied_rho"] is plain["satisfied_epsilon"] is None
