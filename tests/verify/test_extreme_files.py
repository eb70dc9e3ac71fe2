"""Files of numbers so large, so small or so many that a check would not see, or not end."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy

import pmldesign as pml
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.verifier import KEY, digest_of, read_archive

GAUSSIAN = {"guarantee": pml.ApproxDP(1.0, 1e-6), "noise": "gaussian"}
REPLACED = {"guarantee": pml.ApproxDP(1.0, 1e-6, "replace"), "noise": "gaussian"}


def written(path, header, arrays):
    header = {**header, KEY: digest_of(header, arrays)}
    np.savez(path, header=np.array(json.dumps(header)), **arrays)


def strategy_of(path, strategy, workload, **promise):
    pml.write(path, pml.mechanism(strategy, workload, **promise))
    return read_archive(path)


def names(checks):
    return {check.name for check in checks}


@pytest.mark.parametrize("power", [-170, -155, 155, 200])
def test_noise_for_distances_whose_squares_are_no_numbers(power, tmp_path):
    """Of 2100 cells R is 1e200 times what it was: a sensitivity of 0 is none."""
    path = tmp_path / "s.npz"
    queries = np.random.default_rng(0).integers(0, 2, (3, 2100)).astype(float)
    measured = pml.Strategy("R", queries)
    header, arrays = strategy_of(path, measured, queries, **REPLACED)
    assert pml.verify(path, workload=queries).holds
    unit = 10.0**power
    arrays["strategy"] *= unit
    arrays["reconstruction"] /= unit
    part = 1e-5
    header |= {name: header[name] * part for name in ("error", "rmse", "max_std")}
    header |= {"scale": header["scale"] * unit * part, "sensitivity": 0.0, "achieved": 0.0}
    written(path, header, arrays)
    result = pml.verify(path, workload=queries)
    assert not result.holds
    assert "sensitivity" not in names(check for check in result.checks if check.computed == 0)


@pytest.mark.parametrize("place", ["factor_0", "factor_1", "weights"])
def test_products_whose_squares_are_no_numbers(place, tmp_path, monkeypatch):
    path = tmp_path / "s.npz"
    name = "histogram:48*histogram:48"
    header, arrays = strategy_of(path, "identity", name, **GAUSSIAN)
    arrays["weights"] = np.ones(2304)
    for power in (-160, 160):
        other = {**arrays, place: arrays[place] * 10.0**power}
        written(path, header | {"sensitivity": 0.0, "achieved": 0.0, "scale": 1e-3}, other)
        result = pml.verify(path)
        assert not result.holds
        assert "sensitivity" not in names(check for check in result.checks if check.computed == 0)


def test_weights_so_small_that_their_products_are_rounded_up(tmp_path):
    """Roots of 1e-322 times each other have no digits: half a unit up is no proof."""
    path = tmp_path / "s.npz"
    design = pml.factorize("prefix:300")
    pml.write(path, design)
    header, arrays = read_archive(path)
    proved = {}
    for unit in (1.0, 2.0**-1060):
        other = {name: arrays[name] * (unit if "dual" in name else 1.0) for name in arrays}
        written(path, header, other)
        result = pml.verify(path)
        proved[unit] = [c.computed for c in result.checks if c.name == "lower" and c.computed]
        assert result.holds is (unit == 1.0)
    assert all(value <= proved[1.0][0] for value in proved[2.0**-1060])


def test_a_part_of_a_query_that_hardly_anything_measures(tmp_path):
    """The second cell is measured with 1e-9 of it: to leave it out is no rounding."""
    path, queries = tmp_path / "s.npz", np.array([[1.0, 1e-3]])
    measured = pml.Strategy("R", np.diag([1.0, 1e-9]))
    header, arrays = strategy_of(path, measured, queries, **GAUSSIAN)
    assert pml.verify(path, workload=queries).holds
    assert header["rmse"] > 1e6
    arrays["reconstruction"][0, 1] = 0.0
    header |= dict.fromkeys(("error", "rmse", "max_std"), header["scale"])
    written(path, header, arrays)
    assert "L R = A" in names(pml.verify(path, workload=queries).failures)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e8])
def test_strategies_that_hardly_measure_some_directions_hold(condition, tmp_path):
    path, rng = tmp_path / "s.npz", np.random.default_rng(int(condition))
    for rows in (5, 8, *[12] * 20, 20):
        left, right = (np.linalg.qr(rng.normal(size=(k, 8)))[0] for k in (max(rows, 8), 8))
        R = ((left * np.geomspace(1, 1 / condition, 8)) @ right.T)[:rows]
        queries = rng.normal(size=(7, rows)) @ R
        strategy_of(path, pml.Strategy("R", R), queries, **GAUSSIAN)
        assert pml.verify(path, workload=queries).holds


def zeros(path, arrays):
    """An archive of many zeros, in few bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, size in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                head = {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)}
                npy.write_array_header_1_0(member, head)
                for start in range(0, size, 2**22):
                    member.write(bytes(min(2**22, size - start)))


def test_few_bytes_that_promise_many(tmp_path):
    path = tmp_path / "s.npz"
    zeros(path, dict.fromkeys(("strategy", "reconstruction", "dual_u"), 2**27))
    assert path.stat().st_size < 2**21
    with pytest.raises(FileError, match="promise"):
        pml.verify(path)


