"""No command calibrates a noise twice, nor inverts a strategy twice."""

from collections import Counter

import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.mechanisms import choice
from pmldesign.strategies import base

LINES = [
    "optimize prefix:12",
    "optimize prefix:12 --epsilon 1 --delta 1e-6",
    "optimize marginals:prefix4,3,2,ways=2 --epsilon 1 --delta 1e-6",
    "compare prefix:12 --epsilon 1 --delta 1e-6",
    "optimize prefix:12 --epsilon 1 --neighbours replace",
    "compare window:9,3 --epsilon 1 --alpha 0.05",
]


@pytest.mark.parametrize("line", LINES)
def test_no_row_is_computed_twice(line, monkeypatch, little_work):
    calibrated, inverted = Counter(), Counter()
    calibrate, invert = choice.calibrate, base.inverted

    def calibrate_once(strategy, guarantee, *, noise, **options):
        calibrated[strategy.name, strategy.matrix.tobytes(), str(noise)] += 1
        return calibrate(strategy, guarantee, noise=noise, **options)

    def invert_once(matrix, null=None):
        inverted[matrix.tobytes()] += 1
        return invert(matrix, null)

    monkeypatch.setattr(choice, "calibrate", calibrate_once)
    monkeypatch.setattr(base, "inverted", invert_once)
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 0, result.output
    assert {*calibrated.values(), *inverted.values()} <= {1}
    assert bool(calibrated) == ("--epsilon" in line)
