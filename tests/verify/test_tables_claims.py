"""`verify` on tables by their structure, which must agree with the matrix of the strategy."""

import json

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, question, solve_tables
from pmldesign.files.verification import _form
from pmldesign.strategies import WeightedTablesStrategy
from pmldesign.verifier import (
    KEY,
    SHARES,
    centred,
    digest_of,
    form_of,
    lower_bound,
    measured_of,
    read_archive,
)

ORDERED, PLAIN = "marginals:prefix5,2,prefix3,ways=2", "marginals:3,4,2,ways=2"
SEVERAL = "prefix:5*total:2*prefix:3+histogram:5*histogram:2*total:3+total:5*total:2*histogram:3"
DP, REPLACE = pml.ApproxDP(1, 1e-6), pml.ApproxDP(1, 1e-6, "replace")
SETS = [(0, 1), (0, 2), (1, 2)]


def tables(neighbours="add-remove", text=ORDERED, p=2.0):
    queries = pml.workload(text)
    options = DesignOptions(max_steps=20, neighbours=neighbours)
    return solve_tables(queries, question(queries), p, options)


def weighted():
    return WeightedTablesStrategy("weighted", (3, 4, 2), SETS, [0.5, 0.3, 0.2])


def products():
    designs = {0: np.vstack([np.eye(5), np.tri(5)[1::2]]) / 3, 2: np.eye(3) + 0.2}
    return WeightedTablesStrategy("products", (5, 2, 3), SETS, [0.5, 0.3, 0.2], designs)


CASES = {
    "tables": (tables, DP, ORDERED),
    "tables replace": (lambda: tables("replace"), REPLACE, ORDERED),
    "several ways": (lambda: tables(text=SEVERAL, p=4.0), DP, SEVERAL),
    "several ways replace": (lambda: tables("replace", SEVERAL), REPLACE, SEVERAL),
    "weighted": (weighted, pml.PureDP(1), PLAIN),
    "weighted gaussian": (weighted, DP, PLAIN),
    "weighted replace": (weighted, pml.PureDP(1, "replace"), PLAIN),
    "weighted pml": (weighted, pml.PML(1, 0.02), PLAIN),
    "weighted slack": (weighted, pml.ApproxPML(1, 1e-4, 0.02), PLAIN),
    "weighted envelope": (weighted, pml.EnvelopePML(1, 1e-4, 0.02), PLAIN),
    "products": (products, pml.PureDP(1), ORDERED),
    "marginals": (lambda: pml.factorize(PLAIN), pml.PureDP(1), PLAIN),
    "marginals slack": (
        lambda: pml.factorize(PLAIN, neighbours="replace"),
        pml.ApproxPML(1, 1e-4, 0.02),
        PLAIN,
    ),
}


@pytest.fixture(scope="module", params=CASES)
def honest(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "strategy.npz"
    make, guarantee, queries = CASES[request.param]
    strategy = make()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 1)
        noisy = pml.mechanism(strategy, queries, guarantee=guarantee)
        if isinstance(strategy, pml.Design):
            pml.write(path, strategy, mechanism=noisy)
        else:
            pml.write(path, noisy)
    return path, *read_archive(path)


@pytest.fixture
def by_structure(monkeypatch):
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 1)


@pytest.mark.usefixtures("by_structure")
def test_they_hold_and_nothing_is_left_out(honest):
    path, header, arrays = honest
    assert form_of(header, arrays).matrix(arrays) is None
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not result.unchecked
    assert {"sensitivity", "guarantee", "error", "rmse"} <= {check.name for check in result.checks}


@pytest.mark.usefixtures("by_structure")
def test_altered_numbers_and_arrays_are_found(honest):
    path, header, arrays = honest
    other, rng = path.with_name("altered.npz"), np.random.default_rng(3)
    for name in ("upper", "scale", "error", "rmse", "max_std", "sensitivity", "achieved"):
        if name in header:
            forged = {**header, name: header[name] * (1.01 if name == "rmse" else 0.99)}
            forged[KEY] = digest_of(forged, arrays)
            np.savez(other, header=np.array(json.dumps(forged)), **arrays)
            assert pml.verify(other).failures, name
    for name, array in arrays.items():
        if name.startswith("dual") or array.dtype.kind != "f":
            continue
        changed = array.copy()
        changed.reshape(-1)[rng.integers(array.size)] += 0.1 * np.abs(array).max()
        entries = {**arrays, name: changed}
        forged = {**header, KEY: digest_of(header, entries)}
        np.savez(other, header=np.array(json.dumps(forged)), **entries)
        assert pml.verify(other).failures, name


