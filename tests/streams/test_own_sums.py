"""What a stream of a file answers where the design was for the queries times other numbers."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.files import verify_file, write_strategy
from pmldesign.strategies import made_for, sums_of, without_participation
from pmldesign.workloads import RunningWorkload

STEPS = 1100  # designed as a stream, which knows its sums
PROMISES = [pml.ApproxDP(1.0, 1e-6), pml.ApproxDP(1.0, 1e-6, "replace")]


def answers(*arguments):
    """The first answers to steps of 10^6 each, and their standard deviations."""
    result = CliRunner().invoke(main, ["stream", *map(str, arguments)], input="1000000\n" * 4)
    assert result.exit_code == 0, result.output
    lines = [line.split(",") for line in result.stdout.splitlines()]
    return np.array([[float(value) for value in line[1:]] for line in lines[:4]]).T


@pytest.mark.parametrize("promise", PROMISES)
def test_targets_are_of_the_sums_themselves(tmp_path, promise):
    path = tmp_path / "sums.npz"
    asked = {"noise": "gaussian", "time_limit": 5.0}
    found = pml.least_budget(f"prefix:{STEPS}", promise, targets=40.0, **asked).mechanism
    write_strategy(path, found)
    assert json.loads(str(np.load(path)["header"]))["form"] == "stream"
    checked = verify_file(path)
    assert checked.holds, checked.failures
    values, deviations = answers(path)
    assert np.abs(values / 1e6 - [1, 2, 3, 4]).max() < 1e-3
    assert deviations.max() <= 40.0 * (1 + 1e-5)


def test_weights_are_not_in_the_answers(tmp_path):
    path, weights = tmp_path / "sums.npz", tmp_path / "weights.csv"
    np.savetxt(weights, np.linspace(3, 5, STEPS))
    options = ["--weights", str(weights), "--epsilon=1", "--delta=1e-6", "--noise=gaussian"]
    made = CliRunner().invoke(main, ["optimize", f"prefix:{STEPS}", *options, "-o", str(path)])
    assert made.exit_code == 0, made.output
    assert json.loads(str(np.load(path)["header"]))["unweighted"] == f"prefix:{STEPS}"
    values, deviations = answers(path)
    assert np.abs(values / 1e6 - [1, 2, 3, 4]).max() < 1e-3
    assert answers(path, "--workload", f"prefix:{STEPS}")[1] == pytest.approx(deviations)


def test_a_strategy_for_other_weights_of_the_queries_is_the_same_matrix():
    rates, rng = np.full(STEPS - 1, 0.999), np.random.default_rng(3)
    plain, queries = (RunningWorkload(rates, q) for q in (None, np.linspace(0.1, 9, STEPS)))
    made = pml.factorize(queries, p=np.inf, max_steps=3, buffers=5).strategy
    times = {"participation": "3,min-sep=100", "buffers": 1}
    poles = pml.factorize(queries, p=2, **times).strategy
    for strategy in (made, poles):
        other = made_for(strategy, plain)
        x = rng.normal(size=STEPS)
        assert other.measure(x) == pytest.approx(strategy.measure(x), rel=1e-9, abs=1e-9)
        assert other.sensitivity == pytest.approx(strategy.sensitivity, rel=1e-12)
        assert other.variances(plain) == pytest.approx(strategy.variances(plain), rel=1e-9)
        assert sums_of(without_participation(other))[1] == pytest.approx(
            strategy.variances(plain), rel=1e-9
        )
        assert without_participation(other) is not without_participation(strategy)
    assert made_for(pml.strategy("tree", "prefix:8"), pml.workload("prefix:8")).name == "tree"
