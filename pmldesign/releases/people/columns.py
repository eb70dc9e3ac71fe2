"""What the query of people reads of one attribute: the cell of a value, or its parts of two cells.

A number between low and high is clipped and rounded to j units,

    j = floor((v - low) / unit + 1/2),    b(j) <= v < b(j + 1),    b(j) = low + (j - 1/2) unit.

Doubles give j up to one, which is then compared with b(j) = m / p, m an integer and p a power of
ten, or 2 for integers. If abs(m) < 10^15 (2^53) and p <= 10^22, their quotient as doubles is the
double that is written as b(j), so that comparing doubles compares the numbers that are written.
Between points t_k and t_(k+1) a value w of D parts of the way adds D - w parts to the cell of t_k
and w to that of t_(k+1); with several numbers these multiply. Cuts and knots are searched by
halving: no expression is deeper than the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pmldesign.errors import InvalidInputError
from pmldesign.releases.people.attribute import Attribute
from pmldesign.releases.people.numbers import Number
from pmldesign.releases.people.values import (
    LARGEST,
    MARKS,
    double_sql,
    key_sql,
    kinds_of,
    listed,
    literal,
    normalized_sql,
    number_sql,
    quoted,
    time_sql,
)

MOST_DIGITS, MOST_PLACES = 10**15, 22
"""Of m and of p."""


def texts_of(attribute: Attribute) -> list[str]:
    """The text of each cell in an answer."""
    bins = len(attribute.labels) if isinstance(attribute, Number) else attribute.bin_count
    return [*attribute.labels[:bins], *map(attribute.key, attribute.labels[bins:])]


@dataclass(frozen=True)
class Column:
    """An attribute in a query, with names that end with its place.

    Attributes:
        attribute: of the schema.
        place: its number.
        typed: whether the database determines types.
    """

    attribute: Attribute
    place: int
    typed: bool

    @property
    def sums(self) -> bool:
        """Whether it is a number that is divided among cells."""
        return isinstance(self.attribute, Number)

    @property
    def numeric(self) -> bool:
        """Whether its values are read as numbers."""
        return self.sums or (self.attribute.cuts is not None and not self.attribute.dated)

    @property
    def text(self) -> str:
        """The text of the value."""
        return (
            text_sql(f"value_{self.place}", typed=self.typed)
            if self.numeric
            else f"text_{self.place}"
        )

    @property
    def said(self) -> str:
        """The text of the value for messages, NULL for NaN."""
        if self.numeric:
            return text_sql(f"value_{self.place}", typed=self.typed, numbers=True)
        return self.text

    @property
    def given(self) -> str:
        """The value that is read, or its text."""
        name = f"source.{quoted(self.attribute.column)}"
        if self.numeric:
            return f"{name} AS value_{self.place}"
        return f"{text_sql(name, typed=self.typed, numbers=True)} AS text_{self.place}"

    @property
    def reading(self) -> str:
        """The number or time of the value, NULL if it is neither; or its key."""
        if self.numeric:
            number = number_sql(f"value_{self.place}", self.text, typed=self.typed)
            return f"{number} AS number_{self.place}"
        if self.attribute.dated:
            return f"{time_sql(self.text)} AS key_{self.place}"
        text = normalized_sql(self.text) if self.attribute.normalize else self.text
        return f"{key_sql(text, kinds_of(self.attribute.labels))} AS key_{self.place}"

    @property
    def cell(self) -> str:
        """The text of the cell, NULL outside; or the number of units, NULL without a number."""
        texts, outside = texts_of(self.attribute), self.attribute.outside
        other = (
            "" if outside in ("refuse", "drop") else f" ELSE {literal(self.attribute.key(outside))}"
        )
        if self.sums:
            return f"{self._step} AS step_{self.place}"
        if self.attribute.cuts is None:
            key = f"key_{self.place}"
            found = f"CASE WHEN {key} IN ({listed(texts)}) THEN {key}{other} END"
        else:
            value, ends = self._ends_of_bins
            lowest, highest = ends[0], ends[-1]
            inside = (
                [f"{value} IS NOT NULL"]
                if self.attribute.dated
                else [f"ABS({value}) <= {double_sql(LARGEST)}"]
            )
            inside += [f"{value} >= {lowest}"] if lowest else []
            inside += [f"{value} < {highest}"] if highest else []
            bins = halved(value, ends[1:-1], [*map(literal, texts[: self.attribute.bin_count])])
            found = f"CASE WHEN {' AND '.join(inside)} THEN {bins}{other} END"
        return f"{found} AS cell_{self.place}"

    @property
    def _ends_of_bins(self) -> tuple[str, list[str]]:
        """What is compared with the ends of bins, and these; "" for an open one."""
        cuts = self.attribute.cuts or ()
        ends = [
            literal(c) if isinstance(c, str) else "" if c is None else double_sql(c) for c in cuts
        ]
        return f"{'key' if self.attribute.dated else 'number'}_{self.place}", ends

    @property
    def found(self) -> str:
        """The column that is NULL if the value is outside."""
        return f"step_{self.place}" if self.sums else f"cell_{self.place}"

    @property
    def _step(self) -> str:
        """The number of units, j."""
        attribute, number = self.attribute, f"number_{self.place}"
        assert isinstance(attribute, Number)
        low, high = attribute.points[0], attribute.points[-1]
        first, more, power = _ends(attribute)
        last = int((high - low) / attribute.unit)
        guess = (
            f"FLOOR(({number} - {double_sql(float(low))}) / {double_sql(float(attribute.unit))}"
            f" + {double_sql(0.5)})"
        )

        def end(step: str) -> str:
            scaled = f"({double_sql(first)} + {double_sql(more)} * {step})"
            return f"{scaled} / {double_sql(power)}"

        return (
            f"CASE WHEN ABS({number}) <= {double_sql(LARGEST)} THEN"
            f" CAST(CASE WHEN {number} <= {double_sql(float(low))} THEN 0"
            f" WHEN {number} >= {double_sql(float(high))} THEN {last}"
            f" WHEN {number} < {end(guess)} THEN {guess} - 1"
            f" WHEN {number} >= {end(f'({guess} + 1)')} THEN {guess} + 1"
            f" ELSE {guess} END AS BIGINT) END"
        )

    @property
    def interval(self) -> str:
        """The interval between points that a number is in."""
        number, step = self.attribute, f"step_{self.place}"
        assert isinstance(number, Number)
        at = steps_of(number)
        widths = {stop - start for start, stop in pairwise(at)}
        if len(at) == 2:
            found = f"CASE WHEN {step} IS NOT NULL THEN 0 END"
        elif len(widths) == 1:
            found = f"CAST(LEAST(FLOOR({step} / {widths.pop()}.0), {len(at) - 2}) AS BIGINT)"
        else:
            places = [*map(str, range(len(at) - 1))]
            found = f"CASE WHEN {step} >= 0 THEN {halved(step, [*map(str, at[1:-1])], places)} END"
        return f"{found} AS interval_{self.place}"

    @property
    def ends(self) -> tuple[str, str]:
        """The table of intervals: the first step, parts to a step, and the cells of the ends."""
        number = self.attribute
        assert isinstance(number, Number)
        rows, parts = [], number.denominator
        for place, (start, stop) in enumerate(pairwise(steps_of(number))):
            cell = 2 * place if number.binned else place
            labels = listed(number.labels[cell : cell + 2])
            rows.append(f"({place}, {start}, {parts // (stop - start)}, {labels})")
        names = "place, first_step, factor, lower_label, upper_label"
        values = f"(VALUES {', '.join(rows)}) AS ends({names})"
        return f"ends_{self.place}", select(["*"], values)

    @property
    def joined(self) -> str:
        """The table of intervals after JOIN."""
        table = f"ends_{self.place}"
        return f"{table} ON {table}.place = interval_{self.place}"

    @property
    def weighed(self) -> str:
        """The parts at the upper end of the interval."""
        ends, step = f"ends_{self.place}", f"step_{self.place}"
        return f"({step} - {ends}.first_step) * {ends}.factor AS weight_{self.place}"

    def weight(self, end: int) -> str:
        """The parts of a row at the lower (0) or upper (1) end of its interval."""
        weight = f"weight_{self.place}"
        return weight if end else f"({self.attribute.denominator} - {weight})"

    def end_label(self, end: int) -> str:
        """The text of the cell at an end of the interval."""
        return f"ends_{self.place}.{'upper_label' if end else 'lower_label'}"


def text_sql(value: str, *, typed: bool, numbers: bool = False) -> str:
    """The text of a value without a collation.

    Args:
        value: a column.
        typed: whether the database determines types.
        numbers: whether floating-point NaN can occur, whose text is NULL.
    """
    if not typed:
        return f"TEXT_OF({value})"
    text = MARKS["duckdb"][0].format(value)
    if not numbers:
        return text
    return f"CASE WHEN {floating_sql(value, 'duckdb')} THEN NULLIF({text}, 'nan') ELSE {text} END"


def floating_sql(value: str, dialect: str) -> str:
    """Whether a column is in floating point."""
    return MARKS["duckdb"][1].format(value) if dialect == "duckdb" else f"IS_FLOATING({value})"


def steps_of(number: Number) -> list[int]:
    """The points in units above the first one."""
    return [int((point - number.points[0]) / number.unit) for point in number.points]


def halved(number: str, ends: Sequence[str], values: Sequence[str]) -> str:
    """The value of the interval that a number is in, one more than the ends between them."""
    if not ends:
        return values[0]
    middle = len(ends) // 2
    below = halved(number, ends[:middle], values[: middle + 1])
    above = halved(number, ends[middle + 1 :], values[middle + 1 :])
    return f"CASE WHEN {number} < {ends[middle]} THEN {below} ELSE {above} END"


def select(items: Iterable[str], source: str) -> str:
    """A query of some items."""
    return "SELECT\n    " + ",\n    ".join(items) + f"\n  FROM {source}"


def _ends(number: Number) -> tuple[int, int, int]:
    """First and more, of m = first + more j, and p.

    Raises:
        InvalidInputError: they have too many digits.
    """
    low, high, unit = number.points[0], number.points[-1], number.unit
    power, most = 2, 2**53  # of integers the halves are doubles
    if low.denominator > 1 or unit.denominator > 1:
        power, most = 10, MOST_DIGITS
        while (power * low % 10 or power * unit % 10) and power <= 10**MOST_PLACES:
            power *= 10
    first, more = power * (low - unit / 2), power * unit
    if power > 10**MOST_PLACES or power * max(abs(low), abs(high)) + 2 * more >= most:
        raise InvalidInputError(
            f"attribute {number.name!r}: low and high have more than 14 digits in units, more than"
            " doubles compare exactly; use a larger unit"
        )
    return int(first), int(more), power
