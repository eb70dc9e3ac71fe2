r"""Ball arithmetic: every number is an interval that contains the exact one.

Sums, maxima, norms and their ends as floats; and matrices. What is computed here from float64
arrays, which are exact, is a theorem about these arrays. The nuclear norm is the dual norm of the
largest singular value,

    nuclear_norm(M) >= <M, X> / norm(X)_2,      norm(X)_2^2 <= 1 + norm(X^T X - I)_inf,

for any X. An approximate singular value decomposition proposes X = P Q^T, a step X (3 I - X^T X)/2
makes it orthogonal to 1e-28, and then only products remain to be trusted: no decomposition.

References:
    Johansson (2017), Arb: efficient arbitrary-precision midpoint-radius interval arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

HIDDEN = 2.0**-100
"""What exact arithmetic would round away: the root of a ball around 4 is not exactly 2."""

Array = NDArray[np.float64]

NAME = "ball arithmetic of 192 bits: bounds are theorems about the arrays"
WEAKEST = 0.0
"""Relative tolerance by which a claim may exceed the proved value: zero."""


def total(values: Iterable[Any]) -> Any:
    """The sum."""
    result = arb(0)
    for value in values:
        result += value
    return result


def largest(values: Iterable[Any]) -> Any:
    """The largest of non-negative values."""
    result = arb(0)
    for value in values:
        result = result.max(value)
    return result


def root(square: Any) -> Any:
    """The root of a ball that may reach below 0 by rounding."""
    return square.nonnegative_part().sqrt()


def power_norm(squares: Sequence[Any], p: float) -> Any:
    """(sum_i s_i^p)^(1/p) from s_i^2; the largest s_i at p = inf."""
    if math.isinf(p):
        return root(largest(squares))
    return power(total(power(square, arb(p) / 2) for square in squares), 1 / arb(p))


def power(value: Any, exponent: Any) -> Any:
    """A power of a ball that may reach below 0 by rounding; of one around 0 all from 0 on."""
    value = value.nonnegative_part()
    return value**exponent if bool(value > 0) else arb(value.upper() ** exponent).union(arb(0))


def dual_norm(values: Sequence[float], p: float) -> Any:
    """norm(u)_q with q = p/(p - 2): the largest at p = 2, the sum at p = inf."""
    positive = [arb(value) for value in values if value > 0]
    if p == 2:
        return largest(positive)
    if math.isinf(p):
        return total(positive)
    q = arb(p) / (arb(p) - 2)
    return total(value**q for value in positive) ** (1 / q)


def above(value: Any) -> float:
    """The smallest float that is at least everything in the ball, up to 2^-100 of it."""
    upper = float(value.upper())
    certain = bool(arb(upper) + abs(value) * HIDDEN >= value)
    return upper if certain else math.nextafter(upper, math.inf)


def below(value: Any) -> float:
    """The largest float that is at most everything in the ball, up to 2^-100 of it."""
    lower = float(value.lower())
    certain = bool(arb(lower) - abs(value) * HIDDEN <= value)
    return lower if certain else math.nextafter(lower, -math.inf)


def normal(x: Any) -> Any:
    """Phi(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def free_mass(alpha: Sequence[Any]) -> Any:
    """What alpha leaves free, at least 0."""
    return (1 - total(alpha)).max(arb(0))


def laplacian_root(w: Any) -> Any:
    """F with F F^T the Laplacian of symmetric weights, floats or balls: elimination, only sums."""
    left, root = w.copy(), np.zeros((len(w), len(w) - 1), dtype=w.dtype)
    for cell in range(len(w) - 1):
        below = left[cell + 1 :, cell]
        degree = below.sum()
        if bool(degree > 0):
            size = degree.sqrt() if isinstance(degree, arb) else math.sqrt(degree)
            root[cell, cell] = size
            root[cell + 1 :, cell] = -below / size
            left[cell + 1 :, cell + 1 :] += np.outer(below, below / degree)
    return root


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
