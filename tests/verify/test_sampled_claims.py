"""Files for steps that are drawn: verification composes the losses again, by its own means."""

import json
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

import pmldesign as pml
from pmldesign.verifier import KEY, digest_of, sampled_delta


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds", "epsilon"),
    [(0.3, 2.0, 3, 0.25), (0.01, 2.0, 1000, 0.5), (0.16, 6.0, 63, 1.0), (0.5, 3.0, 1, 0.3)],
)
def test_the_delta_is_that_of_dp_accounting(rate, sigma, rounds, epsilon):
    """A package on a coarser grid, which rounds up like ours."""
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
    expected = PLDAccountant().compose(step, rounds).get_delta(epsilon)
    found = sampled_delta(1 / sigma, rate, rounds, epsilon)
    assert expected * (1 - 2e-3) <= found <= expected * (1 + 1e-6)


def test_the_delta_of_a_sure_draw_is_that_of_gaussian_noise():
    """A rate just below 1 is k steps of Gaussian noise, almost."""
    found = sampled_delta(0.5, 1 - 1e-9, 4, 0.7)
    from pmldesign.privacy import gaussian_delta

    assert found == pytest.approx(gaussian_delta(math.sqrt(4) * 0.5, 1.0, 0.7), rel=1e-5)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sampled") / "s.npz"
    noisy = pml.optimize(
        "prefix:24",
        guarantee=pml.ApproxDP(0.5, 1e-4),
        participation="sampled,every=8,rate=0.2",
    ).best
    pml.write(path, noisy)
    return path


def contents(path):
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    return json.loads(str(arrays.pop("header"))), arrays


def verified(path, header, arrays):
    header = {name: value for name, value in header.items() if name != KEY}
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    return pml.verify(path)


def test_an_honest_file_holds_and_is_read_again(file):
    found = pml.verify(file)
    assert found.holds, [*found.failures, *found.unchecked]
    assert "double precision" in found.arithmetic
    strategy = pml.strategy(file)
    assert str(strategy.participation) == "sampled,every=8,rate=0.2"
    noisy = pml.mechanism(strategy, "prefix:24", guarantee=pml.ApproxDP(0.5, 1e-4))
    assert noisy.scale == pytest.approx(contents(file)[0]["scale"], rel=1e-6)


def test_false_files_fail(file, tmp_path):
    header, arrays = contents(file)
    path = tmp_path / "false.npz"
    for name, factor in (("scale", 0.999), ("sensitivity", 0.999), ("achieved", 0.99)):
        assert verified(path, {**header, name: header[name] * factor}, arrays).failures, name
    for said in ("sampled,every=8,rate=0.25", "sampled,every=4,rate=0.2", "3,every=8"):
        assert verified(path, {**header, "participation": said}, arrays).failures, said
    for said in ("sampled,every=8,rate=0", "sampled,every=8,rate=2", "sampled,share=0.2"):
        assert verified(path, {**header, "participation": said}, arrays).failures, said
    wider = {name: array.copy() for name, array in arrays.items()}
    wider["strategy"][8, 0] = 1e-9  # one band more: the steps of a record meet
    wider["reconstruction"] = np.tril(np.ones((24, 24))) @ np.linalg.inv(wider["strategy"])
    assert "guarantee" in str(verified(path, header, wider).failures)


def test_a_design_is_written_without_the_bounds_on_banded_strategies_alone(tmp_path):
    design = pml.factorize("prefix:24", participation="sampled,every=8,rate=0.2")
    pml.write(tmp_path / "d.npz", design)
    assert "lower" not in contents(tmp_path / "d.npz")[0]
    assert pml.verify(tmp_path / "d.npz").holds


@pytest.mark.parametrize(
    ("steps", "rate", "delta", "epsilon", "bands"),
    [
        (100, 0.00033, 1e-9, 0.669, 1),
        (500, 0.00033, 1e-15, 0.05, 16),
        (20_000, 0.02, 1e-14, 0.669, 1),
        (100, 1e-7, 1e-8, 0.05, 16),
        (64, 0.9, 1e-8, 0.05, 4),
        (2500, 1.0, 1e-13, 0.05, 1),
        (1000, 0.001, 1e-6, 4.0, 16),
    ],
)
def test_files_of_small_deltas_and_long_trainings_hold(
    steps, rate, delta, epsilon, bands, tmp_path
):
    """No more is achieved than asked for, and the file reproduces it; less noise fails."""
    noisy = pml.mechanism(
        f"banded:{bands}",
        f"prefix:{steps}",
        guarantee=pml.ApproxDP(epsilon, delta),
        noise="gaussian",
        participation=f"sampled,every={bands},rate={rate}",
    )
    assert delta * (1 - 1e-3) <= noisy.calibration.achieved <= delta
    path = tmp_path / "s.npz"
    pml.write(path, noisy)
    found = pml.verify(path)
    assert found.holds, [*found.failures, *found.unchecked]
    header, arrays = contents(path)
    less = {**header, "scale": header["scale"] * 0.999}
    assert "guarantee" in {check.name for check in verified(path, less, arrays).failures}


def test_a_long_file_holds(tmp_path, monkeypatch):
    """Toeplitz, as coefficients."""
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 12)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 12)
    noisy = pml.mechanism(
        "banded:8",
        "prefix:64",
        guarantee=pml.ApproxDP(0.5, 1e-4),
        participation="sampled,every=8,rate=0.2",
    )
    pml.write(tmp_path / "long.npz", noisy)
    header, arrays = contents(tmp_path / "long.npz")
    found = pml.verify(tmp_path / "long.npz")
    assert found.holds, [*found.failures, *found.unchecked]
    less = {**header, "scale": header["scale"] * 0.999}
    assert verified(tmp_path / "less.npz", less, arrays).failures
