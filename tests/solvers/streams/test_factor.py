"""The factor C of a stream against dense factorizations, over all lengths of its blocks."""

import numpy as np
import pytest

from pmldesign_solvers.streams import LANES, SIZE, Nodes, RunningSums, factor, zolotarev


def problem(n, seed=0):
    """Running sums, weights and nodes."""
    random = np.random.default_rng(seed)
    sums = RunningSums(random.uniform(0.6, 1.0, n - 1), *random.uniform(0.5, 2.0, (2, n)))
    u, w = random.uniform(0.5, 2.0, (2, n)) / n
    return sums, u, w, zolotarev(1e-3, 1e3, 5)


def gram(n):
    """X, entry by entry."""
    shares, decays = factor.generators(*problem(n))
    entries = np.diag(shares.sum(axis=1))
    for j in range(n):
        row = np.ones(shares.shape[1])
        for i in range(j + 1, n):
            row = row * decays[i]
            entries[i, j] = entries[j, i] = shares[i] @ row
    return entries


@pytest.mark.parametrize("n", [1, 2, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE + 5])
def test_factor_is_the_triangular_one_of_its_gram_matrix(n):
    found = factor.factor(*factor.generators(*problem(n)))
    C, X = found.multiply(np.eye(n)), gram(n)
    assert np.triu(C, 1).any() == 0
    assert np.allclose(C.T @ C, X, rtol=1e-12, atol=1e-13 * X.max())
    assert np.allclose(found.solve(C), np.eye(n), atol=1e-11)
    assert np.allclose(found.column_squares(), (C**2).sum(axis=0), rtol=1e-13)
    assert np.allclose(found.column_sums(), C.sum(axis=0), rtol=1e-13)


def test_long_columns_have_the_squares_of_the_diagonal():
    n = SIZE * LANES + 40  # the blocks of more than one round
    shares, decays = factor.generators(*problem(n))
    squares = factor.factor(shares, decays).column_squares()
    assert np.allclose(squares, shares.sum(axis=1), rtol=1e-12)


def test_a_singular_gram_matrix_is_refused():
    sums = RunningSums(np.full(39, 1.0), np.ones(40), np.ones(40))
    u, w, nodes = np.ones(40), np.ones(40), Nodes(np.array([1e-9]), np.array([1.0]))
    u[-1] = 1e40  # all columns are those of the last query
    with pytest.raises(ValueError, match="singular to working precision at step"):
        factor.factor(*factor.generators(sums, u, w, nodes))
