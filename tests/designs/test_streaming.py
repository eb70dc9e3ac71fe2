"""Which workloads a stream can answer, against the matrices."""

import numpy as np
import pytest

from pmldesign.designs import first_early, optimize, require_streaming
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.workloads import DenseWorkload, as_workload


@pytest.mark.parametrize(
    "text",
    ["prefix:5", "all-range:4", "window:6,2", "total:4", "histogram:3", "haar:4", "parity:2,1"],
)
def test_the_first_query_that_needs_a_later_cell(text):
    workload = as_workload(text)
    A = workload.to_dense()
    later = [(i, j) for i in range(A.shape[0]) for j in range(A.shape[1]) if j > i and A[i, j]]
    rows = [pair for pair in later if pair[0] == later[0][0]]
    expected = rows[-1] if rows else None
    assert first_early(workload) == first_early(DenseWorkload(A)) == expected


@pytest.mark.parametrize("text", ["prefix:4", "window:5,2", "all-range:4", "prefix:3*histogram:2"])
def test_both_factors_of_what_is_accepted_are_lower_triangular(text):
    made = optimize(text, streaming=True).design
    assert not np.triu(made.strategy.matrix, 1).any()
    L = made.reconstruction()
    assert np.abs(np.triu(L, 1)).max() <= 1e-12 * np.abs(L).max()


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (np.triu(np.ones((4, 4))), "row 0 needs cell 3, which comes later"),
        ("haar:4", "needs cell 3"),
        ("prefix:2*haar:2", "of the factor 'haar:2' needs cell 1"),
        ("marginals:2,2,ways=1", "marginals and tables have none"),
        ("total:3", "needs a workload of rank 3"),
    ],
)
def test_others_are_refused_in_python_too(workload, says):
    with pytest.raises(InvalidInputError, match=says):
        optimize(workload, streaming=True)


@pytest.mark.parametrize("scale", [1e-160, 1e160, 1e300])
def test_rows_of_any_scale_are_judged_like_others(scale):
    rows = np.array([[1.0, 0, 0], [1, 1, 0], [1, 1, 1]])
    require_streaming(as_workload(scale * rows), Neighbours.ADD_REMOVE, full_rank=True)
    rows[1, 2] = scale
    with pytest.raises(InvalidInputError, match="needs cell 2, which comes later"):
        require_streaming(as_workload(rows), Neighbours.ADD_REMOVE, full_rank=True)
