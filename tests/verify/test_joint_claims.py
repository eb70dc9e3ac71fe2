"""Files of strategies that measure tables, each by a matrix of its own."""

import json

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, solve_joined
from pmldesign.files.verification import _form
from pmldesign.strategies import TableMatricesStrategy
from pmldesign.verifier import KEY, Checks, digest_of, read_archive
from pmldesign.verifier.forms import joint_tables

TEXT = "marginals:prefix8,6,5,prefix10,ways=1+at-most:8,6,5,10,ways=2"  # 2400 cells


@pytest.fixture(
    scope="module",
    params=[(2.0, "add-remove"), (np.inf, "add-remove"), (2.0, "replace"), (4.0, "replace")],
    ids=str,
)
def honest(request, tmp_path_factory):
    p, neighbours = request.param
    path = tmp_path_factory.mktemp("joint") / "s.npz"
    options = DesignOptions(neighbours=pml.Neighbours(neighbours), rel_gap=0.3)
    design = solve_joined(pml.workload(TEXT), p, options)
    noisy = pml.mechanism(design, TEXT, guarantee=pml.ApproxDP(1.0, 1e-6, neighbours))
    pml.write(path, design, mechanism=noisy)
    return path


def test_all_claims_hold(honest):
    result = pml.verify(honest)
    assert result.holds, result.failures
    assert not result.unchecked
    claims = {"upper", "lower", "sensitivity", "guarantee", "achieved", "error", "rmse", "max_std"}
    assert claims <= {check.name for check in result.checks}


@pytest.mark.parametrize(
    ("name", "change", "claim"),
    [
        ("rows_0", lambda R: R * 1.01, "sensitivity"),
        ("rows_1", lambda R: R * 0.99, "upper"),
        ("rows_2", lambda R: R[:2], "L R = A"),
        ("dual_w", lambda w: np.append(np.full(8, 1e-9), w[8:]), "lower"),
        ("dual_u", lambda u: np.append(u[:1] * 1e4, u[1:]), "lower"),
        ("tables", lambda T: T[::-1], None),
        ("centred", lambda c: c + 5, None),
    ],
)
def test_altered_arrays_are_found(honest, tmp_path, name, change, claim):
    header, arrays = read_archive(honest)
    if name == "centred" and header["neighbours"] == "replace":
        return  # it says what is measured beside, which replaced records do not see
    arrays[name] = change(arrays[name])
    header[KEY] = digest_of(header, arrays)
    path = tmp_path / "altered.npz"
    np.savez(path, header=json.dumps(header), **arrays)
    result = pml.verify(path)
    assert claim in [None, *(failure.name for failure in result.failures)]
    assert result.failures


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "cube"])
def test_a_public_total_is_for_replaced_records_where_the_matrix_is_checked_too(
    tmp_path, monkeypatch, noise
):
    """Read as centred, such a strategy does not tell the total that the queries ask for."""
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 1)
    sets, matrices = [(0, 1), (0, 2), (1, 2)], [np.tri(4), np.tri(6) + 0.5, np.eye(6)]
    measured = TableMatricesStrategy("tables", (2, 2, 3), sets, matrices)
    promise = pml.ApproxDP(1.0, 1e-6)
    noisy = pml.mechanism(measured, "at-most:2,2,3,ways=2", guarantee=promise, noise=noise)
    path = tmp_path / "s.npz"
    pml.write(path, noisy)
    header, arrays = read_archive(path)
    assert pml.verify(path).holds
    arrays["centred"] += 1
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=json.dumps(header), **arrays)
    assert [failure.name for failure in pml.verify(path).failures] == ["neighbours"]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("p", [2.0, 4.0])
def test_numbers_are_those_of_the_matrix(tmp_path, monkeypatch, neighbours, p):
    """Of few cells, by structure and by R itself."""
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 1)
    text = "marginals:prefix3^3,ways=1+at-most:3^3,ways=2"
    workload = pml.workload(text)
    design = solve_joined(workload, p, DesignOptions(neighbours=pml.Neighbours(neighbours)))
    pml.write(tmp_path / "s.npz", design)
    header, arrays = read_archive(tmp_path / "s.npz")
    R, A = design.strategy.matrix, workload.to_dense()
    C = A - A.mean(axis=1, keepdims=True) if neighbours == "replace" else A
    queries = _form(workload)
    w = [part / part.sum() for part in np.split(arrays["dual_w"], 3)]
    cells = np.kron(np.kron(w[0], w[1]), w[2])
    B = np.sqrt(arrays["dual_u"])[:, None] * A * np.sqrt(cells)
    factor = 1.0
    if neighbours == "replace":
        B -= np.outer(B @ np.sqrt(cells), np.sqrt(cells))
        factor = np.sqrt(2 / (1 - np.prod([part @ part for part in w])))
    norm = np.linalg.norm(arrays["dual_u"], np.inf if p == 2 else 2)
    exact = factor * np.linalg.norm(B, "nuc") / np.sqrt(norm)
    assert float(joint_tables.lower_bound(header, arrays, queries)) == pytest.approx(
        exact, rel=1e-5
    )
    monkeypatch.setattr(joint_tables, "MOST_ROWS", 0)
    assert (
        0.8 * exact
        < float(joint_tables.lower_bound(header, arrays, queries))
        <= exact * (1 + 1e-12)
    )
    variances = ((C @ np.linalg.pinv(R, 1e-11)) ** 2).sum(axis=1)
    apart = R[:, :, None] - R[:, None, :] if neighbours == "replace" else R[:, :, None]
    checks = []
    monkeypatch.setattr(
        joint_tables, "check_computed", lambda _, computed, __: checks.append(computed)
    )
    joint_tables.check_joint(header, arrays, queries, Checks())
    (computed,) = checks
    spread = (variances ** (p / 2)).sum() ** (1 / p)
    assert float(computed.spread(p)) == pytest.approx(spread, rel=1e-6)
    for name, order in (("l1", 1), ("l2", 2)):
        exact_length = np.linalg.norm(apart, order, axis=0).max()
        assert float(computed.sensitivity(name)) >= exact_length * (1 - 1e-9)
