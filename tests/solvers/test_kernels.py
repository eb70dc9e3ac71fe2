import builtins
import importlib.util

import numpy as np
import pytest
from certified import CHECK_P, assert_certified
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.workloads import parse_workload
from pmldesign_solvers.gamma import solve
from pmldesign_solvers.kernels import check_device, kernels
from pmldesign_solvers.merged import MergedWorkload
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.scaling_problem import ScalingProblem

TORCH = "torch:cpu"
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 8)


def close(found, expected):
    return np.allclose(found, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("device", ["cpu", TORCH])
@given(sizes, sizes, seeds)
def test_kernels_compute_what_they_say(device, rows, columns, seed):
    rng = np.random.default_rng(seed)
    A, n = rng.standard_normal((rows, columns)), columns
    u, root, values = (rng.uniform(0.1, 1, size) for size in (rows, n, n))
    found = kernels(DenseOperator(A), device)
    for weights in (u, u, 2 * u):  # again, and changed
        eigenvalues, vectors = found.eigh(weights, root)
        Q = found.fetch(vectors)
        matrix = (A * root).T @ (weights[:, None] * A * root)
        assert (np.diff(eigenvalues) >= 0).all()
        assert np.allclose((Q * eigenvalues) @ Q.T, matrix, rtol=0, atol=1e-12 * np.trace(matrix))
    assert close(found.diagonal(vectors, values), ((Q * values) @ Q.T).diagonal())
    product = A @ (root[:, None] * Q * values)
    assert close(found.row_norms(root, vectors, values), (product**2).sum(axis=1))
    assert (found.fetch(found.load(Q)) == Q).all()


@given(sizes, sizes, st.sampled_from(CHECK_P), seeds)
def test_points_do_not_depend_on_the_device(rows, columns, p, seed):
    rng = np.random.default_rng(seed)
    well_conditioned = rng.standard_normal((rows, columns)) + 8 * np.eye(rows, columns)
    merged = MergedWorkload(DenseOperator(well_conditioned))
    here, there = ScalingProblem(merged, p), ScalingProblem(merged, p, TORCH)
    weights = here.normalise(*(rng.uniform(0.1, 1, size) for size in here.shape))
    point, other = here.evaluate(*weights), there.evaluate(*weights)
    for name in ("lower", "upper", "next_u", "next_w", "values"):
        assert close(getattr(other, name), getattr(point, name)), name
    (R, B), (S, C) = here.factors(point), there.factors(other)
    assert np.allclose(R.T @ R, S.T @ S, rtol=0, atol=1e-9)
    assert np.allclose(B @ R, C @ S, rtol=0, atol=1e-9)


@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize("name", ["prefix:40", "all-range:20", "census-p12", "prefix:256"])
def test_solutions_do_not_depend_on_the_device(name, p):
    workload = parse_workload(name)
    found, expected = solve(workload, p, device=TORCH), solve(workload, p)
    assert_certified(found, workload.to_dense(), p=p, rel_gap=1e-6)
    if name != "prefix:256":  # where NumPy's way goes through the tridiagonal inverse
        assert close(found.certificate.lower, expected.certificate.lower)
        assert close(found.certificate.upper, expected.certificate.upper)
    assert found.certificate.lower <= expected.certificate.upper
    assert expected.certificate.lower <= found.certificate.upper


def test_steps_happen_on_the_device(monkeypatch):
    def unused(matrix):
        raise AssertionError("decomposed with NumPy")

    monkeypatch.setattr(np.linalg, "eigh", unused)
    assert solve(parse_workload("prefix:20"), 4, device=TORCH).status.name == "OPTIMAL"


@pytest.mark.parametrize("device", ["nonsense", "", "torch:", "meta", "cpu:x"])
def test_devices_that_cannot_be_used_are_refused(device):
    with pytest.raises(ValueError, match=r"cannot be used: .*; take 'cpu' for NumPy"):
        check_device(device)


def test_without_torch_the_message_names_the_extra(monkeypatch):
    find, load = importlib.util.find_spec, builtins.__import__
    monkeypatch.setattr(
        "pmldesign_solvers.kernels.find_spec", lambda name: None if name == "torch" else find(name)
    )

    def importing(name, *arguments, **options):
        assert name != "torch"
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", importing)
    check_device("cpu")
    with pytest.raises(ValueError, match=r"pip install 'pmldesign\[gpu\]'"):
        check_device("cuda")


def test_pairs_have_no_device():
    with pytest.raises(ValueError, match="add-remove"):
        solve(parse_workload("prefix:4"), 2, kind="pairs", device=TORCH)
