r"""Sensitivities of products of strategies, never below those of exact arithmetic.

R = diag(w)^(1/2) (R_1 x ... x R_k). Every R_i is divided by a power of two first, and w by a power
of four, so that no product of tiny entries vanishes. Under add-remove

    max_j norm(R e_j) = prod_i max norm(R_i e_j)                               without weights,
    max_j norm(R e_j)_1 = max of (|R_1|^T x ... x |R_k|^T) w^(1/2), and with squares in l2,

sums of terms of one sign, whose rounding is a unit a term. Under replace a difference of two
columns may be far smaller than they are: what their entries or inner products are off by counts
relative to the longest column, added to the distance (l1) or to its square (l2). Distances of
integer columns, in l2 their squares, are integers: computed values are rounded down to integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.columns import column_labels
from pmldesign.privacy.neighbours import Neighbours, Norm, sensitivity_above
from pmldesign.privacy.outward import (
    UNIT,
    digits_spanned,
    float_above,
    raised,
    root_above,
    size,
    unscaled,
)
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.kronecker import (
    largest_l1_distance,
    largest_l2_distance,
    largest_weighted_distance,
)

FAINTEST = 1e-200
"""A largest column below this, with factors and weights of size 1, is lost in what underflows."""


def product_entry_units(factors: Sequence[Array], weights: Array | None) -> float:
    """Units of 2^-53 that entries of the written product may be off by; 0 for integers."""
    if weights is None and sum(map(digits_spanned, factors)) <= 53:
        return 0.0
    return 2.0 * len(factors) + 2


def product_labels(factors: Sequence[Array]) -> Indices:
    """A number for each column of a product; equal if the columns of all factors are."""
    labels = np.zeros(1, dtype=np.intp)
    for factor in factors:
        labels = np.add.outer(labels * factor.shape[1], column_labels(factor)).ravel()
    return labels


def longest_of_product(factors: Sequence[Array], weights: Array | None, norm: Norm) -> float:
    """Largest norm of a column, rounded upwards.

    Raises:
        InvalidInputError: it is out of the range of float64.
    """
    if weights is None:
        norms = [sensitivity_above(factor, Neighbours.ADD_REMOVE, norm) for factor in factors]
        return float_above("the sensitivity", math.prod(map(Fraction, norms), start=Fraction(1)))
    scaled, scaled_weights, exponent = _scaled(factors, weights)
    assert scaled_weights is not None
    return unscaled("the sensitivity", _longest_weighted(scaled, scaled_weights, norm), exponent)


def diameter_of_product(factors: Sequence[Array], weights: Array | None, norm: Norm) -> float:
    """Largest distance of two columns, or a bound above it, from the factors.

    Raises:
        InvalidInputError: it is out of the range of float64.
    """
    scaled, scaled_weights, exponent = _scaled(factors, weights)
    longest = longest_of_product(scaled, scaled_weights, norm)
    part = 4 * (sum(map(len, scaled)) + 10 * len(scaled)) * UNIT
    if norm == "l1" and scaled_weights is not None:
        value = 2 * longest
    elif norm == "l1":
        value = raised(largest_l1_distance(scaled) + part * longest, 4)
    elif scaled_weights is not None:
        distance = largest_weighted_distance(scaled, scaled_weights)
        value = raised(math.hypot(distance, math.sqrt(part) * longest), 8)
    else:
        value = raised(math.hypot(largest_l2_distance(scaled), math.sqrt(part) * longest), 8)
    value = unscaled("the sensitivity", value, exponent)
    if weights is not None or not all((factor == np.rint(factor)).all() for factor in factors):
        return value
    return (
        root_above(math.floor(Fraction(value) ** 2)) if norm == "l2" else float(math.floor(value))
    )


def _longest_weighted(factors: Sequence[Array], weights: Array, norm: Norm) -> float:
    units = sum(map(len, factors)) + 4 * len(factors) + 4
    if norm == "l1":
        columns = [np.abs(factor.T) for factor in factors]
        largest = float(kronecker.multiply(columns, np.sqrt(weights)).max())
    else:
        columns = [factor.T**2 for factor in factors]
        largest = float(kronecker.multiply(columns, weights).max())
    if largest < FAINTEST:
        raise InvalidInputError(
            "the strategy has a largest column less than 1e-100 of what its largest entries and "
            "weights suggest, too little for double precision; rescale its factors and weights"
        )
    return raised(largest if norm == "l1" else math.sqrt(largest), units)


def _scaled(
    factors: Sequence[Array], weights: Array | None
) -> tuple[list[Array], Array | None, int]:
    """Factors and weights of size about 1, and the power of two between the products."""
    exponents = [size(float(np.abs(factor).max())) for factor in factors]
    scaled = [np.ldexp(factor, -e) for factor, e in zip(factors, exponents, strict=True)]
    if weights is None:
        return scaled, None, sum(exponents)
    half = size(float(weights.max())) // 2
    return scaled, np.ldexp(weights, -2 * half), sum(exponents) + half
