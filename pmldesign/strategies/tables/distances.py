r"""Lengths and distances of the columns of a strategy for tables.

Without couplings the Gram matrix is sum_S s_S (x)_{i in S} X0_i (x) 1 1^T, X0_i of diagonal 1. Two
cells that differ in the attributes U have the squared distance

    2 sum_S s_S (1 - prod_{i in S and U} X0_i[x_i, y_i]),

linear in each entry, so that it is largest where every attribute in U takes its least entry: all
sets U are tried for up to MAX_ATTRIBUTES attributes. Columns that are shorter count as if they were
of length 1; but an attribute that is in no S but its own counts with the largest distance of its
columns, whatever the others do. For more attributes every S counts with the least that its product
can be; with couplings, two columns are at most twice the longest one apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pmldesign.strategies.marginals.contrast_basis import largest_column as longest_contrasts
from pmldesign.strategies.tables.lengths import squared_lengths, unit_sectors
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.sectors import Sector
from pmldesign_solvers.tables.upper.columns import largest_column

MAX_ATTRIBUTES = 14
"""Their 2^14 sets times some hundreds of tables take a second."""


def farthest(
    sizes: Sequence[int],
    ordered: Mapping[int, Measured],
    features: Mapping[int, int],
    sectors: Sequence[Sector],
) -> float:
    """Largest l2 distance of two columns, or a bound above it, rounded up."""
    rho = squared_lengths(ordered)
    sectors = unit_sectors(sectors, features, rho)
    kept = [
        sector for sector in sectors if sector.plain or sector.spectators or () not in sector.sets
    ]
    if any(features.values()):
        inner = [
            Sector((), (), sector.sets[1:], sector.matrix[1:, 1:])
            for sector in sectors
            if not sector.plain
            and not sector.spectators
            and sector.sets[:1] == ((),)
            and len(sector.sets) > 1
        ]
        return 2 * math.sqrt(largest_column([*kept, *inner], features))
    weights = {sector.plain + sector.spectators: float(sector.matrix[0, 0]) for sector in kept}
    used = sorted(set().union(*weights))
    least = np.array([_least(sizes[i], ordered.get(i), rho.get(i, 1.0)) for i in used])
    s = np.array(list(weights.values()))
    inside = np.array([[i in members for i in used] for members in weights])
    values = np.where(inside, least, 1.0)
    for place, i in enumerate(used):
        (rows,) = np.nonzero(inside[:, place])
        if i in ordered and inside[rows].sum() == 1:  # {i}, and no other S with i
            values[rows, place] = max(least[place], _half_distance(ordered[i], rho[i]))
    if len(used) > MAX_ATTRIBUTES:
        entries = (row[members] for row, members in zip(values, inside, strict=True))
        smallest = np.array([min(float(row.min()), float(row.prod())) for row in entries])
        square = 2 * float(s @ (1 - smallest))
    else:
        products = np.ones((len(s), 1))
        for column in values.T:
            products = np.hstack([products, products * column[:, None]])
        square = 2 * float((s.sum() - s @ products).max())
    # of a small difference of large sums the rounding counts beside it
    square += (len(s) + len(used) + 20) * EPS * float(s.sum())
    longest = 1 + sum(sizes[i] for i in used) * EPS
    return math.sqrt(max(square, 0.0) * longest) * (1 + (len(s) + 100) * EPS)


def longest_l1(
    sizes: Sequence[int],
    ordered: Mapping[int, Measured],
    features: Mapping[int, int],
    sectors: Sequence[Sector],
) -> float:
    """At least the largest l1 norm of a column."""
    total = 0.0
    for sector in sectors:
        mixing = np.abs(np.linalg.cholesky(sector.matrix)).sum(axis=1)
        tops = [_tops(ordered, features, s) for s in sector.sets]
        rest = math.prod(
            float(np.abs(ordered[i].rows[features[i] :]).sum(axis=0).max())
            for i in sector.spectators
        )
        plain = math.prod(_longest_plain(sizes[i]) for i in sector.plain)
        total += float(mixing @ np.concatenate(tops)) * rest * plain
    order = max(len(sector.matrix) for sector in sectors)
    return total * (1 + (len(sectors) + sum(sizes) + (order + 2) ** 2 + 200) * EPS)


def _tops(ordered: Mapping[int, Measured], features: Mapping[int, int], s: Sequence[int]) -> Array:
    """The largest size of each product of features of a set."""
    tops = np.ones(1)
    for i in s:
        largest = np.abs(ordered[i].rows[: features[i]]).max(axis=1)
        tops = np.multiply.outer(tops, largest).ravel()
    return tops


def _longest_plain(size: int) -> float:
    return math.sqrt(size / (size - 1)) * longest_contrasts(size)


def _half_distance(ordered: Measured, rho: float) -> float:
    """1 - d^2 / 2 for the largest distance d of two columns, rounded down."""
    gram = ordered.rows.T @ ordered.rows
    lengths = gram.diagonal()
    square = float((lengths[:, None] + lengths - 2 * gram).max()) / rho
    return 1 - square / 2 - 4 * (len(gram) + 2) * EPS


def _least(size: int, ordered: Measured | None, rho: float) -> float:
    """The least entry of X0, rounded down."""
    if ordered is None:
        return -1.0 / (size - 1) * (1 + EPS)
    gram = ordered.rows.T @ ordered.rows
    return float(gram.min()) / rho - 2 * (size + 2) * EPS
