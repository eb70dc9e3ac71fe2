"""What a database reads of one attribute: the text of a cell, or the number of a value in units.

A number is read from a type whose numbers are those of its texts (DuckDB tells types), or from a
text of plain digits of moderate length, which all databases read as the same number. Between cuts
it becomes the lower cut. One of which sums are asked becomes its number of units,

    j = floor((v - low) / unit + 1/2),    b(j) <= v < b(j + 1),    b(j) = low + (j - 1/2) unit.

Doubles give j up to one, which is then compared with b(j) = m / p, m whole and p a power of ten.
Where abs(m) < 10^15 and p <= 10^22 their quotient as doubles is the one that is written as b(j), so
that comparing doubles compares the numbers that are written.

Keys are texts that the reader of files decides about. Where the database has to know the cell, it
strips zeros of decimals, 2.50 to 2.5, and lowers truth values; a text that may be a key in another
way, and one that is to be refused, begin with "?" and count in no cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.attribute import NUMBER, TIME, Attribute, key_of, plain_key
from pmldesign.release.people.numbers import Number

UNTOLD = "?"
MOST_KEYS = 1000
"""Of an attribute that are listed where the reader of files decides anyway."""
LONGEST = 60
"""Characters of a number that a database reads: none overflows."""
DIGITS, BLANKS = "[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)", "[^0-9A-Za-z.+-]*"
PLAIN = f"^{DIGITS}([eE][-+]?[0-9][0-9]?)?$"
MAYBE = f"^{BLANKS}{DIGITS}([eE][-+]?[0-9]+)?{BLANKS}$"
"""Numbers of any length, with blanks around them."""
DECIMAL = "^-?(0|[1-9][0-9]*)([.][0-9]+)?$"
EXPONENT = "^-?[0-9.]+[eE][-+]?[0-9]+$"
DATE = "^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
LARGEST = 1.7976931348623157e308
TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE")
"""Those of DuckDB whose numbers are those of their texts."""
MOST_DIGITS, MOST_PLACES = 10**15, 22
"""Of m and of p."""


def quoted(name: str) -> str:
    """The name of a column."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in a query."""
    return "'" + text.replace("'", "''") + "'"


def texts_of(attribute: Attribute) -> list[str]:
    """The text of each cell in an answer whose cells the database tells."""
    if attribute.cuts is None:
        return [*map(plain_key, attribute.labels)]
    lower = [*map(repr, attribute.cuts[:-1])]
    return lower + [plain_key(label) for label in attribute.labels[len(lower) :]]


