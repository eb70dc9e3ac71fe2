"""--participation on the commands that take it."""

import math

import numpy as np
import pytest

import pmldesign as pml


def test_optimize_shows_the_norm_of_the_participation_and_writes_it(run):
    shown = run.json("optimize", "prefix:64", "--participation", "4,every=16", "-o", "s.npz")
    assert shown["participation"] == "4,every=16"
    assert shown["norm"]["gap"] <= 1e-6
    assert shown["norm"]["lower"] <= 8 * shown["strategies"][0]["rmse"] <= shown["norm"]["upper"]
    tree = next(row for row in shown["strategies"] if row["name"] == "tree")
    # the root four times, and 16 cells apart no other node twice: (4 * 4 + 4 * 4 + ...)^(1/2)
    assert tree["sensitivity"] > 2 * math.sqrt(7)
    same = run.json("calibrate", "s.npz", "--epsilon", 1, "--delta", 1e-6)
    assert same["participation"] == "4,every=16"
    assert same["sensitivity"] == pytest.approx(1, rel=1e-9)
    other = run(
        "calibrate", "s.npz", "--epsilon", 1, "--delta", 1e-6, "--participation", "1,every=16"
    )
    assert other.exit_code == 0
    assert "made for participation 4,every=16" in other.stderr


def test_min_sep_says_that_its_bounds_do_not_meet(run):
    shown = run.json("optimize", "prefix:24", "--participation", "3,min-sep=8")
    assert shown["status"] == "searched"
    assert shown["norm"]["lower"] < shown["norm"]["upper"] < 1.1 * shown["norm"]["lower"]


def test_fixed_epochs_that_do_not_cover_all_steps_are_solved(run):
    shown = run.json("optimize", "prefix:40", "--participation", "3,every=8", "-o", "s.npz")
    assert shown["norm"]["gap"] <= 1e-3
    verified = run("verify", "s.npz", "--workload", "prefix:40")
    assert verified.exit_code == 0
    assert "0 fails, 0 not checked" in verified.stdout


def test_compare_and_bounds_measure_everything_alike(run):
    schema = ["--participation", "3,every=4"]
    table = run.json("compare", "prefix:12", "--strategies", "design,identity,square-root", *schema)
    rows = {row["name"]: row for row in table["strategies"]}
    assert rows["identity"]["sensitivity"] == pytest.approx(math.sqrt(3), rel=1e-12)
    root = np.cumprod([1.0, *(1 - 0.5 / np.arange(1, 12))])
    first = sum(np.pad(root[: 12 - 4 * i], (4 * i, 0)) for i in range(3))
    assert rows["square-root"]["sensitivity"] == pytest.approx(np.linalg.norm(first), rel=1e-12)
    assert rows["design"]["error"] == min(row["error"] for row in rows.values())
    bounds = run.json("bounds", "prefix:12", "--epsilon", 1, "--delta", 1e-6, *schema)
    held = {bound["name"]: bound["value"] for bound in bounds if bound["holds"]}
    assert held["Gaussian mechanisms"] <= held["optimal Gaussian"]
    assert held["Gaussian mechanisms"] == pytest.approx(held["optimal Gaussian"], rel=1e-4)


def test_a_stream_has_the_noise_of_its_participation(run):
    made = run(
        "optimize", "prefix:12", "--buffers", 6, "--participation", "3,every=4", "-o", "s.npz"
    )
    assert made.exit_code == 0, made.stderr
    guarantee = ["--epsilon", 1, "--delta", 1e-6]
    deviations = {}
    for name, schema in [("own", []), ("once", ["--participation", "1,every=4"])]:
        lines = run("stream", "s.npz", *guarantee, *schema, stdin="1\n2\n").stdout.splitlines()
        deviations[name] = float(lines[1].split(",")[2])
    options = ["--workload", "prefix:12", "--noise", "gaussian", *guarantee]
    calibrated = run.json("calibrate", "s.npz", *options)
    once = run.json("calibrate", "s.npz", *options, "--participation", "1,every=4")
    ratio = calibrated["scale"] / once["scale"]
    C = pml.strategy("s.npz").matrix
    farthest = max(np.linalg.norm(C[:, start::4].sum(axis=1)) for start in range(4))
    assert ratio == pytest.approx(farthest / np.linalg.norm(C, axis=0).max(), rel=1e-9)
    assert deviations["own"] / deviations["once"] == pytest.approx(ratio, rel=1e-4)


def test_a_stream_has_the_guarantee_of_its_file(run):
    design = ["optimize", "prefix:6", "--noise", "gaussian", "-o", "s.npz"]
    by_options = (
        ["--epsilon", 1, "--delta", 1e-6],
        ["--guarantee", "zcdp:0.5"],
        ["--guarantee", "gdp:1"],
        ["--guarantee", "renyi:4,1"],
    )
    for promise in by_options:
        scale = run.json(*design, *promise)["strategies"][0]["rmse"]
        made = run("stream", "s.npz", stdin="1\n" * 6)
        assert made.exit_code == 0, made.stderr
        deviations = [float(line.split(",")[2]) for line in made.stdout.splitlines()]
        assert np.sqrt(np.mean(np.square(deviations))) == pytest.approx(scale, rel=1e-4)
        again = run("stream", "s.npz", *promise, stdin="1\n" * 6)
        assert [float(line.split(",")[2]) for line in again.stdout.splitlines()] == deviations
    for other in (
        ["--epsilon", 1, "--delta", 1e-6],
        ["--guarantee", "renyi:4,2"],
        ["--epsilon", 1],
    ):
        refused = run("stream", "s.npz", *other, stdin="1\n")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "was made for RenyiDP(order=4.0, epsilon=1.0" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "has no guarantee; add for example --epsilon 1"),
        (["--epsilon", 1, "--effort", "quick"], "a stream has Gaussian noise"),
    ],
)
def test_a_stream_refuses_other_guarantees(run, options, words):
    assert run("optimize", "prefix:2", *options, "-o", "s.npz").exit_code == 0
    refused = run("stream", "s.npz", stdin="1\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimize", "prefix:12", "--participation", "3"],
        ["optimize", "prefix:12", "--participation", "3,every=4", "--method", "dual"],
        ["optimize", "prefix:12", "--participation", "3,every=4", "--neighbours", "replace"],
        ["compare", "prefix:12", "--participation", "3,every=4", "--neighbours", "replace"],
        ["calibrate", "prefix:12", "--participation", "3,every=4", "--epsilon", 1, "--alpha", 0.01],
    ],
)
def test_what_does_not_go_together_is_refused_in_a_line(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "articipation" in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 3
