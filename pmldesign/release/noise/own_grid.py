r"""Strategies whose measurements are whole numbers already, on their own grid.

If R is a number u > 0 times a matrix Z of whole numbers, Z x is whole without any rounding, and
discrete Laplace noise on it has less variance than Laplace noise: with q = e^(-1/b)

    2 q / (1 - q)^2 = 1 / (2 sinh(1 / (2 b))^2) < 2 b^2,

the less so the smaller b is; no finer grid does better. What is lost are the other currencies: the
loss of one step of 1 is randomized response, and epsilon alone is claimed. Of an answer
V = g sum_j c_j eta_j with whole c_j the law is on multiples of g, by the discrete Fourier transform
of

    E e^(i t eta) = (1 - q)^2 / (1 - 2 q cos t + q^2).

N points fold the law of sum_j c_j eta_j into one period; they are so many that what lies beyond
half of it has a negligible chance, by Chernoff's inequality.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.guarantees import ApproxDP, PureDP
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.strategy import person_rows
from pmldesign.strategies.whole.integers import times
from pmldesign.strategies.whole.lattice import Lattice
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array

LARGEST_ENTRY = 2**20
"""Of Z: beyond that the noise is many units wide, and a finer grid as good."""
SAME = 1e-12
"""Relative error within which a quotient of entries counts as a whole number."""
COARSE = 2.0**12
"""Parameters from which the variance of the cube is that of the continuous one, to 1e-7."""
DENOMINATORS = 256
"""Largest denominator of the unit of a row of L that is looked for."""
SAME_MULTIPLE = 1e-9
"""Relative error within which an entry of L counts as a multiple of the unit."""
MOST_TERMS = 2**24
"""Points of a transform times measurements."""
FOLDED = 1e-15
"""Chance of what the transform folds; and its rounding."""


def own_lattice(strategy: Strategy) -> Lattice | None:
    """R = u Z on the grid of Z; None where R is no such matrix, or too large to look."""
    if strategy.cells > WRITTEN_CELLS or strategy.public:
        return None
    matrix = strategy.matrix
    sizes = np.abs(matrix)
    unit = float(sizes[sizes > 0].min())
    whole = np.rint(matrix / unit)
    if sizes.max() > LARGEST_ENTRY * unit or (np.abs(matrix - whole * unit) > SAME * sizes).any():
        return None
    measured = Strategy(strategy.name, whole * unit)
    rows = whole.astype(np.int64)
    units = np.full(len(rows), unit)
    people = person_rows(strategy)
    return Lattice(measured, measured, units, partial(times, rows), rows, rows=people)


def variance(noise: Noise, scale: float, measurements: int) -> float:
    """Of one number of discrete noise; of Gaussian noise s^2, which it does not exceed.

    The cube is a mixture of uniform laws on {-r, ..., r}^d, with variance r (r + 1)/3 and weights
    (2 r + 1)^d e^(-r / b).
    """
    if noise is Noise.GAUSSIAN:
        return scale**2
    if noise is Noise.CUBE:
        if scale > COARSE:
            return scale**2 * noise.variance(measurements)
        r = np.arange(math.ceil((measurements + 60) * (scale + 1)) * 2, dtype=np.float64)
        logs = measurements * np.log(2 * r + 1) - r / scale
        weights = np.exp(logs - logs.max())
        return float(weights @ (r * (r + 1)) / 3 / weights.sum())
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def own_grid_gain(mechanism: Mechanism) -> tuple[float, float] | None:
    """What a release of Laplace noise gains on the grid of the measurements themselves.

    With b in units of the grid, for an integer sensitivity D, the variance 1/(2 sinh(e/(2 D))^2) of
    the budget e is 2 b^2 at e = 2 D arsinh(1/(2 b)).

    Returns:
        Standard deviations as a part of those of the mechanism, and the epsilon that has the same
        ones as the mechanism; None for other noise, or strategies that are not whole.
    """
    guarantee, scale = mechanism.guarantee, mechanism.scale
    if (
        mechanism.noise is not Noise.LAPLACE
        or scale == 0
        or not isinstance(guarantee, PureDP | ApproxDP)
    ):
        return None
    lattice = own_lattice(mechanism.strategy)
    if lattice is None:
        return None
    sensitivity, _ = lattice.sensitivity(mechanism.neighbours, Noise.LAPLACE)
    parameter = sensitivity / guarantee.epsilon
    continuous = scale / float(lattice.units[0])
    deviation = math.sqrt(variance(Noise.LAPLACE, parameter, len(lattice.units)))
    epsilon = 2 * sensitivity * math.asinh(1 / (2 * continuous))
    return deviation / (math.sqrt(2.0) * continuous), epsilon


def discrete_half_widths(rows: Array, scale: float, miss: float) -> Array | None:
    """The least h with P(|V| > h) <= miss, V = sum_j rows_ij times discrete Laplace, shape (m,).

    Args:
        rows: shape (m, r).
        scale: b.
        miss: in (0, 1).

    Returns:
        None where a row is no multiple of small whole numbers, or the transform is too long.
    """
    ordered = np.sort(np.abs(rows), axis=1)
    distinct, back = np.unique(ordered, axis=0, return_inverse=True)
    widths = np.zeros(len(distinct))
    for place, row in enumerate(distinct):
        found = _half_width(row[row > 0], scale, miss)
        if found is None:
            return None
        widths[place] = found
    return np.asarray(widths[back.ravel()])


def _half_width(row: Array, scale: float, miss: float) -> float | None:
    if row.size == 0:
        return 0.0
    unit = _unit_of(row)
    if unit is None:
        return None
    whole, ratio = np.rint(row / unit), math.exp(-1 / scale)
    if row.size == 1:  # P(|eta| > h) = 2 q^(h + 1) / (1 + q)
        least = math.ceil(-scale * math.log(miss * (1 + ratio) / 2) * (1 + 1e-12)) - 1
        return max(least, 0) * float(row[0])
    points = 2 ** math.ceil(math.log2(2 * _reach(whole, scale) + 2))
    if points * row.size > MOST_TERMS or miss < 1e3 * FOLDED:
        return None
    angles = 2 * np.pi / points * np.arange(points // 2 + 1)
    law = np.ones(len(angles))
    for value, count in zip(*np.unique(whole, return_counts=True), strict=True):
        law *= ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(value * angles) + ratio**2)) ** count
    chances = np.fft.irfft(law, points)[: points // 2]
    covered = 2 * np.cumsum(chances) - chances[0]
    reached = np.flatnonzero(covered >= 1 - miss + 100 * FOLDED)
    return float(reached[0] * unit) if reached.size else None


def _unit_of(row: Array) -> float | None:
    """The largest part of its first entry of which all of a row are multiples."""
    for denominator in range(1, DENOMINATORS + 1):
        unit = float(row[0]) / denominator
        if (np.abs(np.rint(row / unit) * unit - row) < SAME_MULTIPLE * row).all():
            return unit
    return None


def _reach(whole: Array, scale: float) -> float:
    """An h with P(|sum_j c_j eta_j| > h) <= FOLDED: e^(-x h) times the generating function."""
    ratio, best = math.exp(-1 / scale), math.inf
    for x in np.geomspace(0.05, 0.95, 12) / (scale * float(whole.max())):
        moments = np.log((1 - ratio) ** 2 / (1 - 2 * ratio * np.cosh(x * whole) + ratio**2))
        best = min(best, float(moments.sum() - math.log(FOLDED / 2)) / x)
    return best
