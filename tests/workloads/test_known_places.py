"""Sums of places that are public, by structure, against matrices without what is public."""

import importlib
import math

import numpy as np
import pytest
import test_ordered_regions
import test_region_tables
import test_regions
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign import factorize
from pmldesign.designs import DesignOptions, solve_regions
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours, Noise
from pmldesign.releases import lattice_of
from pmldesign.strategies import Strategy
from pmldesign.workloads import (
    DenseWorkload,
    Public,
    RegionsWorkload,
    as_public,
    given_invariants,
    tops_of,
)
from pmldesign_solvers.trees import Tree


@pytest.fixture(autouse=True, scope="module")
def structure_at_any_size():
    """As beyond the cells for which matrices are written out."""
    with pytest.MonkeyPatch.context() as patch:
        for room in ("workloads.beside", "strategies.structured"):
            patch.setattr(importlib.import_module(f"pmldesign.{room}"), "WRITTEN_CELLS", 0)
        yield


def known_of(rng, tree, plain):
    """Public sums of some places that hold every cell once, but not of each cell alone."""
    nodes, groups = [0], np.zeros(tree.cells, dtype=np.intp)
    for node in nodes:
        below = np.flatnonzero(tree.parents == node)
        if len(below) and rng.random() < 0.6:
            nodes += below.tolist()
        else:
            only = np.arange(tree.nodes) == node
            groups[tree.above(only.astype(float)) > 0] = node
    groups = np.unique(np.repeat(groups, plain), return_inverse=True)[1]
    return Public("groups", "k", groups=groups.astype(np.intp))


def counts(seed, parents):
    rng, tree = np.random.default_rng(seed), Tree(parents)
    workload = RegionsWorkload("w", tree, rng.uniform(0.5, 2.0, tree.nodes))
    weights = np.zeros(tree.places)
    weights[tree.place_of_node] = rng.uniform(0.1, 3.0, tree.nodes)
    return rng, workload, type(test_regions.random_case(1, 5)[2])("s", tree, weights)


def tables(seed, parents):
    return test_region_tables.random_case(seed, parents)


def ordered(seed, parents):
    rng, workload, _, strategy, _ = test_ordered_regions.random_case(seed, parents, "windows")
    return rng, workload, strategy


CASES = st.tuples(
    st.sampled_from([counts, tables, ordered]),
    st.integers(0, 2**32 - 1),
    st.sampled_from(test_region_tables.TREES),
)


