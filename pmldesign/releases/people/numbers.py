r"""Numbers of people, such as incomes: mixtures of cells, whose sums are linear queries.

    {"name": "income", "low": 0, "high": 100000, "unit": 1}
    {"name": "income", "low": 0, "high": 100000, "unit": 1, "knots": [10000, 50000]}
    {"name": "income", "low": 0, "high": 100000, "unit": 1, "cuts": [10000, 50000]}

A value is clipped to [low, high] and rounded to low plus a multiple of unit, halves upwards. With
low = t_0 < t_1 < ... < t_K = high, the knots or cuts and the ends, a value v of [t_k, t_(k+1)]
counts as

    (t_(k+1) - v) / (t_(k+1) - t_k)   in the cell of t_k,      the rest in that of t_(k+1),

so that a function that is straight between the t_k has the sum of f(t_k) x_k. Knots have one cell
each; of cuts, which are the ends of bins [t_k, t_(k+1)), each bin has two of its own, and its count
is exact, too. All weights are multiples of 1/D, D the least common multiple of the numbers of units
between neighbours. Low and high are given by a person: found in data they would not be private.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.integers import Integers
from pmldesign.privacy.outward import as_written, shortest
from pmldesign.releases.people.attribute import Attribute, only_known

LARGEST_DENOMINATOR = 2**32
"""Of the weights of one attribute: noise on the lattice has 55 bits."""


@dataclass(frozen=True)
class Number(Attribute):
    """An attribute whose values are numbers.

    Attributes:
        points: t_0 < ... < t_K.
        unit: to which values are rounded.
        binned: whether each interval between points has two cells of its own.
    """

    points: tuple[Fraction, ...] = ()
    unit: Fraction = Fraction(1)
    binned: bool = False

    @property
    def denominator(self) -> int:
        """D."""
        return math.lcm(*(int((b - a) / self.unit) for a, b in itertools.pairwise(self.points)))

    @property
    def values(self) -> tuple[Fraction, ...]:
        """The value that each cell stands for."""
        if not self.binned:
            return self.points
        return tuple(end for pair in itertools.pairwise(self.points) for end in pair)

    @property
    def points_text(self) -> tuple[str, ...]:
        """The points as they are written."""
        return tuple(map(_text, self.points))

    @property
    def bins(self) -> tuple[str, ...]:
        """What the intervals are called."""
        pairs = [*itertools.pairwise(self.points)]
        closed = len(pairs) - 1
        return tuple(
            f"[{_text(a)}, {_text(b)}{']' if k == closed else ')'}"
            for k, (a, b) in enumerate(pairs)
        )

    @property
    def facts(self) -> list[Any]:
        """All facts about it in the schema."""
        return [*super().facts, [str(point) for point in self.points], str(self.unit), self.binned]

    def require_whole(self, group_of: Integers, what: str) -> None:
        """Refuse public groups of cells among which a record may be spread.

        Args:
            group_of: of each cell, first axis the cells of this attribute.
            what: name of the groups.

        Raises:
            InvalidInputError: they divide records.
        """
        lower = range(0, len(self.labels), 2) if self.binned else range(len(self.labels) - 1)
        if any((group_of[cell] != group_of[cell + 1]).any() for cell in lower):
            raise InvalidInputError(
                f"the known answers {what!r} tell sums of {self.name!r}, which single records do "
                "not add whole counts to; give known answers without it"
            )

    def range_label(self, start: int, stop: int) -> str:
        """What cells start ... stop - 1 are called together."""
        if self.binned and start % 2 == stop % 2 == 0 and 0 < stop - start < len(self.labels):
            first, last = self.bins[start // 2], self.bins[stop // 2 - 1]
            return first.split(",")[0] + "," + last.split(",")[1]
        return super().range_label(start, stop)


def as_numbers(entry: Mapping[str, Any], outside: Any) -> Number:
    """The attribute with low and high that a dictionary describes.

    Raises:
        InvalidInputError: with the mistake and the allowed values.
    """
    name, what = entry["name"], f"attribute {entry['name']!r}"
    only_known(entry, {"name", "low", "high", "unit", "knots", "cuts", "outside"}, what)
    if missing := [key for key in ("low", "high", "unit") if key not in entry]:
        raise InvalidInputError(
            f'{what}: numbers need "low" and "high", to which values are clipped, and "unit", to '
            f"which they are rounded; {missing[0]!r} is missing, and never read off the data"
        )
    if "knots" in entry and "cuts" in entry:
        raise InvalidInputError(f'{what} has "knots" and "cuts"; leave one of them out')
    inner = entry.get("knots", entry.get("cuts", []))
    given = [entry["low"], *(inner if isinstance(inner, list) else [None]), entry["high"]]
    if not all(
        type(value) in (int, float) and abs(value) < 1e15 for value in [*given, entry["unit"]]
    ):
        raise InvalidInputError(
            f"{what}: low, high, unit, knots and cuts must be numbers below 1e15 in absolute value"
        )
    points, unit = tuple(map(as_written, given)), as_written(entry["unit"])
    if unit <= 0 or any(a >= b or (b - a) % unit for a, b in itertools.pairwise(points)):
        raise InvalidInputError(
            f"{what}: low, the knots or cuts between, and high must increase by multiples of unit, "
            f"got {[float(point) for point in points]} and unit {float(unit):g}"[:200]
        )
    if outside not in ("refuse", "drop"):
        raise InvalidInputError(
            f'{what}: a number has no key for what is none; outside must be "refuse" or "drop", '
            f"got {outside!r:.60}"
        )
    binned = "cuts" in entry
    labels = tuple(map(_text, points))
    number = Number(
        name, labels, None, outside, ordered=True, points=points, unit=unit, binned=binned
    )
    if number.denominator > LARGEST_DENOMINATOR:
        raise InvalidInputError(
            f"{what}: parts of 1/{number.denominator} of a record are too fine; take a larger "
            "unit, or knots at equal distances"
        )
    if not binned:
        return number
    ends = zip(number.bins, itertools.pairwise(points), strict=True)
    cells = tuple(f"{label} at {_text(end)}" for label, pair in ends for end in pair)
    return replace(number, labels=cells)


def _text(value: Fraction) -> str:
    return shortest(float(value))
