"""Q_alpha: independent records, each in cell j of k with probability at least alpha_j.

A scalar alpha means the same for every cell, so it is at most 1/k; a vector has a sum of at most
1, and a sum of 1 is a known prior.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Sec. III.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import SupportsFloat

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import count_text
from pmldesign_solvers.operators import Array

ROUNDING = 1e-12
"""By how much the sum of alpha may exceed 1, so that 1/3 + 1/3 + 1/3 and 0.1 * 10 are accepted."""


def class_probabilities(alpha: float | Iterable[float], cells: int) -> Array:
    """Turn alpha into the vector of least probabilities, one for each of k cells.

    Args:
        alpha: in (0, 1/k], or k numbers in (0, 1) whose sum is at most 1.
        cells: k, at least 1.

    Returns:
        Shape (cells,), with a sum of at most 1 up to one rounding.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    alpha = checked_alpha(alpha)
    if isinstance(alpha, float):
        return np.full(cells, least_probability(alpha, cells))
    if cells < 1:
        raise InvalidInputError(f"cells must be at least 1, got {cells}")
    if len(alpha) != cells:
        raise InvalidInputError(
            f"alpha must be one number or one for each of the k = {cells} cells, got {len(alpha)}"
        )
    vector = np.array(alpha)
    return vector / max(1.0, float(vector.sum()))


def least_probability(alpha: float | Iterable[float], cells: int) -> float:
    """The smallest entry of `class_probabilities`, for any number of cells.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    if cells < 1:
        raise InvalidInputError(f"cells must be at least 1, got {cells}")
    alpha = checked_alpha(alpha)
    if not isinstance(alpha, float):
        return float(class_probabilities(alpha, cells).min())
    if not alpha <= (1 + ROUNDING) * (1 / cells):
        raise InvalidInputError(
            f"alpha must be in (0, 1/k] = (0, {1 / cells:.6g}] for k = {count_text(cells)} "
            f"cells, got {alpha:g}"
        )
    return min(alpha, 1 / cells)


def checked_alpha(alpha: float | Iterable[float]) -> float | tuple[float, ...]:
    """Alpha as a float or a tuple, as far as it can be checked before k is known.

    Raises:
        InvalidInputError: not in (0, 1] (one number), or a vector with an entry outside (0, 1)
            or a sum above 1.
    """
    if isinstance(alpha, SupportsFloat) and not isinstance(alpha, Iterable):
        if not 0 < float(alpha) <= 1:
            raise InvalidInputError(f"alpha must be in (0, 1/k] for k cells, got {alpha}")
        return float(alpha)
    try:
        vector = tuple(float(value) for value in alpha)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"alpha must be a number or a vector of numbers, got {alpha!r}"
        ) from None
    for cell, value in enumerate(vector):
        if not 0 < value < 1:
            raise InvalidInputError(
                f"alpha must be in (0, 1) for every cell, got {value} for cell {cell}"
            )
    if not 0 < math.fsum(vector) <= 1 + ROUNDING:
        raise InvalidInputError(
            f"alpha must have a positive sum of at most 1, got {math.fsum(vector):.9g}"
        )
    return vector
