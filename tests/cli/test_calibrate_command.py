"""pmldesign calibrate: scales found again in plain numpy, every option, and what is refused."""

import math
from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy.special import ndtr

import pmldesign.cli.calibrate
import pmldesign.cli.verify
from pmldesign.privacy import at_least

KEYS = {
    "strategy",
    "cells",
    "noise",
    "scale",
    "sensitivity",
    "guarantee",
    "guarantee_numbers",
    "achieved",
    "if_alpha_is_wrong",
    "privacy",
    "workload",
    "p",
    "error",
    "rmse",
    "max_std",
}
STRATEGIES = {
    "prefix:4": np.tril(np.ones((4, 4))),
    "histogram:5": np.eye(5),
    "haar:4": np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]),
}


def corollary_1(R, alpha, b):
    """The leakage of Laplace noise, a loop over cells at a time."""
    n = R.shape[1]
    worst = 0.0
    for r in range(n):
        D = [np.abs(R[:, j] - R[:, r]).sum() for j in range(n)]
        kept = sum(alpha[j] * math.exp(-D[j] / b) for j in range(n))
        kept += (1 - sum(alpha)) * math.exp(-max(D) / b)
        worst = max(worst, -math.log(kept))
    return worst


def diameter(R, order):
    return max(
        np.linalg.norm(R[:, i] - R[:, j], ord=order)
        for i in range(R.shape[1])
        for j in range(R.shape[1])
    )


def test_json_has_the_documented_keys(run):
    shown = run.json("calibrate", "prefix:4", "--epsilon", 1)
    assert set(shown) == KEYS
    assert shown["guarantee_numbers"] == {
        "kind": "dp",
        "epsilon": 1.0,
        "delta": None,
        "alpha": None,
        "neighbours": "add-remove",
        "failure": None,
    }
    assert (shown["strategy"], shown["workload"], shown["cells"]) == ("prefix:4", "prefix:4", 4)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.2])
@pytest.mark.parametrize("epsilon", [0.2, 0.8, 1.5])
def test_pml_scale_meets_corollary_1_and_no_smaller_one_does(run, name, alpha, epsilon):
    R, options = STRATEGIES[name], ["--epsilon", epsilon, "--alpha", alpha]
    shown = run.json("calibrate", name, *options)
    least = [alpha] * R.shape[1]
    reached = corollary_1(R, least, shown["scale"])
    assert reached <= epsilon * (1 + 1e-12)
    assert reached == pytest.approx(shown["achieved"], rel=1e-9)
    assert corollary_1(R, least, shown["scale"] / (1 + 2e-6)) > epsilon
    assert shown["noise"] == "laplace"
    assert shown["sensitivity"] == pytest.approx(diameter(R, 1))


def test_alpha_file(run, tmp_path):
    alpha = [0.4, 0.1, 0.05, 0.2]
    np.savetxt(tmp_path / "alpha.csv", alpha)
    shown = run.json("calibrate", "prefix:4", "--epsilon", 1, "--alpha", "alpha.csv")
    assert corollary_1(STRATEGIES["prefix:4"], alpha, shown["scale"]) == pytest.approx(1, rel=1e-5)
    assert "from 0.05 to 0.4" in shown["guarantee"]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_scales_of_differential_privacy(run, name, neighbours):
    R = STRATEGIES[name]
    reach = {
        order: np.linalg.norm(R, ord=order, axis=0).max()
        if neighbours == "add-remove"
        else diameter(R, order)
        for order in (1, 2)
    }
    options = ["calibrate", name, "--neighbours", neighbours, "--epsilon", 0.7]
    shown = run.json(*options)
    assert shown["scale"] == pytest.approx(reach[1] / 0.7)
    assert shown["achieved"] <= 0.7
    shown = run.json(*options, "--delta", 1e-5, "--noise", "gaussian")
    ratio = reach[2] / shown["scale"]
    assert 1 / ratio == pytest.approx(gaussian_mechanism.get_sigma_gaussian(0.7, 1e-5), rel=1e-6)
    reached = ndtr(ratio / 2 - 0.7 / ratio) - math.exp(0.7) * ndtr(-ratio / 2 - 0.7 / ratio)
    assert shown["achieved"] == pytest.approx(reached, rel=1e-6)
    assert reached <= 1e-5 * (1 + 1e-9)


