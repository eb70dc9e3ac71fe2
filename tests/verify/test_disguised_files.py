"""Files that show `verify` one thing and a reader another, or claims that excuse each other."""

import copy
import io
import json
import math
import zipfile

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.errors import FileError
from pmldesign.verifier import KEY, OBJECT, digest_of, digest_of_object, read_archive

NOISES = [
    ("laplace", pml.PureDP(1.0), None),
    ("laplace", pml.PureDP(1.0), "2,any"),
    ("cube", pml.PureDP(1.0), None),
    ("gaussian", pml.ApproxDP(1.0, 1e-6), None),
    ("gaussian", pml.ApproxDP(1.0, 1e-6), "2,any"),
]


def packed(path, entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in entries:
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(name, content.getvalue())


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("twin", ["strategy", "header", None])
def test_arrays_without_the_ending_that_readers_ask_for(twin, first, tmp_path):
    """A reader takes strategy.npy, whatever an entry called strategy holds."""
    path = tmp_path / "s.npz"
    noisy = pml.mechanism("identity", "prefix:4", guarantee=pml.PureDP(1.0), noise="laplace")
    pml.write(path, noisy)
    header, arrays = read_archive(path)
    honest = {"header": np.array(json.dumps(header)), **arrays}
    entries = [(f"{name}.npy", array) for name, array in honest.items() if name != twin]
    if twin is None:
        entries = list(honest.items())
    else:
        other = np.array("{}") if twin == "header" else 9 * honest[twin]
        pair = [(twin, honest[twin]), (f"{twin}.npy", other)]
        entries += pair if first else pair[::-1]
    packed(path, entries)
    with pytest.raises(FileError, match="is no array"):
        pml.verify(path)


@pytest.mark.parametrize(("entry", "kind"), [(16, "i1"), (200, "<i2"), (2**33, "<i8")])
def test_whole_numbers_whose_squares_do_not_fit(entry, kind, tmp_path):
    """16^2 is 0 in 8 bits: the sensitivity of 16 I would be 0."""
    path = tmp_path / "s.npz"
    promise = {"guarantee": pml.ApproxDP(1.0, 1e-6), "noise": "gaussian"}
    pml.write(path, pml.mechanism("identity", "histogram:48*histogram:48", **promise))
    header, arrays = read_archive(path)
    assert header["form"] == "product"
    arrays["factor_0"] = (arrays["factor_0"] * entry).astype(kind)
    header |= {"sensitivity": 0.0, "achieved": 0.0}
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert "arrays" in {check.name for check in pml.verify(path).failures}


def test_a_reconstruction_whose_norm_is_no_number(tmp_path):
    """Of entries of 1e160 norms are infinite, and no residual is large beside these."""
    path = tmp_path / "s.npz"
    noisy = pml.mechanism("identity", "prefix:4", guarantee=pml.PureDP(1.0), noise="laplace")
    pml.write(path, noisy)
    header, arrays = read_archive(path)
    arrays["reconstruction"] = 1e160 * arrays["reconstruction"]
    header |= {name: 1e160 * header[name] for name in ("error", "rmse", "max_std")}
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert "L R = A" in {check.name for check in pml.verify(path).failures}


@pytest.mark.parametrize("bias", [0.5, 1.0, 1e9])
@pytest.mark.parametrize(("noise", "promise", "people"), NOISES)
def test_rounding_excuses_no_smaller_sensitivity(noise, promise, people, bias, tmp_path):
    """A quarter of the sensitivity, with a quarter of the noise, keeps the guarantee of nobody."""
    path = tmp_path / "m.npz"
    noisy = pml.mechanism(
        "identity", "prefix:6", guarantee=promise, noise=noise, participation=people
    )
    pml.release(noisy, np.arange(6)).measurements.save(path)
    header, arrays = read_archive(path)
    assert not pml.verify(path).failures
    law, lattice = header["manifest"]["noise"], header["manifest"]["lattice"]
    power = 2 if noise == "gaussian" else 1
    lattice["sensitivity"] = str(int(lattice["sensitivity"]) // 4**power)
    lattice["bias_of_an_entry"] = bias * lattice["unit"]
    lattice["exact"] = False
    law["parameter"] /= 4
    if noise == "gaussian":
        law["sigma"] /= 4
        law["parameter"] = math.nextafter(math.hypot(law["sigma"], 2), math.inf)
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert pml.verify(path).failures


@pytest.mark.parametrize("entry", [0.1, 0.4, 1.4])
def test_rounding_leaves_what_is_measured(entry, tmp_path):
    """In units of twice an entry nothing is measured, and the least noise keeps the guarantee."""
    path = tmp_path / "m.npz"
    noisy = pml.mechanism("workload", "prefix:40", guarantee=pml.PureDP(1.0), noise="laplace")
    pml.release(noisy, np.arange(40)).measurements.save(path)
    header, arrays = read_archive(path)
    assert not pml.verify(path).failures
    law, lattice = header["manifest"]["noise"], header["manifest"]["lattice"]
    unit = float(np.abs(arrays["strategy"]).max()) / entry
    arrays["units"] = np.full_like(arrays["units"], unit)
    sensitivity = max(40 * round(entry), 1)
    lattice |= {"unit": unit, "bias_of_an_entry": unit / 2, "exact": False}
    lattice["sensitivity"], law["parameter"] = str(sensitivity), float(sensitivity)
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert pml.verify(path).failures


@pytest.mark.parametrize("guarantee", [pml.PureDP(1.0), pml.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("people", [None, "3,one-per=cell"])
def test_measurements_of_a_rounded_strategy_hold(guarantee, people, tmp_path):
    """Two equal columns and entries that are no whole multiples: R is rounded on the lattice."""
    matrix = np.random.default_rng(3).normal(size=(3, 5))[:, [0, 1, 2, 2, 1]]
    noisy = pml.mechanism(
        pml.Strategy("R", matrix), matrix @ np.eye(5), guarantee=guarantee, participation=people
    )
    path = tmp_path / "m.npz"
    pml.release(noisy, np.arange(5)).measurements.save(path)
    lattice = read_archive(path)[0]["manifest"]["lattice"]
    assert lattice["bias_of_an_entry"] > 0
    assert not pml.verify(path, workload=matrix).failures


def test_rows_of_several_lengths_hide_outputs(tmp_path):
    """The second output of the second secret leaks log 2, and the first row does not have it."""
    certificate = {
        "format": 1,
        "pmldesign": "0",
        "channel": "c",
        "matrix": [[1.0], [1.0]],
        "prior": [0.5, 0.5],
        "maximal_leakage": 0.0,
        "largest_leakage": 0.0,
        "delta": 0.5,
        "lower": 0.0,
        "upper": 0.0,
        "post_processing": [[1.0]],
        "dual": [0.0, 0.0],
    }
    path = tmp_path / "c.json"
    for hidden in (False, True):
        content = copy.deepcopy(certificate)
        if hidden:
            content["matrix"][1] = [0.5, 0.5]
        content[KEY] = {}
        content[KEY][OBJECT] = digest_of_object(content)
        path.write_text(json.dumps(content))
        failures = [check.name for check in pml.verify(path).failures]
        assert ("probabilities" in failures) is hidden


@pytest.mark.parametrize(
    ("honest", "other"), [("12,min-sep=4", "1\uff12,min-sep=4"), ("12,any", "1\u0662,any")]
)
def test_digits_of_other_alphabets_are_none(honest, other, tmp_path):
    """Readers refuse them."""
    path = tmp_path / "s.npz"
    promise = {"guarantee": pml.PureDP(1.0), "noise": "laplace", "participation": honest}
    pml.write(path, pml.mechanism("identity", "prefix:12", **promise))
    header, arrays = read_archive(path)
    assert pml.verify(path).holds
    header["participation"] = other
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert pml.verify(path).failures