def test_sets_of_coordinates_are_read_as_a_whole(honest):
    path, header, arrays = honest
    if "residuals" not in arrays:
        return
    other, sets = path.with_name("sets.npz"), arrays["residuals"]
    forgeries = {
        "longer": {"precisions": np.append(arrays["precisions"], 1.0)},
        "twice": {"residuals": np.repeat(sets[:1], len(sets), axis=0)},
        "unsorted": {"residuals": np.roll(sets, 1, axis=1)},
        "out of range": {"residuals": np.where(sets == sets.max(), 9, sets)},
    }
    for array in forgeries.values():
        entries = {**arrays, **array}
        if all(np.array_equal(entries[name], arrays[name]) for name in array):
            continue
        forged = {**header, KEY: digest_of(header, entries)}
        np.savez(other, header=np.array(json.dumps(forged)), **entries)
        assert pml.verify(other).failures, array


def test_numbers_are_those_of_the_matrix(honest):
    _, header, arrays = honest
    strategy, R = measured_of(arrays), form_of(header, arrays).matrix(arrays)
    queries = _form(pml.workload(header["workload"]))
    A, replace = queries.matrix, header["neighbours"] == "replace"
    if replace:
        A, R, strategy = centred(A), centred(R), strategy.without_total()
    exact = np.sort(((A @ np.linalg.pinv(R, rcond=1e-11)) ** 2).sum(axis=1))
    parts = [strategy.variances(table) for table in queries.tables]
    assert np.allclose(np.sort(np.concatenate([np.repeat(v, k) for v, k in parts])), exact)
    longest = np.linalg.norm(form_of(header, arrays).matrix(arrays), axis=0).max()
    assert longest * (1 - 1e-9) <= measured_of(arrays).longest() <= longest * (1 + 1e-3)
    R = centred(R)
    apart = max(np.linalg.norm(R - R[:, [j]], axis=0).max() for j in range(R.shape[1]))
    assert apart * (1 - 1e-9) <= strategy.farthest()
    if all(part.rows is None for part in strategy.attributes.values()):
        assert strategy.farthest() <= apart * (1 + 1e-9)


def pairs_of_halves(w, share):
    """Products w_x w_y times what makes pairs within a half rarer, rows summing to w."""
    m = min(np.cumsum(w)[:-1], key=lambda x: abs(x - 0.5))
    below = np.cumsum(w) <= m
    odds = m / (1 - m)
    within = np.where(below[:, None] & below, 1 / odds, 0) + np.where(
        below[:, None] | below, 0, odds
    )
    across = below[:, None] != below
    return np.outer(w, w) * (1 - share * min(odds, 1 / odds) * (within - across))


def nuclear_norm_of_pairs(A, first, last, share, theta):
    """From the Laplacian of product pairs; an attribute of two plain values is between."""
    plain = np.array([[1 - theta, 1 + theta], [1 + theta, 1 - theta]]) / 4
    rho = np.kron(np.kron(pairs_of_halves(first, share), plain), pairs_of_halves(last, share))
    assert rho.min() >= -1e-15
    np.fill_diagonal(rho, 0)
    laplacian = 2 / rho.sum() * (np.diag(rho.sum(axis=1)) - rho)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(A @ laplacian @ A.T), 0)).sum()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_bound_of_blocks_is_below_the_nuclear_norm(neighbours):
    queries = _form(pml.workload(ORDERED))
    rng = np.random.default_rng(8)
    for _ in range(5):
        first, last = rng.random(5), rng.random(3)
        arrays = {"ordered": np.array([0, 2]), "dual_w": np.concatenate([first, last])}
        header = {"p": "2.0", "neighbours": neighbours, "lower": 1e9}
        first, last = first / first.sum(), last / last.sum()
        if neighbours == "replace":
            exact = max(
                nuclear_norm_of_pairs(queries.matrix, first, last, share, theta)
                for share in SHARES
                for theta in SHARES
            )
        else:
            w = np.kron(np.kron(first, [0.5, 0.5]), last)
            exact = np.linalg.norm(queries.matrix * np.sqrt(w), "nuc")
        proved = float(lower_bound(header, arrays, queries))
        assert 0.8 * exact < proved <= exact * (1 + 1e-12)


@pytest.mark.usefixtures("by_structure")
@pytest.mark.parametrize("p", [2.0, 4.0])
def test_bounds_that_keep_all_that_some_ways_ask_about(tmp_path, monkeypatch, p):
    """Of two attributes joined: the tables by either of them, which few directions lose."""
    monkeypatch.setattr("pmldesign.workloads.parsing.WRITTEN_CELLS", 1)
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 1)
    text = "marginals:prefix8,9,3,ways=2+at-most:8,9*total:3"
    design = tables(text=text, p=p)
    pml.write(tmp_path / "s.npz", design)
    result = pml.verify(tmp_path / "s.npz")
    assert result.holds, result.failures
    _, arrays = read_archive(tmp_path / "s.npz")
    header = {"lower": design.certificate.upper, "p": p, "neighbours": "add-remove"}
    proved = lower_bound(header, arrays, _form(pml.workload(text)))
    assert proved < design.certificate.upper
    monkeypatch.setattr("pmldesign.verifier.forms.table_bounds.WAYS", ())
    assert lower_bound(header, arrays, _form(pml.workload(text))) < proved