def test_slack_of_two_cells_by_the_hockey_stick(run):
    # one record in cell 0 with probability alpha, P_Y = alpha P_0 + (1 - alpha) P_1: delta is
    # int (P_0 - e^eps P_Y)_+ = (1 - e^eps alpha) HS of e^eps (1 - alpha)/(1 - e^eps alpha)
    alpha, epsilon, delta = 0.2, 0.5, 0.02
    pml = f"pml:{epsilon},delta={delta},alpha={alpha}"
    gaussian = ["--noise", "gaussian"]
    slack = run.json("calibrate", "histogram:2", "--guarantee", f"{pml},failure=slack", *gaussian)
    sigma = slack["scale"]
    y = np.linspace(-15 * sigma, 15 * sigma, 400_001)
    step = math.sqrt(2)  # the distance of the two columns, and the only direction that matters
    first, second = (
        np.exp(-((y - mean) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
        for mean in (0, step)
    )
    mixed = alpha * first + (1 - alpha) * second
    excess = np.maximum(first - math.exp(epsilon) * mixed, 0).sum() * (y[1] - y[0])
    assert excess == pytest.approx(delta, rel=1e-4)
    # the envelope: how often l(Y) itself exceeds epsilon is at most what is promised
    numbers = ["--epsilon", epsilon, "--delta", delta, "--alpha", alpha]
    default = run.json("calibrate", "histogram:2", *numbers, *gaussian)
    envelope = f"{pml},failure=envelope"
    assert default == run.json("calibrate", "histogram:2", "--guarantee", envelope, *gaussian)
    rng = np.random.default_rng(0)
    sigma = default["scale"]
    for prior in (alpha, 0.5, 1 - alpha):
        where = step * (rng.random(400_000) >= prior)
        output = where + sigma * rng.standard_normal(400_000)
        logs = [-((output - mean) ** 2) / (2 * sigma**2) for mean in (0, step)]
        mixed = prior * np.exp(logs[0]) + (1 - prior) * np.exp(logs[1])
        leakage = np.maximum(*logs) - np.log(mixed)
        # five standard errors of a frequency
        assert (leakage > epsilon).mean() <= delta + 5 * math.sqrt(delta / 400_000)


def test_workload_and_p_say_whose_error_is_shown(run):
    options = ["--epsilon", 1, "--neighbours", "add-remove"]
    shown = run.json("calibrate", "histogram:4", *options, "--workload", "prefix:4", "--p", "inf")
    # unit Laplace noise on every cell: variances 2 (1, 2, 3, 4)
    assert (shown["scale"], shown["workload"], shown["p"]) == (1, "prefix:4", "inf")
    assert shown["error"] == shown["max_std"] == pytest.approx(math.sqrt(8))
    assert shown["rmse"] == pytest.approx(math.sqrt(5))


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, 16])
@pytest.mark.parametrize("delta", [1e-9, 1e-2, 0.3])
def test_auto_takes_the_noise_of_smaller_error(run, p, delta):
    options = ["calibrate", "prefix:4", "--epsilon", 1, "--delta", delta, "--p", p]
    each = [run.json(*options, "--noise", noise) for noise in ("gaussian", "laplace")]
    assert run.json(*options) == min(each, key=lambda one: one["error"])
    assert each[0]["noise"] == "gaussian"
    assert each[1]["noise"] == "laplace"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_designed_strategy_gets_the_noise_that_its_design_stated(run, neighbours):
    guarantee = ["--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian", "--neighbours", neighbours]
    stated = run.json("optimize", "prefix:8", *guarantee, "-o", "s.npz")
    shown = run.json("calibrate", "s.npz", "--workload", "prefix:8", *guarantee)
    assert shown["strategy"] == "s.npz"
    assert shown["scale"] == pytest.approx(stated["noise"]["scale"], rel=1e-6)
    assert shown["error"] == pytest.approx(stated["strategies"][0]["error"], rel=1e-6)


def test_a_matrix_is_a_strategy(run, tmp_path):
    np.save(tmp_path / "mine.npy", 3 * np.eye(3))
    assert run.json("calibrate", "mine.npy", "--epsilon", 2)["scale"] == 1.5


def test_the_table_says_what_json_says(run):
    options = ["calibrate", "prefix:4", "--epsilon", 1, "--alpha", 0.1]
    shown, text = run.json(*options), run(*options).stdout
    # the total of 4 cells is public
    assert "3 measurements of 4 cells" in text
    assert f"laplace, scale {at_least(shown['scale'], 9)} (b, " in text
    assert f"epsilon {at_least(shown['achieved'], 9)}" in text
    assert f"err_2 {shown['error']:.6g}" in text
    said, supposed = shown["guarantee"].split(", provided that ")
    assert f"{said}." in text
    assert f"provided     {supposed}" in text
    gaussian = run(*options[:-2], "--delta", 1e-3, "--noise", "gaussian").stdout
    assert "(standard deviation)" in gaussian
    assert "achieved     delta" in gaussian


