r"""Lengths of the columns of a coupled strategy, from its small matrices.

With the features f_m of a cell in each attribute, of sum of squares at most 1, the squared norm of
a column is at most the polynomial

    sum_{Q,Sp} prod_{i in Sp} (1 - sum_{m of i} f_m^2) sum_{x,y} E_xy f_x f_y,

f_x the product of features that x stands for; every E is positive, so that what a feature leaves
of X0 may be taken as 1 - sum f_m^2. As no feature is larger than 1, the constant term and the sizes
of all other coefficients are a bound for all cells; by design these others are rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables.problem import Attributes
from pmldesign_solvers.tables.sectors import Sector


def largest_column(sectors: Sequence[Sector], features: Mapping[int, int]) -> float:
    """At least the largest squared norm of a column."""
    starts, place = {}, 0
    for i, count in features.items():
        starts[i], place = place, place + count
    exponents, coefficients = [], []
    constant, sums = 0.0, 0
    for sector in sectors:
        products = _exponents(sector.sets, features, starts, place)
        rows, columns = np.nonzero(sector.matrix)
        powers, values = products[rows] + products[columns], sector.matrix[rows, columns]
        for chosen in itertools.product(*(range(-1, features[i]) for i in sector.spectators)):
            more, sign = np.zeros(place, dtype=np.int8), 1.0
            for i, mode in zip(sector.spectators, chosen, strict=True):
                if mode >= 0:
                    more[starts[i] + mode], sign = 2, -sign
            terms = powers + more
            plain = ~terms.any(axis=1)
            constant += sign * math.fsum(values[plain])
            others = ~plain
            exponents.append(terms[others])
            coefficients.append(sign * values[others])
            sums += 1
    rest = _sizes(np.concatenate(exponents), np.concatenate(coefficients)) if place else 0.0
    return (constant + rest) * (1 + (sums + 200) * EPS)


def summed(sectors: Sequence[Sector]) -> list[Sector]:
    """One sector for all Q with the same spectators and sets, rounded up.

    The polynomial above is the same for all Q. The sum over B of them is off by at most B u times
    the sums of |E_xy| <= (E_xx E_yy)^(1/2), a matrix below B k u times its diagonal.
    """
    alike: dict[tuple[Attributes, tuple[Attributes, ...]], list[Array]] = {}
    for sector in sectors:
        alike.setdefault((sector.spectators, sector.sets), []).append(sector.matrix)
    sums = []
    for (spectators, sets), matrices in alike.items():
        total = np.sum(matrices, axis=0)
        if len(matrices) > 1:
            k = len(total)
            total[np.diag_indices(k)] *= 1 + (len(matrices) + 1) * k * EPS
        sums.append(Sector((), spectators, sets, total))
    return sums


def _exponents(
    sets: Sequence[Attributes], features: Mapping[int, int], starts: Mapping[int, int], count: int
) -> NDArray[np.int8]:
    """The exponents of all features in each product, in the order of the rows of E."""
    rows = []
    for members in sets:
        for modes in itertools.product(*(range(features[i]) for i in members)):
            row = np.zeros(count, dtype=np.int8)
            for i, mode in zip(members, modes, strict=True):
                row[starts[i] + mode] = 1
            rows.append(row)
    return np.array(rows, dtype=np.int8).reshape(len(rows), count)


def _sizes(exponents: NDArray[np.int8], coefficients: Array) -> float:
    """Sum of the sizes of the coefficients of all products, with their rounding."""
    if not exponents.size:
        return 0.0
    kept = np.ascontiguousarray(exponents)
    keys = kept.view(np.dtype((np.void, kept.shape[1]))).ravel()
    _, numbers = np.unique(keys, return_inverse=True)
    sums = np.abs(np.bincount(numbers, coefficients))
    return float(sums.sum()) + len(coefficients) * EPS * float(np.abs(coefficients).sum())
