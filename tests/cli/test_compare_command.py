"""pmldesign compare: rows, files and pictures."""

import contextlib
import csv
import dataclasses
import json
import math
import re

import numpy as np
import pytest

import pmldesign.cli.compare
import pmldesign.comparison.comparison
import pmldesign.strategies.baselines.registry
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import BASELINES
from pmldesign_solvers.norm import Step

ALL = "least-norm,tree,tree:4,haar,identity,workload,square-root"


def test_json_has_the_documented_keys_and_one_row_for_every_p_and_strategy(run):
    shown = run.json("compare", "prefix:16", "--p", "2,4,inf", "--strategies", ALL)
    keys = {"workload", "queries", "cells", "guarantee", "guarantee_numbers", "strategies"}
    assert set(shown) == keys | {"norms", "left_out"}
    assert [(row["p"], row["name"]) for row in shown["strategies"]] == [
        (p, name) for p in (2.0, 4.0, "inf") for name in ALL.split(",")
    ]
    assert [set(norm) for norm in shown["norms"]] == [{"p", "lower", "upper", "gap", "status"}] * 3
    for norm, gamma in zip(shown["norms"], (6.7576147, 3.3847245, 1.7044802), strict=True):
        assert norm["lower"] <= gamma * (1 + 1e-7)
        assert norm["upper"] >= gamma * (1 - 1e-7)


def test_without_a_guarantee_the_design_is_the_best_and_attains_the_norm(run):
    shown = run.json("compare", "prefix:16", "--p", "2,5,inf", "--strategies", ALL)
    for norm in shown["norms"]:
        rows = [row for row in shown["strategies"] if row["p"] == norm["p"]]
        p = math.inf if norm["p"] == "inf" else norm["p"]
        # c_p = (E |N(0, 1)|^p)^(1/p); the error is sigma c_p gamma with sigma = sensitivity = 1
        c = 1.0
        if p < math.inf:
            c = (2 ** (p / 2) * math.gamma((p + 1) / 2) / math.sqrt(math.pi)) ** (1 / p)
        assert rows[0]["error"] == pytest.approx(c * norm["upper"], rel=1e-9)
        assert min(rows, key=lambda row: row["error"]) is rows[0]
        assert all(row["ratio"] == row["error"] / rows[0]["error"] for row in rows)


def test_the_table_names_p_where_there_are_several(run):
    several = run.table("compare", "prefix:4", "--p", "2,inf", "--strategies", "identity,tree")
    assert [(row["strategy"], row["p"]) for row in several] == [
        ("identity", "2"),
        ("tree", "2"),
        ("identity", "inf"),
        ("tree", "inf"),
    ]
    # unit noise on every cell: the last running sum has variance 4
    assert float(several[2]["error"]) == 2.0
    assert set(run.table("compare", "prefix:4", "--strategies", "tree")[0]) >= {"err_2", "ratio"}