@pytest.mark.parametrize(
    "guarantee", ["pml:3,alpha=0.1", "pml:2.2,alpha=0.1,delta=0.5,failure=slack"]
)
def test_vacuous_guarantees_are_refused(run, guarantee):
    result = run("calibrate", "histogram:4", "--guarantee", guarantee)
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["histogram:4"], 2, "--epsilon 1"),
        (["histogram:4", "--epsilon", "0"], 2, "epsilon must be positive"),
        (["histogram:4", "--epsilon", "nan"], 2, "epsilon must be positive"),
        (["histogram:4", "--epsilon", "1", "--delta", "2"], 2, "delta must be in (0, 1)"),
        (["histogram:4", "--epsilon", "1", "--alpha", "0.3"], 2, "(0, 0.25] for k = 4"),
        (["histogram:4", "--epsilon", "1", "--p", "1"], 2, "p must be in [2, inf]"),
        (["histogram:4", "--epsilon", "1", "--p", "20000"], 2, "at most 10000 or inf"),
        (["histogram:4", "--guarantee", "dp:1,failure=slack"], 2, "not a key of dp"),
        (["histogram:4", "--epsilon", "1", "--workload", "prefix:5"], 2, "the same cells"),
        (["haar:4", "--epsilon", "1", "--workload", "none:4"], 2, "unknown workload"),
        (["window:3,2", "--epsilon", "1", "--alpha", "0.1", "--noise", "gaussian"], 5, "laplace"),
        (["window:3,2", "--epsilon", "1", "--noise", "gaussian"], 5, "laplace"),
        (["missing.npz", "--epsilon", "1"], 6, "No such file"),
        (["--epsilon", "1"], 2, "Missing argument 'STRATEGY'"),
        (["part.csv", "--workload", "prefix:3", "--epsilon", "1"], 2, "cannot answer"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, arguments, code, says):
    (tmp_path / "part.csv").write_text("1,1,0\n")
    result = run("calibrate", *arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


@pytest.mark.parametrize("epsilon", ["1.0000049", "0.3333333333333333"])
def test_the_epsilon_asked_for_is_shown_with_all_digits(run, epsilon):
    assert f"e^{epsilon} times" in run("calibrate", "prefix:4", "--epsilon", epsilon).stdout


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "1", "--delta", "1e-310"],
        ["--epsilon", "1", "--delta", "5e-324"],
        ["--epsilon", "1e-300"],
        ["--epsilon", "1e-300", "--delta", "1e-300"],
        ["--epsilon", "1e-300", "--alpha", "0.1", "--delta", "1e-6"],
        ["--epsilon", "1e155", "--delta", "1e-6"],
        ["--epsilon", "1", "--delta", "1e-6", "--p", "1e308"],
    ],
)
def test_numbers_beyond_double_precision_are_one_line_of_error(run, options):
    result = run("calibrate", "prefix:4", *options)
    assert result.exit_code == 2
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)


def test_queries_that_are_measured_themselves_keep_their_structure(run, monkeypatch):
    """All ranges of 901 cells took 39 s as a matrix, and 1 s as ranges."""
    monkeypatch.setattr(pmldesign.cli.calibrate, "DenseWorkload", Mock(side_effect=AssertionError))
    itself = run.json("calibrate", "all-range:20", "--epsilon", 1)
    named = run.json("calibrate", "all-range:20", "--workload", "all-range:20", "--epsilon", 1)
    assert itself == named


def test_what_takes_long_is_announced(run, monkeypatch):
    lines = []
    monkeypatch.setattr(pmldesign.cli.calibrate, "progress", lambda: nullcontext(lines.append))
    np.save("R.npy", np.vstack([np.ones(3), np.eye(3)])[:2])
    run("calibrate", "R.npy", "--guarantee", "zcdp:0.5")
    run("calibrate", "prefix:4", "--guarantee", "zcdp:0.5")
    assert [line.split(": ")[1] for line in lines] == [
        "noise and errors of 2 measurements of 3 cells",
        "noise and errors of 4 measurements of 4 cells",
    ]


def test_verification_is_announced(run, monkeypatch):
    lines = []
    run("optimize", "prefix:4", "--guarantee", "zcdp:0.5", "-o", "sums.npz")
    monkeypatch.setattr(pmldesign.cli.verify, "progress", lambda: nullcontext(lines.append))
    assert run("verify", "sums.npz").exit_code == 0
    assert lines == ["sums.npz: every number that it claims is computed again"]
