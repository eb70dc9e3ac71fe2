"""Products of matrices and vectors of whole numbers, exact whatever their size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import Array

Integers = NDArray[Any]
"""int64, or Python integers where 64 bits are too few."""
Image = Callable[[Integers], Integers]
"""x -> Z x for whole numbers x."""

ROWS = 2**12
"""Of so many rows the sums of squares of 25 bits stay below 2^62."""
EXACT_FLOAT, EXACT_INT64 = 2**53, 2**62


def times(matrix: Integers, x: Integers) -> Integers:
    """Z x for x of shape (n,) or (n, c).

    Beyond 64 bits both are split into digits of so few bits that their products are exact.
    """
    bound = int(np.abs(matrix).max(initial=1)) * _mass(x)  # 64 bits hold x, too
    if bound < EXACT_FLOAT and x.dtype != object:
        product = matrix.astype(np.float64) @ x.astype(np.float64)
        return np.asarray(product).astype(np.int64)
    if bound < EXACT_INT64:
        return np.asarray(matrix.astype(np.int64) @ x.astype(np.int64))
    width = (52 - len(x).bit_length()) // 2
    left, right = _digits(matrix, width), _digits(x, width)
    total: Integers = np.zeros(matrix.shape[:1] + x.shape[1:], dtype=object)
    for place in range(len(left) + len(right) - 1):
        pairs = [(a, place - a) for a in range(len(left)) if 0 <= place - a < len(right)]
        for a, b in pairs:
            total = total + ((left[a] @ right[b]).astype(np.int64).astype(object) << place * width)
    return total


def shifted(x: Integers, bits: int) -> Integers:
    """X / 2^bits, rounded to the nearest whole number."""
    values = x.astype(object)
    return np.asarray((values + (1 << bits - 1)) >> bits) if bits > 0 else values << -bits


def _digits(values: Integers, width: int) -> list[NDArray[np.float64]]:
    """d_0, d_1 ... of one sign each with values = sum_i d_i 2^(width i), all below 2^width."""
    rest, signs = np.abs(values), np.sign(values).astype(np.float64)
    digits: list[NDArray[np.float64]] = []
    while not digits or rest.any():
        digits.append((rest & ((1 << width) - 1)).astype(np.float64) * signs)
        rest = rest >> width
    return digits


def scaled(x: Integers, factors: Integers) -> Integers:
    """diag(factors) x for x of shape (n,) or (n, c)."""
    bound = int(np.abs(factors).max(initial=0)) * int(np.abs(x).max(initial=0))
    kind: Any = np.int64 if bound < EXACT_INT64 else object
    return np.asarray((x.T.astype(kind) * factors.astype(kind)).T)


def contrasts(x: Integers) -> Integers:
    """Row k = 1 ... n - 1 compares value k with all before: (1, ..., 1, -k, 0, ...) x."""
    bound = len(x) * _mass(x)
    values = x.astype(np.int64 if bound < EXACT_INT64 else object)
    k = np.arange(1, len(x)).reshape(-1, *[1] * (x.ndim - 1)).astype(values.dtype)
    return np.asarray(np.cumsum(values, axis=0)[:-1] - k * values[1:])


def largest_square_column(matrix: Integers) -> int:
    """Largest squared l2 norm of a column of Z, entries up to 2^49."""
    total: Integers = np.zeros(matrix.shape[1], dtype=object)
    for start in range(0, len(matrix), ROWS):
        rows = matrix[start : start + ROWS]
        high, low = rows >> 24, rows & (2**24 - 1)
        for part, weight in ((high * high, 2**48), (high * low, 2**25), (low * low, 1)):
            total = total + part.sum(axis=0).astype(object) * weight
    return int(total.max())


def largest_absolute_column(matrix: Integers) -> int:
    """Largest l1 norm of a column of Z, entries up to 2^49."""
    total: Integers = np.zeros(matrix.shape[1], dtype=object)
    for start in range(0, len(matrix), ROWS):
        total = total + np.abs(matrix[start : start + ROWS]).sum(axis=0).astype(object)
    return int(total.max())


def _mass(x: Integers) -> int:
    """Largest l1 norm of a column of x, as a Python integer."""
    if x.size == 0:
        return 0
    largest = int(np.abs(x).max())
    if largest * len(x) < EXACT_INT64:
        return int(np.abs(x.astype(np.int64)).sum(axis=0).max())
    return largest * len(x)


def multiples(values: Array, bits: int) -> tuple[Integers, Array]:
    """Whole c and u = values / c, nearly the same for all."""
    _, top = math.frexp(float(values.max()))
    factors = np.maximum(np.rint(np.ldexp(values, bits - top)), 1.0)
    return factors.astype(np.int64), np.asarray(values / factors)


def rounded_matrix(matrix: Array, bits: int) -> tuple[Integers, float, bool]:
    """Z = round(2^k R), 2^-k, and whether nothing was rounded; entries of Z are below 2^bits."""
    _, top = math.frexp(float(np.abs(matrix).max()))
    moved = np.ldexp(matrix, bits - top)
    rounded = np.rint(moved)
    return rounded.astype(np.int64), math.ldexp(1.0, top - bits), bool((rounded == moved).all())
