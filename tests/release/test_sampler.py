"""The noise that is published has the law that is promised: the library's sampler itself.

OpenDP before 0.14.2 drew discrete noise of another law (12 % more at 2 and 5 % less at 3 for a
Laplace scale of 3), because quotients of fractions were wrong.
"""

import json
import math

import numpy as np
import pytest
from scipy import stats

import pmldesign as pml
from pmldesign import errors
from pmldesign.privacy import Noise
from pmldesign.releases import draw
from pmldesign.streams import DiscreteGaussian, grid_noise

DRAWS = 30_000
"""The old law at a Laplace scale of 3 is 90 beyond the critical value below."""
RARE = 1e-9
"""Chance that a test fails on a true law."""


def assert_law(values, log_chance, reach):
    cells = np.arange(-reach, reach + 1)
    far = np.arange(-60 * reach, 60 * reach + 1)
    chances = np.exp([log_chance(k) for k in cells]) / np.exp([log_chance(k) for k in far]).sum()
    seen = np.array([(values == k).sum() for k in cells], dtype=float)
    chances, seen = np.append(chances, 1 - chances.sum()), np.append(seen, len(values) - seen.sum())
    assert stats.chisquare(seen, len(values) * chances).pvalue > RARE


@pytest.mark.parametrize("scale", [0.7, 1.5, 3.0, 5.0, 7.25])
def test_discrete_laplace_noise_has_its_law(scale):
    values = draw(Noise.LAPLACE, scale, DRAWS)
    assert_law(values, lambda k: -abs(k) / scale, math.ceil(2 * scale))


@pytest.mark.parametrize("scale", [0.9, 2.3, 3.0])
def test_discrete_gaussian_noise_has_its_law(scale):
    values = draw(Noise.GAUSSIAN, scale, DRAWS)
    assert_law(values, lambda k: -((k / scale) ** 2) / 2, math.ceil(2 * scale))


def test_noise_of_streams_has_its_law():
    values = np.array(DiscreteGaussian().draw(2.0, DRAWS))
    assert_law(values, lambda k: -(k**2) / (2 * 8.0), 6)


def test_cube_noise_has_its_law():
    # of the largest of two: (2 r + 1)^2 - (2 r - 1)^2 points at distance r
    largest = np.array([np.abs(draw(Noise.CUBE, 1.5, 2)).max() for _ in range(600)])
    radii = np.arange(40)
    chances = np.maximum(8 * radii, 1) * np.exp(-radii / 1.5)
    chances /= chances.sum()
    seen = np.array([(largest == r).sum() for r in range(8)] + [(largest >= 8).sum()], dtype=float)
    expected = len(largest) * np.append(chances[:8], chances[8:].sum())
    assert stats.chisquare(seen, expected).pvalue > RARE


@pytest.mark.parametrize("installed", ["0.13.0", "0.14.1", "0.9.2", "0.14.2rc1"])
def test_a_library_of_biased_noise_is_refused(installed, monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "version", lambda _: installed)
    noisy = pml.mechanism("identity", "histogram:2", guarantee=pml.PureDP(1))
    for action in (
        lambda: noisy.release(np.array([3, 4])),
        lambda: draw(Noise.LAPLACE, 3.0, 1),
        grid_noise,
    ):
        with pytest.raises(pml.InvalidInputError, match=rf"0\.14\.2 or later, here is {installed}"):
            action()


@pytest.mark.parametrize("installed", ["0.14.2", "0.14.2.post1", "0.15.0", "0.15.1rc1", "1.0.0"])
def test_later_ones_are_taken(installed):
    assert not errors.is_biased(installed)


@pytest.mark.parametrize(
    "installed",
    ["0.14.2rc1", "0.14.2.dev3", "0.14.2-nightly.1", "0.14.2a0", "0.15.0b20250801", "0.15", "new"],
)
def test_pre_releases_that_may_be_older_are_not(installed):
    assert errors.is_biased(installed)


def test_a_manifest_of_biased_noise_is_rejected(tmp_path):
    release = pml.mechanism("identity", "histogram:2", guarantee=pml.PureDP(1)).release([3, 4])
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(release.manifest))
    assert "noise" not in [check.name for check in pml.verify(path).failures]
    for sampler in ("opendp 0.13.0", "opendp 0.14.1", "opendp 0.14.2rc1"):
        old = {**release.manifest, "noise": {**release.manifest["noise"], "sampler": sampler}}
        path.write_text(json.dumps(old))
        assert "noise" in [check.name for check in pml.verify(path).failures]