def test_rows_are_written_as_csv(run, tmp_path):
    shown = run.json("compare", "prefix:4", "--p", "2,inf", "--table", "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == len(shown["strategies"]) == 10
    for written, row in zip(rows, shown["strategies"], strict=True):
        assert written["name"] == row["name"]
        assert float(written["p"]) == float(row["p"])
        assert float(written["error"]) == row["error"]


@pytest.mark.parametrize(
    ("name", "magic", "p"),
    [
        ("e.png", b"\x89PNG", "2"),
        ("e.SVG", b"<?xml", "2,inf"),
    ],
)
def test_plot_writes_a_picture(run, unarranged, tmp_path, name, magic, p):
    result = run("compare", "prefix:4", "--p", p, "--strategies", "tree,haar", "--plot", name)
    assert result.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_written_strategy_compares_as_the_design_does(run, tmp_path):
    run("optimize", "prefix:8", "--p", "4", "-o", "mine.npz")
    np.save(tmp_path / "cells.npy", np.eye(8))
    options = ["--p", "4", "--strategies", "least-norm,mine.npz,cells.npy,identity"]
    optimal, mine, cells, identity = run.json("compare", "prefix:8", *options)["strategies"]
    assert mine["name"] == "mine.npz"
    assert mine["error"] == pytest.approx(optimal["error"], rel=1e-9)
    assert cells["error"] == pytest.approx(identity["error"], rel=1e-12)


def test_guarantee_options(run):
    shown = run.json("compare", "histogram:5", "--strategies", "identity", "--epsilon", "0.5")
    row = shown["strategies"][0]
    assert (row["noise"], row["scale"]) == ("laplace", 2.0)
    assert row["error"] == pytest.approx(2 * math.sqrt(2 * 5))
    assert "e^0.5 times" in shown["guarantee"]
    assert shown["norms"] == []
    options = ["--neighbours", "replace", "--strategies", "identity"]
    row = run.json("compare", "histogram:5", *options)["strategies"][0]
    # columns e_i - e_j: sqrt 2; every cell without a fifth of the known total: trace 5 - 1
    assert row["sensitivity"] == pytest.approx(math.sqrt(2))
    assert row["error"] == pytest.approx(math.sqrt(2) * 2)


@pytest.mark.parametrize("stop", ["time", "interrupt"])
def test_a_design_that_stops_early_is_shown_written_and_exits_3(run, tmp_path, monkeypatch, stop):
    @contextlib.contextmanager
    def impatient():
        def interrupt(step):
            if isinstance(step, Step):
                raise KeyboardInterrupt

        yield interrupt

    options = ["--time-limit", "1e-9"] if stop == "time" else []
    if stop == "interrupt":
        monkeypatch.setattr(pmldesign.cli.compare, "progress", impatient)
    result = run("compare", "prefix:32", *options, "--table", "rows.csv", "--json")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: the gap is ")
    shown = json.loads(result.stdout)
    expected = "time_limit" if stop == "time" else "interrupted"
    assert shown["norms"][0]["status"] == expected
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 6


def test_a_wider_gap_is_passed_on(run):
    norm = run.json("compare", "prefix:64", "--rel-gap", "0.1")["norms"][0]
    assert 1e-6 < norm["gap"] <= 0.1


def test_families_and_several_workloads(run, tmp_path):
    options = ["--strategies", "least-norm,tree", "--table", "rows.csv"]
    shown = run.json("compare", "prefix:4..16", "haar:4", *options)
    assert [one["workload"] for one in shown] == ["prefix:4", "prefix:8", "prefix:16", "haar:4"]
    assert [one["cells"] for one in shown] == [4, 8, 16, 4]
    for one in shown:
        alone = run.json("compare", one["workload"], "--strategies", "least-norm,tree")
        assert alone["strategies"] == one["strategies"]
    with (tmp_path / "rows.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["workload"] for row in rows] == [
        row["workload"] for one in shown for row in one["strategies"]
    ]
    assert rows[0].keys() == shown[0]["strategies"][0].keys()


def test_lists_of_parameters_give_all_combinations(run):
    common = ["--strategies", "tree", "--noise", "gaussian"]
    options = ["--epsilon", "0.5,1", "--delta", "1e-4,1e-6,1e-9", *common]
    shown = run.json("compare", "prefix:4", *options)
    found = [(one["strategies"][0]["epsilon"], one["strategies"][0]["delta"]) for one in shown]
    assert found == [(e, d) for e in (0.5, 1.0) for d in (1e-4, 1e-6, 1e-9)]
    for one, (epsilon, delta) in zip(shown, found, strict=True):
        single = ["--epsilon", str(epsilon), "--delta", str(delta), *common]
        assert run.json("compare", "prefix:4", *single) == one
    table = run.table("compare", "prefix:4", *options)
    assert [(row["epsilon"], row["delta"]) for row in table] == [
        (f"{e:g}", f"{d:g}") for e, d in found
    ]
    # a smaller delta needs more noise
    assert float(table[0]["err_2"]) < float(table[2]["err_2"])


def test_columns_appear_only_where_they_say_something(run):
    base = {"strategy", "noise", "sensitivity", "scale", "rmse", "max_std", "ratio"}
    assert set(run.table("compare", "prefix:4", "--strategies", "tree")[0]) == base | {"err_2"}
    alone = run.table("compare", "prefix:4", "--strategies", "least-norm")
    assert set(alone[0]) == base | {"err_2", "over-class"}
    options = ["--strategies", "least-norm", "--epsilon", "1", "--p", "2,4"]
    both = run.table("compare", "prefix:4", "prefix:5", *options)
    assert set(both[0]) == base | {"workload", "p", "error", "over-class", "over-any"}
    alphas = ["--strategies", "tree", "--epsilon", "1", "--alpha", "0.01,0.1"]
    assert set(run.table("compare", "prefix:4", *alphas)[0]) == base | {"alpha", "err_2"}


def test_all_strategies(run):
    names = [
        row["name"] for row in run.json("compare", "prefix:8", "--strategies", "all")["strategies"]
    ]
    assert names[:2] == ["design", "least-norm"]
    assert names[2:] == [known.name for known in BASELINES]


def test_the_design_is_the_best_mechanism_under_every_guarantee(run):
    # a search without time still compares its starts, of which identity is one
    options = ["--epsilon", "0.5,2", "--effort", "quick"]
    shown = run.json("compare", "prefix:2", *options, "--strategies", "least-norm,design,identity")
    for epsilon, one in zip((0.5, 2), shown, strict=True):
        least, best, identity = one["strategies"]
        variance = 2 / epsilon**2
        if epsilon == 0.5:  # the total twice and the difference, each in [-1, 1], in a cube
            assert (best["name"], best["noise"]) == ("design", "cube")
            assert best["error"] == pytest.approx(math.sqrt(35 / 6) / epsilon, rel=1e-9)
        else:  # whole numbers, of the geometric law
            assert (best["name"], best["noise"]) == ("design", "integer-laplace")
            variance = 1 / (2 * math.sinh(epsilon / 2) ** 2)
        # noise of scale 1/epsilon on each cell, one and two of which are in an answer
        assert identity["error"] == pytest.approx(math.sqrt(3 * variance), rel=1e-12)
        assert best["error"] <= identity["error"] * (1 + 1e-12)
        # what is optimal for Gaussian noise is far from it here
        assert least["error"] > 1.2 * best["error"]
        assert best["lower_bound"] <= best["error"]


def test_design_and_least_norm_are_one_where_the_norm_is_all_that_counts(run):
    least, best = run.json("compare", "prefix:6", "--strategies", "least-norm,design")["strategies"]
    assert {**best, "name": "least-norm"} == least
    assert run("compare", "prefix:4", "--strategies", "designs").stderr.endswith(
        "; did you mean 'design'?\n"
    )


def test_what_is_not_named_may_be_left_out(run, monkeypatch):
    def refuse(cells):
        raise InvalidInputError("strategy 'tree' cannot answer row 3")

    build = dataclasses.replace(BASELINES[2], build=refuse)
    monkeypatch.setattr(
        pmldesign.strategies.baselines.registry,
        "BASELINES",
        (*BASELINES[:2], build, *BASELINES[3:]),
    )
    result = run("compare", "prefix:4")
    assert result.exit_code == 0
    assert "left out: strategy 'tree' cannot answer row 3" in result.stdout
    shown = run.json("compare", "prefix:4")
    assert shown["left_out"] == ["strategy 'tree' cannot answer row 3"]
    assert [row["name"] for row in shown["strategies"]] == [
        "design",
        "haar",
        "identity",
        "workload",
    ]
    named = run("compare", "prefix:4", "--strategies", "identity,tree")
    assert (named.exit_code, named.stdout) == (2, "")
    assert named.stderr == "error: strategy 'tree' cannot answer row 3\n"


def test_several_processes(run, monkeypatch):
    asked, usual = [], pmldesign.comparison.comparison.compare_all

    def watched(*arguments, jobs, **options):
        asked.append(jobs)
        return usual(*arguments, **options)

    monkeypatch.setattr(pmldesign.comparison.comparison, "compare_all", watched)
    options = ["prefix:2..4", "--p", "2,inf", "--strategies", "least-norm,tree"]
    assert run("compare", *options, "--jobs", "2").stdout == run("compare", *options).stdout
    assert asked == [2, 1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["prefix:10..100"], "both ends must be powers of two"),
        (["prefix:64..16"], "in increasing order"),
        (["prefix:0..16"], "powers of two"),
        (["prefix:2..4*histogram:2..4"], "a family has one"),
        (["prefix:16.."], "not a whole number"),
        (["prefix:4", "--epsilon", "1,,2"], "--epsilon must be numbers"),
        (["prefix:4", "--epsilon", "1", "--alpha", "0.1,x"], "--alpha must be numbers"),
        (["prefix:4", "--epsilon", "1", "--delta", ""], "--delta must be numbers"),
        (["prefix:4", "--delta", "1e-6,1e-9"], "need --epsilon"),
        (["prefix:4", "--jobs", "0"], "jobs must be a whole number of at least 1"),
        ([], "Missing argument"),
    ],
)
def test_refused_arguments(run, options, says):
    result = run("compare", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_interrupted_comparison_shows_what_is_finished(run, monkeypatch):
    @contextlib.contextmanager
    def impatient():
        def interrupt(step):
            if step == "table 1 of 2 is done":
                raise KeyboardInterrupt

        yield interrupt

    monkeypatch.setattr(pmldesign.cli.compare, "progress", impatient)
    result = run("compare", "prefix:4", "--p", "2,4", "--json")
    assert result.exit_code == 3
    assert result.stderr == "error: interrupted: only what was finished is shown; run it again\n"
    shown = json.loads(result.stdout)
    assert {row["p"] for row in shown["strategies"]} == {2.0}
    assert [norm["status"] for norm in shown["norms"]] == ["optimal"]


def test_ctrl_c_ends_the_comparison_with_the_rows_so_far(run, tmp_path, monkeypatch):
    begun = []

    @contextlib.contextmanager
    def impatient():
        def interrupt(step):
            begun.append(isinstance(step, Step) and step.number == 1)
            if sum(begun) == 2:
                raise KeyboardInterrupt  # in the first step of the second design

        yield interrupt

    monkeypatch.setattr(pmldesign.cli.compare, "progress", impatient)
    options = ["--p", "2,4,inf", "--strategies", "least-norm,identity", "--table", "rows.csv"]
    result = run("compare", "prefix:32", *options, "--json")
    assert result.exit_code == 3
    assert "interrupted" in result.stderr
    assert sum(begun) == 2
    shown = json.loads(result.stdout)
    assert [(norm["p"], norm["status"]) for norm in shown["norms"]] == [
        (2.0, "optimal"),
        (4.0, "interrupted"),
    ]
    rows = [(row["p"], row["name"]) for row in shown["strategies"]]
    assert rows == [(p, name) for p in (2.0, 4.0) for name in ("least-norm", "identity")]
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 5


def test_printed_scales_and_budgets_are_private(run):
    """Six digits of a scale, and four of an epsilon, are never below all of its digits."""
    epsilons = ",".join(f"{1 + step / 7:.3f}" for step in range(8))
    asked = ["compare", "prefix:6", "--epsilon", epsilons, "--delta", "1e-6"]
    asked += ["--strategies", "tree,identity", "--noise", "gaussian"]
    exact = [row for part in run.json(*asked) for row in part["strategies"]]
    shown = run.table(*asked)
    assert len(exact) == len(shown) == 16
    for row, texts in zip(exact, shown, strict=True):
        for key in ("scale", "sensitivity"):
            assert row[key] * (1 - 1e-12) <= float(texts[key]) <= row[key] * (1 + 1e-5)
    for epsilon in epsilons.split(",")[:3]:
        plan = ["ledger", "plan", f"2*gaussian:{epsilon},1e-7 + laplace:0.2"]
        numbers, text = run.json(*plan), run(*plan).stdout
        for key, line in (("epsilon", "together"), ("epsilon_without_plan", "otherwise")):
            (printed,) = re.findall(rf"{line} +epsilon (\S+) at", text)
            assert numbers[key] <= float(printed) <= numbers[key] * (1 + 1e-3)
