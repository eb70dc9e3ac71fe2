"""What the papers read off their figures, checked on the numbers that the examples draw."""

import csv
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def zso():
    return load("zso_figures")


@pytest.fixture(scope="module")
def syg():
    return load("syg_figure")


def test_zso_workloads(zso):
    workloads = zso.workloads()
    for row in workloads["ranges"]:
        ones = np.flatnonzero(row)
        assert len(ones) >= 1
        assert (np.diff(ones) == 1).all()
    differences = workloads["differences"]
    np.testing.assert_array_equal(differences @ differences.T, np.diag([8, 8, 4, 4, 2, 2, 2, 2]))


def test_zso_figure_1_order_and_limits(zso):
    rows = zso.figure_1(points=12)
    for name in ("histogram", "ranges", "differences"):
        chosen = [row for row in rows if row["workload"] == name]
        for row in chosen:
            assert row["extreme outputs (Theorem 2)"] <= row["Corollary 1"] + 1e-12
            assert row["Corollary 1"] < min(row["DP"], math.log(1 / row["alpha"]))
        leakage = [row["Corollary 1"] for row in chosen]
        assert leakage == sorted(leakage, reverse=True)
        # alpha -> 0: the leakage tends to the DP parameter, as sum_j alpha e^-D_j + e^-DP is at
        # most 8 alpha + e^-DP
        gap = math.log1p(8e-4 * math.exp(chosen[0]["DP"]))
        assert chosen[0]["Corollary 1"] >= chosen[0]["DP"] - gap
        # the gain is largest at large alpha
        assert chosen[-1]["DP"] - leakage[-1] > chosen[0]["DP"] - leakage[0]
    widest = max(row["Corollary 1"] - row["extreme outputs (Theorem 2)"] for row in rows)
    assert widest > 0.2


def test_zso_figure_2_noise_vanishes_at_the_entropy_of_the_rarest_cell(zso):
    rows = zso.figure_2(points=10)
    for alpha in (0.01, 0.05, 0.1):
        chosen = [row for row in rows if row["alpha"] == alpha]
        for row in chosen:
            assert row["extreme outputs (Theorem 2)"] <= row["Corollary 1"] < row["DP"]
            assert row["DP"] == pytest.approx(6 / row["epsilon"])
        for column in ("extreme outputs (Theorem 2)", "Corollary 1", "DP"):
            values = [row[column] for row in chosen]
            assert values == sorted(values, reverse=True)
        assert chosen[-1]["epsilon"] == math.log(1 / alpha)
        assert chosen[-1]["Corollary 1"] == 0
        assert 0 < chosen[-2]["Corollary 1"] < 0.6
    small = {row["alpha"]: row for row in rows if row["epsilon"] == 0.1}
    share = [small[alpha]["Corollary 1"] / small[alpha]["DP"] for alpha in (0.01, 0.05, 0.1)]
    assert share == sorted(share, reverse=True)


def test_zso_files(zso, tmp_path, unarranged):
    zso.main(tmp_path / "new")
    for name, count in (("zso_figure_1", 3 * 40), ("zso_figure_2", 3 * 41)):
        assert (tmp_path / "new" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        with (tmp_path / "new" / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == count


def test_syg_distance_without_and_with_overwhelming_noise(syg):
    rng = np.random.default_rng(0)
    assert syg.distance(5, 1e-3, 20, rng) == (0.0, 0.0)
    # half the counts are clipped to 0, the rest are dominated by i.i.d. exponential noise
    mean, error = syg.distance(10, 1e9, 4000, rng)
    draws = np.maximum(rng.laplace(size=(40_000, 10)), 0)
    totals = draws.sum(axis=1, keepdims=True)
    limit = (
        np.where(totals > 0, np.abs(draws / np.maximum(totals, 1e-300) - 0.1), 0.2).sum(axis=1) / 2
    )
    assert abs(mean - limit.mean()) < 5 * (error + limit.std() / 200)


def test_syg_small_noise_in_closed_form(syg):
    # without clipping the distance is about sum |noise - mean noise| / 2n, and E |Laplace| = b
    mean, error = syg.distance(2, 20.0, 40_000, np.random.default_rng(3))
    # two cells: |z_1 - z_2| / (2 n) with E |z_1 - z_2| = 3 b / 2, for n = 1000, plus the error of
    # dividing by the noisy total, below 1 %
    assert abs(mean - 0.75 * 20 / 1000) < 5 * error + 0.01 * mean


def test_syg_figure_1_pml_is_closer_to_the_truth(syg):
    rows = syg.figure_1a(repetitions=1500) + syg.figure_1b(repetitions=1500)
    for row in rows:
        assert row["PML scale"] < row["DP scale"] == 2 / row["epsilon"]
        error = math.hypot(row["DP standard error"], row["PML standard error"])
        assert row["PML distance"] < row["DP distance"] + 4 * error
    gains = [row["DP distance"] - row["PML distance"] for row in rows if row["epsilon"] < 0.1]
    errors = [
        math.hypot(r["DP standard error"], r["PML standard error"])
        for r in rows
        if r["epsilon"] < 0.1
    ]
    assert sum(gains) > 5 * math.hypot(*errors)


def test_syg_figure_1_trends(syg):
    rows = syg.figure_1a(repetitions=1500)
    for cells, low, high in ((5, 0.05, 0.15), (10, 0.05, 0.1)):
        curve = {
            alpha: [row for row in rows if (row["cells"], row["alpha"]) == (cells, alpha)]
            for alpha in (low, high)
        }
        for alpha in (low, high):
            distances = [row["PML distance"] for row in curve[alpha]]
            assert distances == sorted(distances, reverse=True)
        # larger alpha, less noise, smaller distance
        for less, more in zip(curve[high], curve[low], strict=True):
            assert less["PML scale"] < more["PML scale"]
        assert sum(r["PML distance"] for r in curve[high]) < sum(
            r["PML distance"] for r in curve[low]
        )
    by_cells = [row for row in syg.figure_1b(repetitions=1500) if row["epsilon"] == 0.05]
    for kind in ("DP", "PML"):
        distances = [row[f"{kind} distance"] for row in by_cells]
        assert distances == sorted(distances)


def test_syg_files(syg, tmp_path, unarranged):
    syg.main(tmp_path, repetitions=20)
    assert (tmp_path / "syg_figure_1.png").read_bytes()[:4] == b"\x89PNG"
    with (tmp_path / "syg_figure_1a.csv").open() as file:
        assert {row["cells"] for row in csv.DictReader(file)} == {"5", "10"}
    assert (tmp_path / "syg_figure_1b.csv").exists()


def test_a_design_for_pml_is_never_worse_than_one_for_dp(
    tmp_path, monkeypatch, unarranged, little_work
):
    example = load("pml_design/run")
    monkeypatch.setattr("sys.argv", ["run.py", "--effort", "quick", "--output", str(tmp_path)])
    example.main()
    with (tmp_path / "error.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    for row in rows:
        assert float(row["error"]) <= float(row["dp_noise"])
    for name in ("prefix:8", "haar:8"):
        errors = [float(row["error"]) for row in rows if row["workload"] == name]
        assert errors[-1] < errors[0]  # knowing more costs less
    assert (tmp_path / "strategies.png").stat().st_size > 10_000
    assert (tmp_path / "error.png").stat().st_size > 10_000
