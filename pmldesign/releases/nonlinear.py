r"""What is no linear query, with intervals: means and shares, which are ratios, and quantiles.

Of either, linear statistics T(t) tell whether it is t, by the method of Fieller: it lies, at the
level, among all t for which 0 is in the interval around T(t).

Ratios. Their ends have answers u and l (`people.factors`). If one is a + (b - a) t, the number

    T(t) = (1 - t) u - t l

is noise alone, of a law that is known. So t lies, at the level, among all t with abs(T(t)) <= h(t),
h(t) the half-width of an interval for the noise of T(t), whatever u + l is: around 0 as well, where
all of [a, b] is left, or one side of it. Noise here has symmetric log-concave laws, of which
half-widths are norms [B]: h is convex, and straight lines between some t are above it. Then the
ends of the interval are where lines cross. The estimate is that of u / (u + l), cut to [a, b], and
missing where u + l is not positive. Its standard deviation is that of T there over u + l, also a
function of published numbers alone.

Quantiles, "age=0.25,0.5,0.75". The q-quantile is the first value t with F(t) >= q N, F the running
sums over the attribute and N the number of records, which need not be public: the statistics are
T(t) = F(t) - q N, linear in the histogram. With intervals around all T(t) that hold together, the
quantile lies between the first t whose interval reaches 0 and the first whose interval is not below
0; the estimate is the first t with T(t) >= 0.

References:
    Fieller, Some problems in interval estimation, JRSS B 16, 1954.
    [B] Bobkov, Convex bodies and norms associated to convex measures, PTRF 147, 2010.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign.arguments import as_number, listed, probability
from pmldesign.errors import InvalidInputError
from pmldesign.releases.intervals import half_widths, missed
from pmldesign.releases.noise import AnswerNoise
from pmldesign.releases.people.factors import CUTS
from pmldesign.releases.people.queries import NamedQueries
from pmldesign.releases.people.schema import Schema
from pmldesign.releases.result import NUMBERS, ReleasedTable
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.base import check_entries
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
        nearest = (u > low).astype(np.float64)  # where no t is left
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


@dataclass(frozen=True, eq=False)
class Band:
    """One quantile, before the data are read.

    Attributes:
        attribute: its name.
        q: in (0, 1).
        labels: of the values.
        workload: T(t) for all values t but the last.
        widths: of the intervals that hold together.
    """

    attribute: str
    q: float
    labels: tuple[str, ...]
    workload: Workload
    widths: Array

    def read(self, cells: Array) -> dict[str, str | float]:
        """The row of the table for an estimate of the histogram."""
        values = self.workload.matvec(cells)
        places = [_first(values + shift) for shift in (0.0, self.widths, -self.widths)]
        estimate, lower, upper = (self.labels[place] for place in places)
        row: dict[str, str | float] = {"attribute": self.attribute, "quantile": self.q}
        return row | {"estimate": estimate, "lower": lower, "upper": upper}


def bands(
    noise: AnswerNoise, schema: Schema, asked: Mapping[str, Sequence[float]], level: float
) -> list[Band]:
    """What is needed of each quantile that is asked for.

    Raises:
        InvalidInputError: no such attribute, q out of range, or the strategy does not tell.
    """
    return [
        _band(noise, schema, name, probability(f"quantiles of {name}", q), level)
        for name, quantiles in asked.items()
        for q in listed(f"quantiles of {name}", quantiles)
    ]


def parse_quantiles(text: str) -> tuple[str, tuple[float, ...]]:
    """The attribute and the quantiles that "age=0.25,0.5" means.

    Raises:
        InvalidInputError: something else is written, or out of range.
    """
    name, equals, numbers = (part.strip() for part in text.partition("="))
    values = tuple(as_number(part) or 0.0 for part in numbers.split(","))
    if not equals or not all(0 < q < 1 for q in values):
        raise InvalidInputError(
            f"--quantiles is written as age=0.25,0.5,0.75, numbers in (0, 1); got {text[:60]!r}"
        )
    return name, values


def _band(noise: AnswerNoise, schema: Schema, name: str, q: float, level: float) -> Band:
    if name not in schema.names:
        raise InvalidInputError(
            f"--quantiles: the schema has no attribute {name!r}; it has {', '.join(schema.names)}"
        )
    place = schema.names.index(name)
    size, sizes = schema.sizes[place], schema.sizes
    attribute = schema.attributes[place]
    attribute.require_order("quantiles")
    if attribute.denominator > 1:
        raise InvalidInputError(
            f"--quantiles: {name!r} has numbers, which count for sums; for quantiles {CUTS}"
        )
    if attribute.outside not in ("refuse", "drop"):
        raise InvalidInputError(
            f"--quantiles: the values that {attribute.outside!r} takes have no place in the order "
            f'of {name!r}; add "outside": "refuse" or "drop" to this attribute in the schema'
        )
    labels = attribute.labels
    if size == 1:
        raise InvalidInputError(f"--quantiles: attribute {name!r} has one value")
    check_entries(f"the quantiles of {name!r}", (size - 1, schema.cells))
    shape = [1] * len(sizes)
    shape[place] = size
    rows = [
        np.broadcast_to(step.reshape(shape), sizes).ravel()
        for step in np.tril(np.ones((size, size)))[:-1] - q
    ]
    matrix = np.array(rows)[:, slice(None) if schema.possible is None else schema.possible]
    queries: Workload = DenseWorkload(matrix, name=f"quantile {q:g} of {name}", copy=False)
    noise_of_sums = noise.answering(queries)
    try:
        noise.factorization.strategy.require_answers(noise_of_sums.factorization.workload)
    except InvalidInputError:
        raise InvalidInputError(
            f"--quantiles: the strategy does not tell {name!r} from the other attributes; add it "
            "to the queries"
        ) from None
    widths = half_widths(noise_of_sums, level, simultaneous=True)
    return Band(name, q, labels, queries, widths)


def _first(values: Array) -> int:
    """The first place with a value of at least 0, or the one after the last."""
    reached = np.flatnonzero(values >= -1e-9 * max(1.0, math.sqrt(float(values @ values))))
    return int(reached[0]) if reached.size else len(values)
