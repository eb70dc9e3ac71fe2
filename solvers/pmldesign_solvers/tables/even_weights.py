r"""Weights of sets where the largest variance counts (p = inf), or the largest distance (replace).

The Gram matrix is sum_S s_S (x)_{i in S} X0_i (x) 1 1^T (`free_vector`), and
query q has the variance sum_S b_qS / s_S. The squared sensitivity is a largest sum of d_US s_S: a
single one with d = 1 under add-remove. Whatever the X0_i, the best s minimises

    log max_q sum_S b_qS / s_S  +  log max_U sum_S d_US s_S,

convex in log s (a geometric program), both maxima as log-sum-exp, sharper and sharper.

p = inf.  A variance is linear in the numbers (t, h) of each of the query's factors (`variances`),
so that only extreme pairs matter; those of a few directions stand for all.

Replace.  Two cells that differ in the attributes U have half the squared distance
sum_S s_S (1 - prod_{i in S and U} X0_i[x_i, y_i]), largest at the least entries of the X0_i.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy

from pmldesign_solvers.operators.lbfgs import best_point
from pmldesign_solvers.operators.operator import TINY, Array
from pmldesign_solvers.tables.problem import Attributes

SHARPNESS = (20.0, 80.0, 320.0, 1280.0)
"""Of log-sum-exp in turn: with n terms it is at most log(n) / 1280 too large in the end."""
STAGE_STEPS = 300
"""Of L-BFGS, for each sharpness; 60 to 110 are taken for the tables of fourteen attributes."""
DIRECTIONS = 9
"""Of extreme queries; 5 lose 3e-3 on tables of eight attributes, 17 gain nothing."""
LEAST_START = 1e-9
"""Of s at the start, as a part of the largest."""
ALL_SETS = 8
"""Up to so many attributes all U count; beyond, those that leave out two of them at most."""


def even_weights(
    variances: scipy.sparse.csr_matrix,
    lengths: Array | None = None,
    *,
    proceed: Callable[[], bool] = lambda: True,
) -> Array:
    """The s of sum 1 that minimise the largest variance times the largest length.

    Args:
        variances: b, a row for each query, >= 0, every column with an entry above 0.
        lengths: d, a row for each U, >= 0; None for the sum of s.
        proceed: asked after every step; False ends with the best so far.
    """
    lengths = np.ones((1, variances.shape[1])) if lengths is None else lengths
    start = np.sqrt(np.asarray(variances.mean(axis=0)).ravel())
    y = np.log(np.maximum(start, LEAST_START * start.max()))
    for sharpness in SHARPNESS:

        def value(y: Array, sharpness: float = sharpness) -> tuple[float, Array]:
            spread, by_spread = _log_largest(variances, np.exp(-y), sharpness)
            length, by_length = _log_largest(lengths, np.exp(y), sharpness)
            return spread + length, by_length - by_spread

        y = best_point(value, y - log_sum(y)[0], steps=STAGE_STEPS, proceed=proceed)
    return log_sum(y)[1]


def _log_largest(
    rows: scipy.sparse.csr_matrix | Array, x: Array, sharpness: float
) -> tuple[float, Array]:
    """Log of the largest sum of rows times x, smoothly, and its slopes by log x."""
    sums = rows @ x
    logs = sharpness * np.log(np.maximum(sums, TINY))
    value, shares = log_sum(logs)
    return value / sharpness, np.asarray(rows.T @ (shares / np.maximum(sums, TINY))) * x


def log_sum(logs: Array) -> tuple[float, Array]:
    """Log sum exp, and its slopes: of one exponential, without the checks of scipy."""
    largest = float(logs.max())
    shares = np.exp(logs - largest)
    total = float(shares.sum())
    return largest + math.log(total), shares / total


def extreme_queries(numbers: Array) -> Array:
    """Pairs (t, h) of a factor's queries that are largest in some direction, shape (k, 2)."""
    angles = np.linspace(0, np.pi / 2, DIRECTIONS)
    scaled = numbers / np.maximum(numbers.max(axis=0), TINY)
    largest = (scaled @ np.array([np.cos(angles), np.sin(angles)])).argmax(axis=0)
    return np.asarray(numbers[np.unique(largest)])


def variance_rows(
    numbers: Sequence[Array],
    attribute: Sequence[int],
    tables: Sequence[tuple[int, ...]],
    scales: Array,
    places: Mapping[Attributes, int],
) -> scipy.sparse.csr_matrix:
    """B of all combinations of some queries of each table.

    Args:
        numbers: (t, h) of these queries, for each factor.
        attribute: of each factor.
        tables: the factors of each.
        scales: omega_T.
        places: the column of each S; sets that are missing are measured without noise.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for number, table in enumerate(tables):
        alike.setdefault(tuple(len(numbers[k]) for k in table), []).append(number)
    rows, columns, values, count = [], [], [], 0
    for chosen in alike.values():
        block = (scales[chosen] ** 2)[:, None, None]
        for factors in zip(*(tables[number] for number in chosen), strict=True):
            pairs = np.array([numbers[k] for k in factors])
            block = np.einsum("kqs,kab->kqasb", block, pairs)
            block = block.reshape(len(chosen), block.shape[1] * block.shape[2], -1)
        sets = np.array([_columns(tables[number], attribute, places) for number in chosen])
        where = np.broadcast_to(sets[:, None, :], block.shape)
        row = count + np.arange(block.shape[0] * block.shape[1]).reshape(*block.shape[:2], 1)
        count += block.shape[0] * block.shape[1]
        kept = (where >= 0) & (block > 0)
        rows.append(np.broadcast_to(row, block.shape)[kept])
        columns.append(where[kept])
        values.append(block[kept])
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.csr_matrix(entries, shape=(count, len(places)))


def _columns(
    table: tuple[int, ...], attribute: Sequence[int], places: Mapping[Attributes, int]
) -> list[int]:
    """The columns of all sets of attributes of a table, the last one changing fastest."""
    chosen = itertools.product(*(((), (attribute[k],)) for k in table))
    return [places.get(sum(members, ()), -1) for members in chosen]


def length_rows(least: Mapping[int, float], sets: Sequence[Attributes]) -> Array:
    """Half the squared distances of cells, a row for each U.

    Args:
        least: the least entry of X0_i, for each attribute.
        sets: S.
    """
    inside = np.array([[i in members for i in least] for members in sets])
    values = np.where(inside, np.array(list(least.values())), 1.0)
    return np.array([1 - values[:, apart].prod(axis=1) for apart in differing(len(least))])


def differing(count: int) -> Array:
    """The sets U of so many attributes in which two cells may differ, a row of booleans for each.

    All but the empty one for up to ALL_SETS attributes; beyond, those that leave out two at most.
    """
    left_out = count - 1 if count <= ALL_SETS else 2
    rows = [
        np.isin(np.arange(count), alike, invert=True)
        for few in range(left_out + 1)
        for alike in itertools.combinations(range(count), few)
    ]
    return np.array(rows, dtype=bool).reshape(-1, count)
