import numpy as np
import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import fourier, hadamard


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 8, 9, 30])
def test_fourier_rows_are_orthonormal_and_of_one_frequency(cells):
    matrix = fourier(cells).matrix
    assert matrix.shape == (cells, cells)
    assert np.allclose(matrix @ matrix.T, np.eye(cells), atol=1e-13)
    # a real row of frequency k has its transform at k and n - k only
    spectrum = np.abs(np.fft.fft(matrix, axis=1)) > 1e-9
    frequency = np.minimum(np.arange(cells), cells - np.arange(cells))
    assert all(len(set(frequency[row])) == 1 for row in spectrum)


def test_fourier_rows_written_out():
    half, root = 0.5, np.sqrt(0.5)
    expected = [[half] * 4, [root, 0, -root, 0], [0, root, 0, -root], [half, -half, half, -half]]
    assert np.allclose(fourier(4).matrix, expected, atol=1e-15)


@pytest.mark.parametrize(("cells", "size"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (9, 16)])
def test_hadamard_is_padded_and_restricted(cells, size):
    strategy = hadamard(cells)
    assert strategy.shape == (size, cells)
    # entries of one size: l1 norm sqrt(N) and l2 norm 1 in every column
    assert np.allclose(np.abs(strategy.matrix), 1 / np.sqrt(size), rtol=1e-15)
    assert np.allclose(strategy.gram, np.eye(cells), atol=1e-14)


def test_hadamard_entries_are_parities():
    signs = hadamard(8).matrix * np.sqrt(8)
    expected = [[(-1.0) ** (i & j).bit_count() for j in range(8)] for i in range(8)]
    assert np.allclose(signs, expected, rtol=1e-15)


@pytest.mark.parametrize("build", [fourier, hadamard])
def test_cells_must_be_a_positive_whole_number(build):
    with pytest.raises(InvalidInputError, match="cells must be a whole number of at least 1"):
        build(0)
