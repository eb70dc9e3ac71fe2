"""The farthest columns of a Kronecker product against all of its columns."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from scipy.spatial.distance import pdist

from pmldesign_solvers.structure import kronecker, largest_l1_distance, largest_l2_distance

KINDS = ("real", "signs", "zeros and ones", "positive", "rotation", "equal norms")


def factor(kind, rng, r, n):
    if kind == "signs":
        return rng.integers(-1, 2, (r, n)).astype(float)
    if kind == "zeros and ones":
        return rng.integers(0, 2, (r, n)).astype(float)
    if kind == "positive":
        return rng.uniform(0, 1, (r, n))
    if kind == "rotation":
        return np.linalg.qr(rng.standard_normal((max(r, n), max(r, n))))[0][:, :n]
    matrix = rng.standard_normal((r, n))
    return matrix / np.linalg.norm(matrix, axis=0) if kind == "equal norms" else matrix


@st.composite
def products(draw, kinds=KINDS):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=3).filter(
            lambda shapes: np.prod([n for _, n in shapes]) > 1
        )
    )
    return [factor(draw(st.sampled_from(kinds)), rng, r, n) for r, n in sizes]


def columns(factors):
    return functools.reduce(np.kron, factors).T


@given(products(), st.sampled_from([2, 2**15]))
def test_l2_distances(factors, most):
    exact = pdist(columns(factors)).max()
    size = np.linalg.norm(columns(factors), axis=1).max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kronecker, "MOST_POINTS", most)
        found = largest_l2_distance(factors)
    assert found >= exact * (1 - 1e-14)
    if most > 2:
        assert found**2 <= exact**2 + 1e-10 * size**2
    else:
        assert found <= 2 * size * (1 + 1e-10)


@given(products(), st.integers(1, 3))
def test_rounded_norms_give_a_bound_from_above(factors, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kronecker, "MOST_NORMS", most)
        found = largest_l2_distance(factors)
    assert found >= pdist(columns(factors)).max() * (1 - 1e-14)


@given(products(), st.sampled_from([1, 2**33]))
def test_l1_distances(factors, cost):
    exact = pdist(columns(factors), "cityblock").max()
    size = np.abs(columns(factors)).sum(axis=1).max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kronecker, "L1_COST", cost)
        found = largest_l1_distance(factors)
    assert found >= exact * (1 - 1e-14)
    assert found <= 2 * size * (1 + 1e-10)


@given(products(kinds=("signs", "zeros and ones")))
def test_l1_distances_of_zeros_and_signs_are_exact(factors):
    exact = pdist(columns(factors), "cityblock").max()
    size = np.abs(columns(factors)).sum(axis=1).max()
    assert largest_l1_distance(factors) <= exact + 1e-10 * size


@given(products(kinds=("zeros and ones",)), st.sampled_from([0.5, 3.0]))
def test_l1_distances_of_counts_compare_no_entries(factors, size):
    exact = size * pdist(columns(factors), "cityblock").max()
    longest = size * np.abs(columns(factors)).sum(axis=1).max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kronecker.scipy.spatial.distance, "cdist", None)
        patch.setattr(kronecker, "L1_COST", 1)
        found = largest_l1_distance([size * factors[0], *factors[1:]])
    assert exact * (1 - 1e-14) <= found <= exact + 1e-10 * longest


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_distances_beside_every_small_factor_of_signs(shape):
    """Rows and columns alone, zeros, equal columns, and entries of one sign are among them."""
    sums = np.tril(np.ones((3, 3)))
    for entries in itertools.product([-1.0, 0.0, 1.0], repeat=math.prod(shape)):
        factors = [sums, np.reshape(entries, shape)]
        points = columns(factors)
        assert largest_l1_distance(factors) == pytest.approx(pdist(points, "cityblock").max())
        assert largest_l2_distance(factors) == pytest.approx(pdist(points).max())


@given(products(), st.booleans(), st.integers(0, 2**32 - 1))
def test_weighted_products(factors, large, seed):
    rng = np.random.default_rng(seed)
    if rng.random() < 0.5:  # a measurement that all cells have in common
        factors = [np.vstack([np.full(one.shape[1], 3.0), one]) for one in factors]
    matrix = columns(factors).T
    weights = rng.uniform(0.1, 5, len(matrix))
    written = np.sqrt(weights)[:, None] * matrix
    exact = pdist(written.T).max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kronecker, "BLOCK_BYTES", 64)
        if large:
            patch.setattr(kronecker, "WEIGHTED_CELLS", 0)
        found = kronecker.largest_weighted_distance(factors, weights)
    size = np.linalg.norm(written, axis=0).max()
    assert found >= exact * (1 - 1e-12)
    assert found <= 2 * size * (1 + 1e-10)
    if not large:
        assert found**2 <= exact**2 + 1e-10 * size**2


@given(st.integers(0, 2**32 - 1), st.floats(-16, -9), st.booleans())
def test_hulls_that_are_nearly_flat(seed, power, below_zero):
    rng = np.random.default_rng(seed)
    tiny = 10**power
    factors = []
    for r, n in ((5, 22), (2, 9)):
        positive = rng.random((r, n))
        if below_zero:  # entries that rounding has left below zero
            factors.append(positive - (rng.random((r, n)) < 0.3) * positive * (1 + tiny))
        else:  # norms that are equal but for rounding
            norms = np.linalg.norm(positive, axis=0) * (1 + tiny * rng.standard_normal(n))
            factors.append(positive / norms)
    points = columns(factors)
    assert largest_l2_distance(factors) >= pdist(points).max() * (1 - 1e-14)
    assert largest_l1_distance(factors) >= pdist(points, "cityblock").max() * (1 - 1e-14)


@given(st.integers(0, 2**32 - 1), st.floats(-17, -8), st.sampled_from([30, 300]))
def test_the_hull_reaches_as_far_as_the_points(seed, power, count):
    rng = np.random.default_rng(seed)
    points = rng.random((count, 4))
    points[:, -1] = points[:, 0] / 2 + 10**power * rng.random(count)
    functionals = rng.standard_normal((4, 50))
    far = (points @ functionals).max(axis=0)
    kept = (kronecker._extreme(points) @ functionals).max(axis=0)
    np.testing.assert_allclose(kept, far, rtol=0, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 60))
def test_largest_sums(seed, k, count):
    rng = np.random.default_rng(seed)
    points = []
    for _ in range(k):
        large = rng.uniform(0, 1, (count if k < 3 else count % 9 + 1, 1))
        points.append(np.hstack([large, large * rng.uniform(0, 1, large.shape)]))
    signs = np.array([1.0, -1.0])
    exact = max(float(np.prod(chosen, axis=0) @ signs) for chosen in itertools.product(*points))
    assert exact * (1 - 1e-13) <= kronecker.largest_sum(points, signs) <= exact + 1e-10


def test_ten_attributes_with_columns_of_all_lengths_have_no_hull(monkeypatch):
    """Products of 12 columns, non-negative: those of disjoint support, or the longest two, tell."""
    asked = []

    def counted(points):
        asked.append(len(points))
        return ConvexHull(points)

    monkeypatch.setattr("scipy.spatial.ConvexHull", counted)
    rng = np.random.default_rng(3)
    lengths = [rng.uniform(0.5, 1, 12) for _ in range(10)]
    longest = math.prod(float(one.max()) for one in lengths)
    second = max(longest / float(one.max()) * float(np.sort(one)[-2]) for one in lengths)
    factors = [np.diag(one) for one in lengths]
    assert largest_l1_distance(factors) == pytest.approx(longest + second, rel=1e-9)
    assert largest_l2_distance(factors) == pytest.approx(math.hypot(longest, second), rel=1e-9)
    assert sum(asked) < 1000


@given(st.integers(0, 2**32 - 1), st.sampled_from(["l1", "l2"]))
def test_what_is_left_out_has_no_largest_sum(seed, norm):
    """Against the sums of all choices of a point of each of three factors."""
    rng = np.random.default_rng(seed)
    points = []
    for _ in range(3):
        columns = rng.standard_normal((4, 9)) * rng.uniform(0, 2, 9)
        i, j = (one.ravel() for one in np.indices((9, 9)))
        x, y = columns[:, i], columns[:, j]
        if norm == "l2":
            numbers = (x**2).sum(axis=0), (y**2).sum(axis=0), (x * y).sum(axis=0)
        else:
            least = np.minimum(abs(x), abs(y))
            signed = (np.sign(x * y) * least).sum(axis=0)
            numbers = abs(x).sum(axis=0), abs(y).sum(axis=0), least.sum(axis=0), signed
        points.append(np.stack(numbers, axis=1))
    gains = kronecker.L2_GAINS if norm == "l2" else kronecker.L1_GAINS
    signs = np.array([1.0, 1, -2] if norm == "l2" else [1.0, 1, -1, -1])
    exact = float(np.einsum("it,jt,kt,t->ijk", *points, signs).max())
    few = [kronecker._highest(one, gains) for one in points]
    assert sum(map(len, few)) < sum(map(len, points))
    assert float(np.einsum("it,jt,kt,t->ijk", *few, signs).max()) == pytest.approx(exact, rel=1e-12)


def test_the_tree_of_a_million_cells():
    # 11 nodes above a cell, the root above all of them: 2 (11^2 - 1) nodes tell two cells apart
    levels = [np.kron(np.eye(2**k), np.ones((1, 1024 // 2**k))) for k in range(11)]
    tree = np.vstack(levels)
    assert largest_l2_distance([tree, tree]) == pytest.approx(240**0.5, rel=1e-9)


def test_a_hull_that_loses_a_vertex_is_not_believed(monkeypatch):
    class Losing(ConvexHull):
        """The hull of all points but the first one, which is the farthest out."""

        def __init__(self, points):
            super().__init__(points[1:])
            self.lost = np.asarray(super().vertices) + 1

        @property
        def vertices(self):
            return self.lost

    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1, (60, 3))
    points[0] = 2.0
    assert len(kronecker._extreme(points)) < 60
    monkeypatch.setattr("scipy.spatial.ConvexHull", Losing)
    assert any((point == points[0]).all() for point in kronecker._extreme(points))
