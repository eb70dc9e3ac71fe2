r"""Matrices in ball arithmetic: every number is an interval that contains the exact one.

What is computed here from float64 arrays, which are exact, is a theorem about these arrays. The
nuclear norm is the dual norm of the largest singular value,

    nuclear_norm(M) >= <M, X> / norm(X)_2,      norm(X)_2^2 <= 1 + norm(X^T X - I)_inf,

for any X. An approximate singular value decomposition proposes X = P Q^T, a step X (3 I - X^T X)/2
makes it orthogonal to 1e-28, and then only products remain to be trusted: no decomposition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from pmldesign.verify.arithmetic.intervals import laplacian_root, largest, total

Array = NDArray[np.float64]

NAME = "ball arithmetic of 192 bits: bounds are theorems about the arrays"
WEAKEST = 0.0
"""By how much, relatively, a claim may exceed what is proved: not at all."""


def matrix(array: Array) -> Any:
    """The array as exact balls."""
    return arb_mat(np.asarray(array, dtype=np.float64).tolist())


def row_squares(rows: Any) -> list[Any]:
    """The squared norms of the rows of a ball matrix."""
    return [total(entry * entry for entry in row) for row in rows.tolist()]


def product(left: Array, right: Array) -> Any:
    """The product of two arrays."""
    return matrix(left) * matrix(right)


def residual_squares(A: Array, L: Array, R: Array) -> list[Any]:
    """Squared norms of the rows of A - L R."""
    return row_squares(matrix(A) - product(L, R))


def squares(L: Array) -> list[Any]:
    """diag(L L^T)."""
    return row_squares(matrix(L))


def distance_squares(R: Array) -> list[list[Any]]:
    """Squared l2 distances of the columns of R, from their inner products; 0 for equal columns."""
    columns = np.ascontiguousarray(R.T)
    transposed, label = matrix(columns), np.unique(columns, axis=0, return_inverse=True)[1].ravel()
    gram = (transposed * transposed.transpose()).tolist()
    size = len(gram)
    return [
        [
            gram[i][i] + gram[j][j] - 2 * gram[i][j] if label[i] != label[j] else arb(0)
            for j in range(size)
        ]
        for i in range(size)
    ]


def absolute_distances(R: Array) -> list[list[Any]]:
    """The l1 distances of the columns of R, as sums of whole multiples of a power of two."""
    whole, exponent = whole_numbers(R.T)
    unit = arb(2) ** -exponent
    rows = []
    for column in whole:
        sums = np.abs(whole - column).sum(axis=1)
        rows.append([arb(int(value)) * unit for value in sums])
    return rows


def absolute_sums(R: Array) -> list[Any]:
    """The l1 norms of the columns of R."""
    whole, exponent = whole_numbers(R.T)
    unit = arb(2) ** -exponent
    return [arb(int(value)) * unit for value in np.abs(whole).sum(axis=1)]


def whole_numbers(array: Array) -> tuple[Any, int]:
    """Python integers, and k: the entries are these over 2^k."""
    pairs = [value.as_integer_ratio() for value in array.ravel().tolist()]
    exponent = max(denominator.bit_length() - 1 for _, denominator in pairs)
    whole = np.empty(len(pairs), dtype=object)
    for place, (numerator, denominator) in enumerate(pairs):
        whole[place] = numerator << (exponent + 1 - denominator.bit_length())
    return whole.reshape(array.shape), exponent


def nuclear_norm(A: Array, u: Array, w: Array) -> Any:
    """At least the nuclear norm of diag(u)^(1/2) A F, F F^T = diag(w) or the Laplacian of w."""
    if w.ndim == 1:
        roots = [arb(value).sqrt() for value in w.tolist()]
        scaled = arb_mat([[x * b for x, b in zip(row, roots, strict=True)] for row in A.tolist()])
    else:
        weights = np.array([[arb(value) for value in row] for row in w.tolist()], dtype=object)
        scaled = matrix(A) * arb_mat(laplacian_root(weights).tolist())
    scales = [arb(value).sqrt() for value in u.tolist()]
    rows = [[a * entry for entry in row] for a, row in zip(scales, scaled.tolist(), strict=True)]
    middle = np.array([[float(entry) for entry in row] for row in rows])
    left, _, right = np.linalg.svd(middle, full_matrices=False)
    polar = left @ right
    if polar.shape[0] < polar.shape[1]:  # the short side is the one to be orthogonal
        polar, rows = polar.T, [list(column) for column in zip(*rows, strict=True)]
    X = matrix(np.ascontiguousarray(polar))
    size = X.ncols()
    identity = matrix(np.eye(size))
    X = X * (3 * identity - X.transpose() * X) / 2
    rest = X.transpose() * X - identity
    off = largest([total(abs(entry) for entry in row) for row in rest.tolist()])
    inner = total(
        a * b
        for row, other in zip(rows, X.tolist(), strict=True)
        for a, b in zip(row, other, strict=True)
    )
    return inner / (1 + off).sqrt()
