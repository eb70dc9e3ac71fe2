"""The door: what every public function checks about its arguments, written once."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

SMALLEST_PARAMETER = 1e-100
"""Least epsilon, and one over the largest: squares of scales stay in the range of float64."""
SMALLEST_PROBABILITY = 1e-300
"""Least delta and alpha: the profile of Gaussian noise is evaluated down to there."""
LARGEST_EXPONENT = 1e100
"""Largest finite p: its logarithmic Gamma function and powers stay in the range of float64."""


def doubles(array: Any) -> Array:
    """A float64 copy of numbers of any type: inf where they are too large, without a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(array, dtype=np.float64, order="C")


def finite_matrix(name: str, value: Any) -> Array:
    """`value` as a finite float64 matrix; a single row may be given as a vector.

    Raises:
        InvalidInputError: not numeric, not two-dimensional, empty, complex, or with NaN or inf.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"{name} must be a non-empty matrix, got shape {array.shape}")
    matrix = doubles(array)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(
            f"{name} must be finite, got {matrix[row, column]} at row {row}, column {column}"
        )
    return matrix


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as a whole number of at least `least`.

    Raises:
        InvalidInputError: no integer of any type, or below.
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InvalidInputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return number


def positive(name: str, value: float) -> float:
    """`value` as a positive finite float.

    Raises:
        InvalidInputError: zero, negative, infinite or NaN.
    """
    if not 0 < value < math.inf:
        raise InvalidInputError(f"{name} must be positive and finite, got {value}")
    return float(value)


def parameter(name: str, value: float) -> float:
    """`value` as a privacy parameter: positive, and not so small or large that squares vanish.

    Raises:
        InvalidInputError: not positive and finite, or beyond SMALLEST_PARAMETER and its inverse.
    """
    value = positive(name, value)
    if not SMALLEST_PARAMETER <= value <= 1 / SMALLEST_PARAMETER:
        raise InvalidInputError(
            f"{name} must be between {SMALLEST_PARAMETER:g} and {1 / SMALLEST_PARAMETER:g}, got "
            f"{value!r}: scales of noise beyond that leave the range of double precision"
        )
    return value


def non_negative(name: str, value: float) -> float:
    """`value` as a finite float that is at least zero.

    Raises:
        InvalidInputError: negative, infinite or NaN.
    """
    if not 0 <= value < math.inf:
        raise InvalidInputError(f"{name} must be finite and at least 0, got {value}")
    return float(value)


def probability(name: str, value: float) -> float:
    """`value` as a float strictly between 0 and 1.

    Raises:
        InvalidInputError: outside (0, 1) or NaN, or below SMALLEST_PROBABILITY.
    """
    if not 0 < value < 1:
        raise InvalidInputError(f"{name} must be in (0, 1), got {value}")
    if value < SMALLEST_PROBABILITY:
        raise InvalidInputError(
            f"{name} must be at least {SMALLEST_PROBABILITY:g}, the range of double precision, got "
            f"{value!r}; take a larger one"
        )
    return float(value)


def exponent(p: float) -> float:
    """The p of an l_p^p error, as a float in [2, inf].

    Raises:
        InvalidInputError: below 2, or NaN.
    """
    if not p >= 2:
        raise InvalidInputError(f"p must be in [2, inf], got {p}; use 2 for squared error")
    if LARGEST_EXPONENT < p < math.inf:
        raise InvalidInputError(f"p must be at most {LARGEST_EXPONENT:g} or inf, got {p}; use inf")
    return float(p)