def beside_known(case):
    """The case with public sums; None where nothing is left to protect."""
    make, seed, parents = case
    rng, workload, plain = make(seed, parents)
    public = known_of(rng, workload.tree, workload.shape[1] // workload.tree.cells)
    if public.groups.max() + 1 in (1, len(public.groups)):
        return None
    plain.variances(workload)  # what is kept of it does not count beside public sums
    strategy = plain._beside(public)
    assert type(strategy) is type(plain)
    return rng, workload, plain, strategy, public


@settings(max_examples=10)
@given(CASES)
def test_strategy_is_its_matrix_on_differences_within_groups(case):
    made = beside_known(case)
    if made is None:
        return
    rng, workload, plain, strategy, public = made
    R = public.centre(plain.matrix)
    np.testing.assert_allclose(strategy.matrix, R, atol=1e-12)
    for norm, order in (("l1", 1), ("l2", 2)):
        same = public.groups[:, None] == public.groups
        apart = np.linalg.norm(R.T[:, None] - R.T, order, axis=2)[same].max()
        claimed = strategy.sensitivity_under(Neighbours.REPLACE, norm)
        assert apart * (1 - 1e-13) <= claimed
        assert claimed <= apart * (3 if plain.ordered else 1 + 1e-9)
    with pytest.raises(InvalidInputError, match="known answers"):
        strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l2")
    inverse, asked = np.linalg.pinv(R, rcond=1e-10), given_invariants(workload, public)
    A = public.centre(workload.to_dense())
    np.testing.assert_allclose(asked.to_dense(), A, atol=1e-10)
    spread = ((A @ inverse) ** 2).sum(axis=1)
    np.testing.assert_allclose(strategy.variances(asked), spread, rtol=1e-7, atol=1e-9)
    y = R @ rng.standard_normal((R.shape[1], 2))
    np.testing.assert_allclose(A @ strategy.estimate(y), A @ (inverse @ y), atol=1e-7)
    y = rng.standard_normal((len(R), 2))
    np.testing.assert_allclose(A @ strategy.estimate(y), A @ (inverse @ y), atol=1e-7)
    assert strategy.rank == np.linalg.matrix_rank(R, tol=1e-9)
    gram = A.T @ A
    apart = (gram.diagonal()[:, None] + gram.diagonal() - 2 * gram)[same].max()
    assert apart <= asked.longest_difference() * (1 + 1e-9)


@settings(max_examples=6)
@given(CASES)
def test_whole_numbers_of_neighbours_are_as_close_as_is_said(case):
    made = beside_known(case)
    if made is None:
        return
    _, workload, _, strategy, public = made
    lattice = lattice_of(strategy, given_invariants(workload, public), 12)
    Z = np.array([lattice.image(cell) for cell in np.eye(strategy.cells, dtype=np.int64)]).T
    same = public.groups[:, None] == public.groups
    apart = np.abs(Z[:, :, None] - Z[:, None]).astype(object)
    for noise, power in ((Noise.LAPLACE, 1), (Noise.GAUSSIAN, 2)):
        largest = (apart**power).sum(axis=0)[same].max()
        claimed, exact = lattice.sensitivity(Neighbours.REPLACE, noise)
        assert largest <= claimed
        assert not exact or claimed == largest or strategy.ordered


@settings(max_examples=6)
@given(CASES, st.sampled_from([2.0, 3.0, math.inf]))
def test_bounds_hold_the_optimum_of_one_matrix(case, p):
    made = beside_known(case)
    if made is None:
        return
    _, workload, _, _, public = made
    A = public.centre(workload.to_dense())
    if np.abs(A).max() < 1e-9:
        return
    options = DesignOptions(neighbours=Neighbours.REPLACE, rel_gap=3e-3, max_steps=60)
    design = solve_regions(workload, p, options, public)
    partition = (public.groups == np.arange(public.groups.max() + 1)[:, None]).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("pmldesign.workloads.beside"), "WRITTEN_CELLS", 2048)
        whole = DenseWorkload(workload.to_dense())
        exact = factorize(whole, p=p, known=DenseWorkload(partition), rel_gap=3e-3).certificate
    assert design.certificate.lower <= exact.upper
    assert design.certificate.upper >= exact.lower
    R = design.strategy.matrix
    spread = np.linalg.norm(A @ np.linalg.pinv(R, rcond=1e-10), axis=1)
    value = spread.max() if math.isinf(p) else (spread**p).sum() ** (1 / p)
    same = public.groups[:, None] == public.groups
    length = np.linalg.norm(R.T[:, None] - R.T, axis=2)[same].max()
    assert value * length <= design.certificate.upper * (1 + 1e-9)


def test_groups_are_those_of_equal_columns():
    """What counts of places tell is what their matrix tells; what is no place is no structure."""
    tree = Tree([-1, 0, 0, 1, 1, 2, 2, 2])

    def known(*nodes):
        asked = np.isin(np.arange(tree.nodes), nodes).astype(float)
        return as_public(RegionsWorkload("k", tree, asked), tree.cells)

    assert known(1, 2).groups.tolist() == [0, 0, 1, 1, 1]
    assert known(0, 1).agrees(known(1, 2))
    assert tops_of(tree, known(1, 2)).sum() == 2
    assert tops_of(tree, known(0, 1, 5)) is None
    assert known(0).kind == "records"
    with pytest.raises(InvalidInputError, match="do not tell"):
        known(1)
    with pytest.raises(InvalidInputError, match="tell all cells apart"):
        known(3, 4, 5, 6, 7)


def test_a_place_without_neighbours_has_no_noise():
    """States with a single county are public as a whole, and their counties with them."""
    tree = Tree([-1, 0, 0, 0, 1, 2, 2, 3])
    workload = RegionsWorkload("w", tree, np.ones(tree.nodes))
    public = as_public(workload.reweighted(tree.depths == 1), tree.cells)
    design = solve_regions(workload, 2.0, DesignOptions(neighbours=Neighbours.REPLACE), public)
    variances = design.strategy.variances(given_invariants(workload, public))
    assert (variances[[0, 1, 2, 3, 4, 7]] == 0).all()
    assert variances[5] == pytest.approx(variances[6])
    alone = factorize(np.eye(2), neighbours="replace").certificate.upper
    assert design.certificate.upper == pytest.approx(alone, rel=1e-6)
    assert isinstance(design.strategy, Strategy)
