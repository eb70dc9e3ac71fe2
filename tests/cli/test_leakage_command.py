"""pmldesign leakage: every column found again in plain numpy, and what is refused."""

import itertools
import math
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.special import ndtr

import pmldesign as pml
from pmldesign.mechanisms import losses
from pmldesign.privacy import neighbours
from pmldesign.strategies.baselines import queries, written_queries

HAAR = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, -1, -1, -1, -1],
        [1, 1, -1, -1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, -1, -1],
        [1, -1, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, -1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, -1, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, -1],
    ]
)


def worst(exponents, alpha):
    """max over r of -log( sum_j alpha e^(-x_rj) + (1 - n alpha) e^(-max_j x_rj) )."""
    n = exponents.shape[1]
    kept = alpha * np.exp(-exponents).sum(axis=1)
    return -np.log(kept + (1 - n * alpha) * np.exp(-exponents.max(axis=1))).min()


def corollary_1(R, alpha, b):
    D = np.abs(R[:, :, None] - R[:, None, :]).sum(axis=0)
    return max(worst(D[r : r + 1] / b, alpha) for r in range(len(D)))


def extreme(R, alpha, b):
    signs = np.array(list(itertools.product([-1, 1], repeat=len(R))))
    sums = signs @ R / b
    return max(worst(row[None] - row.min(), alpha) for row in sums)


@pytest.mark.parametrize(
    ("alpha", "theorem_2", "corollary"),
    [
        (0.01, 4.07957, 4.26163),
        (0.05, 2.59483, 2.80377),
        (0.10, 1.91842, 2.13129),
        (0.125, 1.69866, 1.91233),
    ],
)
def test_the_table_of_the_errata(run, alpha, theorem_2, corollary):
    shown = run.json("leakage", "haar:8", "--scale", 1, "--alpha", alpha)
    assert set(shown) == {"scale", "alpha", "leakage_upper", "dp", "leakage_lower"}
    assert shown["leakage_lower"] == pytest.approx(theorem_2, abs=5e-6)
    assert shown["leakage_upper"] == pytest.approx(corollary, abs=5e-6)
    assert shown["dp"] == 6
    # one record, y = R e_r: the law with the free mass on the farthest cell has this ratio
    assert shown["leakage_upper"] == pytest.approx(corollary_1(HAAR, alpha, 1), rel=1e-12)


def test_a_row_for_every_scale_and_alpha(run):
    options = ["leakage", "prefix:5", "--scale", "0.3,1,40", "--alpha", "0.001,0.07,0.2"]
    rows = run.json(*options)
    pairs = [(row["scale"], row["alpha"]) for row in rows]
    assert pairs == list(itertools.product([0.3, 1, 40], [0.001, 0.07, 0.2]))
    R = np.tril(np.ones((5, 5)))
    for row, (b, alpha) in zip(rows, pairs, strict=True):
        assert row["leakage_upper"] == pytest.approx(corollary_1(R, alpha, b), rel=1e-9)
        # the total is constant: its sign changes nothing
        assert row["leakage_lower"] == pytest.approx(extreme(R, alpha, b), rel=1e-9)
        assert row["dp"] == pytest.approx(4 / b)
        assert row["leakage_lower"] <= row["leakage_upper"] * (1 + 1e-12)
        assert row["leakage_upper"] <= min(row["dp"], -math.log(alpha)) * (1 + 1e-12)
    for shown, row in zip(run(*options).stdout.splitlines()[1:10], rows, strict=True):
        assert [float(text) for text in shown.split()] == pytest.approx(list(row.values()), 1e-5)


