"""Lower bounds from values that may be exchanged, against matrices of all cells."""

import numpy as np
import pytest
from small_unions import Union

from pmldesign.designs import factorize
from pmldesign.workloads import (
    KroneckerWorkload,
    UnionWorkload,
    as_workload,
    parse_workload,
)
from pmldesign_solvers.certificate import lower_bound
from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.unions import bounds

PAIRS = np.kron(np.eye(3), np.ones((1, 2)))
UNIONS = {
    "groups": [
        [np.eye(2), PAIRS, np.ones((1, 3))],
        [np.ones((1, 2)), np.eye(6), np.array([[1.0, 0, 0]])],
        [np.array([[0.0, 1]]), np.array([[1.0, 1, 1, 1, 0, 0]]), np.eye(3)],
    ],
    "equal and zero columns": [
        [np.array([[1.0, 1, 0]]), np.tri(4)],
        [np.array([[1.0, 1, 0], [2, 2, 0]]), np.ones((1, 4))],
    ],
    "one value": [[np.ones((1, 1)), np.eye(3)], [np.array([[2.0]]), np.ones((1, 3))]],
    "one query": [[np.ones((1, 4)), np.ones((1, 3))], [np.ones((1, 4)), np.eye(3)[:1]]],
    "nothing to exchange": [[np.tri(3), np.tri(4)], [np.ones((1, 3)), np.tri(4)[::2]]],
}


def union(name):
    parts = [KroneckerWorkload([as_workload(factor) for factor in part]) for part in UNIONS[name]]
    return UnionWorkload(parts)


def blocks_of(workload):
    problem = bounds.exchangeable(Union(workload).parts)
    assert problem is not None
    return problem


@pytest.mark.parametrize("name", UNIONS)
def test_the_bound_is_the_nuclear_norm_of_the_matrix(name):
    workload = union(name)
    problem, dense = blocks_of(workload), DenseOperator(workload.to_dense())
    w = np.random.default_rng(0).uniform(0.1, 1, size=problem.cells.size)
    proved, after = problem.step(w)
    every = problem.expand(w)
    assert every.sum() == pytest.approx(1)
    root = np.sqrt(every)
    values, vectors = np.linalg.eigh(root[:, None] * dense.gram(np.ones(dense.shape[0])) * root)
    roots = np.sqrt(values.clip(min=0))
    assert proved == pytest.approx(roots.sum(), rel=1e-6)
    assert proved <= roots.sum() * (1 + 1e-12)
    assert proved <= lower_bound(dense, np.ones(dense.shape[0]), every, 2.0) * (1 + 1e-6)
    slopes = vectors**2 @ roots
    asked = np.diagonal(dense.gram(np.ones(dense.shape[0]))) > 0
    expanded = problem.expand(after)[asked]
    np.testing.assert_allclose(expanded, slopes[asked] / slopes.sum(), rtol=1e-5)


@pytest.mark.parametrize("name", UNIONS)
def test_steps_lead_to_the_norm(name):
    workload = union(name)
    problem, best = blocks_of(workload), 0.0
    w = problem.start
    for _ in range(60):
        proved, w = problem.step(w)
        best = max(best, proved)
    exact = solve_norm(DenseOperator(workload.to_dense()), 2.0).certificate
    assert best <= exact.upper
    assert best == pytest.approx(exact.lower, rel=2e-3)


def test_blocks_are_few():
    problem = blocks_of(union("groups"))
    # both values of the first attribute are told apart by "not", in the second the last two
    assert [int(labels.max()) + 1 for labels in problem.labels] == [2, 3, 2]
    assert problem.cells.sum() == 36
    assert max(len(block.classes) for block in problem.blocks) <= 12


def test_too_large_blocks_are_left_out():
    workload = parse_workload("prefix:64*prefix:64+total:64*haar:64")
    assert bounds.exchangeable(Union(workload).parts) is None


def test_too_many_blocks_are_left_out():
    workload = parse_workload("prefix:2*" + "*".join(["histogram:2"] * 15))
    parts = [workload.factors, tuple(parse_workload("total:2") for _ in workload.factors)]
    assert bounds.exchangeable(parts) is None


def test_census_tables_of_persons():
    """Published for HDMM: 2.3519; the certified bound is 1.904, within 10 % of the design."""
    workload = parse_workload("census-sf1")
    problem = blocks_of(workload)
    assert problem.cells.sum() == workload.shape[1] == 29440
    w, proved = problem.start, 0.0
    for _ in range(4):
        proved, w = problem.step(w)
    assert 1.85 < proved / np.sqrt(4151) < 1.9042


def test_a_union_with_groups_takes_it(monkeypatch):
    from pmldesign.designs import dispatch

    monkeypatch.setattr(dispatch, "DENSE_CELLS", 8)
    workload = union("groups")
    found = factorize(workload, max_steps=30, rel_gap=1e-3)
    exact = solve_norm(DenseOperator(workload.to_dense()), 2.0).certificate
    assert found.certificate.lower <= exact.upper * (1 + 1e-9)
    assert found.certificate.upper >= exact.lower * (1 - 1e-9)
