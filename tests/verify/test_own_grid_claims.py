"""`verify` on files of noise on the grid of whole measurements: forged ones do not pass."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from flint import arb

import pmldesign as pml
from pmldesign.verifier import KEY, discrete_deviation, discrete_error, own_unit, read_archive


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("own") / "strategy.npz"


def noisy_on_grid(strategy, workload, epsilon, **asked):
    promise = pml.PureDP(epsilon)
    made = pml.mechanism(strategy, workload, guarantee=promise, noise="laplace", **asked)
    return replace(made, own_grid=True)


@pytest.mark.parametrize("p", [2, 4, math.inf])
@pytest.mark.parametrize(
    "strategy", ["identity", "tree", [[0.3, 0, 0], [0.3, 0.6, 0.3], [0, 0, 0.9]]]
)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 9.0])
def test_honest_files_hold(path, strategy, p, epsilon):
    pml.write(path, noisy_on_grid(strategy, "prefix:3", epsilon, p=p))
    result = pml.verify(path)
    assert result.holds, result.failures
    assert "own_grid" in {check.name for check in result.checks}


def test_designs_and_people_hold(path):
    best = pml.optimize("prefix:9", guarantee=pml.PureDP(6), effort="quick").best
    assert best.own_grid
    pml.write(path, best)
    assert pml.verify(path).holds
    pml.write(path, noisy_on_grid("identity", "prefix:5", 7, participation="2,any"))
    assert pml.verify(path).holds
    single = noisy_on_grid("identity", "histogram:5", 3, p=5)
    pml.write(path, single)
    assert pml.verify(path).holds
    pml.write(path, noisy_on_grid("tree", "prefix:3", 3, p=3))
    result = pml.verify(path)
    assert not result.failures
    assert [check.name for check in result.unchecked] == ["error"]


def drop(header, arrays):
    del header["own_grid"]


def scaled_errors(header, arrays):
    for name in ("error", "rmse", "max_std"):
        header[name] *= 0.9


def less_noise(header, arrays):
    header["scale"] *= 0.9


def not_true(header, arrays):
    header["own_grid"] = 1


def a_text(header, arrays):
    header["own_grid"] = "yes"


def not_whole(header, arrays):
    arrays["strategy"] = arrays["strategy"] + 1e-7 * np.arange(4.0)
    arrays["reconstruction"] = np.tri(4) @ np.linalg.inv(arrays["strategy"])


def other_noise(header, arrays):
    header["noise"] = "cube"


def replaced(header, arrays):
    promise = pml.PureDP(3.0, "replace")
    header["neighbours"] = "replace"
    header["guarantee_numbers"] = promise.to_json()
    header["guarantee"] = promise.describe(4)
    header["scale"] *= 2
    header["sensitivity"] *= 2


def no_noise(header, arrays):
    for name in ("noise", "scale", "sensitivity", "guarantee", "guarantee_numbers", "achieved"):
        del header[name]
    for name in ("error", "rmse", "max_std"):
        del header[name]


FORGED = (drop, scaled_errors, less_noise, not_true, a_text, not_whole, other_noise, replaced)


@pytest.mark.parametrize("forge", [*FORGED, no_noise])
def test_forged_files_do_not_hold(path, forge):
    pml.write(path, noisy_on_grid("identity", "prefix:4", 3))
    header, arrays = read_archive(path)
    forge(header, arrays)
    pml.files.strategies.write_content(path, {k: v for k, v in header.items() if k != KEY}, arrays)
    assert pml.verify(path).failures


@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_noise_on_a_fine_grid_is_not_on_its_own(path, epsilon):
    """Its errors are larger, at an epsilon of 0.01 by four millionths."""
    made = noisy_on_grid("identity", "prefix:4", epsilon)
    pml.write(path, replace(made, own_grid=False))
    assert pml.verify(path).holds
    header, arrays = read_archive(path)
    header.pop(KEY)
    pml.files.strategies.write_content(path, {**header, "own_grid": True}, arrays)
    failed = {check.name for check in pml.verify(path).failures}
    assert failed == {"error", "rmse", "max_std"}


def test_the_arithmetic_is_that_of_the_definition():
    rows, unit, scale = np.array([[1.0, -2.0, 0.0], [0.5, 0.5, 0.5]]), 0.4, arb(0.3)
    with mpmath.workdps(30):
        q = mpmath.exp(-mpmath.mpf(0.4) / mpmath.mpf(0.3))
        law = {k: q ** abs(k) * (1 - q) / (1 + q) for k in range(-60, 61)}
        square = sum(chance * k**2 for k, chance in law.items())
        fourth = sum(chance * k**4 for k, chance in law.items())
        # E V^4 = sum c^4 (m4 - 3 m2^2) + 3 (sum c^2)^2 m2^2
        total = sum(
            sum(c**4 for c in row) * (fourth - 3 * square**2)
            + 3 * sum(c**2 for c in row) ** 2 * square**2
            for row in rows.tolist()
        )
        expected = mpmath.mpf(0.4) * total**0.25
        deviation = mpmath.mpf(0.4) * mpmath.sqrt(square)
    assert float(discrete_error(rows, unit, scale, 4.0)) == pytest.approx(float(expected), 1e-12)
    assert float(discrete_deviation(unit, scale)) == pytest.approx(float(deviation), 1e-12)


def test_units_are_found_where_there_are_some():
    assert own_unit(np.array([[0.6, -0.9], [0.3, 0.0]])) == pytest.approx(0.3)
    assert own_unit(np.array([[0.6, -0.9 * (1 + 1e-9)], [0.3, 0.0]])) is None
    assert own_unit(np.zeros((2, 2))) is None
    assert own_unit(np.array([[1.0, 2.0**21]])) is None
