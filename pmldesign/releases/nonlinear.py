r"""Answers that are not linear, with intervals: means and shares, which are ratios, and quantiles.

Each is the t at which a statistic T(t) of the people is zero. T increases, is linear in the
histogram at some t_0 < ... < t_K, and straight between them:

    ratio a + (b - a) t    T(t) = t l - (1 - t) u,    u and l the answers for its ends
    q-quantile             T(t) = F(t) - q N,         F(t) the records below t, N all of them,

of a ratio at 17 t in [0, 1], of a quantile at the cuts, between which values are spread evenly
(`people.factors`). The estimate is where the measured T crosses zero, cut to the range, and missing
if the measured number of people, T(t_K) - T(t_0), is not positive. Its standard deviation is that
of the measured T there over the slope of T, a function of published numbers alone.

The interval is Fieller's. At the true t the measured T(t) is noise alone, of a known law. So t is,
at the level, among all t with abs(T(t)) <= h(t), h(t) the half-width of an interval for the noise
of T(t), whatever the number of people: around 0 as well, which leaves the whole range. Noise here
has symmetric log-concave laws, whose half-widths are norms [B]: h is convex, and straight lines
between the t_k are above it. The ends of the interval are where lines cross. A bin without an end
has no estimate, and an interval with one end only.

References:
    Fieller, Some problems in interval estimation, JRSS B 16, 1954.
    [B] Bobkov, Convex bodies and norms associated to convex measures, PTRF 147, 2010.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign.releases.intervals import half_widths, missed
from pmldesign.releases.noise import AnswerNoise
from pmldesign.releases.people.factors import Root
from pmldesign.releases.people.queries import NamedQueries
from pmldesign.releases.result import NUMBERS, ReleasedTable
from pmldesign_solvers.operators.operator import Array, Indices

RESOLUTION = 1e-7
"""Part of the range of values to which answers are rounded."""


@dataclass(frozen=True, eq=False)
class Roots:
    """The ratios or quantiles of a product of queries, before the data are read.

    Attributes:
        root: how T is made of the measured queries.
        rows: of the answers to the measured queries.
        before: queries on the attributes before.
        widths: h at the t_k, shape (K + 1, number).
        spreads: standard deviations of T(t_k), shape (K + 1, number).
    """

    root: Root
    rows: slice
    before: int
    widths: Array
    spreads: Array

    @property
    def number(self) -> int:
        """How many ratios or quantiles."""
        return int(self.widths.shape[1])

    @property
    def decimals(self) -> int:
        """Digits after the point."""
        finite = self.root.values[np.isfinite(self.root.values)]
        span = float(np.ptp(finite)) or 1.0
        return min(max(0, -math.floor(math.log10(span * RESOLUTION))), 12)

    def statistics(self, answers: Array) -> Array:
        """T at the t_k, shape (K + 1, number)."""
        asked, items, _ = self.root.rows.shape
        parts = answers[self.rows].reshape(self.before, asked, items, -1)
        mixed = np.einsum("ka,baic->kbic", self.root.weights, parts)
        return np.asarray(mixed.reshape(-1, self.number))

    def read(self, raw: Array, published: Array) -> dict[str, Array]:
        """Estimates, standard deviations and ends of the intervals, for the table.

        Args:
            raw: the answers before post-processing and rounding.
            published: those from which the estimates are made.
        """
        t = self.root.values
        statistics = self.statistics(published)
        piece, part = _crossing(statistics)
        item = np.arange(self.number)
        some = statistics[-1] > statistics[0]
        open_bin = ~(np.isfinite(t[piece]) & np.isfinite(t[piece + 1]))
        width = np.where(open_bin, np.nan, t[piece + 1] - t[piece])
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = np.where(some & ~open_bin, t[piece] + part * width, np.nan)
            slope = (statistics[piece + 1, item] - statistics[piece, item]) / width
            spread = self.spreads[piece, item] * (1 - part) + self.spreads[piece + 1, item] * part
            deviation = np.where(some & (slope > 0), spread / slope, np.nan)
            first, last = self._interval(self.statistics(raw))
            factor = 10.0**self.decimals
            return {
                "estimate": estimate,
                "standard_deviation": deviation,
                "lower": np.floor(np.fmin(first, estimate) * factor) / factor,
                "upper": np.ceil(np.fmax(last, estimate) * factor) / factor,
            }

    def _interval(self, statistics: Array) -> tuple[Array, Array]:
        """The least and the largest t with abs(T(t)) <= h(t), piece by piece; infinite if open."""
        above, below = _negative(statistics - self.widths), _negative(-statistics - self.widths)
        first, last = np.maximum(above[0], below[0]), np.minimum(above[1], below[1])
        holds = first <= last
        start, stop = self.root.values[:-1, None], self.root.values[1:, None]
        width = np.where(np.isfinite(stop - start), stop - start, 0.0)
        least = np.where(np.isfinite(start), start + first * width, -np.inf)
        inside = np.where(np.isfinite(start), start + last * width, stop)
        most = np.where(np.isfinite(stop), inside, np.inf)
        lower = np.where(holds, least, np.inf).min(axis=0)
        upper = np.where(holds, most, -np.inf).max(axis=0)
        nearest = np.where(statistics.mean(axis=0) > 0, self.root.values[0], self.root.values[-1])
        none = ~holds.any(axis=0)
        lower, upper = np.where(none, nearest, lower), np.where(none, nearest, upper)
        return (
            np.where(np.isfinite(lower), lower, np.nan),
            np.where(np.isfinite(upper), upper, np.nan),
        )


def _crossing(statistics: Array) -> tuple[Indices, Array]:
    """The piece in which each statistic crosses zero from below, and the part of it before."""
    reached = statistics[1:] >= 0
    piece = np.where(reached.any(axis=0), reached.argmax(axis=0), len(reached) - 1)
    item = np.arange(statistics.shape[1])
    start, stop = statistics[piece, item], statistics[piece + 1, item]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(start < 0, np.where(stop > 0, start / (start - stop), 1.0), 0.0)
    return piece, part


def _negative(values: Array) -> tuple[Array, Array]:
    """Between which parts of each piece a function is at most 0; (2, -1) if it never is.

    Args:
        values: at the ends of the pieces, shape (pieces + 1, number).
    """
    start, stop = values[:-1], values[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = start / (start - stop)
    first = np.where(start <= 0, 0.0, np.where(stop <= 0, crossing, 2.0))
    last = np.where(stop <= 0, 1.0, np.where(start <= 0, crossing, -1.0))
    return first, last


def roots_of(
    noise: AnswerNoise, queries: NamedQueries, level: float, *, simultaneous: bool
) -> list[Roots | slice]:
    """For each product its ratios or quantiles, or the rows of its linear answers.

    Args:
        noise: of the release.
        queries: the queries that are asked.
        level: of the intervals.
        simultaneous: all intervals of the table together, rather than each.
    """
    count = noise.factorization.workload.shape[0] if simultaneous else 1
    single = 1 - missed(noise, level, count)
    parts: list[Roots | slice] = []
    start = 0
    for number, part in enumerate(queries.parts):
        names = [len(factor.names()) for factor in part]
        place = next((i for i, factor in enumerate(part) if factor.root is not None), None)
        root = None if place is None else part[place].root
        rows = math.prod(names) * (1 if root is None else len(root.rows))
        asked = slice(start, start + rows)
        start += rows
        if root is None:
            parts.append(asked)
            continue
        at = [noise.answering(queries.at(number, k)) for k in range(len(root.values))]
        widths = np.array([half_widths(noise_at, single) for noise_at in at])
        spreads = np.array([noise_at.deviations for noise_at in at])
        parts.append(Roots(root, asked, math.prod(names[:place]), widths, spreads))
    return parts


def with_roots(table: ReleasedTable, parts: Sequence[Roots | slice], raw: Array) -> ReleasedTable:
    """The table with ratios and quantiles instead of their parts.

    Args:
        table: of all answers, linear ones, with the labels of the new one.
        parts: of the queries.
        raw: the answers before post-processing and rounding.
    """
    columns: dict[str, list[Array]] = {name: [] for name in NUMBERS}
    decimals = []
    for part in parts:
        if isinstance(part, Roots):
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
