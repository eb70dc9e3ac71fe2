"""pmldesign optimize: every option, the file it writes, and the privacy that it states."""

import contextlib
import dataclasses
import io
import json
import math
import sys
from functools import partial

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy.special import ndtr

import pmldesign.cli.optimize
import pmldesign.cli.reports.baselines
from pmldesign.cli import main
from pmldesign.cli.reports.baselines import usual_rows
from pmldesign.files import read_strategy
from pmldesign_solvers.search import laplace

GAMMA_PREFIX_16 = {"2": 6.7576147, "4": 3.3847245, "inf": 1.7044802}

BRIEFLY = ("--search-time", 0.1)
"""Where what is asserted holds for every strategy that a search may return."""
KEYS = {
    "if_alpha_is_wrong",
    "workload",
    "queries",
    "cells",
    "p",
    "neighbours",
    "norm",
    "status",
    "message",
    "steps",
    "eigendecompositions",
    "seconds",
    "buffers",
    "descent",
    "search",
    "sensitivity",
    "noise",
    "guarantee",
    "guarantee_numbers",
    "privacy",
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
    assert [row["name"] for row in shown["strategies"]][1:] == [
        "tree",
        "haar",
        "identity",
        "workload",
    ]
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
    assert (header["format"], header["p"], header["neighbours"]) == (2, "4.0", "add-remove")
    assert (header["lower"], header["upper"]) == (shown["norm"]["lower"], shown["norm"]["upper"])
    assert header["workload"] == "prefix:12"
    np.testing.assert_array_equal(read_strategy("design.npz").matrix, R)
    assert [path.name for path in tmp_path.iterdir()] == ["design.npz"]


@pytest.mark.parametrize("output", [[], ["-o", "s.npz"]])
def test_the_design_is_shown_and_written_before_anything_is_compared_with_it(
    run, tmp_path, monkeypatch, output
):
    seen = []

    def usual(*_arguments, **_options):
        seen.append((sys.stdout.getvalue(), (tmp_path / "s.npz").exists()))
        return []

    monkeypatch.setattr(pmldesign.cli.optimize, "usual_rows", usual)
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    main.main(["optimize", "prefix:8", *output], standalone_mode=False)
    ((printed, written),) = seen
    assert "gamma_(2) between 4." in printed
    assert "design    Gaussian noise of scale 1: err_2 " in printed
    assert written == bool(output)


def test_the_best_row_comes_first_whatever_it_is(run, monkeypatch):
    def with_a_wonder(*arguments, **options):
        rows = usual_rows(*arguments, **options)
        return [*rows, dataclasses.replace(rows[0], strategy="wonder", error=1e-3)]

    monkeypatch.setattr(pmldesign.cli.optimize, "usual_rows", with_a_wonder)
    rows = run.json("optimize", "prefix:4")["strategies"]
    names = ["wonder", "design", "tree", "haar", "identity", "workload"]
    assert [row["name"] for row in rows] == names
    assert rows[0]["ratio"] == 1.0


def test_the_limit_holds_for_searches_and_rows_too(run):
    options = ["--epsilon", 1, "--delta", 1e-6, "--time-limit", 0.1]
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
    [(["--max-steps", 2], "iteration_limit"), (["--time-limit", 1e-9], "time_limit")],
)
def test_limits_show_and_write_the_best_so_far_and_exit_3(run, tmp_path, options, status):
    result = run("optimize", "prefix:64", *options, "-o", "early.npz", "--json")
    assert result.exit_code == 3
    shown = json.loads(result.stdout)
    assert shown["status"] == status
    assert shown["norm"]["gap"] > 1e-6
    notes, error = result.stderr.splitlines()[:-1], result.stderr.splitlines()[-1]
    assert error.startswith("error: the gap is ")
    late = ["tree", "haar", "identity", "workload"] if status == "time_limit" else []
    assert notes == [
        f"note: the table leaves out {name!r}: the time limit came first" for name in late
    ]
    assert len(shown["strategies"]) == 5 - len(late)
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


def strategy_of(path):
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["strategy"], arrays["reconstruction"]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1, 1e-9), (4, 1e-3)])
def test_gaussian_scale_meets_the_stated_guarantee(run, epsilon, delta):
    options = ["--epsilon", epsilon, "--delta", delta, "--noise", "gaussian"]
    shown = run.json("optimize", "prefix:8", *options, "-o", "s.npz")
    R, L = strategy_of("s.npz")
    ratio = np.linalg.norm(R, axis=0).max() / shown["noise"]["scale"]
    # Balle and Wang 2018, Theorem 8
    reached = ndtr(ratio / 2 - epsilon / ratio)
    reached -= math.exp(epsilon) * ndtr(-ratio / 2 - epsilon / ratio)
    assert reached <= delta * (1 + 1e-9)
    assert shown["noise"]["kind"] == "gaussian"
    needed = gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    assert 1 / ratio == pytest.approx(needed, rel=1e-6)
    error = shown["noise"]["scale"] * np.linalg.norm(L)
    assert shown["strategies"][0]["error"] == pytest.approx(error, rel=1e-9)
    assert f"e^{epsilon:g} times what it was, plus {delta:g}" in shown["guarantee"]


