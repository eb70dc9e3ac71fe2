"""`verify` beside public answers: honest files hold, altered ones do not, whatever is altered."""

import numpy as np
import pytest
from test_structured_claims import rewrite

import pmldesign as pml
from pmldesign.verifier import read_archive

CASES = {
    "written": ("prefix:6", "histogram:3*total:2"),
    "product": ("prefix:8*histogram:260", "total:8*histogram:260"),
    "open middle": (
        "histogram:12*prefix:6*prefix:3*histogram:10",
        "histogram:12*total:6*total:3*histogram:10",
    ),
    "marginals": ("marginals:15,9,2,10,ways=2", "total:15*total:9*histogram:2*total:10"),
}


@pytest.fixture(scope="module", params=CASES)
def honest(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("known") / "strategy.npz"
    name, known = CASES[request.param]
    design = pml.factorize(name, p=3, known=known, rel_gap=1e-2)
    promise = pml.ApproxDP(1, 1e-6)
    noisy = pml.mechanism(design, name, guarantee=promise, noise="gaussian", p=3, known=known)
    pml.write(path, design, mechanism=noisy)
    return path, *read_archive(path)


def test_they_hold(honest):
    result = pml.verify(honest[0])
    assert result.holds, result.failures
    assert not result.unchecked
    assert {"known", "lower", "upper", "sensitivity", "rmse"} <= {c.name for c in result.checks}


def test_altered_numbers_and_arrays_are_found(honest):
    path, header, arrays = honest
    other = path.with_name("altered.npz")
    for name in ("upper", "lower", "scale", "error", "rmse", "max_std", "sensitivity", "achieved"):
        change = 0.999 if name in ("upper", "scale", "sensitivity", "achieved") else 1.001
        rewrite(other, {**header, name: header[name] * change}, arrays)
        assert pml.verify(other).failures, name
    for name, array in arrays.items():
        if name.startswith("dual") or array.dtype.kind != "f":
            continue
        changed = array.copy()
        changed.reshape(-1)[np.abs(array).argmax()] *= 1.01
        rewrite(other, dict(header), {**arrays, name: changed})
        assert pml.verify(other).failures, name


def test_other_known_answers_are_found(honest):
    path, header, arrays = honest
    other = path.with_name("other.npz")
    finer = header["known"].replace("total", "histogram", 1)
    for known in (header["known"].replace("histogram", "total"), finer, header["workload"]):
        changed = {**header, "known": known}
        if "guarantee_numbers" in header:
            changed["guarantee_numbers"] = {**header["guarantee_numbers"], "known": known}
            changed["guarantee"] = header["guarantee"].replace(header["known"], known)
        rewrite(other, changed, arrays)
        assert "known" in {check.name for check in pml.verify(other).failures}


def test_groups_and_tables_that_are_others_are_found(honest):
    path, header, arrays = honest
    other = path.with_name("groups.npz")
    name = "groups" if "groups" in arrays else "counted"
    for place in range(len(arrays[name])):
        changed = arrays[name].copy()
        changed[place] = 1 - changed[place] if name == "counted" else (changed[place] + 1) % 3
        rewrite(other, dict(header), {**arrays, name: changed})
        assert pml.verify(other).failures
    rewrite(other, {**header, "neighbours": "add-remove"}, arrays)
    assert pml.verify(other).failures


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "cube"])
@pytest.mark.parametrize("known", ["marginals:2,3,2,ways=1", "marginals:2,3,2,ways=2"])
def test_residuals_beside_tables_hold_with_any_noise(noise, known, tmp_path):
    """Of few cells the sensitivity is that of R, found by trying all pairs of cells."""
    name, path = "marginals:2,3,2,ways=3", tmp_path / "s.npz"
    design = pml.factorize(name, known=known)
    promise = pml.ApproxDP(1.0, 1e-6)
    noisy = pml.mechanism(design, name, known=known, guarantee=promise, noise=noise)
    pml.write(path, design, mechanism=noisy)
    header, _ = read_archive(path)
    assert header["form"] == "coordinates"
    R, order = noisy.factorization.strategy.matrix, {"gaussian": 2, "laplace": 1, "cube": np.inf}
    far = np.linalg.norm(R[:, :, None] - R[:, None, :], order[noise], axis=0).max()
    assert header["sensitivity"] == pytest.approx(far, rel=1e-6)
    assert pml.verify(path).holds
