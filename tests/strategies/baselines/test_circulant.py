import math

import numpy as np
import pytest
from array_workload import prefix

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import henzinger_upadhyay, square_root


def circulant(cells):
    """Size 2n, first column n ones and n zeros."""
    size = 2 * cells
    return np.array([[float((i - j) % size < cells) for j in range(size)] for i in range(size)])


def diagonal(cells):
    """1/2 + (1/2n) sum of 1/sin((2j - 1) pi/2n): entry of abs(C) on its diagonal."""
    angles = [(2 * j - 1) * math.pi / (2 * cells) for j in range(1, cells + 1)]
    return 0.5 + sum(1 / math.sin(angle) for angle in angles) / (2 * cells)


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 8, 13])
def test_gram_matrix_is_a_block_of_the_modulus_of_the_circulant(cells):
    C = circulant(cells)
    assert np.array_equal(C[:cells, :cells], np.tri(cells))
    _, singular, right = np.linalg.svd(C)
    modulus = right.T @ np.diag(singular) @ right
    strategy = henzinger_upadhyay(cells)
    assert strategy.shape == (cells + 1, cells)
    assert np.allclose(strategy.gram, modulus[:cells, :cells], atol=1e-12 * cells)


@pytest.mark.parametrize("cells", [1, 2, 7, 64, 500])
def test_every_column_has_the_norm_of_mathias_and_no_answer_has_more(cells):
    # the other factor of C has rows of the same norm, and least squares is at least as good
    strategy = henzinger_upadhyay(cells)
    norms = (strategy.matrix**2).sum(axis=0)
    assert np.allclose(norms, diagonal(cells), rtol=1e-12)
    assert strategy.variances(prefix(cells)).max() <= diagonal(cells) * (1 + 1e-12)


@pytest.mark.parametrize(("cells", "gamma"), [(16, 1.7044802), (64, 2.1113667), (512, 2.7464333)])
def test_between_the_norm_and_the_square_root(cells, gamma):
    # gamma_2 of prefix sums from an interior point method in another program
    value = {
        build: build(cells).sensitivity * math.sqrt(build(cells).variances(prefix(cells)).max())
        for build in (henzinger_upadhyay, square_root)
    }
    assert gamma <= value[henzinger_upadhyay] < value[square_root]


@pytest.mark.parametrize("cells", [0, 1.5, "4"])
def test_cells_must_be_a_positive_whole_number(cells):
    with pytest.raises(InvalidInputError, match="cells must be a whole number of at least 1"):
        henzinger_upadhyay(cells)
