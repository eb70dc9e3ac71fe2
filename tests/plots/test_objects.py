"""Pictures and tables of objects, as notebooks and papers have them."""

import numpy as np
import pytest

import pmldesign as pml

DP = pml.ApproxDP(1, 1e-6)


@pytest.fixture(scope="module")
def table():
    return pml.compare("prefix:4", ["least-norm", "tree", "identity"], guarantee=DP)


def test_the_heat_map_has_the_entries_of_the_strategy():
    strategy = pml.strategy("haar", "prefix:8")
    left, right = (axes.images[0] for axes in pml.plot(strategy).axes[:2])
    assert np.array_equal(left.get_array(), strategy.matrix)
    assert np.allclose(right.get_array(), strategy.matrix.T @ strategy.matrix)


def test_a_large_matrix_keeps_its_largest_entries():
    matrix = np.zeros((600, 500))
    matrix[599, 3], matrix[5, 499] = -2.0, 1.0
    (image,) = pml.plot(pml.strategy(matrix)).axes[0].images
    assert max(image.get_array().shape) <= 256
    assert image.get_array().min() == -2
    assert image.get_array().max() == 1


def test_the_picture_of_a_mechanism_is_the_deviation_of_every_query():
    noisy = pml.mechanism(np.eye(4), "prefix:4", guarantee=DP)
    (line,) = pml.plot(noisy).axes[0].lines
    # four independent counts: variances 1, 2, 3 and 4 of one
    deviations = np.asarray(line.get_ydata())
    assert deviations / deviations[0] == pytest.approx(np.sqrt([1, 2, 3, 4]))


def test_the_region_out_of_reach_ends_at_the_largest_lower_bound():
    bounds = pml.error_bounds("prefix:4", guarantee=DP)
    axes = pml.plot(bounds).axes[0]
    (region,) = axes.patches
    largest = max(b.value for b in bounds if b.holds and b.kind == "lower"
                  and b.mechanisms.startswith("every mechanism"))  # fmt: skip
    assert region.get_x() + region.get_width() == pytest.approx(largest)
    assert len(axes.lines) == sum(1 for bound in bounds if bound.value)


def test_a_frame_has_every_column(table):
    frame = table.to_frame()
    assert [*frame.columns] == [*table.to_records()[0]]
    assert [*frame["error"]] == [row.error for row in table.rows]


def test_a_latex_table_has_a_line_for_each_row(table):
    text = table.to_latex()
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrr}"
    assert [line for line in lines if line.startswith("tree & 2 & ")]
    assert text.count(r"\\") == 1 + len(table.rows)
    assert "%" not in text.replace(r"\%", "")


def test_a_comparison_draws_itself(table):
    names = [label.get_text() for label in table.plot().axes[0].get_yticklabels()]
    assert {name.partition(" ")[0] for name in names} == {"least-norm", "tree", "identity"}


@pytest.mark.parametrize("shown", [3, "prefix:4", [], None])
def test_what_has_no_picture_is_refused(shown):
    with pytest.raises(pml.InvalidInputError, match="there is no picture of"):
        pml.plot(shown)
