import math
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pmldesign_solvers.structure import residual_spaces


@st.composite
def collections(draw):
    d = draw(st.integers(1, 6))
    sizes = draw(st.lists(st.integers(1, 5), min_size=d, max_size=d))
    subset = st.sets(st.integers(0, d - 1)).map(lambda chosen: tuple(sorted(chosen)))
    return sizes, draw(st.lists(subset, min_size=1, max_size=15, unique=True))


@given(collections())
def test_residuals_are_the_subsets_of_the_marginals(collection):
    sizes, subsets = collection
    spaces = residual_spaces(sizes, subsets)
    wide = [[i for i in subset if sizes[i] > 1] for subset in subsets]
    expected = {T for S in wide for k in range(len(S) + 1) for T in combinations(S, k)}
    assert spaces.residuals == tuple(sorted(expected, key=lambda T: (len(T), T)))
    assert spaces.cells.tolist() == [math.prod(sizes[i] for i in S) for S in subsets]
    assert spaces.dimensions.tolist() == [
        math.prod(sizes[i] - 1 for i in T) for T in spaces.residuals
    ]
    below = [[float(set(T) <= set(S)) for S in subsets] for T in spaces.residuals]
    np.testing.assert_array_equal(spaces.incidence.toarray(), below)


@given(collections())
def test_the_residuals_of_a_marginal_make_up_its_cells(collection):
    # sum over T <= S of prod_{i in T} (n_i - 1) = prod_{i in S} n_i
    spaces = residual_spaces(*collection)
    np.testing.assert_array_equal(spaces.incidence.T @ spaces.dimensions, spaces.cells)
