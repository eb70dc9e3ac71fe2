"""Products of more cells than are written out: how far columns are apart, and PML."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

import pmldesign as pml
from pmldesign.verifier import KEY, digest_of, distances, farthest, read_archive


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_distances_of_products_from_their_factors(seed, count):
    """Against all pairs of columns of the product."""
    rng = np.random.default_rng(seed)
    kinds = [
        lambda n: np.eye(n),
        lambda n: np.tri(n),
        lambda n: rng.integers(-1, 2, (4, n)).astype(float),
        lambda n: rng.standard_normal((3, n)),
    ]
    chosen = rng.integers(0, 4, count)
    factors = [kinds[kind](int(rng.integers(2, 6))) for kind in chosen]
    R = factors[0]
    for factor in factors[1:]:
        R = np.kron(R, factor)
    far = {"l2": pdist(R.T).max(), "l1": pdist(R.T, "cityblock").max()}
    size = float(np.abs(R).sum(axis=0).max()) or 1.0
    bounds = {norm: farthest(factors, norm) for norm in far}
    assert bounds["l2"] == pytest.approx(far["l2"], abs=1e-4 * size)  # a root where it is 0
    assert bounds["l2"] >= far["l2"] * (1 - 1e-12)
    assert bounds["l1"] >= far["l1"] * (1 - 1e-12)
    if 3 not in chosen:  # exact where entries are 0, 1 or -1
        assert bounds["l1"] == pytest.approx(far["l1"], abs=1e-8 * size)
    v = rng.uniform(0.5, 2, len(R))
    weighted = distances(factors, v.reshape([len(factor) for factor in factors]))
    exact = pdist((np.sqrt(v)[:, None] * R).T).max()
    assert weighted["l2"] == pytest.approx(exact, abs=1e-6 * size)


@pytest.mark.parametrize("kind", ["laplace", "slack", "envelope"])
def test_pml_of_few_different_cells_of_very_many(kind, tmp_path):
    """What equal cells have together counts: with each alone the noise would be far too little."""
    queries = np.vstack([np.ones(2100), np.arange(2100) < 5, np.arange(2100) % 7 == 0])
    alpha = 1e-4
    guarantee, noise = {
        "laplace": (pml.PML(1, alpha), "laplace"),
        "slack": (pml.ApproxPML(1, 1e-3, alpha), "gaussian"),
        "envelope": (pml.EnvelopePML(1, 1e-3, alpha), "gaussian"),
    }[kind]
    best = pml.factorize(queries, neighbours="replace")
    noisy = pml.mechanism(best, guarantee=guarantee, noise=noise)
    path = tmp_path / "repeated.npz"
    pml.write(path, best, mechanism=noisy)
    result = pml.verify(path, workload=queries)
    assert result.holds, result.failures
    assert not result.unchecked
    header, arrays = read_archive(path)
    header["scale"] *= 0.99
    changed = {key: value for key, value in arrays.items() if key != "header"}
    header[KEY] = digest_of(header, changed)
    np.savez(path, header=np.array(json.dumps(header)), **changed)
    failures = pml.verify(path, workload=queries).failures
    assert {"guarantee", "achieved"} <= {claim.name for claim in failures}


@pytest.mark.parametrize("kind", ["laplace", "slack", "envelope"])
def test_pml_of_a_product_beyond_the_cells_that_are_written_out(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 10)
    guarantee = {
        "laplace": pml.PML(1, 1e-5),
        "slack": pml.ApproxPML(1, 1e-6, 1e-5),
        "envelope": pml.EnvelopePML(1, 1e-6, 1e-5),
    }[kind]
    noise = "laplace" if kind == "laplace" else "gaussian"
    best = pml.factorize("prefix:46*prefix:46", neighbours="replace")
    noisy = pml.mechanism(best, guarantee=guarantee, noise=noise)
    path = tmp_path / "product.npz"
    pml.write(path, best, mechanism=noisy)
    header, arrays = read_archive(path)
    assert "strategy" not in arrays
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not {"guarantee", "achieved", "sensitivity"} & {c.name for c in result.unchecked}
    other = tmp_path / "altered.npz"
    for name, part in (
        ("factor_0", 1.01),
        ("sensitivity", 0.999),
        ("achieved", 0.99),
        ("alpha", 2),
    ):
        less = json.loads(json.dumps(header))
        changed = {key: value for key, value in arrays.items() if key != "header"}
        holder = changed if name in changed else less
        holder = less["guarantee_numbers"] if name == "alpha" else holder
        holder[name] = holder[name] * part
        less[KEY] = digest_of(less, changed)
        np.savez(other, header=np.array(json.dumps(less)), **changed)
        assert pml.verify(other).failures, name
