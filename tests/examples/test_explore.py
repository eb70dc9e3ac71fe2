"""The page with sliders: its numbers are those of closed forms, and it loads nothing."""

import json
import math
import re
import runpy
from pathlib import Path

import pytest
import scipy

PAGE = Path(__file__).parents[2] / "examples" / "explore" / "page.py"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore")
    runpy.run_path(str(PAGE))["main"](folder, sizes=(8, 16))
    return (folder / "explore.html").read_text()


@pytest.fixture(scope="module")
def data(page):
    return json.loads(re.search(r'id="explore-data">(.*?)</script>', page)[1])


def test_units_are_those_of_closed_forms(data):
    for n in (8, 16):
        sums, counts, ranges = (
            data["units"][asked][str(n)]
            for asked in ("running sums", "single counts", "all ranges")
        )
        assert math.isclose(sums["laplace"]["identity"], math.sqrt(2 * n), rel_tol=1e-9)
        assert math.isclose(sums["gaussian"]["identity"], math.sqrt(n), rel_tol=1e-9)
        assert math.isclose(ranges["gaussian"]["identity"], math.sqrt(n), rel_tol=1e-9)
        assert math.isclose(counts["laplace"]["identity"], math.sqrt(2), rel_tol=1e-9)
        assert math.isclose(counts["gaussian"]["design"], 1.0, rel_tol=1e-5)
        for by_noise in (sums, counts, ranges):
            gaussian = by_noise["gaussian"]
            assert gaussian["design"] <= min(gaussian.values()) * (1 + 1e-5)


def test_scales_meet_the_guarantee_and_no_smaller_ones_do(data):
    def delta(scale, epsilon):
        a, b = 1 / (2 * scale), epsilon * scale
        ndtr = scipy.special.ndtr
        return ndtr(a - b) - math.exp(epsilon) * ndtr(-a - b)

    for epsilon, scale in zip(data["epsilons"], data["scales"], strict=True):
        assert delta(scale, epsilon) <= 1e-6 * (1 + 1e-9)
        assert delta(scale / (1 + 1e-5), epsilon) > 1e-6
    assert data["epsilons"] == sorted(data["epsilons"])


def test_the_page_needs_no_server(page):
    assert not re.findall(r"https?://|\bfetch\(|\bimport\b| src=", page)
    names = set(re.findall(r'at\("([\w-]+)"\)', page))
    assert names <= set(re.findall(r'id="([\w-]+)"', page))
