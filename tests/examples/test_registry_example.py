"""An entry of the registry says what was promised together."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, PureDP
from pmldesign.releases import release

PATH = Path(__file__).parents[2] / "examples" / "registry" / "entry.py"


@pytest.mark.usefixtures("quick_disk")
def test_an_entry_of_the_registry_says_what_was_promised_together(tmp_path):
    specification = importlib.util.spec_from_file_location("entry", PATH)
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    np.save(tmp_path / "x.npy", np.array([3, 1, 4]))
    for guarantee, expected in (
        (PureDP(0.25), {"epsilon": 0.25}),
        (ApproxDP(0.5, 1e-6), {"epsilon": pytest.approx(0.75, abs=1e-5), "delta": 1e-6}),
    ):
        noise = "laplace" if isinstance(guarantee, PureDP) else "gaussian"
        noisy = mechanism("identity", "histogram:3", guarantee=guarantee, noise=noise)
        begun = {"ledger": tmp_path / "l", "budget": "epsilon=2,delta=1e-6,pure=1"}
        release(noisy, tmp_path / "x.npy", **begun)
        shown = CliRunner().invoke(main, ["ledger", "show", str(tmp_path / "l"), "--json"]).stdout
        loss = example.entry(json.loads(shown))["deployment"]["privacy_loss"]
        assert loss["privacy_parameters"] == pytest.approx(expected, abs=2e-6)
        assert loss["privacy_parameters"]["epsilon"] >= 0.25