@pytest.mark.parametrize("noise", ["laplace", "cube"])
@pytest.mark.parametrize("p", ["1e3", "1e6", "1e300"])
def test_moments_of_any_order_end(noise, p, tmp_path):
    path = tmp_path / "s.npz"
    header, arrays = strategy_of(
        path, "identity", "prefix:6", guarantee=pml.PureDP(1.0), noise=noise
    )
    written(path, {**header, "p": str(float(p))}, arrays)
    assert not pml.verify(path).holds


@pytest.mark.parametrize("p", ["1e4", "1e8", "1e300"])
def test_moments_of_any_order_on_whole_measurements_end(p, tmp_path):
    path = tmp_path / "s.npz"
    for strategy in ("identity", "tree"):
        noisy = pml.mechanism(strategy, "histogram:4", guarantee=pml.PureDP(9.0), noise="laplace")
        pml.write(path, dataclasses.replace(noisy, own_grid=True))
        header, arrays = read_archive(path)
        written(path, {**header, "p": str(float(p))}, arrays)
        assert not pml.verify(path).holds


@pytest.mark.parametrize("text", ["1,every=999999999", "sampled,every=999999999,rate=0.5"])
def test_steps_beyond_the_end_are_not_counted(text, tmp_path):
    path = tmp_path / "s.npz"
    header, arrays = strategy_of(path, "identity", "prefix:6", **GAUSSIAN)
    written(path, {**header, "participation": text}, arrays)
    assert "sensitivity" not in names(pml.verify(path).failures)


def test_names_of_what_is_no_file(tmp_path):
    """A file may name places in any file: /dev/zero has no end."""
    path = tmp_path / "s.npz"
    header, arrays = strategy_of(path, "identity", "prefix:6", **GAUSSIAN)
    written(path, {**header, "workload": "regions:/dev/zero"}, arrays)
    with pytest.raises((FileError, InvalidInputError), match="no file"):
        pml.verify(path)


@pytest.mark.parametrize("workload", ["prefix:6", "prefix:300"])
@pytest.mark.parametrize(
    ("promise", "noise"),
    [
        (pml.ApproxDP(1e-8, 1e-300), "gaussian"),
        (pml.ApproxDP(700.0, 1e-300), "gaussian"),
        (pml.ApproxDP(700.0, 0.5), "gaussian"),
        (pml.PureDP(1e-8), "laplace"),
        (pml.PureDP(700.0), "cube"),
        (pml.ZCDP(1e-16), "laplace"),
        (pml.GaussianDP(700.0), "laplace"),
        (pml.RenyiDP(1e5, 1e-8), "laplace"),
        (pml.ApproxPML(3.0, 1e-12, 1e-9), "gaussian"),
    ],
    ids=str,
)
def test_guarantees_of_any_size_hold(promise, noise, workload, tmp_path):
    path = tmp_path / "s.npz"
    strategy_of(path, "identity", workload, guarantee=promise, noise=noise)
    assert pml.verify(path).holds


@pytest.mark.parametrize("kind", [pml.ApproxPML, pml.EnvelopePML])
def test_tiny_deltas_under_pml_of_more_cells_than_balls_are_for(kind, tmp_path):
    """The loss is a difference of two tails, each of which moves by far more than it does."""
    path = tmp_path / "s.npz"
    promise = kind(1.0, 1e-300, 1e-4)
    pml.write(path, pml.mechanism("identity", "histogram:260", guarantee=promise))
    result = pml.verify(path)
    assert result.arithmetic.startswith("double precision")
    assert result.holds, result.failures


@pytest.mark.parametrize("least", [1e-7, 1e-8, 3e-9])
def test_strategies_of_a_large_condition(least, tmp_path):
    """Two ways to the same reconstruction differ by the condition, in units of rounding."""
    path, rng = tmp_path / "s.npz", np.random.default_rng(5)
    left, _, right = np.linalg.svd(rng.normal(size=(8, 8)))
    R = (left * np.geomspace(1, least, 8)) @ right
    promise = pml.ApproxDP(1.0, 1e-6)
    noisy = pml.mechanism(pml.Strategy("R", R), "prefix:8", guarantee=promise, noise="gaussian")
    pml.write(path, noisy)
    assert pml.verify(path).holds
    header, arrays = read_archive(path)
    for name in ("error", "rmse", "max_std"):
        header[name] *= 1 - 2e-6
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert pml.verify(path).failures


def test_errors_that_are_rounded_upwards(tmp_path):
    """By a billionth and more, as those of long windows; downwards they are false."""
    path = tmp_path / "s.npz"
    noisy = pml.mechanism("identity", "prefix:8", guarantee=pml.PureDP(1.0), noise="laplace")
    pml.write(path, noisy)
    header, arrays = read_archive(path)
    for moved, holds in ((3e-9, True), (-6e-9, False), (3e-6, False)):
        header["rmse"] *= 1 + moved
        header[KEY] = digest_of(header, arrays)
        np.savez(path, header=np.array(json.dumps(header)), **arrays)
        assert pml.verify(path).holds is holds
