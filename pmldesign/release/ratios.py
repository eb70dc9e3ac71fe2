r"""Means and shares with intervals: ratios of noisy numbers, by the method of Fieller.

The ends of a ratio have answers u and l (`people.factors`). If it is a + (b - a) t, the number

    T(t) = (1 - t) u - t l

is noise alone, of a law that is known. So t lies, at the level, among all t with abs(T(t)) <= h(t),
h(t) the half-width of an interval for the noise of T(t), whatever u + l is: around 0 as well, where
all of [a, b] is left, or one side of it. Noise here has symmetric log-concave laws, of which
half-widths are norms [B]: h is convex, and straight lines between some t are above it. Then the
ends of the interval are where lines cross.

The estimate is that of u / (u + l), cut to [a, b], and missing where u + l is not positive. Its
standard deviation is that of T there over u + l, also a function of published numbers alone.

References:
    Fieller, Some problems in interval estimation, JRSS B 16, 1954.
    [B] Bobkov, Convex bodies and norms associated to convex measures, PTRF 147, 2010.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign.release.intervals import half_widths, missed
from pmldesign.release.noise.law import AnswerNoise
from pmldesign.release.people.queries import NamedQueries
from pmldesign.release.tables import NUMBERS, ReleasedTable
from pmldesign_solvers.operators.operator import Array

PLACES = np.linspace(0.0, 1.0, 17)
"""Values of t with a half-width of their own; lines between them are up to 0.2 % above others."""
RESOLUTION = 1e-7
"""Part of b - a to which ratios are rounded."""


@dataclass(frozen=True, eq=False)
class Ratios:
    """The ratios of a product of queries, before the data are read.

    Attributes:
        rows: of the answers, their ends.
        shape: queries on the attributes before, ratios, queries on those after.
        low: a.
        high: b.
        widths: h, shape (PLACES, ratios).
        spreads: standard deviations of T(t), likewise.
    """

    rows: slice
    shape: tuple[int, int, int]
    low: float
    high: float
    widths: Array
    spreads: Array

    @property
    def number(self) -> int:
        """How many ratios."""
        return math.prod(self.shape)

    @property
    def decimals(self) -> int:
        """Digits after the point."""
        return min(max(0, -math.floor(math.log10((self.high - self.low) * RESOLUTION))), 12)

    def ends(self, answers: Array) -> tuple[Array, Array]:
        """The ends u and l, each of shape (ratios,)."""
        before, ratios, after = self.shape
        both = answers[self.rows].reshape(before, 2, ratios, after)
        return both[:, 0].ravel(), both[:, 1].ravel()

    def read(self, raw: Array, published: Array) -> dict[str, Array]:
        """Estimates, standard deviations and ends of the intervals, for the table.

        Args:
            raw: the answers before post-processing and rounding.
            published: those of which ratios are to be made.
        """
        u, low = self.ends(published)
        people = np.where(u + low > 0, u + low, np.nan)
        t = np.clip(u / people, 0.0, 1.0)
        spread = [
            np.interp(place, PLACES, row) for place, row in zip(t, self.spreads.T, strict=True)
        ]
        first, last = self._interval(*self.ends(raw))
        span, factor = self.high - self.low, 10.0**self.decimals
        return {
            "estimate": self.low + span * t,
            "standard_deviation": span * np.array(spread) / people,
            "lower": np.floor((self.low + span * np.fmin(first, t)) * factor) / factor,
            "upper": np.ceil((self.low + span * np.fmax(last, t)) * factor) / factor,
        }

    def _interval(self, u: Array, low: Array) -> tuple[Array, Array]:
        """The first and the last t with abs(T(t)) <= h(t), piece by piece."""
        t = PLACES[:, None]
        noise = (1 - t) * u - t * low
        above, below = _negative(noise - self.widths), _negative(-noise - self.widths)
        first, last = np.maximum(above[0], below[0]), np.minimum(above[1], below[1])
        step = 1.0 / (len(PLACES) - 1)
        holds = first <= last
        firsts = np.where(holds, t[:-1] + step * first, np.inf).min(axis=0)
        lasts = np.where(holds, t[:-1] + step * last, -np.inf).max(axis=0)
        nearest = (u > low).astype(np.float64)  # where noise has left no t at all
        return np.where(firsts < 2, firsts, nearest), np.where(lasts > -1, lasts, nearest)


def _negative(values: Array) -> tuple[Array, Array]:
    """Between which parts of each piece a function is at most 0; (2, -1) where it never is.

    Args:
        values: at the ends of the pieces, shape (pieces + 1, ratios).
    """
    start, stop = values[:-1], values[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = start / (start - stop)
    first = np.where(start <= 0, 0.0, np.where(stop <= 0, crossing, 2.0))
    last = np.where(stop <= 0, 1.0, np.where(start <= 0, crossing, -1.0))
    return first, last


def ratios_of(
    noise: AnswerNoise, queries: NamedQueries, level: float, *, simultaneous: bool
) -> list[Ratios | slice]:
    """For each product its ratios, or the rows of its linear answers.

    Args:
        noise: of the release.
        queries: what is asked.
        level: of the intervals.
        simultaneous: all intervals of the table together, rather than each.
    """
    count = noise.factorization.workload.shape[0] if simultaneous else 1
    single = 1 - missed(noise, level, count)
    parts: list[Ratios | slice] = []
    start = 0
    for number, part in enumerate(queries.parts):
        names = [len(factor.names()) for factor in part]
        place = next((i for i, factor in enumerate(part) if factor.ratio is not None), None)
        rows = math.prod(names) * (1 if place is None else 2)
        asked = slice(start, start + rows)
        start += rows
        if place is None:
            parts.append(asked)
            continue
        at = [noise.answering(queries.between(number, t)) for t in PLACES.tolist()]
        widths = np.array([half_widths(noise_at, single) for noise_at in at])
        shape = (math.prod(names[:place]), names[place], math.prod(names[place + 1 :]))
        ratio = part[place].ratio
        assert ratio is not None
        spreads = np.array([noise_at.deviations for noise_at in at])
        parts.append(Ratios(asked, shape, ratio.low, ratio.high, widths, spreads))
    return parts


def with_ratios(table: ReleasedTable, parts: Sequence[Ratios | slice], raw: Array) -> ReleasedTable:
    """The table with ratios in place of their ends.

    Args:
        table: of all answers, linear ones, with the labels of the new one.
        parts: of the queries.
        raw: the answers before post-processing and rounding.
    """
    columns: dict[str, list[Array]] = {name: [] for name in NUMBERS}
    decimals = []
    for part in parts:
        if isinstance(part, Ratios):
            numbers = part.read(raw, table.estimate)
            decimals.append(np.full(part.number, part.decimals))
        else:
            numbers = {name: getattr(table, name)[part] for name in NUMBERS}
            decimals.append(np.full(part.stop - part.start, table.decimals))
        for name, values in columns.items():
            values.append(numbers[name])
    estimate, spread, lower, upper = map(np.concatenate, columns.values())
    digits = np.concatenate(decimals)
    return ReleasedTable(table.labels, estimate, spread, lower, upper, digits)
