"""What is left of PML if alpha is less than what was assumed."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import neighbours


def test_half_of_alpha_and_nothing_of_it_for_a_histogram():
    """Theorem 4 of Saeidian et al.: 2/b - log(1 - alpha + alpha e^(2/b)) for the histogram."""
    noisy = pml.mechanism("identity", "histogram:5", guarantee=pml.PML(1, 0.1), noise="laplace")
    step = 2 / noisy.scale
    exact = step - math.log(1 - 0.05 + 0.05 * math.exp(step))
    assert noisy.fallback.half == pytest.approx(exact, rel=1e-12)
    assert noisy.fallback.dp == pytest.approx(step, rel=1e-12)
    assert noisy.fallback.half >= exact * (1 - 1e-15)
    assert 1 < noisy.fallback.half < noisy.fallback.dp


def test_slack_of_gaussian_noise_for_two_cells_and_one_record():
    """Of the half lines y > t, by integration, over all priors with half of alpha."""
    guarantee = pml.ApproxPML(0.5, 0.02, 0.3)
    noisy = pml.mechanism([[1.0, 0.0]], [[1.0, 0.0]], guarantee=guarantee, noise="gaussian")
    t = np.linspace(-30, 30, 60001)
    first, second = stats.norm.sf((t - 1) / noisy.scale), stats.norm.sf(t / noisy.scale)
    worst = {}
    for least in (0.3, 0.15, 0.0):
        mixed = least * first + (1 - least) * second
        worst[least] = float((first - math.exp(0.5) * mixed).max())
    assert worst[0.3] == pytest.approx(0.02, rel=1e-3)
    assert noisy.fallback.half == pytest.approx(worst[0.15], rel=1e-5)
    assert noisy.fallback.dp == pytest.approx(worst[0.0], rel=1e-5)


@pytest.mark.parametrize("alpha", [0.1, (0.1, 0.2, 0.05, 0.3, 0.02)])
def test_losses_grow_as_alpha_falls(alpha):
    shares = (1, 0.8, 0.5, 0.1, 1e-3, 1e-9, 0)
    curve = pml.envelope.alpha_curve("prefix:5", scale=4, alpha=alpha, shares=shares)
    losses = curve["leakage_upper"]
    assert losses[0] == pml.envelope.leakage("prefix:5", scale=4, alpha=alpha)["leakage_upper"]
    assert losses == sorted(losses)
    assert losses[-1] == 1.0
    assert losses[-2] == pytest.approx(1.0, abs=1e-7)
    curve = pml.envelope.alpha_curve(
        "prefix:5", scale=4, alpha=alpha, noise="gaussian", epsilon=0.3
    )
    assert curve["slack"] == sorted(curve["slack"])
    assert curve["envelope"] == sorted(curve["envelope"])
    assert curve["slack"][-2] == pytest.approx(curve["slack"][-1], rel=1e-2)
    assert curve["envelope"][-1] == 1


def test_no_fallback_without_pml():
    assert pml.mechanism("identity", "prefix:4", guarantee=pml.PureDP(1)).fallback is None
    with pytest.raises(InvalidInputError):
        pml.envelope.alpha_curve("prefix:5", scale=4, alpha=0.1, noise="gaussian")
    with pytest.raises(InvalidInputError):
        pml.envelope.alpha_curve("prefix:5", scale=4, alpha=0.1, shares=(1, 2))


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="pmldesign")


def test_commands(tmp_path):
    result = run("calibrate", "histogram:5", "--epsilon", 1, "--alpha", 0.1, "--json")
    wrong = json.loads(result.stdout)["if_alpha_is_wrong"]
    assert wrong["loss"] == "epsilon"
    assert 1 < wrong["half_alpha"] < wrong["dp"]
    shown = run("calibrate", "histogram:5", "--epsilon", 1, "--alpha", 0.1).stdout
    assert "if nothing of it holds:" in shown
    pml_at = ("--epsilon", 1, "--alpha", 0.1, "--effort", "quick")
    design = ("optimize", "histogram:3", *pml_at, "--json")
    assert json.loads(run(*design).stdout)["if_alpha_is_wrong"]["dp"] > 1
    leaks = ("leakage", "histogram:5", "--scale", 2, "--alpha", 0.1)
    picture = tmp_path / "curve.png"
    curve = json.loads(run(*leaks, "--alpha-curve", "--plot", picture, "--json").stdout)
    assert curve["share"][0] == 1
    assert curve["leakage_upper"][-1] == 1
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run(*leaks, "--plot", picture).exit_code == 2
    assert run(*leaks, "--alpha-curve", "--plot", tmp_path / "curve.txt").exit_code == 6


def test_distances_of_all_pairs_are_taken_once(monkeypatch):
    """For sensitivity, calibration and both losses without alpha, whatever is public."""
    taken = []
    plain = neighbours.scaled_distances
    monkeypatch.setattr(
        neighbours, "scaled_distances", lambda *a, **k: taken.append(a) or plain(*a, **k)
    )
    noisy = pml.mechanism("tree", "prefix:11", guarantee=pml.PML(1, 0.01), noise="laplace")
    assert noisy.fallback.dp == pytest.approx(noisy.sensitivity / noisy.scale, rel=1e-15)
    assert noisy.fallback.half < noisy.fallback.dp
    assert len(taken) == 1
