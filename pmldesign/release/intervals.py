r"""Intervals for the answers, from the exact law of their noise.

The error of answer i is V = sum_j l_j eta_j, l row i of L diag(u).

Cube. `cube_intervals`; all together as for Laplace noise.

Gaussian. V is Gaussian of standard deviation s norm(l) (to 1e-30 at the scales of a lattice); the
half-width is a quantile. All intervals together: level^(1/m) for each (Sidak).

Laplace. On the grid of the measurements themselves V has an exact law (`own_grid`), where rows of L
are small whole numbers times a unit. Elsewhere, a discrete Laplace number is the difference of two
floors of exponentials, so V is within norm(l)_1 of the same sum of continuous ones, of which
`laplace_sums` inverts the law. All intervals together: 1 - (1 - level) / m for each (Bonferroni).
Where L is too large to be written out,
products and weighted tables have few kinds of rows (`Strategy.row_kinds`). Otherwise
there is an upper bound: for given variance v of V the moment generating function is largest if one
measurement has all of it, hence P(|V| > h) <= 2 min_x e^(-x h) / (1 - x^2 v / 2).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.arguments import number
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.noise import Noise
from pmldesign.release.noise.cube_intervals import cube_half_widths
from pmldesign.release.noise.exact import ExactNoise
from pmldesign.release.noise.own_grid import discrete_half_widths
from pmldesign.strategies.rows.kinds import RowKinds
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.laplace_sums import (
    condensed_half_widths,
    laplace_half_widths,
    moment_bound,
)

LARGEST_L, MOST_ENTRIES = 2**22, 2**26
"""Entries of L from which kinds of rows are looked for, and that are written out at all."""
LONG = 256
"""Entries of a row from which it is condensed: 4096 rows take two seconds."""


def half_widths(noise: ExactNoise, level: float, *, simultaneous: bool = False) -> Array:
    """Half of the width of the interval around every answer, shape (m,).

    Args:
        noise: what was added.
        level: the chance that the interval covers the truth, in (0, 1).
        simultaneous: all intervals together, rather than each.

    Raises:
        InvalidInputError: the level is out of range.
    """
    if not 0 < number("level", level) < 1:
        raise InvalidInputError(f"level must be in (0, 1), got {level}; take for example 0.95")
    mechanism, lattice = noise.mechanism, noise.lattice
    m, r = mechanism.workload.shape[0], lattice.units.size
    miss = 1 - level
    if noise.mechanism.noise is Noise.GAUSSIAN:
        if simultaneous:
            miss = -math.expm1(math.log(level) / m)
        return np.asarray(float(-scipy.special.ndtri(miss / 2)) * deviations(noise))
    if simultaneous:
        miss /= m
    if mechanism.noise is Noise.CUBE:
        check_entries("the reconstruction, which intervals of cube noise need,", (m, r))
    entries = m * max(r, lattice.estimator.cells)  # of L, or of what it is computed from
    if entries > LARGEST_L and mechanism.noise is not Noise.CUBE:
        kinds = lattice.estimator.row_kinds(mechanism.workload, LARGEST_L)
        if kinds:
            unit = float(lattice.units.max())
            return np.concatenate([_widths_of(part, unit, noise.scale, miss) for part in kinds])
    if entries > MOST_ENTRIES and mechanism.noise is not Noise.CUBE:
        return moment_bound(deviations(noise), miss) * (1 + 1e-9)
    rows = np.abs(lattice.estimator.reconstruction(mechanism.workload)) * lattice.units
    if mechanism.noise is Noise.CUBE:
        return cube_half_widths(rows, noise.scale, miss)
    if noise.on_own_grid and (exact := discrete_half_widths(rows, noise.scale, miss)) is not None:
        return exact
    law_of = laplace_half_widths if r <= LONG else condensed_half_widths
    return np.asarray(law_of(rows * noise.scale, miss) + rows.sum(axis=1))


def _widths_of(part: RowKinds, unit: float, scale: float, miss: float) -> Array:
    """Half-widths of consecutive rows, shape (rows,)."""
    widths = []
    for entries, counts in part.chunks:
        values = entries * unit
        law_of = laplace_half_widths if values.shape[1] <= LONG else condensed_half_widths
        law = law_of(values * scale, miss, counts)
        widths.append(law + (values * counts).sum(axis=1))
    return np.asarray(np.concatenate(widths)[part.places])


def deviations(noise: ExactNoise) -> Array:
    """Standard deviation of every answer, shape (m,)."""
    return np.asarray(noise.deviation * np.sqrt(noise.factorization.variances))
