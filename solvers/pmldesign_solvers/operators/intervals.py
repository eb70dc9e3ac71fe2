"""Sums over intervals of cells, and which of them are alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import BLOCK_BYTES, EPS, Array, Indices

MANY = 4
"""More ranges than this many times the number of cells share the work of their norms."""
NEGLIGIBLE_ROUNDING = 1e-10
"""Rounding of a norm, relative to it, that is not worth computing the norm more closely."""


def prefix_sums(rows: Array) -> Array:
    """Sums of the first t rows, t = 0 ... n, row by row: `cumsum` goes by entries, much slower."""
    sums = np.zeros((len(rows) + 1, rows.shape[1]))
    for row, before, after in zip(rows, sums, sums[1:], strict=False):
        np.add(before, row, out=after)
    return sums


def squared_distances(points: Array, first: Indices, second: Indices) -> Array:
    """norm(x_second - x_first)^2 for rows x of the points."""
    values = np.empty(first.size)
    step = max(1, BLOCK_BYTES // (16 * max(1, points.shape[1])))
    for start in range(0, first.size, step):
        pairs = slice(start, start + step)
        moves = points[second[pairs]] - points[first[pairs]]
        values[pairs] = np.einsum("ij,ij->i", moves, moves)
    return values


def separable_trace(first: Array, last: Array, points: Array) -> float:
    """Tr B^T G B for G_ij = u_min(i,j) v_max(i,j) and B of shape (n, k).

    By sum_i v_i b_i (2 s_i - u_i b_i), s_i = sum_{j <= i} u_j b_j, for every column b.
    """
    n, k = points.shape
    step, total = max(1, BLOCK_BYTES // (32 * n)), 0.0
    for start in range(0, k, step):
        columns = np.ascontiguousarray(points[:, start : start + step].T)
        own = columns * first
        total += float(((2 * np.cumsum(own, axis=1) - own) * columns).sum(axis=0) @ last)
    return total


def norms_between(sums: Array, starts: Indices, stops: Indices) -> Array:
    """norm(f_t - f_s)^2 for every range and rows f of the sums, rounded up."""
    rows, columns = sums.shape
    if starts.size <= MANY * (rows - 1):
        return squared_distances(sums, starts, stops)
    products = sums @ sums.T
    sizes = products.diagonal()
    both = sizes[starts] + sizes[stops]
    values = both - 2.0 * products.ravel()[starts * rows + stops]
    rounding = 2.0 * (columns + 4) * EPS * both
    close = rounding > NEGLIGIBLE_ROUNDING * values
    values += rounding
    values[close] = squared_distances(sums, starts[close], stops[close])
    return np.asarray(values)


def numbered(keys: Indices, dropped: NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """As first_seen, for integers."""
    kept = np.flatnonzero(~dropped)
    _, first, inverse = np.unique(keys[kept], return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    labels = np.full(keys.size, -1, dtype=np.intp)
    labels[kept] = rank[inverse]
    return kept[np.sort(first)], labels


def latest_start(starts: Indices, stops: Indices, cells: int) -> Indices:
    """For each cell the latest start of the ranges that contain it, -1 where none does."""
    longest = np.zeros(cells + 1, dtype=np.intp)
    np.maximum.at(longest, starts, stops)
    latest = np.full(cells, -1, dtype=np.intp)
    open_starts: list[int] = []
    for cell, reach in enumerate(longest[:-1].tolist()):
        if reach > cell:
            open_starts.append(cell)
        while open_starts and longest[open_starts[-1]] <= cell:
            open_starts.pop()
        if open_starts:
            latest[cell] = open_starts[-1]
    return latest
