"""Matrices that stay the same when the order of the cells is reversed: two halves decompose them.

With J the reversal, M = J M J has eigenvectors that are even (J q = q) or odd (J q = -q). With h
half the order, M_11 and M_12 the blocks of the first h rows and of the first or last h columns,

    odd    (x, -J x) / 2^(1/2)    x an eigenvector of M_11 - M_12 J,
    even   (x,  J x) / 2^(1/2)    x an eigenvector of M_11 + M_12 J;

with a middle cell c the even ones are (x, y 2^(1/2), J x) / 2^(1/2) for the matrix bordered by
2^(1/2) M_1c and M_cc. Two decompositions of half the order take a quarter to a third of the time.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators import Array

SAME = 1e-11
"""Difference, relative to the largest entry, of matrices that are equal but for rounding."""


def decompose(matrix: Array) -> tuple[Array, Array] | None:
    """Eigenvalues, ascending, and eigenvectors; None unless reversal leaves the matrix as it is.

    Args:
        matrix: symmetric, shape (n, n), n >= 2.
    """
    n, half = len(matrix), len(matrix) // 2
    reach = SAME * float(np.abs(matrix[0]).max())
    if np.abs(matrix[0] - matrix[-1, ::-1]).max() > reach:
        return None
    reversed_too = matrix[::-1, ::-1]
    if np.abs(matrix - reversed_too).max() > SAME * float(np.abs(matrix).max()):
        return None
    first = 0.5 * (matrix + reversed_too)[:half]
    near, far = first[:, :half], first[:, : n - half - 1 : -1]
    odd_values, odd = np.linalg.eigh(near - far)
    even_block = near + far
    if n % 2:
        border = np.sqrt(2.0) * first[:, half]
        middle = np.append(border, matrix[half, half])
        even_block = np.vstack([np.column_stack([even_block, border]), middle])
    even_values, even = np.linalg.eigh(even_block)
    values = np.concatenate([odd_values, even_values])
    order = np.argsort(values)
    vectors = np.zeros((n, n))
    top = np.hstack([odd, even[:half]])[:, order] / np.sqrt(2.0)
    vectors[:half] = top
    vectors[n - half :] = np.where(order < half, -1.0, 1.0) * top[::-1]
    if n % 2:
        vectors[half] = np.concatenate([np.zeros(half), even[half]])[order]
    return values[order], vectors
