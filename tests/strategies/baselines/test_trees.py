import numpy as np
import pytest
from array_workload import ArrayWorkload, prefix, random_workload

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import Strategy, haar_wavelet, tree


def recursive_tree(cells, branching):
    """The node sums written down by recursion, root first, cut to the cells that exist."""
    width = 1
    while width < cells:
        width *= branching
    rows = []

    def visit(first, size):
        row = [float(first <= cell < first + size) for cell in range(cells)]
        if any(row):
            rows.append(row)
            if size > 1:
                for child in range(branching):
                    visit(first + child * size // branching, size // branching)

    visit(0, width)
    return sorted(rows)


@pytest.mark.parametrize("branching", [2, 3, 4])
@pytest.mark.parametrize("cells", [1, 2, 3, 5, 6, 7, 8, 9, 10, 16, 27])
def test_tree_has_every_node_that_has_a_cell(cells, branching):
    strategy = tree(cells, branching=branching)
    assert sorted(strategy.matrix.tolist()) == recursive_tree(cells, branching)
    assert strategy.rank == cells


@pytest.mark.parametrize("levels", range(8))
def test_sensitivity_of_the_complete_binary_tree_and_of_haar(levels):
    # a cell is in one node a level, root and leaves included: k + 1 ones
    assert tree(2**levels).sensitivity == pytest.approx(np.sqrt(levels + 1), rel=1e-15)
    assert haar_wavelet(2**levels).sensitivity == pytest.approx(np.sqrt(levels + 1), rel=1e-15)


def test_the_root_counts_in_the_sensitivity_of_every_cell():
    # 8 leaves have 4 levels with the root: norm 2, not sqrt 3
    assert tree(8).sensitivity == pytest.approx(2.0, rel=1e-15)
    assert (np.linalg.norm(tree(8).matrix, axis=0) == 2.0).all()


@pytest.mark.parametrize(
    ("cells", "branching", "levels"),
    [(9, 3, 3), (10, 3, 4), (27, 3, 4), (5, 5, 2), (6, 5, 3), (3, 2, 3), (5, 10**30, 2)],
)
def test_padding_to_a_power_of_the_branching(cells, branching, levels):
    strategy = tree(cells, branching=branching)
    assert np.allclose(np.linalg.norm(strategy.matrix, axis=0), np.sqrt(levels), rtol=1e-15)


def test_haar_rows_written_out():
    assert haar_wavelet(4).matrix.tolist() == [
        [1, 1, 1, 1],
        [1, 1, -1, -1],
        [1, -1, 0, 0],
        [0, 0, 1, -1],
    ]
    assert haar_wavelet(3).matrix.tolist() == [[1, 1, 1], [1, 1, -1], [1, -1, 0], [0, 0, 1]]
    assert haar_wavelet(1).matrix.tolist() == [[1]]


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 6, 7, 12])
def test_haar_is_the_padded_one_on_the_cells_that_exist(cells):
    padded = haar_wavelet(16 if cells > 8 else 2 ** (cells - 1).bit_length())
    restricted = padded.matrix[:, :cells]
    kept = restricted[np.any(restricted != 0, axis=1)]
    assert np.array_equal(haar_wavelet(cells).matrix, kept)
    assert haar_wavelet(cells).rank == cells


def test_haar_rows_are_orthogonal_and_give_closed_form_variances():
    # rows orthogonal: H^+ = H^T D^-1 with D the squared row norms 4, 4, 2, 2; for the query a,
    # variance = sum_i (a . h_i)^2 / d_i^2: cell 0: 1/16 + 1/16 + 1/4; total: 16/16
    workload = ArrayWorkload([[1, 0, 0, 0], [1, 1, 1, 1]])
    assert haar_wavelet(4).variances(workload) == pytest.approx([3 / 8, 1.0], rel=1e-14)


def test_tree_on_two_cells_in_closed_form():
    # R = [1 1; 1 0; 0 1], G = [2 1; 1 2], G^-1 = [2 -1; -1 2]/3: cell 2/3, total 2/3
    assert tree(2).variances(prefix(2)) == pytest.approx([2 / 3, 2 / 3], rel=1e-14)


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 6, 7, 9, 10])
@pytest.mark.parametrize("branching", [2, 3])
def test_tree_variances_are_those_of_least_squares(cells, branching):
    R = np.array(recursive_tree(cells, branching))
    A = random_workload(4, cells)
    inverse = np.linalg.lstsq(R, np.eye(len(R)), rcond=None)[0]
    expected = ((A.to_dense() @ inverse) ** 2).sum(axis=1)
    assert np.allclose(tree(cells, branching=branching).variances(A), expected, rtol=1e-10)


@pytest.mark.parametrize("cells", [3, 5, 6, 7, 9])
def test_leaving_out_repeated_nodes_saves_no_sensitivity_and_costs_error(cells):
    strategy = tree(cells)
    once = Strategy("once", np.unique(strategy.matrix, axis=0))
    assert once.shape[0] < strategy.shape[0]
    assert once.sensitivity == strategy.sensitivity
    kept, left_out = strategy.variances(prefix(cells)), once.variances(prefix(cells))
    assert (kept <= left_out * (1 + 1e-12)).all()


def test_repeated_node_on_three_cells_in_closed_form():
    # the last cell: nodes {2}, {2} and the root. Without the repetition its variance is larger.
    last = ArrayWorkload([[0, 0, 1]])
    once = Strategy("once", np.unique(tree(3).matrix, axis=0))
    # eliminate cells 0, 1 (sum known to 1/(1/2 + 1), as leaves give 2 and node 1 gives 1): with
    # s its variance 2/3, the root measures cell 2 with variance 1 + 2/3, precision 3/5
    assert tree(3).variances(last) == pytest.approx([1 / (2 + 3 / 5)], rel=1e-13)
    assert once.variances(last) == pytest.approx([1 / (1 + 3 / 5)], rel=1e-13)


@pytest.mark.parametrize("cells", [0, -1, 2.0, "4", None])
@pytest.mark.parametrize("build", [tree, haar_wavelet])
def test_cells_must_be_a_positive_whole_number(build, cells):
    with pytest.raises(InvalidInputError, match=r"cells must be a whole number of at least 1"):
        build(cells)


@pytest.mark.parametrize("branching", [1, 0, -2, 2.5, None])
def test_branching_must_be_at_least_two(branching):
    with pytest.raises(InvalidInputError, match=r"branching must be a whole number of at least 2"):
        tree(4, branching=branching)


def test_names():
    assert tree(4).name == "tree"
    assert tree(4, branching=3).name == "tree:3"
    assert haar_wavelet(4).name == "haar"
