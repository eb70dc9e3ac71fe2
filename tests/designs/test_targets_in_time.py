"""Targets where time is short: coarse noise, which is private, or the noise that is quick."""

import itertools

import numpy as np
import pytest
from leakages import gaussian_envelope_delta, gaussian_slack_delta, laplace_leakage_bound

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.designs import dispatch, mechanism_seconds, rivals
from pmldesign.files import verify_file, write_strategy
from pmldesign.privacy import calibrate
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import parse_workload

PROMISES = [
    pml.ApproxPML(1.0, 1e-4, alpha=0.05),
    pml.EnvelopePML(1.0, 1e-4, alpha=0.05),
    pml.PML(1.0, alpha=0.05),
    pml.PureDP(1.0, "replace"),
]


def all_pairs_take(monkeypatch, seconds):
    """The noise for all distances of cells; a bound on the largest takes none."""

    def estimate(*_, by_diameter=False):
        return 0.0 if by_diameter else seconds

    monkeypatch.setattr(rivals, "calibration_seconds", estimate)


def lost(noisy):
    """What the noise of a mechanism loses, and what it may lose, from the columns themselves."""
    R, scale, promise = noisy.strategy.matrix, noisy.scale, noisy.guarantee
    if isinstance(promise, pml.PureDP):
        pairs = itertools.combinations(R.T, 2)
        return max(np.abs(one - other).sum() for one, other in pairs) / scale, promise.epsilon
    if noisy.noise is pml.Noise.LAPLACE:
        return laplace_leakage_bound(R, scale=scale, alpha=0.05), promise.epsilon
    envelope = isinstance(promise, pml.EnvelopePML)
    delta_of = gaussian_envelope_delta if envelope else gaussian_slack_delta
    return delta_of(R, scale=scale, epsilon=promise.epsilon, alpha=0.05), promise.delta


@pytest.mark.parametrize("promise", PROMISES)
def test_noise_is_coarse_and_private(tmp_path, monkeypatch, promise):
    asked = {"search_time": 0.01, "time_limit": 20.0}
    exact = pml.least_budget("prefix:12", 8.0, promise, **asked)
    all_pairs_take(monkeypatch, 1e9)
    found = pml.least_budget("prefix:12", 8.0, promise, **asked)
    assert found.mechanism.strategy.by_diameter
    assert not exact.mechanism.strategy.by_diameter
    assert exact.enough <= found.enough * (1 + 1e-3)
    assert found.enough <= 1.6 * exact.enough
    assert found.at_least <= exact.enough
    loss, most = lost(found.mechanism)
    assert loss <= most * (1 + 1e-9)
    assert found.mechanism.max_std <= 8
    write_strategy(tmp_path / "coarse.npz", found.mechanism)
    assert verify_file(tmp_path / "coarse.npz").holds


def test_with_a_delta_the_slower_noise_is_left_out_and_the_design_keeps_its_time(monkeypatch):
    limits = []

    def solved(workload, p, options):
        limits.append(options.time_limit)
        return dispatch.solve(workload, p, options)

    def estimate(_, noise, *__, **___):
        return 1e9 if noise is pml.Noise.LAPLACE else 0.0

    monkeypatch.setattr(rivals, "calibration_seconds", estimate)
    monkeypatch.setattr("pmldesign.designs.targets.least.solve", solved)
    promise = pml.ApproxDP(1, 1e-6, "replace")
    found = pml.least_budget("prefix:64", 8.0, promise, time_limit=100.0, search_time=0.01)
    assert max(limits) > 99.0
    assert found.mechanism.noise is pml.Noise.GAUSSIAN
    assert not found.mechanism.strategy.by_diameter
    assert found.gap < 1e-4


def test_targets_that_only_all_distances_meet_are_refused_for_lack_of_time(monkeypatch):
    promise, asked = pml.PML(1.0, alpha=0.05), {"search_time": 0.01, "time_limit": 20.0}
    small = 0.38
    assert pml.least_budget("prefix:12", small, promise, **asked).enough < np.log(20)
    all_pairs_take(monkeypatch, 1e9)
    with pytest.raises(pml.InvalidInputError, match="no time for all distances; allow more time"):
        pml.least_budget("prefix:12", small, promise, **asked)


def test_rows_are_left_out_whose_noise_would_end_after_the_limit(monkeypatch, capsys):
    promise = ["--delta=1e-4", "--alpha=0.05", "--time-limit=20"]
    all_pairs_take(monkeypatch, 1e9)
    assert main(["target", "prefix:12", "--std=8", *promise], standalone_mode=False) is None
    shown = capsys.readouterr()
    assert "all as far apart as any two, for lack of time" in shown.err
    assert "leaves out 'equal noise': the time limit came first" in shown.err
    assert "\ndesign " in shown.out


def test_of_differences_entry_by_entry_more_is_expected_than_of_counts():
    asked = parse_workload("prefix:512"), pml.PureDP(1, "replace"), pml.Noise.LAPLACE, np.inf
    entries = np.random.default_rng(1).standard_normal((512, 512))
    slow = mechanism_seconds(Strategy("R", entries, np.linalg.inv(entries)), *asked)
    quick = mechanism_seconds(baseline("identity", asked[0]), *asked)
    assert slow == pytest.approx(512**3 / 2 / 7e8)
    assert quick <= slow / 9


@pytest.mark.parametrize("promise", PROMISES[:3])
def test_a_scale_is_found_near_any_other(promise):
    strategy = Strategy("R", np.random.default_rng(3).standard_normal((4, 7)))
    noise = "gaussian" if promise.delta else "laplace"
    plain = calibrate(strategy, promise, noise=noise)
    for factor in (0.01, 0.9, 1 - 1e-7, 1.0, 1 + 1e-7, 1.1, 100.0):
        near = calibrate(strategy, promise, noise=noise, near=factor * plain.scale)
        assert near.scale == pytest.approx(plain.scale, rel=1e-6)
        loss = near.achieved
        assert loss <= (promise.delta or promise.epsilon)
