"""`verify` on strategies that are not written out: honest ones hold, altered ones do not."""

import json

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.verifier import KEY, ReadChain, digest_of, read_archive

CASES = {
    "marginals": ("marginals:3,4,2,ways=2", {}),
    "stream": ("prefix:24", {"buffers": 4}),
    "discounted": ("decay:20,0.9", {"buffers": 4}),
    "product": ("prefix:6*prefix:5", {}),
}


def rewrite(path, header, arrays):
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)


@pytest.fixture(scope="module", params=CASES)
def honest(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "strategy.npz"
    name, options = CASES[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 100)
        patch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 10)
        best = pml.factorize(name, p=3, **options)
        noisy = pml.mechanism(best, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
        pml.write(path, best, mechanism=noisy)
    return path, *read_archive(path), noisy


@pytest.fixture(autouse=True)
def small_products_by_factors(monkeypatch):
    monkeypatch.setattr("pmldesign.files.verification.MOST_ENTRIES", 600)


def test_they_hold(honest):
    path, _, arrays, noisy = honest
    result = pml.verify(path)
    assert "strategy" not in arrays
    assert result.holds, result.failures
    wanted = {"upper", "sensitivity", "guarantee", "achieved", "error", "rmse", "max_std"}
    holding = {check.name for check in result.checks if check.verdict == "holds"}
    assert wanted <= holding
    assert not result.unchecked
    # the same numbers, from the whole matrix in NumPy
    R, A = noisy.strategy.matrix, noisy.workload.to_dense()
    roots = np.linalg.norm(A @ np.linalg.pinv(R, rcond=1e-11), axis=1)
    values = {check.name: check.computed for check in result.checks}
    assert values["max_std"] == pytest.approx(noisy.scale * roots.max(), rel=1e-7)
    assert values["sensitivity"] == pytest.approx(np.linalg.norm(R, axis=0).max(), rel=1e-7)


def test_altered_numbers_and_arrays_are_found(honest):
    path, header, arrays, _ = honest
    other = path.with_name("altered.npz")
    for name in ("upper", "lower", "scale", "error", "rmse", "max_std", "sensitivity", "achieved"):
        rewrite(other, {**header, name: header[name] * 1.001}, arrays)
        found = pml.verify(other)
        assert found.failures or name in {check.name for check in found.unchecked}
    rng = np.random.default_rng(2)
    for name, array in arrays.items():
        if name.startswith("dual") or array.dtype.kind != "f":
            continue
        changed = array.copy()
        changed.reshape(-1)[rng.integers(array.size)] *= 1.01
        rewrite(other, dict(header), {**arrays, name: changed})
        assert pml.verify(other).failures, name


def test_long_streams_are_checked_in_double_precision(honest, monkeypatch):
    path, header, arrays, _ = honest
    if "rates" not in arrays:
        return
    exact = {check.name: check.computed for check in pml.verify(path).checks}
    monkeypatch.setattr("pmldesign.verifier.streams.running_sums.EXACT_STEPS", 0)
    result = pml.verify(path)
    assert result.holds, result.failures
    assert "double precision" in result.arithmetic
    values = {check.name: check.computed for check in result.checks}
    for name in ("upper", "lower", "sensitivity", "error", "rmse", "max_std"):
        assert values[name] == pytest.approx(exact[name], rel=1e-8), name
    other = path.with_name("long.npz")
    for name in ("w", "u", "poles", "weights_of_poles"):
        rewrite(other, dict(header), {**arrays, name: arrays[name] * 1.001})
        assert pml.verify(other).failures, name


def test_traces_of_chains():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7):
        chain = ReadChain(rng.uniform(0.1, 2, n), rng.uniform(0.1, 2, n - 1))
        B = np.diag(chain.inner) - np.diag(chain.beside, -1)
        for z in (1e-3, 1.0, 30.0):
            exact = np.trace(np.linalg.inv(B @ B.T + z * np.eye(n)))
            assert chain.traces([z])[0] == pytest.approx(exact, rel=1e-10)
        assert chain.nuclear_norm() == pytest.approx(
            np.abs(1 / np.linalg.svd(B)[1]).sum(), rel=1e-9
        )
