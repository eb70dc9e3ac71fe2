r"""Half-widths of intervals for answers, and what their standard deviations say about them.

The error of an answer under noise of scale 1 is V = sum_j l_j eta_j, l a row of L. Gaussian: the
half-width at a level is z times the standard deviation, z the (1 + level)/2 quantile. Laplace: the
law of V is inverted (`laplace_sums`).

V, a sum of Laplace numbers, has a symmetric log-concave density. Let h be its half-width, m =
1 - level and S(x) = P(V > x). S is convex on x > 0, so that S(x) <= 1/2 - level x / (2 h) up to h;
-log S is convex too, so that beyond h it grows at least as fast as on average before, by
log(1/m) / h for each unit. Hence

    Var V = 4 int x S(x) dx <= h^2 (1 - 2 level/3 + 2 m (1/k + 1/k^2)),      k = log(1/m),

a half-width that no Laplace noise of a standard deviation goes below: 1.56 times that at level
0.95, where Gaussian noise has 1.96 times.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign.factorization import Factorization
from pmldesign.privacy.noise import Noise
from pmldesign_solvers.search.laplace_sums import (
    condensed_half_widths,
    laplace_half_widths,
    moment_bound,
)

LONG, MOST_ENTRIES = 256, 2**26
"""Entries of a row of L from which it is condensed, and of L from which variances alone tell; both
as in releases."""
WIDTH_ROUNDING = 1e-7
"""Relative, of a half-width of Laplace noise: its law is inverted to 1e-9 or better."""


def largest_size(factorization: Factorization, noise: Noise, level: float | None) -> float:
    """Largest half-width of an answer under noise of scale 1, rounded up.

    Args:
        factorization: of the queries.
        noise: Gaussian or Laplace.
        level: of the intervals; None for the largest standard deviation.
    """
    if level is None or noise is Noise.GAUSSIAN:
        spread = factorization.unit_error(noise, math.inf)
        return spread if level is None else spread * gaussian_quantile(level) * (1 + 1e-14)
    strategy, miss = factorization.strategy, 1 - level
    m, entries = factorization.workload.shape[0], strategy.shape[0]
    if m * max(entries, strategy.cells) > MOST_ENTRIES:
        spreads = math.sqrt(2) * factorization.deviations
        return float(moment_bound(spreads, miss).max()) * (1 + WIDTH_ROUNDING)
    rows = np.abs(strategy.reconstruction(factorization.workload))
    law_of = laplace_half_widths if entries <= LONG else condensed_half_widths
    return float(law_of(rows, miss).max()) * (1 + WIDTH_ROUNDING)


def least_share(noise: Noise, level: float | None) -> float:
    """What the half-width of an answer is at least, over its standard deviation, rounded down."""
    if level is None:
        return 1.0
    if noise is Noise.GAUSSIAN:
        return gaussian_quantile(level) * (1 - 1e-14)
    miss = 1 - level
    rate = -math.log(miss)
    return (1 - 1e-14) / math.sqrt(1 - 2 * level / 3 + 2 * miss * (1 / rate + 1 / rate**2))


def gaussian_quantile(level: float) -> float:
    """The half-width of N(0, 1) at a level."""
    return float(scipy.special.ndtri((1 + level) / 2))
