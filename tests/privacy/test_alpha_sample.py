"""alpha from a public sample: limits, how often they hold, and what guarantees say of them."""

import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner
from leakages import laplace_leakage_bound
from scipy import stats

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import BALL, SampledAlpha, from_json, sampled_alpha

COUNTS = (120, 300, 50, 30, 0)


def test_limits_are_where_the_binomial_tail_is_the_share_of_a_cell():
    confidence, total = 0.95, sum(COUNTS)
    limits = sampled_alpha(COUNTS, confidence)
    for limit, count in zip(limits[:4], COUNTS[:4], strict=True):
        tail = stats.binom.sf(count - 1, total, limit)
        assert tail == pytest.approx((1 - BALL) * 0.05 / 5, rel=1e-6)
        assert tail <= (1 - BALL) * 0.05 / 5
    assert limits[4] == 0
    # by hand: of n records all in one cell of two, p^n = beta
    ten = sampled_alpha([10, 0], 0.9)
    assert ten[0] == pytest.approx(((1 - BALL) * 0.05) ** 0.1, rel=1e-8)
    assert sum(limits) < 1
    # the two sets of one cell of two: 2 e^(-10 rho^2/2) is the ball's part
    assert 2 * np.exp(-5 * ten.radius**2) == pytest.approx(BALL * 0.1, rel=1e-6)
    assert 2 * np.exp(-5 * ten.radius**2) <= BALL * 0.1


@pytest.mark.parametrize("counts", [[10**18, 5], [-1, 5], [0.5, 5]])
def test_counts_are_whole_numbers_that_doubles_hold(counts):
    with pytest.raises(InvalidInputError, match=r"from 0 to 2\^53, got .* for cell 0"):
        sampled_alpha(counts)


def hostile_priors():
    """Distributions at which limits of counts hold least often, and others."""
    for k in (2, 3, 12):
        yield np.full(k, 1 / k)
        spike = np.full(k, 0.03 / (k - 1))
        spike[0] = 0.97
        yield spike
        yield np.geomspace(1, 1e-6, k) / np.geomspace(1, 1e-6, k).sum()
    for beta in (0.05 / 2, 0.05 / 4):  # a count of one is just too many for the smallest cell
        p = -np.expm1(np.log1p(-beta) / 40)
        yield np.array([p, 1 - p])
    yield np.array([0.5, 0.5 - 1e-9, 1e-9])


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("prior", list(hostile_priors()), ids=lambda p: f"{len(p)}-{p[0]:.3g}")
def test_all_limits_hold_at_least_as_often_as_stated(prior, confidence):
    rng, records, samples = np.random.default_rng(11), 40, 10_000
    counts = rng.multinomial(records, prior, size=samples)
    k = len(prior)
    table = np.array(
        [sampled_alpha([x, records - x] + [0] * (k - 2), confidence)[0] for x in range(records + 1)]
    )
    share = (table[counts] <= prior).all(axis=1).mean()
    assert share >= confidence
    # exactly, cell by cell: the probability that a limit is too high is at most its share
    for p in prior:
        wrong = stats.binom.pmf(np.flatnonzero(table > p), records, p).sum()
        assert wrong <= (1 - confidence) / k * (1 + 1e-9)


def test_guarantees_say_where_alpha_comes_from():
    guarantee = pml.PML(1, pml.envelope.sampled_alpha(COUNTS, 0.95))
    words = guarantee.describe(5)
    assert "confidence 0.95" in words
    assert "public sample of 500 independent records of the same population" in words
    numbers = json.loads(json.dumps(guarantee.to_json()))
    radius = numbers["sample"].pop("radius")
    assert f"an l1 distance of {radius!r} of the frequencies in a public sample" in words
    assert numbers["sample"] == {"records": 500, "confidence": 0.95, "counts": list(COUNTS)}
    numbers["sample"]["radius"] = radius
    assert from_json(numbers).describe(5) == words
    again = pickle.loads(pickle.dumps(guarantee))
    assert again.describe(5) == words
    assert isinstance(again.alpha, SampledAlpha)
    for sample in (
        {"records": 5},
        {**numbers["sample"], "confidence": 2},
        {**numbers["sample"], "radius": 0.9 * radius},
        {**numbers["sample"], "counts": [*COUNTS[:4], 1]},
        7,
    ):
        with pytest.raises(InvalidInputError):
            from_json({**numbers, "sample": sample})


def limits(values):
    return SampledAlpha(values, (50, 50), 0.9, 2.0)


def test_cells_that_were_never_seen_fall_back_to_what_holds():
    """One record of two cells, of which only the first is known to be likely: by enumeration."""
    scale, least = 1.5, 0.4
    bound = laplace_leakage_bound(np.eye(2), scale=scale, alpha=limits((least, 0.0)))
    near, far = np.exp(-2 / scale), 1.0
    worst = max(
        -np.log(p * (far if r == 0 else near) + (1 - p) * (near if r == 0 else far))
        for p in np.linspace(least, 1, 2001)
        for r in (0, 1)
    )
    assert bound == pytest.approx(worst, abs=1e-12)
    assert bound == pytest.approx(2 / scale, rel=1e-12)  # that of differential privacy
    assert laplace_leakage_bound(np.eye(2), scale=scale, alpha=(least, 0.3)) < bound
    for guarantee in (
        pml.ApproxPML(1, 1e-3, limits((0.4, 0.0))),
        pml.EnvelopePML(1, 1e-3, limits((0.4, 0.0))),
    ):
        assert 0 < pml.calibrate(np.eye(2), guarantee, noise="gaussian").scale < 10


@pytest.mark.parametrize(
    ("counts", "confidence"),
    [([1, 2], 1.0), ([1, -2], 0.9), ([1.5, 2], 0.9), ([0, 0], 0.9), ([3], 0.9), ([1, np.nan], 0.9)],
)
def test_bad_input(counts, confidence):
    with pytest.raises(InvalidInputError):
        sampled_alpha(counts, confidence)


def command(*words):
    return CliRunner().invoke(main, list(words), prog_name="pmldesign")


def test_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text("120\n300\n50\n30\n0\n")
    shared = ("--alpha", "sample:counts.csv,confidence=0.95", "--json")
    result = command("calibrate", "histogram:5", "--epsilon", "1", *shared)
    assert "1 of 5 cells are not in the sample" in result.stderr
    numbers = json.loads(result.stdout)["guarantee_numbers"]
    assert numbers["alpha"] == list(sampled_alpha(COUNTS, 0.95))
    assert numbers["sample"] == sampled_alpha(COUNTS, 0.95).to_json()
    leaks = json.loads(command("leakage", "histogram:5", "--scale", "2", *shared).stdout)
    assert leaks["leakage_upper"] <= leaks["dp"]
    wrong = ("--alpha", "counts.csv,confidence=0.9")
    assert command("leakage", "histogram:5", "--scale", "2", *wrong).exit_code == 2
    by_text = "pml:1,alpha=sample:counts.csv,confidence=0.95"
    same = command("calibrate", "histogram:5", "--guarantee", by_text, "--json")
    assert json.loads(same.stdout) == json.loads(result.stdout)
