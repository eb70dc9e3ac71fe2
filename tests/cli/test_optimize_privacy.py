"""pmldesign optimize: the privacy that it states, recomputed from the file that it writes."""

import math

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy.special import ndtr

import pmldesign as pml
from pmldesign.designs.laplace import course
from pmldesign.files import read_strategy

BRIEFLY = ("--effort", "quick")
"""Where what is asserted holds for every strategy that a search may return."""


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
    options = {"number": ["--alpha", alpha], "file": ["--alpha", "alpha.csv"]}[alpha_option]
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


def test_pml_with_a_delta(run):
    pml = "pml:1,delta=0.01,alpha=0.05,failure="
    slack, envelope = (
        run.json(
            "optimize", "prefix:4", "--guarantee", pml + failure, "--noise", "gaussian", *BRIEFLY
        )
        for failure in ("slack", "envelope")
    )
    assert "Except with probability" in envelope["guarantee"]
    assert "Except with probability" not in slack["guarantee"]
    # rare large losses cost more here
    assert slack["noise"]["scale"] < envelope["noise"]["scale"]


def test_the_descent_for_gaussian_noise_under_pml(run, tmp_path):
    options = ["--epsilon", 1, "--delta", 1e-6, "--alpha", 0.125, "--noise", "gaussian"]
    shown = run.json("optimize", "prefix:6", *options, "-o", "s.npz")
    descent = shown["descent"]
    assert descent["status"] == "completed"
    rows = {row["name"]: row["error"] for row in shown["strategies"]}
    assert (rows["least-norm"], rows["design"]) == (descent["before"], descent["after"])
    assert rows["design"] < 0.999 * rows["least-norm"]
    R, L = strategy_of("s.npz")
    error = shown["noise"]["scale"] * np.linalg.norm(L)
    assert error == pytest.approx(rows["design"], rel=1e-9)
    A = np.tril(np.ones((6, 6)))
    np.testing.assert_allclose(L @ R, A - A.mean(axis=1, keepdims=True), atol=1e-9)
    assert "descent " in run("optimize", "prefix:2", *options, *BRIEFLY).stdout
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
    monkeypatch.setattr(course, "RESTARTS", 0)


def test_auto_takes_the_noise_of_smaller_error(run, few_starts):
    options = ["optimize", "prefix:2", "--epsilon", 1, "--delta", 1e-6, "--effort", "thorough"]
    best = run.json(*options)["strategies"]
    each = [
        run.json(*options, "--noise", kind)["strategies"]
        for kind in ("gaussian", "laplace", "cube")  # the last for designs alone
    ]
    assert best[0]["error"] == pytest.approx(min(rows[0]["error"] for rows in each), rel=1e-9)
    found = {(row["name"], row["noise"]): row["error"] for rows in each for row in rows}
    for row in (row for row in best if row["name"] in ("tree", "haar", "identity", "workload")):
        both = [found[row["name"], kind] for kind in ("gaussian", "laplace")]
        assert row["error"] == found[row["name"], row["noise"]] == min(both)


def test_a_design_for_laplace_noise_beats_every_baseline_and_no_lower_bound(
    run, few_starts, tmp_path
):
    # two queries (1, 1, -1, -1) and (1, -1, 1, -1): err_2 is 4 with all of the baselines
    options = ["--noise", "laplace", "--seed", 1, "--effort", "thorough"]
    shown = run.json("optimize", "parity:2,1", "--epsilon", 1, "-o", "s.npz", *options)
    design, *others = shown["strategies"]
    assert (design["name"], design["noise"]) == ("design", "laplace")
    assert shown["lower_bound"] < design["error"] < 3.9
    assert all(row["error"] >= 4 * (1 - 1e-9) for row in others)
    assert shown["search"]["starts"] > 0
    # the file has the strategy of the first row: its l1 sensitivity, and the error it gives
    strategy = read_strategy(tmp_path / "s.npz").matrix
    scale = np.abs(strategy).sum(axis=0).max()
    queries = pml.workload("parity:2,1").to_dense()
    assert sorted(map(sorted, queries.tolist())) == [[-1, -1, 1, 1]] * 2
    reconstruction = queries @ np.linalg.pinv(strategy, 1e-11)
    assert design["scale"] == pytest.approx(scale, rel=1e-9)
    assert design["error"] == pytest.approx(
        scale * np.sqrt(2) * np.linalg.norm(reconstruction), rel=1e-9
    )


@pytest.mark.parametrize("p", [12000, "inf"])
def test_large_exponents_without_laplace_noise(run, p):
    options = ["--p", p, "--epsilon", 1, "--delta", 1e-3, "--noise", "gaussian"]
    assert run.json("optimize", "prefix:3", *options)["status"] == "optimal"


def test_auto_is_gaussian_where_no_error_of_laplace_noise_is_computed(run):
    asked = ["prefix:4", "--epsilon", 1, "--delta", 1e-6, "--p", 20000]
    auto, gaussian = run.json("optimize", *asked), run.json("optimize", *asked, "--noise=gaussian")
    assert auto["noise"]["kind"] == "gaussian"
    assert auto["noise"] == gaussian["noise"]
    table = run("compare", *asked, "--strategies", "tree,identity").stdout
    assert "gaussian" in table
    assert "laplace" not in table
