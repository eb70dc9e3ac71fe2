"""The door: what every public function checks about its arguments, written once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.certificate import Kind
from pmldesign_solvers.kernels import NUMPY, check_device
from pmldesign_solvers.operators import Array


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
    matrix = array.astype(np.float64)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(
            f"{name} must be finite, got {matrix[row, column]} at row {row}, column {column}"
        )
    return matrix


def positive(name: str, value: float) -> float:
    """`value` as a positive finite float.

    Raises:
        InvalidInputError: zero, negative, infinite or NaN.
    """
    if not 0 < value < math.inf:
        raise InvalidInputError(f"{name} must be positive and finite, got {value}")
    return float(value)


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
        InvalidInputError: outside (0, 1) or NaN.
    """
    if not 0 < value < 1:
        raise InvalidInputError(f"{name} must be in (0, 1), got {value}")
    return float(value)


def exponent(p: float) -> float:
    """The p of an l_p^p error, as a float in [2, inf].

    Raises:
        InvalidInputError: below 2, or NaN.
    """
    if not p >= 2:
        raise InvalidInputError(f"p must be in [2, inf], got {p}; use 2 for squared error")
    return float(p)


def usable_device(device: str, *, method: str, kind: Kind) -> str:
    """The name of a device on which the method can design.

    Raises:
        InvalidInputError: unknown, without double precision, without PyTorch, or not for the CPU
            alone where the method or the kind of neighbours is.
    """
    try:
        check_device(device)
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    if device != NUMPY and (method != "scaling" or kind == "pairs"):
        raise InvalidInputError(
            f"device {device!r} is for method 'scaling' and add-remove neighbours, got method "
            f"{method!r} and {'replace' if kind == 'pairs' else 'add-remove'} neighbours; leave it "
            f"at {NUMPY!r}"
        )
    return device