def test_too_many_sign_patterns(run):
    options = ["leakage", "prefix:40", "--scale", 1, "--alpha", 0.01]
    assert run.json(*options)["leakage_lower"] is None
    assert run(*options).stdout.splitlines()[1].endswith("too large")


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_gaussian_noise_on_two_cells(run, epsilon):
    options = ["--noise", "gaussian", "--epsilon", epsilon]
    rows = run.json("leakage", "histogram:2", "--scale", "0.5,1,3", "--alpha", "0.05,0.3", *options)
    for row in rows:
        assert set(row) == {"scale", "alpha", "epsilon", "slack", "envelope", "dp"}
        alpha, t = row["alpha"], math.sqrt(2) / row["scale"]

        def excess(level, t=t):
            """int (N(0, 1) - e^level N(t, 1))_+."""
            return ndtr(t / 2 - level / t) - math.exp(level) * ndtr(-t / 2 - level / t)

        assert row["dp"] == pytest.approx(excess(epsilon), rel=1e-9)
        # P_0 - e^eps (alpha P_0 + (1 - alpha) P_1) = c (P_0 - e^level P_1)
        c = 1 - math.exp(epsilon) * alpha
        level = epsilon + math.log((1 - alpha) / c)
        assert row["slack"] == pytest.approx(c * excess(level), rel=1e-9)
        assert row["slack"] <= row["dp"]
        # the output itself is a post-processing: l(y) > eps on two half lines, for any prior
        for prior in (alpha, 0.5):
            y = np.linspace(-12, 12 + t, 200_001)
            first, second = (np.exp(-((y - mean) ** 2) / 2) for mean in (0, t))
            mixed = prior * first + (1 - prior) * second
            often = mixed[np.maximum(first, second) > math.exp(epsilon) * mixed].sum()
            often *= (y[1] - y[0]) / math.sqrt(2 * math.pi)
            assert often <= row["envelope"] + 1e-3


