"""Types of sets of attributes against the matrix of all cells."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign_solvers.structure import cell_pairs, differing_sets


@st.composite
def gram_matrices(draw):
    """Sizes, a value for some sets of attributes, and n sum_T value_T P_T written out."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    wide = [i for i, size in enumerate(sizes) if size > 1]
    every = [t for k in range(len(wide) + 1) for t in itertools.combinations(wide, k)]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    # few different values, so that attributes are often exchangeable
    values = {t: draw(st.sampled_from([0.5, 1.0, 3.0])) for t in chosen}
    return sizes, values, written_out(sizes, values)


def written_out(sizes, values):
    """n sum_T value_T P_T."""
    gram = np.zeros((math.prod(sizes),) * 2)
    for members, value in values.items():
        block = np.ones((1, 1))
        for i, size in enumerate(sizes):
            own = size * np.eye(size) - 1 if i in members else np.ones((size, size))
            block = np.kron(block, own)
        gram += value * block
    return gram


def typed(sizes, values):
    """The types of sets, and s_T = value_T d_T: X_i has the diagonal 1."""
    shares = {t: v * math.prod(sizes[i] - 1 for i in t) for t, v in values.items()}
    sets = differing_sets(sizes, shares)
    types, type_of = np.unique(sets.types_of(list(values)), axis=0, return_inverse=True)
    return sets, types, type_of.ravel(), np.array(list(shares.values()))


def differences(sizes, sets):
    """The type of the set in which every cell differs from the first."""
    cells = itertools.product(*map(range, sizes))
    known = {i for members in sets.classes for i in members}
    return [
        tuple(sets.types_of([tuple(i for i, v in enumerate(cell) if v and i in known)])[0])
        for cell in cells
    ]


@given(gram_matrices())
def test_inner_products_are_those_of_the_matrix(problem):
    sizes, values, gram = problem
    sets, types, type_of, shares = typed(sizes, values)
    found = sets.sums(types, np.bincount(type_of, shares))
    own = differences(sizes, sets)
    np.testing.assert_allclose([found[k] for k in own], gram[0], atol=1e-10 * gram[0, 0] + 1e-12)
    # and every type is as frequent as it says, cells with equal columns once
    used = math.prod(sizes[i] for members in sets.classes for i in members)
    counts = sets.counts()
    for kind in set(own):
        assert counts[kind] * (math.prod(sizes) // used) == own.count(kind)


@given(st.lists(st.sampled_from([-1.0, -0.3, 0.0, 0.5, 1.0]), min_size=1, max_size=5), st.data())
def test_any_ratios_bound_cells_by_the_attributes_in_which_they_differ(ratios, data):
    wide = range(len(ratios))
    every = [t for k in range(len(ratios) + 1) for t in itertools.combinations(wide, k)]
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    shares = {t: data.draw(st.sampled_from([0.5, 1.0])) for t in chosen}
    sets = differing_sets([2] * len(ratios), shares, ratios)
    types, type_of = np.unique(sets.types_of(chosen), axis=0, return_inverse=True)
    exact = max(
        2 * sum(s * (1 - math.prod(ratios[i] for i in t if i in U)) for t, s in shares.items())
        for U in every
    )
    values = np.array(list(shares.values()))
    found = sets.largest_distance(types, type_of.ravel(), values)
    assert exact * (1 - 1e-13) <= found <= exact + 1e-11 * sum(shares.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_pairs, "MAX_TYPES", 0)
        assert sets.largest_distance(types, type_of.ravel(), values) >= exact * (1 - 1e-13)


@given(gram_matrices(), st.booleans())
def test_the_largest_distance_is_that_of_the_matrix(problem, listed):
    sizes, values, gram = problem
    exact = (gram.diagonal()[:, None] + gram.diagonal() - 2 * gram).max()
    sets, types, type_of, shares = typed(sizes, values)
    with pytest.MonkeyPatch.context() as patch:
        if not listed:
            patch.setattr(cell_pairs, "MAX_TYPES", 0)
        found = sets.largest_distance(types, type_of, shares)
    assert found >= exact * (1 - 1e-13)
    if listed:
        assert found <= exact + 1e-11 * gram[0, 0]


@given(gram_matrices())
def test_values_that_are_only_nearly_equal_are_bounded_from_above(problem):
    sizes, values, _ = problem
    rng = np.random.default_rng(0)
    moved = {t: v * (1 + 1e-10 * rng.random()) for t, v in values.items()}
    sets, types, type_of, shares = typed(sizes, moved)
    gram = written_out(sizes, moved)
    exact = (gram.diagonal()[:, None] + gram.diagonal() - 2 * gram).max()
    found = sets.largest_distance(types, type_of, shares)
    assert found >= exact * (1 - 1e-13)
    assert found <= exact + 1e-8 * gram[0, 0]


def test_a_hundred_equal_attributes_are_one_class():
    pairs = dict.fromkeys(itertools.combinations(range(100), 2), 2.0 * 81)
    values = pairs | {(i,): 1.0 * 9 for i in range(100)}
    sets = differing_sets([10] * 100, values)
    assert sets.shape == (101,)
    # cells that differ in one attribute, and those that differ in all
    one = 2 * (1.0 * 10 + 2.0 * 99 * (81 + 9))
    everything = 2 * (1.0 * 10 * 100 + 2.0 * 4950 * (81 - 1))
    types, type_of = np.array([[1], [2]]), np.array([len(t) - 1 for t in values])
    squares = sets.distances(types, type_of, np.array(list(values.values())))
    assert squares[1] == pytest.approx(one, rel=1e-10)
    assert squares[100] == pytest.approx(everything, rel=1e-10)
