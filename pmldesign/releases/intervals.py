r"""Intervals for the answers, from the exact law of their noise.

The error of answer i is V = sum_j l_j eta_j, l row i of L diag(u).

Cube. V = b G S, with G of Gamma(r + 1) and S = sum_j l_j u_j, the u_j uniform on [-1, 1]. So P(|V|
> h) = E Q(r + 1, h / (b |S|)), Q the upper incomplete gamma function. The distribution function of
S is one of a uniform number, averaged over [-l_j, l_j] once for every other j, on a grid; the mass
of a cell of the grid counts at its far end, which makes widths a little larger, never smaller.

On a lattice, z + e with e uniform on [-1/2, 1/2]^r has a density within e^(+-1/(2b)) of that of the
cube, and its constant is within the same factor. So the chance of a miss is at most e^(1/b) times
that of the cube with h less norm(l)_1 / 2. All together as for Laplace noise.

Gaussian. V is Gaussian of standard deviation s norm(l) (to 1e-30 at the scales of a lattice); the
half-width is a quantile. All intervals together: level^(1/m) for each (Sidak).

Several releases. V is a sum of their parts: Gaussian if all are, or else a Laplace sum and an
independent Gaussian number, by the same inversion.

Laplace. On the grid of the measurements themselves V has an exact law (`mechanisms.discrete`), if
rows of L are small integers times a unit. Otherwise, a discrete Laplace number is the difference of
two floors of exponentials, so V is within norm(l)_1 of the same sum of continuous Laplace numbers,
whose law `laplace_sums` inverts. All intervals together: 1 - (1 - level) / m for each (Bonferroni).
If L is too large to be materialized, products and weighted tables have few kinds of rows
(`row_kinds`). Otherwise there is an upper bound: for given variance v of V the moment generating
function is largest if one measurement has all of it, hence P(|V| > h) <= 2 min_x e^(-x h) / (1 -
x^2 v / 2).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.arguments import number
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import discrete_half_widths
from pmldesign.privacy.noise import Noise
from pmldesign.releases.noise import AnswerNoise
from pmldesign.strategies.row_kinds import RowKinds, rows_by_kind
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.laplace_sums import MOST_ENTRIES, laplace_half_widths, moment_bound

LARGEST_L = 2**22
"""Entries of L from which kinds of rows are looked for."""
CELLS = 4000
"""Of the grid over the values of S."""
GRID_ROUNDING = 1e-6
"""Added to every value of a distribution function on the grid, beyond its ends."""
HALVINGS = 60
"""Of the interval that contains a half-width."""


def half_widths(noise: AnswerNoise, level: float, *, simultaneous: bool = False) -> Array:
    """Half of the width of the interval around every answer, shape (m,).

    Args:
        noise: of the answers.
        level: the chance that the interval covers the truth, in (0, 1).
        simultaneous: all intervals together, rather than each.

    Raises:
        InvalidInputError: the level is out of range.
    """
    queries, kinds = noise.factorization.workload, {law.kind for law in noise.laws}
    miss = missed(noise, level, queries.shape[0] if simultaneous else 1)
    if kinds == {Noise.GAUSSIAN}:
        return np.asarray(float(-scipy.special.ndtri(miss / 2)) * noise.deviations)
    if len(noise.laws) > 1:
        return _mixed_widths(noise, miss)
    (law,), strategy = noise.laws, noise.factorization.strategy
    m, r = queries.shape[0], law.units.size
    if law.kind is Noise.CUBE:
        check_entries("the reconstruction, which intervals of cube noise need,", (m, r))
    entries = m * max(r, strategy.cells)  # of L, or of the matrices from which it is computed
    if entries > LARGEST_L and law.kind is not Noise.CUBE:
        kinds_of_rows = rows_by_kind(strategy, queries, LARGEST_L)
        if kinds_of_rows:
            unit = float(law.units.max())
            return np.concatenate(
                [_widths_of(part, unit, law.scale, miss) for part in kinds_of_rows]
            )
    if entries > MOST_ENTRIES and law.kind is not Noise.CUBE:
        return moment_bound(noise.deviations, miss) * (1 + 1e-9)
    rows = np.abs(strategy.reconstruction(queries)) * law.units
    if law.kind is Noise.CUBE:
        return cube_half_widths(rows, law.scale, miss)
    if law.own_grid and (exact := discrete_half_widths(rows, law.scale, miss)) is not None:
        return exact
    return np.asarray(laplace_half_widths(rows * law.scale, miss) + rows.sum(axis=1))


def _mixed_widths(noise: AnswerNoise, miss: float) -> Array:
    """Half-widths of answers from several releases, with Laplace and Gaussian noise."""
    queries, strategy = noise.factorization.workload, noise.factorization.strategy
    sizes = np.abs(strategy.reconstruction(queries))
    parts = np.split(sizes, np.cumsum([law.units.size for law in noise.laws])[:-1], axis=1)
    units = [part * law.units for part, law in zip(parts, noise.laws, strict=True)]
    gaussian, laplace = np.zeros(len(sizes)), [np.zeros((len(sizes), 1))]
    rounding = np.zeros(len(sizes))
    for part, law in zip(units, noise.laws, strict=True):
        if law.kind is Noise.GAUSSIAN:
            gaussian += law.scale**2 * (part**2).sum(axis=1)
        else:
            laplace.append(part * law.scale)
            rounding += part.sum(axis=1)
    widths = laplace_half_widths(np.hstack(laplace), miss, gaussian=np.sqrt(gaussian))
    return np.asarray(widths + rounding)


def missed(noise: AnswerNoise, level: float, count: int) -> float:
    """The chance with which each of so many intervals misses, so that all hold at a level.

    Raises:
        InvalidInputError: the level is out of range.
    """
    level = number("level", level)
    if not 0 < level < 1:
        raise InvalidInputError(f"level must be in (0, 1), got {level}; take for example 0.95")
    if {law.kind for law in noise.laws} == {Noise.GAUSSIAN} and count > 1:
        return -math.expm1(math.log(level) / count)
    return (1 - level) / count


def _widths_of(part: RowKinds, unit: float, scale: float, miss: float) -> Array:
    """Half-widths of consecutive rows, shape (rows,)."""
    widths = []
    for entries, counts in part.chunks:
        values = entries * unit
        law = laplace_half_widths(values * scale, miss, counts)
        widths.append(law + (values * counts).sum(axis=1))
    return np.asarray(np.concatenate(widths)[part.places])


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
    """At b = 1, of weights in decreasing order that begin with 1."""
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
