"""The lines of input.

    42                  the number of the next step; 3,1,4 those of three series
    17,42               the same with the number of the step in front
    north,2             an event: 2 more in the series of that name; a step has any number of them
    step   step,17      the end of a step of events
    correct,5,-1        1 less in the next step, for people who counted in step 5;
    correct,5,north,-1  the same in a series with a name

Numbers are multiples of 2^-40, rounded down one by one, and added exactly: neighbours differ by no
more than one of them does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pmldesign.arguments import as_number, instance, listed
from pmldesign.errors import InvalidInputError
from pmldesign.streams.encoder import Real, dyadic
from pmldesign.streams.rows import INPUT_BITS
from pmldesign.streams.stream import Input

STEP, CORRECT = "step", "correct"
DIGITS = 20
"""Numbers of steps have fewer."""


@dataclass(frozen=True, slots=True)
class Given:
    """A step of input.

    Attributes:
        number: of the step, if it was said.
        value: its number, or that of each series.
        corrected: earlier steps that it corrects.
    """

    number: int | None
    value: Input
    corrected: tuple[int, ...] = ()


def require_names(series: int, names: Sequence[str]) -> list[str]:
    """The names of all series; none where only numbers are read.

    Raises:
        InvalidInputError: names that are not one for each series, or no names.
    """
    found = listed("names of series", names)
    if found and len(found) != series:
        raise InvalidInputError(f"there are {series} series, got {len(found)} names for them")
    for name in found:
        instance("names of series", name, str, "texts")
        number = as_number(name) is not None
        if name in (STEP, CORRECT, "") or found.count(name) > 1 or number:
            raise InvalidInputError(
                f"a series cannot be called {name!r}; give different names, which are no"
                f" numbers, nor {STEP!r} or {CORRECT!r}"
            )
    return found


class Lines:
    """Reads lines.

    Args:
        series: how many numbers a step has.
        names: of the series, see `require_names`.
    """

    def __init__(self, series: int, names: Sequence[str] = ()) -> None:
        self._series, self._names = series, require_names(series, names)
        self._clear()

    def _clear(self) -> None:
        self.open = 0
        """Lines that were read since the last step."""
        self._added = [0] * self._series
        self._corrected: list[int] = []

    def read(self, line: str) -> Given | None:
        """The step that a line ends, if it does.

        Raises:
            InvalidInputError: the line does not have one of the forms above.
        """
        parts = [part.strip() for part in line.split(",")]
        if not line:
            raise InvalidInputError(
                "it is blank; each line holds a number, 0 where nothing was counted"
            )
        if parts[0] == CORRECT and len(parts) > 2:
            self._corrected.append(self._step(parts[1], line))
            self._add(parts[2:], line)
            return None
        if parts[0] in self._names:
            self._add(parts, line)
            return None
        if self._names and parts[0] == STEP and len(parts) < 3:
            number = self._step(parts[1], line) if len(parts) == 2 else None
            return self._ended(number, [0.0] * self._series)
        more = len(parts) - self._series
        if more not in (0, 1):
            raise self._refusal(line)
        return self._ended(
            self._step(parts[0], line) if more else None, self._numbers(parts[more:], line)
        )

    def _add(self, parts: list[str], line: str) -> None:
        """An event, or a number for each series."""
        places = range(self._series)
        if parts[0] in self._names:
            place = self._names.index(parts[0])
            parts, places = parts[1:], range(place, place + 1)
        if len(parts) != len(places):
            raise self._refusal(line)
        for place, number in zip(places, self._numbers(parts, line), strict=True):
            self._added[place] += dyadic(number)
        self.open += 1

    def _ended(self, number: int | None, values: list[float]) -> Given:
        sums: list[Real] = list(values)
        if self.open:
            sums = [
                _plain(Fraction(more + dyadic(value), 2**INPUT_BITS))
                for more, value in zip(self._added, values, strict=True)
            ]
            for total in sums:
                dyadic(total)
        given = Given(number, sums[0] if len(sums) == 1 else sums, tuple(self._corrected))
        self._clear()
        return given

    def _numbers(self, parts: list[str], line: str) -> list[float]:
        numbers = []
        for part in parts:
            number = as_number(part)
            if number is None:
                raise self._refusal(line)
            dyadic(number)
            numbers.append(number)
        return numbers

    def _step(self, text: str, line: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) < DIGITS and int(text) >= 1:
            return int(text)
        raise self._refusal(line)

    def _refusal(self, line: str) -> InvalidInputError:
        form = "one number, or its step and the number (17,42)"
        if self._series > 1:
            form = f"{self._series} numbers, or their step and the numbers"
        if self._names:
            events = " or ".join(f"{name},2" for name in self._names[:4])
            more = " ..." if len(self._names) > 4 else ""
            form = f"an event ({events}{more}), the end of a step ({STEP}), or {form}"
        return InvalidInputError(f"it must be {form}, got {line[:40]!r}")


def _plain(value: Fraction) -> Real:
    """The value as a floating-point number if it is exactly one; otherwise unchanged."""
    return float(value) if Fraction(float(value)) == value else value
