r"""Intervals for answers with cube noise.

An answer is off by V = sum_j l_j z_j = b G S, with G of Gamma(r + 1) and S = sum_j l_j u_j, the u_j
uniform on [-1, 1]. So P(|V| > h) = E Q(r + 1, h / (b |S|)), Q the upper incomplete gamma function.
The distribution function of S is one of a uniform number, averaged over [-l_j, l_j] once for every
other j, on a grid; the mass of a cell of the grid counts at its far end, which makes widths a
little larger, never smaller.

On a lattice, z + e with e uniform on [-1/2, 1/2]^r has a density within e^(+-1/(2b)) of that of the
cube, but for its constant within the same. So the chance of a miss is at most e^(1/b) times that of
the cube with h less norm(l)_1 / 2.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array

CELLS = 4000
"""Of the grid over the values of S."""
GRID_ROUNDING = 1e-6
"""Added to every value of a distribution function on the grid, beyond its ends."""
HALVINGS = 60
"""Of the interval that contains a half-width."""


def cube_half_widths(rows: Array, scale: float, miss: float) -> Array:
    """The h with P(|V| > h) <= miss on a lattice, shape (m,).

    Args:
        rows: L in units of the lattice, shape (m, r).
        scale: b, in units of the lattice.
        miss: in (0, 1).
    """
    sizes = np.sort(np.abs(rows), axis=1)[:, ::-1]
    units = np.where(sizes[:, 0] > 0, sizes[:, 0], 1.0)
    distinct, back = np.unique((sizes / units[:, None]).round(12), axis=0, return_inverse=True)
    spared = miss * math.exp(-1 / scale)
    widths = np.array([_half_width(row, rows.shape[1], spared) for row in distinct])
    return np.asarray(widths[back.ravel()] * scale * units + sizes.sum(axis=1) / 2)


def _half_width(row: Array, r: int, miss: float) -> float:
    """At b = 1, of weights in falling order, the first of which is 1."""
    if row[0] == 0:
        return 0.0
    ends, masses = _law_of_size(row[row > 0])

    def missed(h: float) -> float:
        return float(masses @ scipy.special.gammaincc(r + 1, h / ends))

    low, high = 0.0, float(row.sum())
    while missed(high) > miss:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) > miss else (low, middle)
    return high


def _law_of_size(weights: Array) -> tuple[Array, Array]:
    """Far ends of cells, and the chances of |S| in each, shifted outwards; shape (CELLS,) each."""
    reach = float(weights.sum())
    grid = np.linspace(-reach, reach, 2 * CELLS + 1)
    step = grid[1] - grid[0]
    below = np.clip((grid / weights[0] + 1) / 2, 0.0, 1.0)
    for weight in weights[1:]:
        if weight < step:  # moves S by less than a cell: the far end of the next one is far enough
            continue
        area = np.concatenate([[0.0], np.cumsum((below[1:] + below[:-1]) / 2 * step)])
        ahead = np.interp(grid + weight, grid, area) + np.maximum(grid + weight - reach, 0.0)
        below = (ahead - np.interp(grid - weight, grid, area)) / (2 * weight)
    skipped = int((weights[1:] < step).sum())
    above = np.clip(2 * (1 - below[CELLS:]) + GRID_ROUNDING, 0.0, 1.0)
    above[0], above[-1] = 1.0, 0.0
    return grid[CELLS + 1 :] + (1 + skipped) * step, above[:-1] - above[1:]
