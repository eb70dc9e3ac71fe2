"""The stored rows of the studies in examples/lp_error, against closed forms; and their pictures."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "lp_error"
EXPONENTS = {2.0, 4.0, 16.0}


@pytest.fixture(scope="module")
def figures():
    specification = importlib.util.spec_from_file_location("figures", FOLDER / "figures.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(figures):
    return figures.read("study.csv", "streams.csv")


def test_every_setting_of_the_studies_has_its_row(rows):
    running = {(row["workload"], row["p"]) for row in rows if row["strategy"] == "least-norm"}
    for n in (16, 256, 4096, 10**4, 10**6):
        assert (f"prefix:{n}", "2.0") in running
    assert {row["status"] for row in rows} == {"done"}
    assert len(rows) == 15 * 3 * 3 + 3 * 2


def test_bounds_meet_within_the_gap_that_was_asked_for(rows):
    for row in rows:
        lower, upper = float(row["norm_lower"]), float(row["norm_upper"])
        gap = 1e-3 if int(row["cells"]) >= 10**4 else 1e-5
        assert lower <= upper <= lower * (1 + gap)


def test_norms_of_parities_are_those_of_theorem_1_6(rows):
    parities = [row for row in rows if row["workload"].startswith("parity")]
    assert {float(row["p"]) for row in parities} == EXPONENTS
    for row in parities:
        norm = int(row["queries"]) ** (1 / 2 + 1 / float(row["p"]))
        # the bounds are rounded outwards, the closed form is rounded to nearest
        assert float(row["norm_lower"]) <= norm * (1 + 1e-14)
        assert float(row["norm_upper"]) >= norm * (1 - 1e-14)


def test_errors_of_least_norm_are_the_norm_times_the_noise(rows):
    for row in (row for row in rows if row["strategy"] == "least-norm"):
        p, scale = float(row["p"]), float(row["scale"]) / float(row["sensitivity"])
        moment = math.exp(
            (p / 2 * math.log(2) + math.lgamma((p + 1) / 2) - math.log(math.pi) / 2) / p
        )
        norm = float(row["error"]) / (scale * moment)
        assert float(row["norm_lower"]) * (1 - 1e-9) <= norm
        assert norm <= float(row["norm_upper"]) * (1 + 1e-9)


def test_errors_of_the_square_root_are_sums_of_central_binomials(rows):
    chosen = [
        row
        for row in rows
        if row["strategy"] == "square-root" and row["workload"].startswith("prefix")
    ]
    assert len(chosen) == 9 * 3
    for row in chosen:
        n, p = int(row["cells"]), float(row["p"])
        ratios = (2 * np.arange(1, n) - 1) / (2 * np.arange(1, n))
        squares = np.cumsum(np.concatenate([[1.0], np.cumprod(ratios) ** 2]))
        assert float(row["sensitivity"]) == pytest.approx(math.sqrt(squares[-1]), rel=1e-9)
        norm = float(np.sum(squares ** (p / 2)) ** (1 / p) * math.sqrt(squares[-1]))
        assert float(row["norm"]) == pytest.approx(norm, rel=1e-9)


def test_the_picture_of_parities_has_what_no_mechanism_reaches(figures, rows, tmp_path):
    parities = [row for row in rows if row["workload"].startswith("parity:4")]
    names = {"Theorem D.1": "from above", "parity": "from below"}
    figure = figures.picture(parities, lambda m, p: m ** (1 / 2 + 1 / p), "queries", names, "error")
    assert len(figure.axes) == 3
    for axes in figure.axes:
        lines = {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}
        below, above = lines["from below"], lines["from above"]
        assert (below < lines["no mechanism is below, worst case"]).all()
        assert (lines["no mechanism is below, worst case"] < lines["least norm"]).all()
        # Theorem D.1 is false for p = 16 and so few queries, and left out
        assert len(above) == (0 if axes.get_title() == "p = 16" else 2)
        assert (lines["least norm"][: len(above)] < above).all()
        # Theorem 1.6: the norm is m^(1/2 + 1/p) exactly, so this line is level
        assert np.ptp(lines["least norm"]) < 1e-4 * lines["least norm"][0]
