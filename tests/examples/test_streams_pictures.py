"""The stored rows behind the pictures of streams, against closed forms and designs."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from pmldesign.designs import factorize

FOLDER = Path(__file__).parents[2] / "examples" / "streams"


@pytest.fixture(scope="module")
def figures():
    specification = importlib.util.spec_from_file_location("figures", FOLDER / "figures.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_square_root_has_its_closed_form(figures):
    stored = {int(r["n"]): r for r in figures.read("errors.csv") if r["strategy"] == "square-root"}
    for n in (64, 4096, 65536):
        squares = np.cumsum(np.cumprod([1.0, *(1 - 0.5 / np.arange(1, n))]) ** 2)
        rmse = np.sqrt(squares.mean() * squares[-1])
        assert float(stored[n]["rmse"]) == pytest.approx(rmse, rel=1e-9)


def test_nothing_is_below_the_lower_bound(figures):
    rows = figures.read("errors.csv")
    bounds = {r["n"]: float(r["rmse"]) for r in rows if r["strategy"] == "lower bound"}
    assert all(float(r["rmse"]) >= bounds[r["n"]] for r in rows)


def test_gaps_are_those_of_designs(figures):
    stored = {(r["n"], r["p"], r["buffers"]): float(r["gap"]) for r in figures.read("gaps.csv")}
    best = factorize("prefix:1024", buffers=6, rel_gap=1e-7)
    assert best.certificate.gap == pytest.approx(stored["1024", "2", "6"], rel=0.1)


def test_pictures_are_drawn(figures, tmp_path, unarranged):
    figures.main(tmp_path)
    for name, words in (("streams.svg", "square-root"), ("buffers.svg", "n = 1000000, p = 2")):
        assert words in (tmp_path / name).read_text()
