"""pmldesign optimize: every option and the file it writes."""

import contextlib
import dataclasses
import io
import json
import math
import signal
import sys
from unittest.mock import Mock

import numpy as np
import pytest

import pmldesign.cli.optimize
from pmldesign.cli import main, process
from pmldesign.designs import Optimized, baselines, flow
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy
from pmldesign_solvers.norm import Status

GAMMA_PREFIX_16 = {"2": 6.7576147, "4": 3.3847245, "inf": 1.7044802}

KEYS = {
    "if_alpha_is_wrong",
    "workload",
    "queries",
    "cells",
    "p",
    "neighbours",
    "norm",
    "optimum",
    "status",
    "message",
    "steps",
    "eigendecompositions",
    "seconds",
    "budget_shares",
    "buffers",
    "descent",
    "search",
    "origin",
    "sensitivity",
    "noise",
    "guarantee",
    "guarantee_numbers",
    "privacy",
    "expected_max",
    "lower_bound",
    "strategies",
    "output",
}

ROW_KEYS = {
    "name",
    "p",
    "noise",
    "sensitivity",
    "scale",
    "error",
    "rmse",
    "max_std",
    "ratio",
}


@pytest.mark.parametrize(("p", "gamma"), GAMMA_PREFIX_16.items())
def test_json_has_the_documented_keys_and_the_norm(run, p, gamma):
    shown = run.json("optimize", "prefix:16", "--p", p)
    assert set(shown) == KEYS
    assert set(shown["norm"]) == {"lower", "upper", "gap"}
    assert set(shown["noise"]) == {"kind", "scale"}
    assert all(set(row) == ROW_KEYS for row in shown["strategies"])
    names = [row["name"] for row in shown["strategies"]]
    assert names[0] == "design"
    assert sorted(names[1:]) == ["haar", "identity", "tree", "workload"]
    errors = [row["error"] for row in shown["strategies"]]
    assert errors == sorted(errors)
    assert shown["norm"]["lower"] <= gamma * (1 + 1e-7)
    assert shown["norm"]["upper"] >= gamma * (1 - 1e-7)
    assert shown["norm"]["gap"] <= 1e-6
    assert (shown["status"], shown["queries"], shown["cells"]) == ("optimal", 16, 16)
    assert shown["p"] == ("inf" if p == "inf" else float(p))
    assert shown["guarantee"] is None
    assert shown["output"] is None


def test_the_table_is_plain_where_stdout_is_no_terminal(run):
    result = run("optimize", "prefix:8")
    assert result.stderr == ""
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())
    assert "gamma_(2) between " in result.stdout


def test_table_and_json_show_the_same_numbers(run):
    rows = run.table("optimize", "prefix:8", "--p", "3")
    exact = run.json("optimize", "prefix:8", "--p", "3")["strategies"]
    for row, other in zip(rows, exact, strict=True):
        assert row["strategy"] == other["name"]
        for column, key in [("scale", "scale"), ("err_3", "error"), ("max_std", "max_std")]:
            assert float(row[column]) == pytest.approx(other[key], rel=1e-5)


def test_nothing_is_printed_on_stderr_where_it_is_no_terminal(run):
    options = ["--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian"]
    result = run("optimize", "prefix:16", *options, "--json")
    json.loads(result.stdout)
    assert result.stderr == ""


def test_the_written_strategy_is_a_factorization_with_the_stated_norm(run, tmp_path):
    shown = run.json("optimize", "prefix:12", "--p", "4", "-o", "design.npz")
    with np.load(tmp_path / "design.npz", allow_pickle=False) as arrays:
        R, L = arrays["strategy"], arrays["reconstruction"]
        u, w = arrays["dual_u"], arrays["dual_w"]
        header = json.loads(str(arrays["header"]))
    A = np.tril(np.ones((12, 12)))
    np.testing.assert_allclose(L @ R, A, atol=1e-12)
    sensitivity = np.linalg.norm(R, axis=0).max()
    upper = np.linalg.norm(np.linalg.norm(L, axis=1), ord=4) * sensitivity
    assert upper == pytest.approx(shown["norm"]["upper"], rel=1e-12)
    assert np.sum(u**2) ** 0.5 <= 1 + 1e-12  # q = p/(p - 2) = 2
    assert w.sum() <= 1 + 1e-12
    lower = np.linalg.norm(np.sqrt(u)[:, None] * A * np.sqrt(w), ord="nuc")
    assert lower == pytest.approx(shown["norm"]["lower"], rel=1e-12)
    assert (header["format"], header["p"], header["neighbours"]) == (1, "4.0", "add-remove")
    assert (header["lower"], header["upper"]) == (shown["norm"]["lower"], shown["norm"]["upper"])
    assert header["workload"] == "prefix:12"
    np.testing.assert_array_equal(read_strategy("design.npz").matrix, R)
    assert [path.name for path in tmp_path.iterdir()] == ["design.npz"]


