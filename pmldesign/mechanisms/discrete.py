r"""Discrete Laplace noise: moments and quantiles of sums of integer noise eta.

A Laplace number is a discrete one plus an independent part of mean 0, the difference of the parts
of two exponential numbers that rounding down removes. So by Jensen's inequality no moment of order
1 or more of a sum V = sum_j c_j eta_j exceeds that of the same sum of Laplace numbers. With q =
e^(-1/b), a = q/(1 - q)^2 and x = s^2

    log E e^(s eta) = -log(1 - 2 a (cosh s - 1)) = sum_k kappa_k x^k,
    E e^(s V) = exp(sum_k kappa_k (sum_j c_j^2k) x^k) = sum_k E V^2k x^k / (2k)!,

all of them positive, so that nothing cancels: moments of even order. Of whole c_j times g the law
of V is on multiples of g, by the discrete Fourier transform of

    E e^(i t eta) = (1 - q)^2 / (1 - 2 q cos t + q^2).

N points fold the law of sum_j c_j eta_j into one period; they are so many that values beyond half
of it have a negligible probability, by Chernoff's inequality. Other moments follow from it.

Own grid. If R is a number u > 0 times a matrix Z of whole numbers, Z x is whole without any
rounding, and discrete Laplace noise on it has smaller errors than Laplace noise; no finer grid does
better.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.integers import times
from pmldesign.mechanisms.lattice import Lattice
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import rows_of
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array

DENOMINATORS = 256
"""Largest denominator of the unit of a row of L that is looked for."""
SAME_MULTIPLE = 1e-9
"""Relative error within which an entry of L counts as a multiple of the unit."""
MOST_TERMS = 2**24
"""Points of a transform times measurements."""
FOLDED = 1e-15
"""Probability folded by the transform; and its rounding."""
LARGEST_EVEN = 256
"""Order up to which even moments are computed of several measurements."""
RARE = 1 / 600
"""Scale below which a number is other than 0 with a chance below e^-600."""
EXACT = 1e-9
"""Largest relative error of a reported moment."""
LARGEST_ENTRY = 2**20
"""Of Z: beyond that the noise is many units wide, and a finer grid as good."""
MOST_ENTRIES = 2**23
"""Of R, which is materialized."""
SAME = 1e-12
"""Relative error within which a quotient of entries counts as a whole number."""


def discrete_error(rows: Array, scale: float, p: float) -> float | None:
    """(sum_i E |V_i|^p)^(1/p), V_i = sum_j rows_ij times discrete Laplace; p in (2, inf).

    Args:
        rows: shape (m, r).
        scale: b.
        p: of the error.

    Returns:
        None if it is not known to EXACT.
    """
    distinct, counts = np.unique(_ordered(rows), axis=0, return_counts=True)
    counts, distinct = counts[distinct[:, -1] > 0], distinct[distinct[:, -1] > 0]
    if not len(distinct):
        return 0.0
    single = np.count_nonzero(distinct, axis=1) == 1
    logs = np.zeros(len(distinct))
    if single.any():
        log_moment = _log_moment_of_one(scale, p)
        if log_moment is None:
            return None
        logs[single] = log_moment + p * np.log(distinct[single, -1])
    if scale < RARE and p <= LARGEST_EVEN:  # two that are not 0 have no part in it
        with np.errstate(divide="ignore"):
            sizes = p * np.log(distinct)
        logs = math.log(2) - 1 / scale + scipy.special.logsumexp(sizes, axis=1)
    elif not single.all() and p % 2 == 0:
        if p > LARGEST_EVEN:
            return None
        logs[~single] = _log_even_moments(distinct[~single], scale, int(p) // 2)
    elif not single.all():
        for place in np.flatnonzero(~single):
            found = _log_moment_by_law(distinct[place], scale, p)
            if found is None:
                return None
            logs[place] = found
    return math.exp(float(scipy.special.logsumexp(logs, b=counts)) / p)


def discrete_half_widths(rows: Array, scale: float, miss: float) -> Array | None:
    """The least h with P(|V| > h) <= miss, V = sum_j rows_ij times discrete Laplace, shape (m,).

    Args:
        rows: shape (m, r).
        scale: b.
        miss: in (0, 1).

    Returns:
        None if a row is not a multiple of small integers, or the transform is too long.
    """
    distinct, back = np.unique(_ordered(rows), axis=0, return_inverse=True)
    widths = np.zeros(len(distinct))
    for place, row in enumerate(distinct):
        found = _half_width(row[row > 0], scale, miss)
        if found is None:
            return None
        widths[place] = found
    return np.asarray(widths[back.ravel()])


def _ordered(rows: Array) -> Array:
    """Sizes of the entries of each row, the largest last: all that the law of V knows of them."""
    return np.sort(np.abs(rows), axis=1)


def _half_width(row: Array, scale: float, miss: float) -> float | None:
    if row.size == 0:
        return 0.0
    if row.size == 1:  # P(|eta| > h) = 2 q^(h + 1) / (1 + q)
        ratio = math.exp(-1 / scale)
        least = math.ceil(-scale * math.log(miss * (1 + ratio) / 2) * (1 + 1e-12)) - 1
        return max(least, 0) * float(row[0])
    if miss < 1e3 * FOLDED or (law := _law(row, scale)) is None:
        return None
    unit, chances = law
    covered = 2 * np.cumsum(chances) - chances[0]
    reached = np.flatnonzero(covered >= 1 - miss + 100 * FOLDED)
    return float(reached[0] * unit) if reached.size else None


def _law(row: Array, scale: float) -> tuple[float, Array] | None:
    """The unit g of V, and P(V = g k) for k = 0, 1, ...; None without a short law."""
    unit = _unit_of(row)
    if unit is None:
        return None
    whole, ratio = np.rint(row / unit), math.exp(-1 / scale)
    points = 2 ** math.ceil(math.log2(2 * _reach(whole, scale) + 2))
    if points * row.size > MOST_TERMS:
        return None
    angles = 2 * np.pi / points * np.arange(points // 2 + 1)
    law = np.ones(len(angles))
    for value, count in zip(*np.unique(whole, return_counts=True), strict=True):
        law *= ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(value * angles) + ratio**2)) ** count
    return unit, np.asarray(np.fft.irfft(law, points)[: points // 2])


def _unit_of(row: Array) -> float | None:
    """The first entry over the least integer such that all of a row are multiples of it."""
    for denominator in range(1, DENOMINATORS + 1):
        unit = float(row[0]) / denominator
        if (np.abs(np.rint(row / unit) * unit - row) < SAME_MULTIPLE * row).all():
            return unit
    return None


def _reach(whole: Array, scale: float) -> float:
    """An h with P(|sum_j c_j eta_j| > h) <= FOLDED: e^(-x h) times the generating function."""
    ratio, best = math.exp(-1 / scale), math.inf
    for x in np.geomspace(0.05, 0.95, 12) / (scale * float(whole.max())):
        twice = np.exp(x * whole - 1 / scale) + np.exp(-x * whole - 1 / scale)  # 2 q cosh(x c)
        moments = np.log((1 - ratio) ** 2 / (1 - twice + ratio**2))
        best = min(best, float(moments.sum() - math.log(FOLDED / 2)) / x)
    return best


def _log_moment_of_one(scale: float, p: float) -> float | None:
    """Logarithm of E |eta|^p; None if the sum is too long."""
    last = math.ceil(scale * (2 * p + 80) + 2)
    if last > MOST_TERMS:
        return None
    k = np.arange(1.0, last)
    total = float(scipy.special.logsumexp(p * np.log(k) - k / scale))
    return total + math.log(2 * math.tanh(1 / (2 * scale)))


def _log_even_moments(rows: Array, scale: float, order: int) -> Array:
    """Logarithm of E V^(2 order) of every row; the powers of x are those of s b max_j c_j."""
    largest = rows[:, -1]
    squares, k = (rows / largest[:, None]) ** 2, np.arange(1, order + 1)
    log_a = -1 / scale - 2 * math.log(-math.expm1(-1 / scale))
    step = np.exp(math.log(2) + log_a - 2 * k * math.log(scale) - scipy.special.gammaln(2 * k + 1))
    cumulants = np.zeros(order)  # k kappa_k
    for n in range(order):
        cumulants[n] = (n + 1) * step[n] + step[:n] @ cumulants[:n][::-1]
    sums, powers = np.empty((len(rows), order)), squares.copy()
    for n in range(order):
        sums[:, n] = cumulants[n] * powers.sum(axis=1)
        powers *= squares
    series = np.ones((len(rows), order + 1))
    for n in range(1, order + 1):
        series[:, n] = (sums[:, :n] * series[:, n - 1 :: -1]).sum(axis=1) / n
    log_factor = float(scipy.special.gammaln(2 * order + 1))
    return np.asarray(np.log(series[:, order]) + log_factor + 2 * order * np.log(scale * largest))


def _log_moment_by_law(row: Array, scale: float, p: float) -> float | None:
    """Logarithm of E |V|^p of a row; None if rounding is more than EXACT of it."""
    law = _law(row[row > 0], scale)
    if law is None:
        return None
    unit, chances = law
    k = np.arange(len(chances), dtype=np.float64)
    relative = (k / len(k)) ** p
    moment = 2 * float(relative @ chances)
    rounding = FOLDED + float(np.finfo(np.float64).eps) * len(k) / (p + 1)
    if rounding > EXACT * moment:
        return None
    return math.log(moment) + p * math.log(unit * len(k))


def own_lattice(strategy: Strategy) -> Lattice | None:
    """R = u Z on the grid of Z; None if R is not such a matrix, or too large to examine.

    Raises:
        InvalidInputError: participation in the steps of a stream.
    """
    if strategy.cells > WRITTEN_CELLS or strategy.public:
        return None
    people = rows_of(strategy.participation)
    if math.prod(strategy.shape) > MOST_ENTRIES:
        return None
    matrix = strategy.matrix
    sizes = np.abs(matrix)
    unit = float(sizes[sizes > 0].min())
    if sizes.max() > LARGEST_ENTRY * unit:
        return None
    whole = np.rint(matrix / unit)
    if (np.abs(matrix - whole * unit) > SAME * sizes).any():
        return None
    measured = Strategy(strategy.name, whole * unit)
    rows = whole.astype(np.int64)
    units = np.full(len(rows), unit)
    return Lattice(measured, measured, units, partial(times, rows), rows, rows=people)


def own_unit(strategy: Strategy, noise: Noise, scale: float) -> float:
    """The unit u of the grid of whole measurements.

    Raises:
        InvalidInputError: without such a grid, or with noise that is not drawn on it.
    """
    lattice = own_lattice(strategy) if noise is Noise.LAPLACE else None
    if lattice is None or scale == 0:
        raise InvalidInputError(
            "integer-valued Laplace noise is for strategies of integers times a unit, such as"
            " counts"
            " or trees, with one record added or removed; use `noise='laplace'`"
        )
    return float(lattice.units[0])


def own_deviation(unit: float, scale: float) -> float:
    """Standard deviation of the noise of a scale on a measurement, on a grid of this unit."""
    return unit * math.sqrt(Noise.LAPLACE.whole_variance(scale / unit, 1))
