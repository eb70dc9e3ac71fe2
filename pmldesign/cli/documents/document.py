"""The result of a command: facts, tables and pictures in sections; and how it is printed.

A document is shown in three ways. `data` is the JSON, all numbers with all digits. The `summary` is
the text of a terminal, and the `page` is the HTML of --report: both share the sections that have
the same content. Tables and pictures are also files of their own (--table, --plot).

Progress is a line on standard error, only if that is a terminal; any other output clears it.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pmldesign.cli.options.wording import in_options
from pmldesign.cli.process import complain, show, terminal_width, to_errors, wrapped
from pmldesign.errors import PmldesignError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmldesign_solvers.norm.solution import Step
    from pmldesign_solvers.search.solution import SearchStep

Fact = tuple[str, str]
"""A name and its value."""
WIDTH = 500
"""Width of a line without a terminal."""
ERASED = "\r\x1b[2K"
"""Moves to the start of an empty line."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A number with the text that shows it, for those that are not rounded to the nearest."""

    value: float
    text: str


Cell = str | float | int | Rounded | None


def text_of(cell: Cell) -> str:
    """A cell as it is shown; numbers that are not whole have six digits."""
    if cell is None:
        return "-"
    if isinstance(cell, Rounded):
        return cell.text
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Texts and numbers; None is shown as a dash.

    Attributes:
        header: of the columns.
        rows: a cell for each of them.
        optional: columns that a narrow terminal goes without, the first one first.
        texts: columns that wrap at words there; they and the first one are text.
        records: the rows with all digits, by column, for --table.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    optional: Sequence[str] = ()
    texts: Sequence[str] = ()
    records: Sequence[Mapping[str, Any]] = ()

    @property
    def cells(self) -> list[list[str]]:
        """The rows as they are shown."""
        return [[text_of(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Picture:
    """A function that draws a figure, if there is anything to see, and its description."""

    draw: Callable[[], Figure | None]
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document: sentences, facts, tables and pictures, in this order.

    A terminal has the values of the facts from `column` on.
    """

    title: str = ""
    sentences: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    column: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """The result of a command.

    Attributes:
        data: the output of --json.
        summary: the output without --json.
        table: the table of --table.
        picture: the figure of --plot.
        title: of the page.
        page: its sections, made on demand.
    """

    data: Any
    summary: Sequence[Section]
    table: Table | None = None
    picture: Callable[[], Figure] | None = None
    title: str = ""
    page: Callable[[], Sequence[Section]] | None = None


def records(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table of dictionaries with all columns, except those without any value."""
    rows = [_flat(row) for row in rows]
    header = [*dict.fromkeys(key for row in rows for key in row if row[key] is not None)]
    return Table(header, [[_plain(row.get(key)) for key in header] for row in rows])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a column for every entry of a dictionary in it."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        entries = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{key} {name}".strip(): entry for name, entry in entries.items()}
    return flat


def _plain(value: Any) -> Cell:
    plain = value is None or isinstance(value, int | float | str | Rounded)
    return value if plain else str(value)


class _Progress:
    """The line of progress: at most one, on a terminal."""

    shown = -math.inf
    """When the line was last replaced; minus infinity without a line."""

    def show(self, step: Step | SearchStep | str) -> None:
        """Replace the line, at most ten times a second."""
        now = time.monotonic()
        if isinstance(step, str) or now - self.shown > 0.1:
            width = terminal_width(sys.stderr) or WIDTH
            to_errors(f"{ERASED}{str(step)[: width - 1]}")
            self.shown = now

    def clear(self) -> None:
        """Remove the line until the next step."""
        if self.shown > -math.inf:
            to_errors(ERASED)
            self.shown = -math.inf


_PROGRESS = _Progress()


@contextmanager
def progress() -> Iterator[Callable[[Step | SearchStep | str], None]]:
    """A callback that shows steps of a solver, or lines of text, on a terminal."""
    try:
        yield _PROGRESS.show if sys.stderr.isatty() else _ignore
    finally:
        _PROGRESS.clear()


def _ignore(step: Step | SearchStep | str) -> None:
    """Show nothing."""


def note(text: str) -> None:
    """Print a note on standard error."""
    _PROGRESS.clear()
    complain(f"note: {in_options(text)}")


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings about data on standard error, a line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        complain(f"warning: {in_options(str(warning.message))}")


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> None:
    """Print a table that fits the terminal; the first column is text, the others are numbers.

    Args:
        headers: of the columns.
        rows: a cell for each of them.
        optional: columns that are left out, the first one first, where the terminal is too narrow.
        texts: columns that wrap at words there.
    """
    _PROGRESS.clear()
    width = terminal_width(sys.stdout)
    shown, dropped = [*headers], []
    text = _rendered(headers, rows, shown, texts, width)
    for name in optional:
        if width is None or max(map(len, click.unstyle(text).splitlines())) <= width:
            break
        if name in shown:
            shown.remove(name)
            dropped.append(name)
            text = _rendered(headers, rows, shown, texts, width)
    _PROGRESS.clear()
    show(text)
    if dropped:
        left_out = f"left out in {width} columns: {', '.join(dropped)} (--json has all)"
        show("\n" + wrapped(left_out, width))


def _rendered(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: Sequence[str],
    texts: Sequence[str],
    width: int | None,
) -> str:
    """The columns `shown`; wider than the terminal where the words and numbers are."""
    columns = [[cells[headers.index(name)] for cells in (headers, *rows)] for name in shown]
    widths = [max(map(len, column)) for column in columns]
    wraps = [width is not None and name in texts for name in shown]
    if width is not None:
        _narrow(widths, columns, wraps, width - 2 * (len(shown) - 1))
    lines = []
    for cells in zip(*columns, strict=True):
        parts = [
            wrapped(cell, wide if wrap else None).splitlines()
            for cell, wide, wrap in zip(cells, widths, wraps, strict=True)
        ]
        lines += list(itertools.zip_longest(*parts, fillvalue=""))
        if width is not None and len(lines) == 1:
            lines.append(tuple("-" * wide for wide in widths))
    sides = ["<" if name in texts or name == headers[0] else ">" for name in shown]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{wide}}" for cell, side, wide in zip(line, sides, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _narrow(
    widths: list[int], columns: Sequence[Sequence[str]], wraps: Sequence[bool], width: int
) -> None:
    """Reduce the widest columns of text to fit; each keeps at least the length of its words."""
    least = [
        max((len(word) for cell in column for word in cell.split()), default=0) if wrap else wide
        for column, wide, wrap in zip(columns, widths, wraps, strict=True)
    ]
    while sum(widths) > width and widths != least:
        place = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
        widths[place] -= 1