@pytest.mark.parametrize("output", [[], ["-o", "s.npz"]])
def test_the_design_is_shown_and_written_before_anything_is_compared_with_it(
    run, tmp_path, monkeypatch, output
):
    seen = []

    def build(*_arguments, **_options):
        seen.append((sys.stdout.getvalue(), (tmp_path / "s.npz").exists()))
        raise InvalidInputError("it is not built")

    monkeypatch.setattr(baselines, "baseline", build)
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    main.main(["optimize", "prefix:8", *output], standalone_mode=False)
    printed, written = seen[0]
    assert "gamma_(2) between 4." in printed
    assert "design    Gaussian noise of scale 1: err_2 " in printed
    assert written == bool(output)


def test_a_baseline_that_is_better_than_all_searches_is_the_design_and_what_is_written(
    run, tmp_path
):
    """On whole numbers, counts of the cells have less noise than any other strategy."""
    options = ["--epsilon", 8, "--noise", "integer-laplace", "--effort", "quick"]
    shown = run.json("optimize", "prefix:24", *options, "-o", "s.npz")
    first, second, *_ = shown["strategies"]
    assert shown["origin"] == "identity"
    assert (first["name"], second["name"]) == ("design", "identity")
    assert first["error"] == second["error"]
    assert read_strategy(tmp_path / "s.npz").matrix.tolist() == np.eye(24).tolist()
    assert "the baseline 'identity'" in run("optimize", "prefix:24", *options).stdout


def test_the_limit_holds_for_searches_and_rows_too(run):
    options = ["--epsilon", 1, "--delta", 1e-6, "--time-limit", 1e-9]
    result = run("optimize", "all-range:32", *options, "--json")
    assert json.loads(result.stdout)["search"]["status"] == "time_limit"


