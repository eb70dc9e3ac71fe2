"""Attributes that different tables ask about in several ways, attacked by dense computation."""

import numpy as np
import pytest

from pmldesign.designs import DesignOptions, factorize, question, solve_tables
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import TablesStrategy
from pmldesign.workloads import (
    DenseWorkload,
    KroneckerWorkload,
    TablesWorkload,
    as_workload,
    given_invariants,
    on_common_attributes,
)
from pmldesign_solvers.norm import SolverOptions, solve_norm
from pmldesign_solvers.operators import DenseOperator

UNION = "marginals:all-range10^10,ways=1+marginals:prefix10^10,ways=2"
RELATIONS = [Neighbours.ADD_REMOVE, Neighbours.REPLACE]


def drawn(rng):
    """Some tables, each attribute of 1 to 4 values asked in one to three ways."""
    sizes = rng.integers(1, 5, rng.integers(1, 4)).tolist()
    ways = []
    for n in sizes:
        own = np.where(rng.random((3, n)) < 0.5, rng.normal(size=(3, n)), 0.0)
        own[0, 0] = 1.0
        kinds = [as_workload(f"{name}:{n}") for name in ("prefix", "all-range", "histogram")]
        kinds.append(DenseWorkload(own))
        ways.append([kinds[k] for k in rng.permutation(4)[: rng.integers(1, 4)]])
    tables = {}
    for _ in range(rng.integers(1, 6)):
        members = np.flatnonzero(rng.random(len(sizes)) < 0.6).tolist()
        table = {i: int(rng.integers(len(ways[i]))) for i in members}
        tables[tuple(table.items())] = {i: ways[i][way] for i, way in table.items()}
    return TablesWorkload(sizes, list(tables.values()), rng.uniform(0.5, 2, len(tables)))


def joined(rng):
    """Tables of which some join two neighbouring attributes."""
    sizes = tuple(rng.integers(1, 4, 3).tolist())
    n, m, k = sizes
    own = DenseWorkload(np.where(rng.random((2, n * m)) < 0.5, 1.0, 0.0) + np.eye(n * m)[:2])
    first = as_workload(f"marginals:prefix{n},{m},{k},ways={rng.integers(1, 3)}")
    pair = [as_workload(f"within:{n},{m}"), own][rng.integers(2)]
    third = as_workload(rng.choice([f"total:{k}", f"prefix:{k}"]))
    parts = [first, KroneckerWorkload([pair, third])]
    if rng.random() < 0.5:
        parts.append(
            KroneckerWorkload([as_workload(f"total:{n}"), as_workload(f"at-most:{m},{k}")])
        )
        if rng.random() < 0.5:
            parts = parts[::2]
    tables = on_common_attributes(parts)
    if not tables.crossed or len(tables.domain) < 2:  # no boundary in common
        return joined(rng)
    written = np.vstack([part.to_dense() for part in parts])
    np.testing.assert_array_equal(tables.to_dense(), written)
    return tables


@pytest.mark.sweep
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
@pytest.mark.parametrize(
    ("make", "seed"), [(drawn, 1), (drawn, 3), (joined, 0), (joined, 1), (joined, 2)]
)
def test_bounds_and_lengths_hold(make, seed, p, neighbours):
    workload = make(np.random.default_rng(seed))
    A, replaced = workload.to_dense(), neighbours is Neighbours.REPLACE
    C = A - A.mean(axis=1, keepdims=True) if replaced else A
    if np.abs(C).max() < 1e-12:
        return
    options = DesignOptions(neighbours=neighbours, rel_gap=1e-3)
    design = solve_tables(workload, question(workload), p, options)
    relation = "replace" if replaced else "add-remove"
    exact = solve_norm(
        DenseOperator(A), p, relation=relation, options=SolverOptions(rel_gap=1e-3)
    ).certificate
    assert design.certificate.lower <= exact.upper
    R = design.strategy.matrix
    apart = [R - R[:, [j]] for j in range(R.shape[1])] if replaced else [R]
    farthest = max(np.linalg.norm(columns, axis=0).max() for columns in apart)
    assert design.strategy.sensitivity_under(neighbours, "l2") >= farthest * (1 - 1e-13)
    L = C @ np.linalg.pinv(R, rcond=1e-11)
    left = L @ R - C
    left -= left.mean(axis=1, keepdims=True) if replaced else 0
    assert np.abs(left).max() <= 1e-9 * np.abs(A).max()
    norm = np.linalg.norm(np.linalg.norm(L, axis=1), p)
    assert norm * farthest <= design.certificate.upper * (1 + 1e-9)
    centred = given_invariants(workload, design.strategy.public)
    assert np.allclose(design.strategy.variances(centred), (L**2).sum(axis=1), atol=1e-10)


def test_ten_attributes_in_two_ways():
    workload = as_workload(UNION)
    assert workload.shape == (5050, 10**10)
    design = factorize(workload, rel_gap=0.01)
    assert isinstance(design.strategy, TablesStrategy)
    assert design.certificate.gap <= 0.01
    alone = factorize("marginals:prefix10^10,ways=2", rel_gap=0.01).certificate
    assert design.certificate.upper >= alone.lower  # more is asked


def test_a_large_table_twice_is_refused_over_many_cells():
    with pytest.raises(InvalidInputError, match="each asked for once"):
        as_workload("marginals:all-range40^10,upto=1+marginals:prefix40^10,upto=2")


SIZES = (85, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42)
ADULT = "marginals:" + ",".join(map(str, SIZES)) + ",ways=2"


def beside(pair, place):
    """The tables of Adult by two, and one that joins two neighbours."""
    totals = [f"total:{size}" for size in SIZES]
    return ADULT + "+" + "*".join([*totals[:place], pair, *totals[place + 2 :]])


def test_tables_by_two_beside_one_that_joins_two_attributes():
    workload = as_workload(beside("at-most:16,16", 3))
    assert workload.domain == (*SIZES[:3], 256, *SIZES[5:])
    assert len(workload.ways[(3,)]) == 4
    bounds = factorize(workload, rel_gap=0.03).certificate
    assert bounds.gap <= 0.03
    assert bounds.upper >= factorize(ADULT).certificate.lower  # more is asked


def test_what_is_too_large_to_be_joined():
    with pytest.raises(InvalidInputError, match="have up to 2048 cells"):
        as_workload(beside("within:100,100", 10))
    with pytest.raises(InvalidInputError, match="values of at-most"):
        as_workload("at-most:300,300")


@pytest.mark.parametrize(("name", "joint"), [("at-most", np.add), ("within", np.subtract)])
def test_queries_that_join_two_attributes(name, joint):
    workload = as_workload(f"{name}:3,5")
    values = np.abs(joint.outer(np.arange(3), np.arange(5))).ravel()
    rows = [values <= c for c in range(values.max() + 1)]
    np.testing.assert_array_equal(workload.to_dense(), rows)