def test_laplace_scale_meets_the_stated_guarantee(run):
    shown = run.json(
        "optimize", "prefix:8", "--epsilon", 0.5, "--noise", "laplace", *BRIEFLY, "-o", "s.npz"
    )
    R, L = strategy_of("s.npz")
    assert np.abs(R).sum(axis=0).max() / shown["noise"]["scale"] <= 0.5 * (1 + 1e-12)
    error = shown["noise"]["scale"] * math.sqrt(2) * np.linalg.norm(L)
    assert shown["strategies"][0]["error"] == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("alpha_option", ["number", "file"])
def test_pml_scale_meets_corollary_1(run, tmp_path, alpha_option):
    alpha, epsilon = 1 / 16, 1.0
    np.savetxt(tmp_path / "alpha.csv", np.full((8, 1), alpha), delimiter=",")
    options = {"number": ["--alpha", alpha], "file": ["--alpha-file", "alpha.csv"]}[alpha_option]
    shown = run.json(
        "optimize", "prefix:8", "--epsilon", epsilon, *options, *BRIEFLY, "-o", "s.npz"
    )
    R, _ = strategy_of("s.npz")
    leakage = corollary_1(R, np.full(8, alpha), shown["noise"]["scale"])
    assert leakage == pytest.approx(epsilon, rel=1e-5)
    assert leakage <= epsilon * (1 + 1e-12)
    assert shown["neighbours"] == "replace"
    # the identity under this guarantee: 2/b - log(1 - alpha + alpha e^(2/b)) = 1, [SYG] Theorem 4,
    # and squared error 2 b^2 times sum_i (i - i^2/8) = 10.5
    identity = next(row for row in shown["strategies"] if row["name"] == "identity")
    t = 2 / identity["scale"]
    assert t - math.log(1 - alpha + alpha * math.exp(t)) == pytest.approx(epsilon, rel=1e-5)
    assert identity["error"] == pytest.approx(identity["scale"] * math.sqrt(21), rel=1e-12)


def corollary_1(R, alpha, scale):
    D = np.abs(R[:, :, None] - R[:, None, :]).sum(axis=0)
    free = 1 - alpha.sum()
    kept = np.exp(-D / scale) @ alpha + free * np.exp(-D.max(axis=1) / scale)
    return -np.log(kept).min()


@pytest.mark.parametrize("failure", ["slack", "envelope"])
def test_pml_with_a_delta(run, failure):
    options = ["--epsilon", 1, "--delta", 0.01, "--alpha", 0.05, "--noise", "gaussian"]
    shown = run.json("optimize", "prefix:4", *options, "--failure", failure)
    assert ("Except with probability" in shown["guarantee"]) == (failure == "envelope")
    scales = {
        kind: run.json("optimize", "prefix:4", *options, "--failure", kind)["noise"]["scale"]
        for kind in ("slack", "envelope")
    }
    assert scales["slack"] < scales["envelope"]  # rare large losses cost more here


def test_the_descent_for_gaussian_noise_under_pml(run, tmp_path):
    options = ["--epsilon", 1, "--delta", 1e-6, "--alpha", 0.125, "--noise", "gaussian"]
    shown = run.json("optimize", "prefix:8", *options, "-o", "s.npz")
    descent = shown["descent"]
    assert descent["status"] == "completed"
    rows = {row["name"]: row["error"] for row in shown["strategies"]}
    assert (rows["least-norm"], rows["design"]) == (descent["before"], descent["after"])
    assert rows["design"] < 0.999 * rows["least-norm"]
    R, L = strategy_of("s.npz")
    error = shown["noise"]["scale"] * np.linalg.norm(L)
    assert error == pytest.approx(rows["design"], rel=1e-9)
    A = np.tril(np.ones((8, 8)))
    np.testing.assert_allclose(L @ R, A - A.mean(axis=1, keepdims=True), atol=1e-9)
    assert "descent " in run("optimize", "prefix:3", *options).stdout
    assert run.json("optimize", "prefix:4", "--epsilon", 1, *BRIEFLY)["descent"] is None


@pytest.mark.parametrize(("neighbours", "total"), [("add-remove", 72.0), ("replace", 84.0)])
def test_neighbours_of_pure_dp(run, neighbours, total):
    # identity on prefix 8, Laplace: add-remove 2 (1 + ... + 8), replace 2 2^2 sum_i (i - i^2/8)
    options = ["--epsilon", 1, "--neighbours", neighbours]
    rows = run.json("optimize", "prefix:8", *options, *BRIEFLY)["strategies"]
    identity = next(row for row in rows if row["name"] == "identity")
    assert identity["error"] == pytest.approx(math.sqrt(total), rel=1e-12)


@pytest.fixture
def few_starts(monkeypatch):
    """Searches without random starts."""
    monkeypatch.setattr(laplace, "solve", partial(laplace.solve, restarts=0))


