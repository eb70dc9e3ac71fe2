import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leakages import l1_sensitivity, l2_sensitivity

from pmldesign.arguments import finite_matrix
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import columns as module
from pmldesign.privacy import distance_blocks, pairwise_distances


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 6), cells=st.integers(1, 9))
def test_sensitivities_by_enumeration(seed, rows, cells):
    R = np.random.default_rng(seed).standard_normal((rows, cells))
    for order, sensitivity, norm in ((1, l1_sensitivity, "l1"), (2, l2_sensitivity, "l2")):
        singles = [np.linalg.norm(R[:, j], order) for j in range(cells)]
        pairs = [
            [np.linalg.norm(R[:, i] - R[:, j], order) for i in range(cells)] for j in range(cells)
        ]
        assert sensitivity(R, "add-remove") == pytest.approx(max(singles), rel=1e-14)
        assert sensitivity(R, "replace") == pytest.approx(np.max(pairs), rel=1e-14)
        np.testing.assert_allclose(pairwise_distances(R, norm=norm), pairs, rtol=1e-14)


def test_sensitivities_in_closed_form():
    identity, prefix = np.eye(8), np.tril(np.ones((8, 8)))
    assert l1_sensitivity(identity, "add-remove") == l2_sensitivity(identity, "add-remove") == 1
    assert l1_sensitivity(identity, "replace") == 2
    assert l2_sensitivity(identity, "replace") == pytest.approx(math.sqrt(2), rel=1e-15)
    # column j of the prefix sums has 8 - j ones; two columns differ in at most 7 entries
    assert l1_sensitivity(prefix, "add-remove") == 8
    assert l1_sensitivity(prefix, "replace") == 7
    assert l2_sensitivity(prefix, "replace") == pytest.approx(math.sqrt(7), rel=1e-15)


def test_replace_sees_through_a_large_common_offset():
    R = np.random.default_rng(1).integers(-5, 6, (4, 30)) * 2.0**-20
    shifted = R + 2.0**30
    for sensitivity in (l1_sensitivity, l2_sensitivity):
        assert sensitivity(shifted, "replace") == pytest.approx(
            sensitivity(R, "replace"), rel=1e-12
        )


def test_blocks_cover_the_upper_triangle_once(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 7 * 2)
    R = np.random.default_rng(2).standard_normal((3, 7))
    seen = np.zeros((7, 7), dtype=int)
    for start, stop, block in distance_blocks(R, norm="l2"):
        assert block.shape == (stop - start, 7 - start)
        seen[start:stop, start:] += 1
    assert (seen[np.triu_indices(7)] == 1).all()
    full = np.linalg.norm(R[:, :, None] - R[:, None, :], axis=0)
    np.testing.assert_allclose(pairwise_distances(R, norm="l2"), full, atol=1e-15)
    assert l2_sensitivity(R, "replace") == pytest.approx(full.max(), rel=1e-15)


def test_one_cell_has_no_neighbour_to_be_replaced_by():
    assert l1_sensitivity([[2.0], [1.0]], "replace") == l2_sensitivity([[2.0]], "replace") == 0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[math.inf]], "inf at row 0, column 0"),
        (np.ones((2, 2, 2)), "non-empty matrix"),
        (np.ones((0, 3)), "non-empty matrix"),
        ([["a"]], "real numbers"),
        ([[1j]], "real numbers"),
    ],
)
def test_matrices_are_checked(matrix, message):
    with pytest.raises(InvalidInputError, match=message):
        l1_sensitivity(matrix, "replace")


