import math

import numpy as np
import pytest
from array_workload import ArrayWorkload, all_ranges, prefix, random_workload

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import (
    haar_wavelet,
    identity,
    product_strategy,
    square_root,
    tree,
    workload_strategy,
)


def test_identity_on_prefix_sums():
    # query i adds i cells, each with variance 1
    assert identity(6).variances(prefix(6)) == pytest.approx([1, 2, 3, 4, 5, 6], rel=1e-14)
    assert identity(6).sensitivity == 1.0


def test_workload_strategy_answers_each_regular_query_by_itself():
    # A square and regular: L = I, every variance 1
    strategy = workload_strategy(prefix(6))
    assert strategy.variances(prefix(6)) == pytest.approx(np.ones(6), rel=1e-12)
    assert strategy.sensitivity == pytest.approx(math.sqrt(6), rel=1e-15)


def test_tall_workload_strategy_keeps_its_rows():
    # cell j (from 0) of n is in (j + 1)(n - j) ranges; the largest l1 norm is the middle one's
    strategy = workload_strategy(all_ranges(5))
    assert strategy.shape == (15, 5)
    assert np.abs(strategy.matrix).sum(axis=0).tolist() == [5, 8, 9, 8, 5]
    # trace of the projection A A^+ is the rank
    assert strategy.variances(all_ranges(5)).sum() == pytest.approx(5.0, rel=1e-12)


def test_workload_strategy_of_a_rank_deficient_workload_answers_it():
    workload = ArrayWorkload([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
    # projection on the column space of [1 0; 0 1; 1 1]: diagonal 2/3 each
    variances = workload_strategy(workload).variances(workload)
    assert variances == pytest.approx([2 / 3, 2 / 3, 2 / 3], rel=1e-12)


def test_workload_strategy_leaves_the_workload_as_it_was():
    workload = prefix(3)
    strategy = workload_strategy(workload)
    workload.operator.matrix[0, 0] = 7.0
    assert strategy.matrix[0, 0] == 1.0


@pytest.mark.parametrize("cells", [1, 2, 3, 64, 257])
def test_square_root_squares_to_prefix_sums(cells):
    strategy = square_root(cells)
    R = strategy.matrix
    assert np.abs(R @ R - np.tril(np.ones((cells, cells)))).max() < 1e-12
    # f(k) = binomial(2k, k) / 4^k, L = R, largest row = largest column = the first column
    total = math.fsum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(cells))
    assert strategy.sensitivity**2 == pytest.approx(total, rel=1e-13)
    variances = strategy.variances(prefix(cells))
    assert variances.max() == variances[-1]
    assert variances[-1] == pytest.approx(total, rel=1e-11)
    reconstruction = strategy.reconstruction(prefix(cells))
    assert np.array_equal(reconstruction, np.tril(reconstruction))
    assert np.abs(reconstruction - R).max() < 1e-12


def test_square_root_of_two_cells():
    # [1 0; 1/2 1]: squared sensitivity 5/4
    assert square_root(2).matrix.tolist() == [[1.0, 0.0], [0.5, 1.0]]


def test_kronecker_product_multiplies_sensitivities_and_variances():
    factors = [tree(3), haar_wavelet(4), square_root(2)]
    product = product_strategy(factors)
    workloads = [prefix(3), random_workload(3, 4), prefix(2)]
    A = ArrayWorkload(
        np.kron(np.kron(*[w.to_dense() for w in workloads[:2]]), prefix(2).to_dense())
    )
    expected = np.ones(1)
    for strategy, workload in zip(factors, workloads, strict=True):
        expected = np.kron(expected, strategy.variances(workload))
    assert np.allclose(product.variances(A), expected, rtol=1e-11)
    # sqrt 3 for each: 3 levels on 3 and on 4 cells; square root on 2: sqrt(5/4)
    assert product.sensitivity == pytest.approx(math.sqrt(3 * 3 * 5 / 4), rel=1e-14)


def test_sensitivity_of_a_product_of_trees_is_computed_from_the_matrix():
    # 8 x 16 leaves: 4 levels times 5 levels, sqrt 20 = 4.472; leaving a root out gives 4
    product = product_strategy([tree(8), tree(16)])
    assert product.sensitivity == pytest.approx(math.sqrt(20), rel=1e-15)


def test_names_of_products():
    assert product_strategy([tree(3), tree(4)]).name == "tree"
    assert product_strategy([tree(3), haar_wavelet(4), tree(2)]).name == "tree x haar x tree"
    assert product_strategy([tree(3)]).matrix.tolist() == tree(3).matrix.tolist()


def test_empty_product_is_refused():
    with pytest.raises(InvalidInputError, match="at least one strategy"):
        product_strategy([])


@pytest.mark.parametrize("cells", [0, 1.5])
@pytest.mark.parametrize("build", [identity, square_root])
def test_cells_must_be_a_positive_whole_number(build, cells):
    with pytest.raises(InvalidInputError, match=r"cells must be a whole number of at least 1"):
        build(cells)


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("build", [identity, tree, haar_wavelet, square_root])
def test_every_baseline_answers_every_workload(build, cells):
    workload = random_workload(4, cells, seed=cells)
    strategy = build(cells)
    L = strategy.reconstruction(workload)
    assert np.abs(L @ strategy.matrix - workload.to_dense()).max() < 1e-12
    assert np.allclose(strategy.variances(workload), (L**2).sum(axis=1), rtol=1e-12)
