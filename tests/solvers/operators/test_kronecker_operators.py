"""Products along one axis at a time, against the Kronecker product written out."""

import math
from functools import reduce

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pmldesign_solvers.structure import kronecker


@st.composite
def matrices(draw):
    shapes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [rng.normal(size=shape) for shape in shapes], rng


@given(matrices(), st.sampled_from([(), (1,), (3,)]))
def test_multiply_is_the_product_with_the_kronecker_product(given_matrices, trailing):
    factors, rng = given_matrices
    whole = reduce(np.kron, factors)
    x = rng.normal(size=(whole.shape[1], *trailing))
    found = kronecker.multiply(factors, x)
    assert found.shape == (whole.shape[0], *trailing)
    np.testing.assert_allclose(found, whole @ x, atol=1e-12)


@given(matrices())
def test_maps_that_are_no_matrices_are_applied_along_their_axis(given_matrices):
    factors, rng = given_matrices
    whole = reduce(np.kron, [np.tril(np.ones((f.shape[1],) * 2)) for f in factors])
    x = rng.normal(size=(len(whole), 2))
    sums = [lambda y: np.cumsum(y, axis=0)] * len(factors)
    found = kronecker.apply(sums, [f.shape[1] for f in factors], x)
    np.testing.assert_allclose(found, whole @ x, atol=1e-12)


@given(matrices())
def test_axes_that_get_shorter_come_first_and_change_nothing(given_matrices):
    factors, rng = given_matrices
    x = rng.normal(size=(math.prod(f.shape[1] for f in factors), 2))
    maps = [factor.__matmul__ for factor in factors]
    sizes, images = [f.shape[1] for f in factors], [f.shape[0] for f in factors]
    found = kronecker.apply(maps, sizes, x, images)
    np.testing.assert_allclose(found, reduce(np.kron, factors) @ x, atol=1e-12)


@given(matrices())
def test_outer_is_the_kronecker_product_of_vectors(given_matrices):
    vectors = [factor[0] for factor in given_matrices[0]]
    np.testing.assert_allclose(kronecker.outer(vectors), reduce(np.kron, vectors), rtol=1e-14)