@pytest.mark.parametrize("entries", [(0, 1), (0, 0.25), (0, 3), (-1, 1), (0, 1, 2), (1,), (0,)])
@pytest.mark.parametrize("shape", [(1, 7), (9, 1), (40, 30)])
def test_l1_distances_of_counts_are_exact(entries, shape):
    """Whatever the entries are, and however few: the sum of absolute differences."""
    matrix = np.random.default_rng(8).choice(np.array(entries, dtype=float), shape)
    expected = np.abs(matrix[:, :, None] - matrix[:, None, :]).sum(axis=0)
    for start, stop, block in distance_blocks(matrix, norm="l1"):
        np.testing.assert_array_equal(block, expected[start:stop, start:])
    np.testing.assert_array_equal(pairwise_distances(matrix, norm="l1"), expected)
    square = (matrix[:, :, None] - matrix[:, None, :]) ** 2
    for start, stop, block in distance_blocks(matrix, norm="l2"):
        apart = np.sqrt(square.sum(axis=0))[start:stop, start:]
        np.testing.assert_allclose(block, apart, rtol=1e-15, atol=0)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_rows_of_two_values_beside_others_are_never_too_close(norm):
    """Counts of several weights, less their means, beside normal numbers and constants."""
    rng = np.random.default_rng(9)
    ones = rng.integers(0, 2, (40, 25)) * np.repeat([0.3, 1.7, 1e-9, 5.0], 10)[:, None]
    ones -= ones.mean(axis=1, keepdims=True)
    R = np.vstack([ones, rng.standard_normal((5, 25)), np.full((3, 25), 0.1), 2.5 * np.eye(25)])
    R = R[rng.permutation(len(R))]
    entries = [[Fraction(value) for value in column] for column in R.T.tolist()]
    found = pairwise_distances(R, norm=norm)
    for i, j in zip(*np.triu_indices(25, 1), strict=True):
        apart = [abs(a - b) for a, b in zip(entries[i], entries[j], strict=True)]
        exact = sum(apart) if norm == "l1" else sum(d * d for d in apart)
        value = Fraction(found[i, j]) if norm == "l1" else Fraction(found[i, j]) ** 2
        assert exact <= value <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("seed", range(8))
def test_the_farthest_columns_are_among_those_that_are_kept(norm, seed, monkeypatch):
    monkeypatch.setattr("pmldesign.privacy.columns.FEW_COLUMNS", 1)
    rng = np.random.default_rng(seed)
    rows, cells = (int(size) for size in rng.integers(1, 12, 2))
    R = [
        rng.standard_normal((rows, cells)),
        rng.integers(0, 2, (rows, cells)).astype(float),
        rng.standard_normal((rows, cells)) * (rng.random((rows, cells)) < 0.3),
        np.zeros((rows, cells)),
    ][seed % 4]
    R = R[:, rng.integers(0, cells, 2 * cells)]
    order = 1 if norm == "l1" else 2
    exact = max(np.linalg.norm(R[:, [i]] - R, order, axis=0).max() for i in range(2 * cells))
    value = {"l1": l1_sensitivity, "l2": l2_sensitivity}[norm](R, "replace")
    assert exact * (1 - 1e-15) <= value <= exact * (1 + 1e-12)


@pytest.mark.parametrize("exponent", [-1020, -3, 0, 60, 1018])
def test_blocks_of_a_matrix_tell_the_same(monkeypatch, exponent):
    """Whether all entries are whole, which leaves nothing to be raised, and which are too small."""
    R = np.ldexp(np.arange(12.0).reshape(3, 4), exponent)
    R[2, 3] *= 1 + 2.0**-40
    uneven = l1_sensitivity(R, "add-remove")
    monkeypatch.setattr(module, "column_blocks", lambda *_: [slice(0, 1), slice(1, 3)])
    monkeypatch.setattr("pmldesign.privacy.outward.BLOCK_BYTES", 24)
    assert l1_sensitivity(R, "add-remove") == uneven
    sums = [sum(map(Fraction, column)) for column in R.T.tolist()]
    assert max(sums) <= Fraction(uneven) <= max(sums) * (1 + Fraction(1, 2**49))
    R[2, 3] = R[2, 2]
    assert Fraction(l1_sensitivity(R, "add-remove")) == 20 * Fraction(2) ** exponent


def test_a_fixed_matrix_is_not_copied():
    R = np.eye(3)
    assert finite_matrix("R", R) is not R
    R.flags.writeable = False
    assert finite_matrix("R", R) is R
    assert finite_matrix("R", R[:, :2]) is not R
