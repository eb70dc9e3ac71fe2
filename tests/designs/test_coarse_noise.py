"""Noise where time is short: for the largest distance alone, private and not much too large."""

import numpy as np
import pytest
from leakages import gaussian_envelope_delta, gaussian_slack_delta, laplace_leakage_bound

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.designs import rivals
from pmldesign.files import verify_file, write_strategy
from pmldesign.privacy import calibrate, columns
from pmldesign.strategies import Strategy

CASES = [
    ("gaussian", pml.ApproxPML(1.0, 1e-4, alpha=0.05)),
    ("gaussian", pml.EnvelopePML(1.0, 1e-4, alpha=0.05)),
    ("laplace", pml.PML(1.0, alpha=0.05)),
]
RNG = np.random.default_rng(5)
COLUMNS = [
    RNG.standard_normal((3, 6)),
    RNG.integers(0, 2, (5, 9)).astype(float),
    np.array([[0.0, 1.0, 1.0, 1.0]]),
    np.array([[0.0, 1.0], [0.0, 3.0]]),
]


@pytest.mark.parametrize(("noise", "guarantee"), CASES)
def test_it_is_private_and_exact_where_all_cells_are_as_far_apart(noise, guarantee):
    for R in [*COLUMNS, np.eye(7)]:
        strategy = Strategy("R", R)
        exact = calibrate(strategy, guarantee, noise=noise).scale
        coarse = calibrate(strategy.coarse(), guarantee, noise=noise)
        if noise == "laplace":
            lost = laplace_leakage_bound(R, scale=coarse.scale, alpha=0.05)
        else:
            envelope = guarantee.failure == "envelope"
            delta_of = gaussian_envelope_delta if envelope else gaussian_slack_delta
            lost = delta_of(R, scale=coarse.scale, epsilon=1.0, alpha=0.05)
        assert lost <= coarse.achieved * (1 + 1e-9)
        assert coarse.scale >= exact * (1 - 1e-6)
    assert coarse.scale <= exact * (1 + 2e-6)


@pytest.mark.parametrize(("noise", "guarantee"), CASES)
def test_a_design_has_it_where_time_is_short(tmp_path, monkeypatch, noise, guarantee):
    def seconds(*_, by_diameter=False):
        return 0.0 if by_diameter else 1e9

    exact = pml.optimize("prefix:12", guarantee=guarantee, noise=noise, search_time=0.01)
    monkeypatch.setattr(rivals, "calibration_seconds", seconds)
    coarse = pml.all_designs("prefix:12", guarantee=guarantee, time_limit=100.0)
    best = coarse.mechanisms[coarse.best]
    assert best.noise == noise
    assert exact.error() <= best.error() * (1 + 1e-6)
    assert best.error() <= 1.5 * exact.error()
    write_strategy(tmp_path / "coarse.npz", coarse.norm_design, mechanism=best)
    assert verify_file(tmp_path / "coarse.npz").holds
    compared = pml.compare("prefix:12", ["design"], guarantee=guarantee, time_limit=100.0)
    assert compared.rows[0].error == pytest.approx(best.error(), rel=1e-6)


@pytest.mark.parametrize("workload", ["prefix:9", "all-range:4*total:2", "prefix:260"])
def test_the_strategy_of_least_norm_has_it_beside_a_search_under_replace(
    tmp_path, monkeypatch, capsys, workload
):
    def seconds(*_, by_diameter=False):
        return 0.0 if by_diameter else 1e9

    promise, asked = pml.PureDP(1.0, "replace"), {"search_time": 0.1, "noise": "laplace"}
    exact = pml.all_designs(workload, guarantee=promise, **asked)
    monkeypatch.setattr(rivals, "calibration_seconds", seconds)
    monkeypatch.setitem(columns.MOST_PAIRED, 1, 0)
    found = pml.all_designs(workload, guarantee=promise, time_limit=20.0, **asked)
    first, best = found.mechanisms[0], found.mechanisms[found.best]
    assert first.strategy.by_diameter
    assert not best.strategy.by_diameter or best is first
    R = first.strategy.matrix
    distances = np.abs(R[:, :, None] - R[:, None, :]).sum(axis=0)
    assert distances.max() <= first.scale * (1 + 1e-12)
    assert best.error() <= 1.1 * exact.mechanisms[exact.best].error()
    if len(distances) > 256:  # of fewer verification knows all distances
        write_strategy(tmp_path / "first.npz", found.norm_design, mechanism=first)
        assert verify_file(tmp_path / "first.npz").holds
    options = ["--neighbours=replace", "--epsilon=1", "--noise=laplace", "--search-time=0.1"]
    with pytest.raises(SystemExit):
        main(["optimize", workload, *options, "--time-limit=20"])
    assert "noise of least-norm is for a bound on distances of cells" in capsys.readouterr().err


@pytest.mark.parametrize("first", [False, True])
def test_distances_do_not_depend_on_which_was_asked_first(first, monkeypatch):
    """The largest distance of a strategy, 5, and the bound of its coarse form."""
    monkeypatch.setattr(columns, "MOST_PAIRED", {1: 0})
    strategy = Strategy("R", [[3.0, 0.0, 0.0, 0.0], [0.0, 2.0, 1.0, -2.0]])
    _ = strategy.sensitivity  # what the copy knows as well
    asked = [strategy.coarse(), strategy]
    known = {
        one.by_diameter: one.sensitivity_under(pml.Neighbours.REPLACE, "l1")
        for one in (asked if first else asked[::-1])
    }
    assert known[None] == 5.0
    assert known[True] == pytest.approx(2.5 + 3.0)  # the largest distances from the mean


def test_an_error_that_would_end_far_too_late_is_left_out_or_refused(monkeypatch):
    """Of Laplace noise at p = 4: Gaussian noise stays, a pure epsilon has none in time."""
    both, pure = pml.ApproxDP(1.0, 1e-6), pml.PureDP(1.0)
    asked = {"p": 4.0, "search_time": 0.0}
    found = pml.all_designs("prefix:6", guarantee=both, time_limit=50.0, **asked)
    assert found.laplace_design is not None
    monkeypatch.setattr(rivals, "WRITTEN", 10.0)  # 36 entries of R^+, and of L: 720 s,
    # of the design and of what the search finds
    late = pml.all_designs("prefix:6", guarantee=both, time_limit=50.0, **asked)
    assert late.laplace_design is None
    assert "laplace" not in [noisy.noise for noisy in late.mechanisms]
    assert "laplace" in [noisy.noise for noisy in found.mechanisms]
    with pytest.raises(pml.InvalidInputError, match=r"p = 4 take about 1440 s, .* allow 2880 s"):
        pml.all_designs("prefix:6", guarantee=pure, time_limit=50.0, **asked)
    assert pml.all_designs("prefix:6", guarantee=pure, **asked).laplace_design is not None
    at_two = pml.all_designs("prefix:6", guarantee=pure, time_limit=50.0, search_time=0.0)
    assert at_two.laplace_design is not None
