"""`verify` on tables at regions: files that hold, files that lie, and what is not measured."""

import itertools
import json

import numpy as np
import pytest
from forgery import Base, is_true, mutate, write
from test_structured_claims import rewrite

import pmldesign as pml
from pmldesign.designs import DesignOptions, solve_regions
from pmldesign.strategies import RegionTablesStrategy
from pmldesign.verifier import ReadTree, read_archive

NUMBERS = ("upper", "lower", "scale", "error", "rmse", "max_std", "sensitivity", "achieved")
ASKED = "2*state*sex + county*sex*age + county + tract + total*age"
SUMS = "2*state*age:prefix + county*sex*age:prefix + tract + sex"
CASES = {
    "p=3": (ASKED, 3.0, "add-remove", pml.ZCDP(0.1), "gaussian"),
    "replace": (ASKED, np.inf, "replace", pml.ApproxDP(1, 1e-6, "replace"), "gaussian"),
    "laplace": (ASKED, 2.0, "add-remove", pml.PureDP(1), "laplace"),
    "running sums, p=3": (SUMS, 3.0, "add-remove", pml.ZCDP(0.1), "gaussian"),
    "running sums, replace": (SUMS, 2.0, "replace", pml.ApproxDP(1, 1e-6, "replace"), "gaussian"),
}


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """Three levels, some of which places lack, and two attributes."""
    keys = {
        "A": {"a": ["1", "2", "3"], "b": ["4"], "": ["5"]},
        "B": {"c": ["6", "7"], "d": []},
        "C": {},
    }
    place = {"name": "place", "levels": ["state", "county", "tract"], "keys": keys}
    sex, age = {"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [0, 18, 65, 120]}
    path = tmp_path_factory.mktemp("schema") / "schema.json"
    path.write_text(json.dumps({"attributes": [place, sex, age]}))
    return str(path)


@pytest.fixture(scope="module", params=CASES)
def honest(request, schema, tmp_path_factory):
    asked, p, neighbours, guarantee, noise = CASES[request.param]
    path = tmp_path_factory.mktemp("tables") / "s.npz"
    workload = pml.workload(asked, schema=schema)
    design = solve_regions(workload, p, DesignOptions(neighbours=neighbours, rel_gap=1e-2))
    noisy = pml.mechanism(design, guarantee=guarantee, noise=noise)
    pml.write(path, design, mechanism=noisy)
    return path, *read_archive(path), noisy, workload


def test_files_hold_with_the_numbers_of_the_matrices(honest):
    path, header, _, noisy, workload = honest
    result = pml.verify(path, workload=workload)
    assert header["form"] == "regions"
    assert result.holds, (result.failures, result.unchecked)
    values = {check.name: check.computed for check in result.checks}
    R, A = noisy.strategy.matrix, noisy.workload.to_dense()
    order, replace = 1 if header["noise"] == "laplace" else 2, header["neighbours"] == "replace"
    if replace:
        A, R = A - A.mean(axis=1, keepdims=True), R - R.mean(axis=1, keepdims=True)
    lengths = [np.linalg.norm(a - b, order) for a, b in itertools.combinations(R.T, 2)]
    longest = max(lengths) if replace else np.linalg.norm(R, order, axis=0).max()
    roots = np.linalg.norm(A @ np.linalg.pinv(R, rcond=1e-11), axis=1)
    factor = np.sqrt(2) if header["noise"] == "laplace" else 1
    assert values["max_std"] == pytest.approx(factor * noisy.scale * roots.max(), rel=1e-7)
    assert values["sensitivity"] == pytest.approx(longest, rel=1e-7)


def test_files_are_read_back(honest):
    path, _, _, noisy, _ = honest
    again = pml.read(path)
    assert isinstance(again, RegionTablesStrategy)
    measured = again.beside(noisy.strategy.public)
    np.testing.assert_allclose(measured.matrix, noisy.strategy.matrix, atol=1e-15)


def test_altered_numbers_and_arrays_are_found(honest):
    path, header, arrays, _, workload = honest
    other = path.with_name("altered.npz")
    bound = header["neighbours"] == "replace" and "ordered" in arrays  # a larger one is true
    for name, factor in itertools.product(NUMBERS, (0.999, 1.001)):
        if bound and name == "sensitivity" and factor > 1:
            continue
        rewrite(other, {**header, name: header[name] * factor}, arrays)
        assert not pml.verify(other, workload=workload).holds, name
    for name in ("node_weights", "dual_u", "dual_w"):
        changed = arrays[name].copy()
        changed.ravel()[np.argmax(changed)] *= 1.5
        rewrite(other, dict(header), {**arrays, name: changed})
        assert not pml.verify(other, workload=workload).holds, name
    parents = arrays["parents"].copy()
    parents[-1] = 0
    for changed in (
        {"parents": parents},
        {"sizes": arrays["sizes"][::-1].copy()},
        {"tables": arrays["tables"][::-1].copy()},
        {"node_weights": np.where(arrays["node_weights"] > 1e-3, 0.0, arrays["node_weights"])},
    ):
        rewrite(other, dict(header), {**arrays, **changed})
        assert not pml.verify(other, workload=workload).holds, changed.keys()


@pytest.mark.parametrize("seed", range(1))
def test_no_false_file_passes(honest, schema, seed):
    path, header, arrays, _, workload = honest
    base, rng = Base("strategy", header, arrays, workload), np.random.default_rng(seed)
    forgeries = 0
    while forgeries < 10:
        forged = mutate(base, base, rng)
        if forged is None:
            continue
        forgeries += 1
        how, content, changed = forged
        target = path.with_name("forged.npz")
        write(target, content, changed)
        try:
            passes = pml.verify(target, workload=workload).holds
        except pml.FileError:
            continue
        assert not passes or is_true(base, base, content, changed, target), (how, content)


@pytest.mark.parametrize("parents", [[-1], [-1, 0, 1], [-1, 0, 0, 1, 1, 2], [-1, 0, 0, 0]])
@pytest.mark.parametrize("seed", range(3))
def test_distances_with_what_is_shared(parents, seed):
    """Of two leaves, or of one and itself, from the paths written out."""
    rng, tree = np.random.default_rng(seed), ReadTree(np.array(parents))
    values, shared = rng.uniform(0, 1, (2, len(parents)))
    paths = []
    for leaf in np.flatnonzero(tree.leaves):
        path = [leaf]
        while path[-1]:
            path.append(parents[path[-1]])
        paths.append(set(path))
    apart = [
        values[sorted(a ^ b)].sum() + shared[sorted(a & b)].sum()
        for a, b in itertools.product(paths, paths)
    ]
    assert tree.farthest(values, shared) == pytest.approx(max(apart), rel=1e-13)


def test_what_is_told_is_what_the_counts_span():
    tree = ReadTree(np.array([-1, 0, 0, 1, 1, 2, 5]))
    rows = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    for counted in itertools.product([False, True], repeat=7):
        told = tree.told(np.array(counted))
        kept = rows[np.array(counted)]
        rank = np.linalg.matrix_rank(kept) if len(kept) else 0
        for row, says in zip(rows, told, strict=True):
            if says:
                assert np.linalg.matrix_rank(np.vstack([kept, row])) == rank