@dataclass(frozen=True)
class Column:
    """An attribute in a query, whose value is called value_0 and so on.

    Attributes:
        attribute: of the schema.
        place: its number.
        typed: whether the database tells types.
        told: whether it has to know the cell.
    """

    attribute: Attribute
    place: int
    typed: bool
    told: bool

    @property
    def sums(self) -> bool:
        """Whether sums of the values are asked."""
        return isinstance(self.attribute, Number)

    @property
    def text(self) -> str:
        """The value as a text."""
        return f"CAST(value_{self.place} AS TEXT)"

    @property
    def read(self) -> list[str]:
        """The number that the value is, NULL where the database does not read one; or its key."""
        if self.attribute.cuts is None and not self.sums:
            return [f"{self._plain} AS key_{self.place}"] if self.told else []
        plain = f"REGEXP_MATCHES({self.text}, '{PLAIN}') AND LENGTH({self.text}) <= {LONGEST}"
        cases = f"WHEN {plain} THEN TRY_CAST({self.text} AS DOUBLE)"
        if self.typed:
            types = ", ".join(map(literal, TYPES))
            number = f"TRY_CAST(value_{self.place} AS DOUBLE)"
            finite = f"CASE WHEN ABS({number}) <= {_double(LARGEST)} THEN {number} END"
            cases = f"WHEN TYPEOF(value_{self.place}) IN ({types}) THEN {finite} {cases}"
        return [f"CASE {cases} END AS number_{self.place}"]

    @property
    def cell(self) -> str:
        """The text of the cell, or of the value; NULL where it has none, or a number of units."""
        if self.sums:
            number = f"number_{self.place}"
            return f"CASE {self._unread} WHEN {number} IS NULL THEN {self._others} END"
        if self.attribute.cuts is not None:
            return self._binned
        return self._told if self.told else self._keyed

    @property
    def step(self) -> str:
        """The number of units, j."""
        attribute, number = self.attribute, f"number_{self.place}"
        assert isinstance(attribute, Number)
        low, high = attribute.points[0], attribute.points[-1]
        first, more, power = _ends(attribute)
        last = int((high - low) / attribute.unit)
        guess = f"FLOOR(({number} - {_double(low)}) / {_double(attribute.unit)} + {_double(0.5)})"

        def end(step: str) -> str:
            return f"({_double(first)} + {_double(more)} * {step}) / {_double(power)}"

        return (
            f"CAST(CASE WHEN {number} <= {_double(low)} THEN 0"
            f" WHEN {number} >= {_double(high)} THEN {last}"
            f" WHEN {number} < {end(guess)} THEN {guess} - 1"
            f" WHEN {number} >= {end(f'({guess} + 1)')} THEN {guess} + 1"
            f" ELSE {guess} END AS BIGINT)"
        )

    @property
    def _others(self) -> str:
        """What becomes of values that are in no cell."""
        outside = self.attribute.outside
        if outside == "refuse":
            return self._untold(f"COALESCE({self.text}, '')") if self.told else self.text
        return "NULL" if outside == "drop" or not self.told else literal(plain_key(outside))

    @property
    def _unread(self) -> str:
        """What to do with a text that is no number for the database, but may be one."""
        case = f"number_{self.place} IS NULL AND REGEXP_MATCHES({self.text}, '{MAYBE}')"
        return f"WHEN {case} THEN {self._untold(self.text)}"

    def _untold(self, text: str) -> str:
        return f"'{UNTOLD}' || {text}" if self.told else text

    @property
    def _binned(self) -> str:
        """The lower cut."""
        number, cuts = f"number_{self.place}", self.attribute.cuts
        assert cuts is not None
        bins = [
            f"WHEN {number} < {_double(upper)} THEN {literal(repr(lower))}"
            for lower, upper in pairwise(cuts)
        ]
        below = f"WHEN {number} < {_double(cuts[0])} THEN {self._others}"
        return f"CASE {below} {' '.join(bins)} {self._unread} ELSE {self._others} END"

    @property
    def _keyed(self) -> str:
        """The text of a value that may be a key; NULL for others, unless they are to be refused."""
        attribute, text = self.attribute, self.text
        plain = type(attribute) is Attribute  # others read texts by rules of their own
        if attribute.outside == "refuse" or len(attribute.labels) > MOST_KEYS or not plain:
            return text
        conditions = [f"{text} IN ({', '.join(map(literal, attribute.labels))})"]
        if any(not isinstance(key_of(label), str) for label in attribute.labels):
            signs = ", ".join(map(literal, "-0123456789"))
            conditions.append(f"SUBSTRING({text}, 1, 1) IN ({signs})")
        if self._truths:
            conditions.append(f"LOWER({text}) IN ('true', 'false')")
        return f"CASE WHEN {' OR '.join(conditions)} THEN {text} END"

    @property
    def _truths(self) -> bool:
        return bool({"true", "false"} & {label.lower() for label in self.attribute.labels})

    @property
    def _plain(self) -> str:
        """A text as `plain_key` writes it, but for exponents."""
        text, cases = self.text, []
        if any(NUMBER.fullmatch(label) for label in self.attribute.labels):
            digits = (
                f"CASE WHEN {text} LIKE '%.%' THEN RTRIM(RTRIM({text}, '0'), '.') ELSE {text} END"
            )
            zero = f"REGEXP_MATCHES({text}, '^-0([.]0+)?$') THEN '0'"
            cases = [zero, f"REGEXP_MATCHES({text}, '{DECIMAL}') THEN {digits}"]
        if self._truths:
            cases.append(f"LOWER({text}) IN ('true', 'false') THEN LOWER({text})")
        return (
            f"CASE {' '.join(f'WHEN {case}' for case in cases)} ELSE {text} END" if cases else text
        )

    @property
    def _told(self) -> str:
        """The key; NULL for a value that is dropped."""
        key, labels = f"key_{self.place}", self.attribute.labels
        kinds = {EXPONENT: NUMBER, DATE: TIME}
        maybe = [
            f"REGEXP_MATCHES({self.text}, '{form}')"
            for form, kind in kinds.items()
            if any(kind.fullmatch(label) for label in labels)
        ]
        untold = f" WHEN {' OR '.join(maybe)} THEN {self._untold(self.text)}" if maybe else ""
        known = ", ".join(map(literal, texts_of(self.attribute)))
        return f"CASE WHEN {key} IN ({known}) THEN {key}{untold} ELSE {self._others} END"


def _ends(number: Number) -> tuple[int, int, int]:
    """First and more, of m = first + more j, and p.

    Raises:
        InvalidInputError: they have too many digits.
    """
    low, high, unit = number.points[0], number.points[-1], number.unit
    power = 10
    while power * low % 10 or power * unit % 10:
        power *= 10
        if power > 10**MOST_PLACES:
            break
    first, more = power * (low - unit / 2), power * unit
    if power > 10**MOST_PLACES or power * max(abs(low), abs(high)) + 2 * more >= MOST_DIGITS:
        raise InvalidInputError(
            f"attribute {number.name!r}: low and high have more than 14 digits in units, more than"
            " databases compare exactly; take a larger unit, or release from a file of people"
        )
    return int(first), int(more), power


def _double(value: float | Fraction) -> str:
    return f"CAST('{float(value)!r}' AS DOUBLE)"