def print_sections(sections: Iterable[Section], *, begun: bool = False) -> None:
    """Print sections, an empty line between their parts; a title stands above its facts.

    Args:
        sections: from above to below.
        begun: whether something was printed before.
    """
    for section in sections:
        for part in _parts(section):
            if begun:
                show()
            part()
            begun = True


def _parts(section: Section) -> Iterator[Callable[[], None]]:
    for sentence in section.sentences:
        yield partial(show, sentence)
    if section.facts:
        yield partial(_facts, section)
    for shown in section.tables:
        yield partial(table, shown.header, shown.cells, optional=shown.optional, texts=shown.texts)


def _facts(section: Section) -> None:
    indent = ""
    if section.title:
        show(f"{section.title.lower()}:")
        indent = "  "
    facts([(indent + name, text) for name, text in section.facts], column=section.column)


def facts(pairs: Sequence[tuple[str, str]], *, column: int = 0) -> None:
    """Print facts, one a line, with the values starting at this column or a later one."""
    _PROGRESS.clear()
    column = max(column, *(len(name) + 2 for name, _ in pairs))
    for name, value in pairs:
        line = f"{name:<{column}}{value}"
        show(wrapped(line, terminal_width(sys.stdout), hanging=column))


def print_json(value: Any) -> None:
    """Print JSON; infinity, which JSON does not have, is the text "inf".

    Raises:
        PmldesignError: a value is not a number.
    """
    try:
        text = json.dumps(_finite(value), indent=2, allow_nan=False)
    except ValueError:
        raise PmldesignError(
            "a result is not a number in double precision; take numbers that are less extreme"
        ) from None
    _PROGRESS.clear()
    show(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value