def test_streaming_gives_lower_triangular_factors_of_the_same_error(run, tmp_path):
    plain = run.json("optimize", "prefix:12", "--p", "inf")
    stream = run.json("optimize", "prefix:12", "--p", "inf", "--streaming", "-o", "s.npz")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as arrays:
        R, L = arrays["strategy"], arrays["reconstruction"]
    assert not np.triu(R, 1).any()
    assert not np.triu(L, 1).any()
    assert (np.diag(R) > 0).all()
    error, expected = (shown["strategies"][0]["error"] for shown in (stream, plain))
    assert error == pytest.approx(expected, rel=1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("solver", ["scs", "CLARABEL"])
@pytest.mark.parametrize("method", ["primal", "dual"])
@pytest.mark.parametrize("p", ["2", "5", "inf"])
def test_the_programs_agree_with_scaling_within_the_gaps(run, p, method, solver):
    gap = "1e-3"
    scaling = run.json("optimize", "prefix:6", "--p", p, "--rel-gap", gap)["norm"]
    options = ["--method", method, "--solver", solver, "--rel-gap", gap]
    program = run.json("optimize", "prefix:6", "--p", p, *options)["norm"]
    assert program["gap"] <= 1e-3
    # both enclose the same number
    assert max(scaling["lower"], program["lower"]) <= min(scaling["upper"], program["upper"])


def test_a_wider_gap_is_enough_when_asked_for(run):
    shown = run.json("optimize", "prefix:64", "--rel-gap", "0.1")
    assert shown["status"] == "optimal"
    assert 1e-6 < shown["norm"]["gap"] <= 0.1


@pytest.mark.parametrize(
    ("options", "status"),
    [(["--time-limit", 1e-9], "time_limit")],
)
def test_limits_show_and_write_the_best_so_far_and_exit_3(
    run, tmp_path, monkeypatch, options, status
):
    result = run("optimize", "prefix:64", *options, "-o", "early.npz", "--json")
    assert result.exit_code == 3
    shown = json.loads(result.stdout)
    assert shown["status"] == status
    assert shown["norm"]["gap"] > 1e-6
    notes, error = result.stderr.splitlines()[:-1], result.stderr.splitlines()[-1]
    assert error.startswith("error: the gap is ")
    late = status == "time_limit"
    assert notes == ["note: the table ends before 'tree': the time limit came first"] * late
    assert len(shown["strategies"]) == (1 if late else 5)
    with np.load(tmp_path / "early.npz", allow_pickle=False) as arrays:
        product = arrays["reconstruction"] @ arrays["strategy"]
    np.testing.assert_allclose(product, np.tril(np.ones((64, 64))), atol=1e-10)


def test_ctrl_c_shows_and_writes_the_best_so_far_and_exits_3(run, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def impatient():
        def interrupt(step):
            if getattr(step, "number", None) == 3:  # other calls are lines of text
                raise KeyboardInterrupt

        yield interrupt

    monkeypatch.setattr(pmldesign.cli.optimize, "progress", impatient)
    result = run("optimize", "prefix:64", "-o", "early.npz", "--json")
    assert result.exit_code == 3
    shown = json.loads(result.stdout)
    assert (shown["status"], shown["steps"]) == ("interrupted", 3)
    assert shown["norm"]["lower"] <= 16.7988519
    assert shown["norm"]["upper"] >= 16.7988517
    assert read_strategy(tmp_path / "early.npz").shape == (64, 64)


def test_a_workload_from_standard_input_or_a_file(run, tmp_path):
    text = "a,b\n1,0\n1,1\n"
    (tmp_path / "w.csv").write_text(text)
    from_file = run.json("optimize", "w.csv")
    from_stdin = json.loads(run("optimize", "-", "--json", stdin=text).stdout)
    golden = (1 + math.sqrt(5)) / 2  # gamma_(2) of prefix 2
    for shown in (from_file, from_stdin):
        assert shown["norm"]["lower"] <= golden <= shown["norm"]["upper"]


def test_the_written_file_is_announced_and_replaces_an_older_one(run, tmp_path):
    (tmp_path / "s.npz").write_bytes(b"old")
    result = run("optimize", "prefix:4", "-o", "s.npz")
    assert "written" in result.stdout
    assert "s.npz" in result.stdout
    assert read_strategy(tmp_path / "s.npz").shape == (4, 4)


def test_options_may_repeat_their_defaults_where_they_count(run):
    options = ["--method", "dual", "--solver", "CLARABEL", "--rel-gap", "1e-3"]
    assert run("optimize", "prefix:3", *options).exit_code == 0


def test_a_wide_workload_is_written_and_shown_without_matrices_of_all_cells_squared(run, tmp_path):
    np.save(tmp_path / "w.npy", np.random.default_rng(0).integers(0, 2, size=(4, 3000)))
    result = run("optimize", "w.npy", "--json", "-o", "s.npz")
    assert result.exit_code == 0
    names = [row["name"] for row in json.loads(result.stdout)["strategies"]]
    assert names == ["design", "workload", "identity"]
    assert result.stderr.count("3000 x 3000, too large for a row that is not asked for") == 2
    assert (tmp_path / "s.npz").exists()


@pytest.mark.usefixtures("signalled")
@pytest.mark.parametrize("later", ["bound", "table"])
def test_ctrl_c_after_the_design_keeps_it_and_exits_3(run, tmp_path, monkeypatch, later):
    """What a script asks for next does not begin."""

    def stop(*_arguments, **_options):
        signal.raise_signal(signal.SIGINT)

    if later == "bound":
        monkeypatch.setattr(Optimized, "bound", property(stop))
    else:
        monkeypatch.setattr(Optimized, "small_row", stop)
    options = ["--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian", "--json", "-o", "s.npz"]
    result = run("optimize", "prefix:4", *options)
    assert result.exit_code == 3
    assert [row["name"] for row in json.loads(result.stdout)["strategies"]] == ["design"]
    *notes, error = result.stderr.splitlines()
    assert error == f"error: {process.UNFINISHED}; written: s.npz"
    assert notes[-1] == "note: the table ends before 'tree': interrupted"
    assert ("note: the lower bound is left out: interrupted" in notes) == (later == "bound")
    assert (tmp_path / "s.npz").exists()


def test_ctrl_c_in_the_design_is_the_end_of_bounds_and_rows(run, monkeypatch, signalled):
    """They took longer than the design itself on large workloads under PML."""
    solve = flow.solve

    def stopped(*arguments):
        return dataclasses.replace(solve(*arguments), status=Status.INTERRUPTED)

    monkeypatch.setattr(flow, "solve", signalled(signal.SIGINT, stopped))
    never = Mock(side_effect=AssertionError)
    monkeypatch.setattr(Optimized, "bound", property(never))
    monkeypatch.setattr(baselines, "baseline", never)
    few = ["--time-limit", 1e-9, "--rel-gap", 1e-9]
    result = run("optimize", "prefix:8", "--epsilon", 1, "--delta", 1e-6, *few, "--json")
    assert [row["name"] for row in json.loads(result.stdout)["strategies"]] == ["design"]
    assert result.exit_code == 3
    note, error = result.stderr.splitlines()
    assert note == "note: the table ends before 'tree': interrupted"
    assert error.startswith("error: the gap is ")


@pytest.mark.usefixtures("signalled")
def test_ctrl_c_in_the_last_table_leaves_what_is_shown(run, monkeypatch):
    def stop(*_arguments, **_options):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("pmldesign.cli.documents.designs.table_of", stop)
    result = run("optimize", "prefix:4")
    assert "gamma_(2)" in result.stdout
    assert (result.exit_code, result.stderr) == (3, f"error: {process.UNFINISHED}\n")


@pytest.mark.usefixtures("signalled")
def test_ctrl_c_after_a_file_and_before_anything_is_shown_tells_what_is_written(run, monkeypatch):
    def stop(*_arguments, **_options):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("pmldesign.cli.documents.designs.table_of", stop)
    written = run("optimize", "prefix:4", "--json", "-o", "s.npz")
    said = f"error: {process.UNFINISHED}; written: s.npz\n"
    assert (written.exit_code, written.stdout, written.stderr) == (3, "", said)
    nothing = run("optimize", "prefix:4", "--json")
    assert (nothing.exit_code, nothing.stderr) == (1, f"error: {process.INTERRUPTED}\n")


def test_long_running_sums_with_a_wide_gap_are_written(run, tmp_path):
    """A Haar wavelet was better, too large for a file: nothing was written or shown."""
    result = run("optimize", "prefix:30000", "--rel-gap", 0.5, "-o", "s.npz")
    assert result.exit_code == 0, result.stderr
    notes = "note: the table leaves out"
    assert all(line.startswith(notes) for line in result.stderr.splitlines())
    assert read_strategy(tmp_path / "s.npz").shape == (30000, 30000)


def test_a_baseline_that_cannot_answer_in_float64_is_left_out_with_a_note(run, tmp_path):
    np.save(tmp_path / "w.npy", np.diag([1e-8, 1e8]))
    result = run("optimize", "w.npy", "--json")
    assert result.exit_code == 0
    names = [row["name"] for row in json.loads(result.stdout)["strategies"]]
    # pinv drops the singular value that is 1e-16 of the other
    assert names[0] == "design"
    assert sorted(names[1:]) == ["haar", "identity", "tree"]
    assert result.stderr.startswith("note: the table leaves out 'workload': ")
    assert result.stderr.count("\n") == 1
    assert "workload" in [row["name"] for row in run.json("optimize", "prefix:2")["strategies"]]


@pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
def test_a_program_that_runs_out_of_time_says_so(run, solver):
    options = ["--method", "primal", "--solver", solver, "--time-limit", 1e-9]
    result = run("optimize", "prefix:16", *options, "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["status"] == "time_limit"
