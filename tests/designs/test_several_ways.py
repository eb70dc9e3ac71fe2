"""Attributes that different tables ask about in several ways, attacked by dense computation."""

import numpy as np
import pytest

from pmldesign.designs import DesignOptions, factorize, question, solve_tables
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import TablesStrategy
from pmldesign.workloads import DenseWorkload, TablesWorkload, as_workload
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
        tables[tuple(table.items())] = table
    return TablesWorkload(ways, list(tables.values()), rng.uniform(0.5, 2, len(tables)))


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_and_lengths_hold(seed, p, neighbours):
    workload = drawn(np.random.default_rng(seed))
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
    L = C @ np.linalg.pinv(R)
    left = L @ R - C
    left -= left.mean(axis=1, keepdims=True) if replaced else 0
    assert np.abs(left).max() <= 1e-9 * np.abs(A).max()
    norm = np.linalg.norm(np.linalg.norm(L, axis=1), p)
    assert norm * farthest <= design.certificate.upper * (1 + 1e-9)
    centred = workload.beside(design.strategy.public)
    assert np.allclose(design.strategy.variances(centred), (L**2).sum(axis=1), atol=1e-10)


def test_ten_attributes_in_two_ways():
    workload = as_workload(UNION)
    assert workload.shape == (5050, 10**10)
    design = factorize(workload, rel_gap=0.01)
    assert isinstance(design.strategy, TablesStrategy)
    assert design.certificate.gap <= 0.01
    alone = factorize("marginals:prefix10^10,ways=2", rel_gap=0.01).certificate
    assert design.certificate.upper >= alone.lower  # more is asked


def test_a_table_twice_is_refused_over_many_cells():
    with pytest.raises(InvalidInputError, match="each asked for once"):
        as_workload("marginals:all-range10^10,upto=1+marginals:prefix10^10,upto=2")
