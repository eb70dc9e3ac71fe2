import numpy as np
import pytest
from array_workload import ArrayWorkload, all_ranges, prefix, random_workload
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import Strategy, best_tree, tree, weighted_tree


def squared_error(strategy, workload):
    return strategy.sensitivity**2 * strategy.variances(workload).sum()


def levels(cells, branching):
    """The sums of each level of the tree, from runs of b^k cells."""
    found, width = [], 1
    while True:
        rows = [
            [float(start <= cell < start + width) for cell in range(cells)]
            for start in range(0, cells, width)
        ]
        found.insert(0, np.array(rows))
        if width >= cells:
            return found
        width *= branching


def minimised(workload, branching):
    """The least squared error over weights, by a quasi-Newton method on their logarithms."""
    grams = [rows.T @ rows for rows in levels(workload.shape[1], branching)]
    K = workload.gram(np.ones(workload.shape[0]))

    def objective(logs):
        x = np.exp(logs)
        inverse = np.linalg.inv(np.tensordot(x, grams, axes=1))
        error = np.trace(K @ inverse)
        slopes = np.array([np.sum((inverse @ K @ inverse) * gram) for gram in grams])
        return np.log(error * x.sum()), x / x.sum() - x * slopes / error

    start = np.zeros(len(grams))
    bounds = [(-30, 0)] * len(grams)
    options = {"ftol": 1e-15, "gtol": 1e-10}
    found = optimize.minimize(objective, start, jac=True, bounds=bounds, options=options)
    return np.exp(found.fun)


@pytest.mark.parametrize(("cells", "branching"), [(8, 2), (16, 2), (9, 3), (27, 3), (16, 4)])
@pytest.mark.parametrize("build", [prefix, all_ranges, lambda n: random_workload(5, n)])
def test_weights_are_the_best_ones_on_powers_of_the_branching(cells, branching, build):
    workload = build(cells)
    reached = squared_error(weighted_tree(workload, branching=branching), workload)
    assert reached == pytest.approx(minimised(workload, branching), rel=1e-7)
    assert reached <= squared_error(tree(cells, branching=branching), workload) * (1 + 1e-12)


@pytest.mark.parametrize(("cells", "branching"), [(5, 2), (13, 2), (24, 2), (10, 3), (20, 3)])
def test_weights_are_good_on_other_numbers_of_cells(cells, branching):
    # those of the next power: at least the minimum, and no worse than on all cells of that power
    workload = prefix(cells)
    size = branching ** (len(levels(cells, branching)) - 1)
    padded = ArrayWorkload(np.eye(cells, size) if cells > size else np.tri(cells, size))
    reached = squared_error(weighted_tree(workload, branching=branching), workload)
    assert reached >= minimised(workload, branching) * (1 - 1e-9)
    assert reached <= minimised(padded, branching) * (1 + 1e-7)


@given(st.integers(0, 10**6), st.sampled_from([(4, 2), (8, 2), (9, 3), (3, 3)]))
def test_optimality_by_the_gradient(seed, size):
    # tr K G(x)^-1 is convex and homogeneous of degree -1: at the best x with sum 1 no slope of a
    # level exceeds the value, and it is the value where the weight is positive
    cells, branching = size
    workload = random_workload(1 + seed % 4, cells, seed=seed)
    strategy = weighted_tree(workload, branching=branching)
    L = strategy.reconstruction(workload)
    dual = L @ np.linalg.pinv(strategy.matrix, 1e-11).T
    value = (L**2).sum()
    slopes = [((dual @ rows.T) ** 2).sum() for rows in levels(cells, branching)]
    assert strategy.sensitivity == pytest.approx(1, rel=1e-9)
    assert max(slopes) <= value * (1 + 1e-6)


def test_weights_in_closed_form_on_two_cells():
    # prefix sums: s = (tr A P_0 A^T, rest) = (5/2, 1/2), d = (1/2, 1/2): mu ~ sqrt(5), 1 and
    # x = ((mu_0 - mu_1)/2, mu_1), so that the squared weights have ratio (sqrt(5) - 1)/2
    root, leaves = weighted_tree(prefix(2)).matrix[:2]
    assert root[0] ** 2 / leaves[0] ** 2 == pytest.approx((np.sqrt(5) - 1) / 2, rel=1e-12)
    # and the error is (sqrt(5/4) + sqrt(1/4))^2, the square of the golden ratio: no strategy beats
    # it, as gamma_(2) of two prefix sums is the golden ratio
    golden = (1 + np.sqrt(5)) / 2
    assert squared_error(weighted_tree(prefix(2)), prefix(2)) == pytest.approx(golden**2, rel=1e-12)


def test_levels_that_nothing_needs_are_left_out():
    histogram = ArrayWorkload(np.eye(8))
    assert weighted_tree(histogram).matrix.tolist() == np.eye(8).tolist()
    total = ArrayWorkload(np.ones((3, 8)))
    assert weighted_tree(total).matrix.tolist() == [[1.0] * 8]


@pytest.mark.parametrize("cells", [1, 2, 5, 16, 27, 40])
@pytest.mark.parametrize("build", [prefix, lambda n: ArrayWorkload(np.eye(n))])
def test_best_tree_is_the_best_branching(cells, build):
    workload = build(cells)
    strategy = best_tree(workload)
    branchings = {*range(2, 17), max(cells, 2)}
    errors = [squared_error(tree(cells, branching=b), workload) for b in branchings]
    assert squared_error(strategy, workload) == pytest.approx(min(errors), rel=1e-12)
    assert strategy.name == "tree:best"


def test_best_tree_of_a_histogram_is_leaves_and_total():
    # k + 1 levels for every cell; two of them are fewest
    histogram = ArrayWorkload(np.eye(40))
    expected = np.vstack([np.ones((1, 40)), np.eye(40)])
    assert np.array_equal(best_tree(histogram).matrix, expected)


def test_refusals():
    zero = ArrayWorkload(np.zeros((2, 4)), name="nothing")
    with pytest.raises(InvalidInputError, match="'nothing' is zero"):
        weighted_tree(zero)
    with pytest.raises(InvalidInputError, match="branching must be a whole number of at least 2"):
        weighted_tree(prefix(4), branching=1)
    assert isinstance(weighted_tree(prefix(5), branching=10**30), Strategy)