def test_auto_takes_the_noise_of_smaller_error(run, few_starts):
    options = ["optimize", "prefix:4", "--epsilon", 1, "--delta", 1e-6, "--search-time", 600]
    best = run.json(*options)["strategies"]
    each = [run.json(*options, "--noise", kind)["strategies"] for kind in ("gaussian", "laplace")]
    assert best[0]["error"] == pytest.approx(min(rows[0]["error"] for rows in each), rel=1e-9)
    found = {(row["name"], row["noise"]): row["error"] for rows in each for row in rows}
    for row in (row for row in best if row["name"] != "design"):
        both = [found[row["name"], kind] for kind in ("gaussian", "laplace")]
        assert row["error"] == found[row["name"], row["noise"]] == min(both)


def test_a_design_for_laplace_noise_beats_every_baseline_and_no_lower_bound(
    run, few_starts, tmp_path
):
    # identity, the best baseline, has err_2 sqrt(2 (1 + ... + 8)) = 8.485 on prefix sums
    options = ["--seed", 1, "--search-time", 600]
    shown = run.json("optimize", "prefix:8", "--epsilon", 1, "-o", "s.npz", *options)
    design, *others = shown["strategies"]
    assert (design["name"], design["noise"]) == ("design", "laplace")
    assert shown["lower_bound"] < design["error"] < 8.485
    assert all(design["error"] <= row["error"] for row in others)
    assert shown["search"]["starts"] > 0
    # the file has the strategy of the first row: its l1 sensitivity, and the error it gives
    strategy = read_strategy(tmp_path / "s.npz").matrix
    scale = np.abs(strategy).sum(axis=0).max()
    reconstruction = np.tril(np.ones((8, 8))) @ np.linalg.pinv(strategy)
    assert design["scale"] == pytest.approx(scale, rel=1e-9)
    assert design["error"] == pytest.approx(
        scale * np.sqrt(2) * np.linalg.norm(reconstruction), rel=1e-9
    )


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
    assert run("optimize", "prefix:3", "--max-steps", 1000).exit_code == 0


@pytest.mark.parametrize("p", [12000, "inf"])
def test_large_exponents_without_laplace_noise(run, p):
    options = ["--p", p, "--epsilon", 1, "--delta", 1e-3, "--noise", "gaussian"]
    assert run.json("optimize", "prefix:3", *options)["status"] == "optimal"


def test_a_wide_workload_is_written_and_shown_without_matrices_of_all_cells_squared(run, tmp_path):
    np.save(tmp_path / "w.npy", np.random.default_rng(0).integers(0, 2, size=(4, 3000)))
    result = run("optimize", "w.npy", "--json", "-o", "s.npz")
    assert result.exit_code == 0
    names = [row["name"] for row in json.loads(result.stdout)["strategies"]]
    assert names == ["design", "workload"]
    assert result.stderr.count("3000 x 3000 takes minutes") == 3
    assert (tmp_path / "s.npz").exists()


def test_ctrl_c_in_the_table_keeps_the_design(run, tmp_path, monkeypatch):
    def stop(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(pmldesign.cli.reports.baselines, "compare_all", stop)
    result = run("optimize", "prefix:4", "--json", "-o", "s.npz")
    assert result.exit_code == 0
    assert [row["name"] for row in json.loads(result.stdout)["strategies"]] == ["design"]
    assert result.stderr == "note: the table ends before 'tree': interrupted\n"
    assert (tmp_path / "s.npz").exists()


def test_a_baseline_that_cannot_answer_in_float64_is_left_out_with_a_note(run, tmp_path):
    np.save(tmp_path / "w.npy", np.diag([1e-8, 1e8]))
    result = run("optimize", "w.npy", "--json")
    assert result.exit_code == 0
    names = [row["name"] for row in json.loads(result.stdout)["strategies"]]
    # pinv drops the singular value that is 1e-16 of the other
    assert names == ["design", "tree", "haar", "identity"]
    assert result.stderr.startswith("note: the table leaves out 'workload': ")
    assert result.stderr.count("\n") == 1
    assert "workload" in [row["name"] for row in run.json("optimize", "prefix:2")["strategies"]]


@pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
def test_a_program_that_runs_out_of_time_says_so(run, solver):
    options = ["--method", "primal", "--solver", solver, "--time-limit", 0.05]
    result = run("optimize", "prefix:40", *options, "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["status"] == "time_limit"


def test_auto_is_gaussian_where_no_error_of_laplace_noise_is_computed(run):
    asked = ["prefix:4", "--epsilon", 1, "--delta", 1e-6, "--p", 20000]
    auto, gaussian = run.json("optimize", *asked), run.json("optimize", *asked, "--noise=gaussian")
    assert auto["noise"]["kind"] == "gaussian"
    assert auto["noise"] == gaussian["noise"]
    table = run("compare", *asked, "--strategies", "tree,identity").stdout
    assert "gaussian" in table
    assert "laplace" not in table
