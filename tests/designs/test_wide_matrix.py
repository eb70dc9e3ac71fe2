"""Matrices of fewer queries than cells: what their certificate has shown is not shown again."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

import pmldesign as pml
from pmldesign.designs import one_matrix
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import Strategy, spare_answers
from pmldesign.workloads import as_workload
from pmldesign_solvers.certificate import upper_bound


def wide(seed, kind):
    """12 queries on 60 cells, of which 20 are the same."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 3, (12, 60)) * rng.choice([0.01, 1.0, 50.0], (12, 1))
    matrix[:, :20] = matrix[:, :1]
    return as_workload(sparse.csr_array(matrix) if kind == "sparse" else matrix)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("p", [2, 3, math.inf])
def test_a_certified_design_takes_no_product_to_see_that_it_answers(kind, p, monkeypatch):
    workload = wide(1, kind)
    strategy = pml.factorize(workload, p=p).strategy
    inverse = strategy.pseudo_inverse
    queries = workload.to_dense()
    missed = np.linalg.norm(queries - queries @ inverse @ strategy.matrix, axis=1)
    assert (missed <= 1e-9 * np.linalg.norm(queries, axis=1)).all()
    monkeypatch.setattr(Strategy, "matrix", property(lambda _: pytest.fail("L R is computed")))
    strategy.require_answers(workload)


def test_what_is_missed_is_seen_all_the_same():
    workload = as_workload(np.array([[1.0, 1.0, 0.0], [0.0, 1e-3, 1.0]]))
    partial = Strategy("partial", np.array([[1.0, 1.0, 0.0]]))
    for missed in (1.0, 1.001e-6, math.inf, math.nan):
        spare_answers(partial, workload, missed)
        with pytest.raises(InvalidInputError, match="cannot answer"):
            partial.require_answers(workload)
    design = pml.factorize(workload).strategy
    for other in (wide(2, "dense").to_dense()[:, :3], np.eye(3)):  # not those of the certificate
        with pytest.raises(InvalidInputError, match="cannot answer"):
            design.require_answers(as_workload(other))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
def test_a_damaged_inverse_is_not_spared(scale, monkeypatch):
    """The certificate of factors that miss a part of a query says so in its upper bound."""

    workload = as_workload(wide(3, "dense").to_dense() * scale)
    solve = one_matrix.solve_norm

    def damaged(operator, p, **others):
        found = solve(operator, p, **others)
        inverse = found.right_inverse.copy()
        inverse[0] *= 1.01
        upper = upper_bound(operator, found.strategy, inverse, p)
        return dataclasses.replace(
            found,
            right_inverse=inverse,
            certificate=dataclasses.replace(found.certificate, upper=upper),
        )

    monkeypatch.setattr(one_matrix, "solve_norm", damaged)
    strategy = pml.factorize(workload).strategy
    with pytest.raises(InvalidInputError, match="cannot answer"):
        strategy.require_answers(workload)
