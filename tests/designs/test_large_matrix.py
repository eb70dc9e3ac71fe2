"""Thousands of cells where a record is replaced: a known strategy, with true claims."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from leakages import laplace_leakage_bound

import pmldesign as pml
from pmldesign.designs import DesignOptions, large_matrix
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, verify_file, write_strategy
from pmldesign.privacy import columns
from pmldesign.strategies import baseline
from pmldesign.workloads import as_workload

RNG = np.random.default_rng(11)
REPLACE = DesignOptions(neighbours="replace")


def sparse_integers(m, n, share=0.5):
    return RNG.integers(1, 4, (m, n)) * (RNG.random((m, n)) < share).astype(float)


def with_repetitions():
    matrix = sparse_integers(6, 14)
    matrix[2], matrix[:, 3], matrix[:, 9] = 0.0, 0.0, matrix[:, 1]
    matrix[4] = 5.0
    return matrix


QUERIES = {
    "one query": sparse_integers(1, 9),
    "two cells": np.array([[1.0, 3.0], [2.0, 2.0]]),
    "repetitions": with_repetitions(),
    "few": RNG.standard_normal((4, 12)) + 7,
    "many": sparse_integers(17, 6),
    "square": np.tri(8),
}


def differences(matrix):
    n = matrix.shape[1]
    return np.stack([matrix[:, i] - matrix[:, j] for i, j in combinations(range(n), 2)])


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_both_bounds_are_true(name, form, p):
    matrix = QUERIES[name]
    found = large_matrix.solve_large(as_workload(form(matrix)), p, REPLACE)
    exact = pml.factorize(as_workload(matrix), p=p, neighbours="replace").certificate
    assert found.certificate.lower <= exact.upper * (1 + 1e-9)
    assert found.certificate.upper >= exact.lower * (1 - 1e-9)
    assert found.certificate.gap < 1.6
    centred = np.eye(matrix.shape[1]) - 1 / matrix.shape[1]
    R = found.strategy.matrix @ centred
    L = matrix @ centred @ np.linalg.pinv(R)
    farthest = np.linalg.norm(differences(R), axis=1).max()
    assert np.allclose(L @ R, matrix @ centred)
    value = np.linalg.norm(np.linalg.norm(L, axis=1), ord=p) * farthest
    assert value <= found.certificate.upper
    assert value == pytest.approx(found.certificate.upper, rel=1e-6)


@pytest.mark.parametrize("weights", [np.ones(14), np.arange(14.0), np.eye(14)[3] + np.eye(14)[1]])
def test_weights_of_cells_prove_what_their_pairs_prove(weights):
    matrix, u = with_repetitions(), RNG.uniform(0.1, 1, 6)
    pairs = np.outer(weights, weights) - np.diag(weights**2)
    laplacian = np.diag(pairs.sum(axis=1)) - pairs
    values, vectors = np.linalg.eigh(laplacian / (pairs.sum() / 2))
    root = vectors * np.sqrt(values.clip(min=0))
    exact = np.linalg.norm(np.sqrt(u / u.max())[:, None] * matrix @ root, ord="nuc")
    found = [
        large_matrix.lower_bound_of_cells(matrix, u, weights, 2.0),
        large_matrix.lower_bound_of_cells(matrix.T * u @ matrix, u, weights, 2.0, gram=True),
        large_matrix.lower_bound_of_cells(scipy.sparse.csr_array(matrix), u, weights, 2.0),
    ]
    assert max(found) <= exact * (1 + 1e-12)
    assert found[0] == pytest.approx(exact, rel=1e-5)
    assert found[2] >= 0.5 * exact


@pytest.mark.parametrize("p", [2.0, 4.0])
@pytest.mark.parametrize("name", ["few", "many", "square"])
@pytest.mark.parametrize("entries", [0, 2**26])
def test_of_very_many_cells_some_have_a_bound(name, entries, p, monkeypatch):
    """It is that of a matrix of these cells alone."""
    matrix = QUERIES[name]
    monkeypatch.setattr(large_matrix, "DENSE_ENTRIES", entries)
    monkeypatch.setattr(large_matrix, "BOUNDED_CELLS", 0)
    monkeypatch.setattr(large_matrix, "BOUND_WORK", 3 * matrix.size)
    found = large_matrix.solve_large(as_workload(matrix), p, REPLACE)
    ((u, w),) = found.dual_factors
    some = np.flatnonzero(w)
    assert 2 <= some.size < matrix.shape[1]
    exact = pml.factorize(as_workload(matrix[:, some]), p=p, neighbours="replace").certificate
    assert 0 < found.certificate.lower <= exact.upper * (1 + 1e-9)
    laplacian = np.diag(w[some]) - np.outer(w[some], w[some])
    values, vectors = np.linalg.eigh(laplacian / ((1 - w @ w) / 2))
    root = vectors * np.sqrt(values.clip(min=0))
    nuclear = np.linalg.norm(np.sqrt(u)[:, None] * matrix[:, some] @ root, ord="nuc")
    assert found.certificate.lower == pytest.approx(nuclear, rel=1e-5)
    assert found.certificate.lower <= nuclear * (1 + 1e-12)


KINDS = {
    "zero and negative": np.array([[0.0, -1, 2, 3], [0, 4, -5, 6]]),
    "one query": np.array([[1.0, 0, -3]]),
    "tall": RNG.standard_normal((9, 3)),
    "two": np.array([[2.0, 5.0]]),
}


@pytest.mark.parametrize("p", [2.0, np.inf])
@pytest.mark.parametrize("name", KINDS)
def test_few_cells_that_differ_are_the_workload_however_many_there_are(name, p, monkeypatch):
    """Both bounds are theirs; the strategy is checked against all cells, by its definition."""
    monkeypatch.setattr("pmldesign.designs.dispatch.DENSE_CELLS", 10)
    kinds = KINDS[name]
    cells = RNG.permutation(np.arange(20) % kinds.shape[1])
    matrix = kinds[:, cells]
    found = pml.factorize(matrix, p=p, neighbours="replace")
    exact = pml.factorize(kinds, p=p, neighbours="replace").certificate
    assert found.certificate.lower <= exact.upper * (1 + 1e-9)
    assert found.certificate.upper >= exact.lower * (1 - 1e-9)
    assert found.certificate.gap <= 1e-6
    assert found.dual_w.shape == (kinds.shape[1],) * 2
    centred = np.eye(20) - 1 / 20
    R, asked = found.strategy.matrix, matrix @ centred
    L = asked @ np.linalg.pinv(R)
    np.testing.assert_allclose(L @ R, asked, atol=1e-9)
    value = np.linalg.norm(np.linalg.norm(L, axis=1), ord=p)
    value *= np.linalg.norm(differences(R), axis=1).max()
    assert value == pytest.approx(found.certificate.upper, rel=1e-6)


@pytest.mark.parametrize("queries", ["tall", "product"])
def test_few_cells_that_differ_are_written_read_and_verified(queries, tmp_path):
    workload = as_workload(KINDS["tall"][:, RNG.integers(0, 3, 2100)])
    if queries == "product":
        workload = as_workload("total:700*prefix:3")
    design = pml.factorize(workload, neighbours="replace")
    noisy = pml.mechanism(design, guarantee=pml.ZCDP(0.5, "replace"))
    write_strategy(tmp_path / "few.npz", design, mechanism=noisy)
    checked = verify_file(tmp_path / "few.npz", workload=workload)
    assert checked.holds, checked
    with np.load(tmp_path / "few.npz") as arrays:
        assert arrays["dual_w"].shape == (3, 3)


@pytest.mark.parametrize("exponent", [-1000, -450, 450, 1000])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_very_large_and_very_small_entries_change_the_scale_alone(form, exponent):
    for name in ("few", "many"):
        given = as_workload(form(np.ldexp(QUERIES[name], exponent)))
        found = large_matrix.solve_large(given, 4.0, REPLACE)
        plain = large_matrix.solve_large(as_workload(form(QUERIES[name])), 4.0, REPLACE)
        bounds = np.ldexp([found.certificate.lower, found.certificate.upper], -exponent)
        expected = [plain.certificate.lower, plain.certificate.upper]
        assert bounds == pytest.approx(expected, rel=1e-2)
        assert found.workload is given


def test_what_asks_for_the_total_alone_is_refused():
    queries = as_workload(np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]))
    with pytest.raises(InvalidInputError, match="nothing but the total"):
        large_matrix.solve_large(queries, 2.0, REPLACE)


@pytest.mark.parametrize("matrix", [*QUERIES.values(), np.ones((2, 5)), np.eye(5) + 1e9])
def test_bounds_take_the_place_of_too_many_distances(matrix, monkeypatch):
    apart = differences(matrix)
    monkeypatch.setattr(columns, "MOST_PAIRED", {1: 0, 2: 0})
    for single in (2**37, 0):
        monkeypatch.setattr(columns, "MOST_SINGLE", single)
        far = pml.strategy(matrix).sensitivity_under("replace", "l2")
        exact = np.linalg.norm(apart, axis=1).max()
        assert exact * (1 - 1e-12) <= far <= 2 * exact * (1 + 1e-12) + 1e-12
    far, exact = pml.strategy(matrix).sensitivity_under("replace", "l1"), np.abs(apart).sum(axis=1)
    monkeypatch.setattr("pmldesign.privacy.neighbours.WRITTEN_CELLS", 1)
    far = pml.strategy(matrix).sensitivity_under("replace", "l1")
    assert exact.max() * (1 - 1e-12) <= far <= 2 * exact.max() * (1 + 1e-12) + 1e-12


def test_leakage_of_many_columns_is_no_more_than_promised(monkeypatch):
    monkeypatch.setattr("pmldesign.privacy.neighbours.WRITTEN_CELLS", 3)
    for matrix in (sparse_integers(3, 8), RNG.standard_normal((2, 6)), np.eye(7)):
        scale = pml.calibrate(pml.strategy(matrix), pml.PML(0.7, 0.05), noise="laplace").scale
        assert laplace_leakage_bound(matrix, scale=scale, alpha=0.05) <= 0.7 * (1 + 1e-9)
    exact = laplace_leakage_bound(np.eye(7), scale=scale, alpha=0.05)
    assert exact == pytest.approx(0.7, rel=1e-5)  # all cells are as far apart as any two


def test_the_identity_of_many_cells_is_not_written_out():
    n = 100_000
    queries = scipy.sparse.random_array((4, n), density=1e-3, rng=RNG).tocsr()
    identity = baseline("identity", as_workload(queries))
    assert identity.sensitivity_under("replace", "l1") == 2
    assert identity.sensitivity_under("replace", "l2") == pytest.approx(2**0.5, rel=1e-12)
    assert identity.sensitivity_under("add-remove", "l1") == 1
    noisy = pml.mechanism(identity, as_workload(queries), neighbours="replace")
    rows = queries.toarray()
    expected = (rows**2).sum(axis=1) - rows.sum(axis=1) ** 2 / n
    assert np.allclose(noisy.factorization.variances, expected)


@pytest.mark.parametrize(
    ("guarantee", "tall"),
    [
        (pml.PML(1, 1e-5), True),
        (pml.PML(1, 1e-5), False),
        (pml.EnvelopePML(1, 1e-6, 1e-5), False),
        (pml.ApproxDP(1, 1e-6, neighbours="replace"), False),
    ],
)
def test_a_design_is_written_read_released_and_verified(guarantee, tall, tmp_path):
    n = 2100
    queries = scipy.sparse.random_array((600 if tall else 12, n), density=0.01, rng=RNG)
    queries = queries.tocsr() if tall else queries.toarray() + RNG.integers(0, 9, (12, n))
    workload = as_workload(queries)
    found = pml.optimize(workload, guarantee, effort="quick")
    noisy = found.best
    write_strategy(tmp_path / "large.npz", found.design, mechanism=noisy)
    checked = verify_file(tmp_path / "large.npz", workload=workload)
    assert checked.holds, checked
    assert read_strategy(tmp_path / "large.npz").cells == n
    x = np.random.default_rng(1).integers(0, 9, n)
    released = noisy.release(x)
    assert abs(released.table.estimate - workload.matvec(x)).max() < 8 * noisy.max_std


def test_verification_takes_small_deltas_of_many_columns(tmp_path):
    queries = RNG.integers(0, 9, (4, 2100)) + RNG.random((4, 2100))
    design = large_matrix.solve_large(as_workload(queries), 2.0, REPLACE)
    for promise in (pml.EnvelopePML(1, 1e-6, 1e-5), pml.EnvelopePML(0.3, 1e-4, 1e-5)):
        noisy = pml.mechanism(design, guarantee=promise, noise="gaussian")
        write_strategy(tmp_path / "s.npz", design, mechanism=noisy)
        checked = verify_file(tmp_path / "s.npz", workload=as_workload(queries))
        assert checked.holds, checked
