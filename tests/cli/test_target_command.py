import json
import math
import signal
from pathlib import Path

import pytest

import pmldesign as pml
from pmldesign.cli import target
from pmldesign.designs import PUBLISHED_GAP

CENSUS = ("target", "census-p12", "--std", "5,total=20,male=20,female=20")


def test_census_beside_equal_noise(run):
    shown = run.json(*CENSUS, "--delta", 1e-6, "--noise", "gaussian", "-o", "p12.npz")
    epsilon = shown["epsilon"]
    assert epsilon["at_least"] <= epsilon["enough"] <= epsilon["at_least"] * (1 + 1e-5)
    rows = {row["name"]: row["epsilon"] for row in shown["strategies"]}
    assert rows["design"] == epsilon["enough"]
    assert min(rows.values()) == rows["design"]
    assert rows["equal noise"] > rows["design"]
    promise = pml.ApproxDP(epsilon["enough"], 1e-6)
    assert pml.read("p12.npz").guarantee == promise
    noisy = pml.mechanism(
        pml.strategy(Path("p12.npz")), "census-p12", guarantee=promise, noise="gaussian"
    )
    targets = [20 if label in (0, 1, 25) else 5 for label in range(49)]
    assert (noisy.standard_deviations <= targets).all()


def test_text_shows_both_bounds(run):
    words = ("--half-width", 10, "--delta", 1e-6, "--noise", "gaussian")
    text = run("target", "prefix:8", *words).stdout
    assert "is enough" in text
    assert "for gaussian noise on any strategy; gap" in text
    assert "equal noise" in text


@pytest.mark.parametrize(("kind", "currency", "least"), [("zcdp", "rho", 0.02), ("gdp", "mu", 0.2)])
def test_currencies(run, kind, currency, least):
    shown = run.json("target", "histogram:4", "--std", 5, "--guarantee", kind, "--effort", "quick")
    assert shown["currency"] == currency
    assert shown[currency]["at_least"] <= least <= shown[currency]["enough"]
    assert shown[currency]["enough"] == pytest.approx(least, rel=1e-5)


def test_targets_from_a_file_and_by_part(run):
    Path("c.csv").write_text("4\n4\n4\n1\n1\n1\n")
    options = ("--guarantee", "zcdp", "--noise", "gaussian")
    file = run.json("target", "prefix:3+histogram:3", "--std", "c.csv", *options)
    parts = run.json(
        "target", "prefix:3+histogram:3", "--std", "prefix:3=4,histogram:3=1", *options
    )
    assert file["rho"]["enough"] == pytest.approx(parts["rho"]["enough"], rel=1e-5)
    long = "random-range:3,3,seed=1+histogram:3"
    others = ("--std", "1,prefix:3=4")
    assert run.json("target", "prefix:3+histogram:3", *others, *options)["rho"] == parts["rho"]
    named = run.json("target", long, "--std", "random-range:3,3,seed=1=4,2=1", *options)
    assert named["targets"] == {"smallest": 1, "largest": 4, "level": None}
    level = ("--level", 0.6)
    widths = run.json("target", "prefix:3+histogram:3", "--half-width", "c.csv", *level, *options)
    assert widths["targets"]["level"] == 0.6
    assert widths["rho"]["enough"] < file["rho"]["enough"]  # 4 is 4.75 standard deviations then


def test_parts_are_called_as_in_the_text_with_factors_in_any_order(run):
    """At level 0.95 a half-width is 1.96 standard deviations of Gaussian noise."""
    sex, age = {"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [0, 18, 65]}
    Path("s.json").write_text(json.dumps({"attributes": [sex, age]}))
    options = ("--schema", "s.json", "--guarantee", "zcdp", "--noise", "gaussian")
    for text in ("sex*age + sex", "sex*age:prefix + sex", "sex*age"):
        first = text.split(" ")[0]
        swapped = "*".join(reversed(first.split("*")))
        rest = "3," if "+" in text else ""
        plain = run.json("target", text, "--std", f"{rest}{first}=5", *options)
        other = run.json("target", text, "--std", f"{rest}{swapped}=5", *options)
        assert plain["rho"] == other["rho"]
        rest = f"{3 * 1.959963984540054}," if "+" in text else ""
        named = f"{rest}{swapped}={5 * 1.959963984540054}"
        widths = run.json("target", text, "--half-width", named, *options)
        more = widths["rho"]["enough"] / plain["rho"]["enough"] - 1  # for rounding in the table
        assert -1e-5 <= more <= PUBLISHED_GAP + 1e-5


def test_pure_laplace(run):
    shown = run.json("target", "histogram:4", "--std", 2, "--effort", "quick")
    assert shown["noise"]["kind"] == "laplace"
    assert shown["epsilon"]["enough"] == pytest.approx(math.sqrt(2) / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "--std 5"),
        (("--std", 5, "--half-width", 5), "exclude each other"),
        (("--std", -1), "positive"),
        (("--std", 5, "--level", 0.9), "--half-width"),
        (("--half-width", 5, "--delta", 1e-6, "--level", 2), "level"),
        (("--std", 5, "--guarantee", "zcdp", "--delta", 1e-6), "remove --delta"),
        (("--std", 5, "--guarantee", "zcdp:1"), "its budget is searched"),
        (("--std", "no-such-file.csv"), "No such file"),
        (("--std", "5,prefix:4"), "or NAME=5,NAME=10; got"),
        (("--std", "5,x=y"), "NAME=5"),
        (("--std", "1=5", "--level", 0.9), "--half-width"),
        (("--std", "x=5"), "no part or query"),
        (("--std", "9,Row 0 (cell 0)=5"), "did you mean 'row 0 (cell 0)'"),
        (("--std", 5, "--noise", "gaussian"), "delta"),
    ],
)
def test_what_does_not_go_together_is_refused(run, options, problem):
    result = run("target", "prefix:4", *options)
    assert result.exit_code in (2, 5, 6)
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_leakage_that_protects_nobody(run):
    result = run("target", "prefix:4", "--std", 0.01, "--alpha", 0.1, "--effort", "quick")
    assert result.exit_code == 4


def test_ctrl_c_in_the_search_is_not_called_a_success(run, tmp_path, monkeypatch, signalled):
    monkeypatch.setattr(target, "least_budget", signalled(signal.SIGINT, target.least_budget))
    result = run("target", "prefix:4", "--std", 5, "--effort", "quick", "-o", "s.npz")
    assert (result.exit_code, (tmp_path / "s.npz").exists()) == (3, True)
    assert result.stderr.splitlines()[-1].startswith("error: interrupted: what is shown")
