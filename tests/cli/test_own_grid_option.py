"""--noise integer-laplace and laplace: from the design to its file and its release."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main

OPTIMIZE = ("optimize", "histogram:6", "--epsilon", "3", "--effort", "quick")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    np.save(folder / "h.npy", np.arange(6))
    run(*OPTIMIZE, "-o", folder / "d.npz")
    return folder


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def release(folder, *words):
    """The manifest."""
    run("release", *words, "-o", folder / "r.csv")
    return json.loads((folder / "r.manifest.json").read_text())


def unit_of(manifest):
    return manifest["lattice"]["unit"]


def test_a_design_says_that_it_is_on_its_own_grid(folder):
    shown = run(*OPTIMIZE)
    assert "Integer-valued Laplace noise" in shown
    assert "plans need --noise laplace" in shown
    assert pml.files.strategies.read_own_grid(folder / "d.npz")
    data = json.loads(run(*OPTIMIZE, "--json"))
    assert data["noise"]["kind"] == "integer-laplace"
    assert data["strategies"][0]["noise"] == "integer-laplace"
    assert data["privacy"]["rho"] == pytest.approx(3 * np.tanh(1.5), rel=1e-6)
    without = run(*OPTIMIZE, "--noise", "laplace")
    assert "Laplace noise of scale" in without
    assert "-search    integer-laplace" not in without
    assert "Integer-valued" not in without


def test_a_release_of_the_file_draws_what_it_was_designed_for(folder):
    data, file = folder / "h.npy", folder / "d.npz"
    coarse = release(folder, file, data)
    error = json.loads(run(*OPTIMIZE, "--json"))["strategies"][0]["max_std"]
    column = [line.split(",")[2] for line in (folder / "r.csv").read_text().splitlines()[1:]]
    assert [float(value) for value in column] == pytest.approx([error] * 6, rel=1e-3)
    assert coarse["lattice"]["bits"] == 1
    fine = release(folder, file, data, "--noise", "laplace")
    assert unit_of(fine) < 1e-3 * unit_of(coarse)
    assert unit_of(release(folder, file, data, "--epsilon", "1")) == unit_of(coarse)
    assert (
        release(folder, file, data, "--guarantee", "zcdp:1")["noise"]["law"] == "discrete gaussian"
    )


def test_designs_of_a_release_are_on_their_own_grid(folder):
    asked = "histogram:6", folder / "h.npy", "--effort", "quick", "--epsilon"
    unit = unit_of(release(folder, *asked, "3"))
    assert unit_of(release(folder, *asked, "3", "--noise", "laplace")) < 1e-3 * unit
    assert unit_of(release(folder, *asked, "0.5")) < 1e-3 * unit
    assert unit_of(release(folder, *asked, "0.5", "--noise", "integer-laplace")) == unit


def test_a_plan_has_noise_on_a_fine_grid(folder):
    """Of the same design, first with a new ledger, then with one that has begun."""
    paid = "--ledger", folder / "l.jsonl", "--budget", "epsilon=9,delta=1e-6"
    plan = "--plan", "3*laplace:3"
    fine = release(folder, folder / "d.npz", folder / "h.npy", *paid, *plan)
    assert unit_of(fine) < 1e-3
    asked = "histogram:6", folder / "h.npy", "--epsilon", "3", "--effort", "quick", *paid[:2]
    assert unit_of(release(folder, *asked)) < 1e-3
    refused = CliRunner().invoke(
        main,
        [
            str(word)
            for word in ("release", *asked, "--noise=integer-laplace", "-o", folder / "n.csv")
        ],
    )
    assert refused.exit_code == 2
    assert "use --noise laplace" in refused.output
    assert not (folder / "n.csv").exists()


def test_in_python_a_mechanism_says_it(folder):
    best = pml.optimize("histogram:6", guarantee=pml.PureDP(3), effort="quick").best
    counts = np.arange(6)
    coarse = best.release(counts).manifest
    assert unit_of(pml.release(best, counts, noise="laplace").manifest) < unit_of(coarse)
    with pytest.raises(pml.InvalidInputError, match="noise must be"):
        pml.release(best, counts, noise="gaussian")


def test_compare_says_how_such_a_row_is_released():
    asked = "compare", "histogram:6", "--epsilon", "3", "--strategies", "identity,tree"
    shown = run(*asked)
    assert "integer-laplace" in shown
    assert "plans need --noise laplace" in shown
    assert "integer-laplace" not in run(*asked, "--noise", "laplace")


def test_target_says_it_too():
    asked = "target", "histogram:6", "--std", "0.3", "--effort", "quick"
    shown = run(*asked)
    assert "Integer-valued Laplace noise" in shown
    assert "for every mechanism, worst case over data of any size" in shown
    data = json.loads(run(*asked, "--json"))
    assert data["noise"]["kind"] == "integer-laplace"
    assert {row["noise"] for row in data["strategies"]} == {"integer-laplace"}
    fine = json.loads(run(*asked, "--json", "--noise", "laplace"))
    assert fine["epsilon"]["enough"] > 1.2 * data["epsilon"]["enough"]


def test_numbers_are_spread_over_cells_and_have_a_fine_grid(folder):
    """Of a grid D times as fine little of the gain is left: it is no reason for a design."""
    hours = {"name": "hours", "low": 0, "high": 20, "unit": 1}
    (folder / "s.json").write_text(json.dumps({"attributes": [hours]}))
    (folder / "p.csv").write_text("hours\n3\n20\n7\n")
    asked = "hours:sum+total", folder / "p.csv", "--schema", folder / "s.json", "--epsilon", "4"
    fine = release(folder, *asked, "--effort", "quick")
    assert unit_of(fine) < 1e-3
    for command in ("optimize", "compare"):
        question = command, "hours:sum+total", *asked[2:], "--effort", "quick"
        for more, there in ((), False), (("--noise", "integer-laplace"), True):
            rows = json.loads(run(*question, *more, "--json"))["strategies"]
            assert ("integer-laplace" in {row["noise"] for row in rows}) == there
