import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pmldesign_solvers.operators import DenseOperator, sharing_gram

# few values, so that rows repeat; some differ in their last or first bits only
entries = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 1 + 2**-52, 2.0**-1000, 5e-324])


@given(arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=entries))
def test_merging_finds_equal_rows_and_columns_and_no_others(A):
    merged = DenseOperator(A).merge()
    rows = {tuple(row) for row in (A + 0.0).tolist() if any(row)}
    columns = {tuple(column) for column in (A + 0.0).T.tolist() if any(column)}
    assert merged.operator.shape == ((len(rows), len(columns)) if rows else (0, 0))
    padded = np.pad(merged.operator.to_dense(), ((0, 1), (0, 1)))
    assert (padded[np.ix_(merged.row_of, merged.column_of)] == A).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_gram_with_weights_of_any_sign(sign):
    rng = np.random.default_rng(0)
    A, u = rng.standard_normal((9, 4)), rng.uniform(0, 1, 9)
    u[3] *= sign
    expected = sum(weight * np.outer(row, row) for weight, row in zip(u, A, strict=True))
    np.testing.assert_allclose(DenseOperator(A).gram(u), expected, atol=1e-14)


class Counting(DenseOperator):
    asked = 0

    def gram(self, weights):
        Counting.asked += 1
        return super().gram(weights)


def test_a_shared_gram_matrix_is_computed_once_for_equal_weights():
    A = np.random.default_rng(1).standard_normal((5, 3))
    shared, before = sharing_gram(Counting(A)), Counting.asked
    ones, others = np.ones(5), np.arange(5.0)
    for weights, times in ((ones, 1), (np.ones(5), 1), (others, 2), (ones, 3)):
        np.testing.assert_allclose(shared.gram(weights), A.T @ (weights[:, None] * A), atol=1e-14)
        assert Counting.asked - before == times
    ones[0] = 2.0  # the caller's array is not what is remembered
    np.testing.assert_allclose(shared.gram(ones), A.T @ (ones[:, None] * A), atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        shared.gram(ones)[0, 0] = 0.0