def test_a_scale_that_was_calibrated_leaks_what_was_asked_for(run):
    run("optimize", "prefix:8", "--neighbours", "replace", "-o", "s.npz")
    options = ["--epsilon", 0.9, "--alpha", 0.1]
    scale = run.json("calibrate", "s.npz", *options)["scale"]
    shown = run.json("leakage", "s.npz", "--scale", repr(scale), "--alpha", 0.1)
    assert shown["leakage_upper"] == pytest.approx(0.9, rel=2e-6)
    assert shown["leakage_upper"] <= 0.9
    for failure, column in [("slack", "slack"), ("envelope", "envelope")]:
        pml = f"pml:0.9,alpha=0.1,delta=0.01,failure={failure}"
        more = ["--guarantee", pml, "--noise", "gaussian"]
        scale = run.json("calibrate", "s.npz", *more)["scale"]
        gaussian = ["--noise", "gaussian", "--epsilon", 0.9]
        shown = run.json("leakage", "s.npz", "--scale", repr(scale), "--alpha", 0.1, *gaussian)
        assert shown[column] == pytest.approx(0.01, rel=2e-4)
        assert shown[column] <= 0.01


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["prefix:4", "--alpha", "0.1"], 2, "Missing option '--scale'"),
        (["prefix:4", "--scale", "1"], 2, "Missing option '--alpha'"),
        (["prefix:4", "--scale", "0", "--alpha", "0.1"], 2, "scale must be positive"),
        (["prefix:4", "--scale", "-1", "--alpha", "0.1"], 2, "scale must be"),
        (
            ["prefix:4", "--scale", "-1", "--alpha", "sample:missing.csv"],
            2,
            "scale must be positive and finite, got -1",
        ),
        (["prefix:4", "--scale", "nan", "--alpha", "0.1"], 2, "scale must be"),
        (["prefix:4", "--scale", "1,x", "--alpha", "0.1"], 2, "such as 0.5,1,2"),
        (["prefix:4", "--scale", "1", "--alpha", "0.1,"], 2, "such as 0.01,0.05"),
        (["prefix:4", "--scale", "1", "--alpha", "0.3"], 2, "(0, 0.25] for k = 4"),
        (["prefix:4", "--scale", "1", "--alpha", "nan"], 2, "alpha must be in"),
        (["prefix:4", "--scale", "1", "--alpha", "0.1", "--epsilon", "1"], 2, "leave it out"),
        (["prefix:4", "--scale", "1", "--alpha", "0.1", "--noise", "gaussian"], 2, "--epsilon"),
        (["prefix:4", "--scale", "1", "--alpha", "0.1", "--noise", "cauchy"], 2, "cauchy"),
        (["missing.csv", "--scale", "1", "--alpha", "0.1"], 6, "No such file"),
        (["zero.csv", "--scale", "1", "--alpha", "0.1"], 2, "zero"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, arguments, code, says):
    (tmp_path / "zero.csv").write_text("0,0,0\n")
    result = run("leakage", *arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_a_file_of_alpha_is_a_vector(run, tmp_path):
    (tmp_path / "least.csv").write_text("0.1\n0.2\n0.3\n0.05\n")
    row = run.json("leakage", "prefix:4", "--scale", 2, "--alpha", "least.csv")
    assert row["alpha"] == [0.1, 0.2, 0.3, 0.05]
    R = np.tril(np.ones((4, 4)))
    D = np.abs(R[:, :, None] - R[:, None, :]).sum(axis=0)
    kept = np.exp(-D / 2) @ row["alpha"] + 0.35 * np.exp(-D.max(axis=1) / 2)
    assert row["leakage_upper"] == pytest.approx(-math.log(kept.min()), rel=1e-12)
    assert "0.05..0.3" in run("leakage", "prefix:4", "--scale", 2, "--alpha", "least.csv").stdout


def test_several_epsilons_give_a_row_each(run):
    options = ["leakage", "prefix:4", "--noise", "gaussian", "--alpha", 0.1]
    rows = run.json(*options, "--scale", "2,4", "--epsilon", "0.5,1")
    pairs = [(row["scale"], row["epsilon"]) for row in rows]
    assert pairs == [(2, 0.5), (2, 1), (4, 0.5), (4, 1)]
    for row in rows:
        alone = run.json(*options, "--scale", row["scale"], "--epsilon", row["epsilon"])
        assert alone == row


def test_bounds_in_the_table_are_rounded_outwards(run):
    options = ["leakage", "haar:8", "--scale", 1, "--alpha", 0.05]
    row, line = run.json(*options), run(*options).stdout.splitlines()[1].split()
    assert float(line[2]) >= row["leakage_upper"]
    assert float(line[4]) <= row["leakage_lower"]


@pytest.mark.parametrize("options", [[], ["--noise", "gaussian", "--epsilon", 0.5]])
def test_distances_are_taken_once_and_nothing_is_inverted(run, options, monkeypatch):
    taken = []
    distances = neighbours.scaled_distances

    def counted(*arguments, **named):
        taken.append(1)
        return distances(*arguments, **named)

    monkeypatch.setattr(neighbours, "scaled_distances", counted)
    monkeypatch.setattr(queries, "_inverse", None)
    run.json("leakage", "prefix:4*prefix:4", "--scale", 2, "--alpha", 0.01, *options)
    assert taken == [1]


def test_extreme_outputs_of_many_rows_are_left_out(run):
    shown = run.json("leakage", "prefix:8*prefix:8", "--scale", 2, "--alpha", 0.01)
    assert shown["leakage_lower"] is None


def corollary_1_in_rows(D, alpha):
    return max(worst(row[None], alpha) for row in D)


def test_thousands_of_columns_are_compared_in_pairs():
    # bounds by the largest distance alone are far above the exact loss
    R = np.random.default_rng(0).integers(0, 9, (2, 2100)).astype(float)
    D = np.abs(R[:, :, None] - R[:, None, :]).sum(axis=0)
    shown = pml.envelope.leakage(R, scale=3.0, alpha=1e-4)
    assert shown["leakage_upper"] == pytest.approx(corollary_1_in_rows(D / 3, 1e-4), rel=1e-9)


def test_a_curve_begins_with_the_leakage_of_thousands_of_columns():
    R = np.random.default_rng(0).integers(0, 9, (2, 2100)).astype(float)
    asked = {"scale": 3.0, "alpha": 1e-4}
    curve = pml.envelope.alpha_curve(R, **asked, shares=(1.0,))
    assert curve["leakage_upper"] == [pml.envelope.leakage(R, **asked)["leakage_upper"]]


def test_every_row_is_announced(run, monkeypatch):
    lines = []
    monkeypatch.setattr("pmldesign.cli.leakage.progress", lambda: nullcontext(lines.append))
    run("leakage", "prefix:4", "--scale", "1,2", "--alpha", 0.1)
    assert lines == ["prefix:4: 1 of 2", "prefix:4: 2 of 2"]


def test_distances_of_counts_write_no_matrix(monkeypatch):
    monkeypatch.setattr(losses, "FEW_ENTRIES", 0)
    for room in (queries, written_queries):
        monkeypatch.setattr(room, "as_matrix", None)
    j = np.arange(2100)
    shown = pml.envelope.leakage(pml.strategy("prefix:2100"), scale=300.0, alpha=1e-4)
    D = np.abs(np.subtract.outer(j, j)) / 300
    assert shown["leakage_upper"] == pytest.approx(corollary_1_in_rows(D, 1e-4), rel=1e-9)
    assert shown["dp"] == pytest.approx(2099 / 300, rel=1e-12)
