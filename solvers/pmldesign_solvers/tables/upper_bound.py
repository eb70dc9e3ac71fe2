r"""The certified value of a coupled strategy, recomputed from what it is made of.

gamma_(p) is at most (sum_T omega_T^p sum_q v_q^(p/2))^(1/p) times the largest column norm, plus
what rounding left unanswered. v are the variances (`variances`) and the norm as below, both rounded
up. With D_i = (v, Psi)(1^T; Y) - 1, what is left of a table is at most omega_T (prod_k (1 + e_k) -
1) prod_k norm(A_k)_F, e_k = norm(D_i), which is added by the triangle inequality, for the table of
counts itself has the sensitivity 1.

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
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import EPS, Array, power_mean
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.problem import Attributes, padded
from pmldesign_solvers.tables.query_weights import Question
from pmldesign_solvers.tables.sectors import Sector
from pmldesign_solvers.tables.variances import Asked, Variances


def upper_bound(design: Coupled, asked: Sequence[Asked], question: Question, p: float) -> float:
    """Certified upper bound on gamma_(p) from a strategy and its queries' numbers, upwards."""
    tables, scales = question.tables, question.scales
    variances = Variances(design.sectors, design.features)
    spread = scales**2 * variances.norms(asked, tables, p / 2)
    off = {i: _off(measured) for i, measured in design.attributes.items()}
    numbers = padded(tables, len(asked))
    logs = np.array([math.log1p(off.get(query.attribute, 0.0)) for query in asked] + [0.0])
    left = np.expm1(logs[numbers].sum(axis=1)) + 8 * numbers.shape[1] * EPS
    rest = float(scales @ (left * np.array([*_norms(question), 1.0])[numbers].prod(axis=1)))
    columns = largest_column(summed(design.sectors), design.features)
    square = power_mean(spread, p / 2) * columns
    rounding = (200 + 64 * _condition(design.sectors) + len(tables)) * EPS
    return math.sqrt(square) * (1 + rounding) + rest * (1 + len(tables) * EPS)


def _norms(question: Question) -> Iterator[float]:
    """norm(A_k)_F, upwards."""
    for i, operator in zip(question.attribute, question.factors, strict=True):
        n = question.sizes[i]
        squares = np.ones(n) if operator is None else operator.row_norms(np.eye(n))
        yield math.sqrt(float(squares.sum()) * (1 + (len(squares) + 8) * EPS))


def _off(measured: Measured) -> float:
    n = len(measured.inverse)
    stacked = np.vstack([np.ones(n), measured.rows])
    left = measured.inverse @ stacked - np.eye(n)
    reach = np.abs(measured.inverse) @ np.abs(stacked)
    return float(np.linalg.norm(left) + (n + 2) * EPS * np.linalg.norm(reach))


def _condition(sectors: Sequence[Sector]) -> float:
    """The largest size times condition of an E scaled to diagonal 1."""
    by_size: dict[int, list[Array]] = {}
    for sector in sectors:
        by_size.setdefault(len(sector.matrix), []).append(sector.matrix)
    condition = 1.0
    for size, matrices in by_size.items():
        if size > 1:
            e = np.array(matrices)
            roots = np.sqrt(np.diagonal(e, axis1=1, axis2=2))
            units = roots[:, :, None] * roots[:, None, :]
            values = np.linalg.eigvalsh(e / units)
            worst = values[:, -1] / np.maximum(values[:, 0], EPS)
            condition = max(condition, size * float(worst.max()))
    return condition


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
