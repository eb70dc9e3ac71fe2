"""--guarantee in every command that takes a guarantee."""

import math
from pathlib import Path

import pytest

import pmldesign as pml

BRIEFLY = ("--effort", "quick")


@pytest.mark.parametrize(
    ("option", "value", "sigma"),
    [
        ("--guarantee", "zcdp:0.125", 2.0),
        ("--guarantee", "gdp:0.25", 4.0),
        ("--guarantee", "renyi:8,0.25", 4.0),
    ],
)
def test_gaussian_scales_are_exact(run, option, value, sigma):
    shown = run.json("calibrate", "histogram:4", option, value, "--noise", "gaussian")
    assert shown["scale"] == sigma
    design = run.json("optimize", "histogram:4", option, value, *BRIEFLY)
    noise = {"kind": "gaussian", "scale": pytest.approx(sigma)}
    assert design["noise"] == noise
    assert design["privacy"]["mu"] == pytest.approx(1 / sigma)
    assert design["guarantee_numbers"] == shown["guarantee_numbers"]
    bounds = run.json("bounds", "histogram:4", option, value)
    lower = next(b["value"] for b in bounds if b["name"] == "Gaussian mechanisms")
    assert lower == pytest.approx(2 * sigma, rel=1e-5)
    assert lower <= 2 * sigma


def test_every_report_shows_the_other_currencies(run):
    shown = run.json("calibrate", "histogram:4", "--epsilon", 1, "--delta", 1e-6)
    curve = pml.mechanism(
        "identity", "histogram:4", guarantee=pml.ApproxDP(1, 1e-6), noise=shown["noise"]
    ).privacy
    assert shown["privacy"]["rho"] == pytest.approx(curve.rho)
    assert shown["privacy"]["epsilon"] == curve.pure  # Laplace noise
    text = run("calibrate", "histogram:4", "--guarantee", "gdp:1").stdout
    assert "rho 0.5 (zCDP); mu 1 (Gaussian DP); epsilon" in text
    assert run.json("optimize", "histogram:4")["privacy"] is None


def test_compare_takes_several(run):
    several = [word for rho in (0.02, 0.5, 2) for word in ("--guarantee", f"zcdp:{rho}")]
    shown = run.json("compare", "histogram:4", "--strategies", "identity", *several)
    rows = [row for comparison in shown for row in comparison["strategies"]]
    assert [row["rho"] for row in rows] == [0.02, 0.5, 2]
    gaussian = [row["scale"] for row in rows if row["noise"] == "gaussian"]
    assert gaussian == pytest.approx([1 / math.sqrt(2 * rho) for rho in (0.02, 0.5)])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--guarantee", "zcdp:1", "--epsilon", 1), "remove --epsilon"),
        (("--guarantee", "gdp:1", "--delta", 1e-6), "remove --delta"),
        (("--guarantee", "gdp:1", "--neighbours", "weekly"), "--neighbours"),
        (("--guarantee", "renyi:8"), "renyi starts with order and epsilon"),
        (("--guarantee", "dp"), "followed by a colon"),
        (("--guarantee", "dp:1,neighbours=replace", "--neighbours", "add-remove"), "remove"),
        (("--guarantee", "renyi:1,1"), "order"),
        (("--guarantee", "zcdp:-1"), "rho must be"),
    ],
)
def test_what_does_not_go_together_is_refused(run, options, problem):
    result = run("calibrate", "histogram:4", *options)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_picture_of_delta_against_epsilon(run):
    assert (
        run("calibrate", "histogram:4", "--guarantee", "zcdp:1", "--plot", "curve.svg").exit_code
        == 0
    )
    assert Path("curve.svg").read_text().startswith("<?xml")
    refused = run("calibrate", "histogram:4", "--guarantee", "zcdp:1", "--plot", "curve.txt")
    assert refused.exit_code == 6


def test_a_strategy_file_keeps_the_guarantee(run):
    assert (
        run("optimize", "prefix:4", "--guarantee", "zcdp:0.5", "-o", "s.npz", *BRIEFLY).exit_code
        == 0
    )
    assert pml.read("s.npz").guarantee == pml.ZCDP(0.5)


def test_a_release_has_the_noise_of_its_budget(run):
    Path("counts.csv").write_text("3,1,4,1\n")
    result = run(
        "release", "prefix:4", "counts.csv", "--guarantee", "zcdp:0.5", *BRIEFLY, "-o", "out.csv"
    )
    assert result.exit_code == 0, result.stderr
    assert "zCDP" in result.stdout
    refused = run(
        "release",
        "prefix:4",
        "counts.csv",
        "--guarantee",
        "zcdp:0.5",
        "--noise",
        "laplace",
        *BRIEFLY,
        "-o",
        "x.csv",
    )
    assert refused.exit_code == 2
    assert "gaussian" in refused.stderr


def test_leakage_at_a_given_alpha(run):
    shown = run.json(
        "calibrate", "prefix:4", "--epsilon", 1, "--at-alpha", 0.1, "--noise", "laplace"
    )
    exact = pml.envelope.leakage("prefix:4", scale=shown["scale"], alpha=0.1)["leakage_upper"]
    assert shown["privacy"]["leakage"] == {"alpha": 0.1, "delta": None, "epsilon": exact}
    shown = run.json(
        "calibrate", "prefix:4", "--guarantee", "gdp:0.3", "--at-alpha", 0.1, "--noise", "gaussian"
    )
    leaked = shown["privacy"]["leakage"]
    at = {"scale": shown["scale"], "alpha": 0.1, "noise": "gaussian"}
    delta = pml.envelope.leakage("prefix:4", epsilon=leaked["epsilon"], **at)["envelope"]
    assert delta <= leaked["delta"] == 1e-6
    less = pml.envelope.leakage("prefix:4", epsilon=leaked["epsilon"] * (1 - 1e-5), **at)[
        "envelope"
    ]
    assert less > 1e-6
    text = run("calibrate", "prefix:4", "--epsilon", 100, "--at-alpha", 0.1).stdout
    assert "as much as any mechanism leaks" in text
    several = ("--participation", "2,every=2", "--at-alpha", 0.1, "-o", "s.npz")
    refused = run("optimize", "prefix:4", "--epsilon", 1, "--delta", 1e-6, *several)
    assert refused.exit_code == 2
    assert "--at-alpha is about records" in refused.stderr
    assert not Path("s.npz").exists()
    refused = run("optimize", "prefix:4", "--epsilon", 1, "--at-alpha", 0.3)
    assert refused.exit_code == 2
    assert "(0, 0.25]" in refused.output
